package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"descartes/internal/lazyregexp"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"descartes/fleet/wire"
)

// The signals of an account's workflow, and where it says until when it is used up.
const (
	limitSignal = "limit"
	clearSignal = "clear"
	limitMemo   = "limit"
	limitQuery  = "limit"
)

// rememberFor is how long after its end a limit is remembered: one that follows is waited for longer.
const rememberFor = time.Hour

// guess is how long an account is left alone whose agent does not say when there is more: an hour at most.
func guess(row int) time.Duration { return 15 * time.Minute << min(row, 2) }

// mostLimits is after how many limits a history begins anew.
const mostLimits = 200

// Account knows until when the quota of an account is used up: its memo says so to whoever looks. It lasts somewhat longer, to know how often
// that happened in a row.
//
//	free --a worker met a limit--> used up --its end--> free, and remembered --an hour--> over
//	used up --a person clears it--> over
func Account(ctx workflow.Context, now wire.Limit, row int) error {
	if err := workflow.SetQueryHandler(ctx, limitQuery, func() (wire.Limit, error) { return now, nil }); err != nil {
		return err
	}
	limits, cleared := workflow.GetSignalChannel(ctx, limitSignal), workflow.GetSignalChannel(ctx, clearSignal)
	for n := 0; n < mostLimits; {
		over := false
		s := workflow.NewSelector(ctx)
		s.AddReceive(limits, func(c workflow.ReceiveChannel, _ bool) {
			var l wire.Limit
			c.Receive(ctx, &l)
			n++
			now, row = extend(now, l, row, workflow.Now(ctx))
		})
		s.AddReceive(cleared, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil); over = true })
		tctx, cancel := workflow.WithCancel(ctx)
		left := max(0, now.Until.Sub(workflow.Now(ctx))) + rememberFor
		s.AddFuture(workflow.NewTimer(tctx, left), func(f workflow.Future) { over = f.Get(tctx, nil) == nil })
		s.Select(ctx)
		if cancel(); over {
			return nil
		}
		if err := workflow.UpsertMemo(ctx, map[string]any{limitMemo: now}); err != nil {
			return err
		}
	}
	return workflow.NewContinueAsNewError(ctx, accountWorkflow, now, row)
}

// extend is the limit of an account that knew of one before and has met another; row counts those that followed each other. What several
// attempts meet at the same time is one.
func extend(was, met wire.Limit, row int, now time.Time) (wire.Limit, int) {
	if now.Before(was.Until) {
		if met.Until.After(was.Until) {
			return met, row
		}
		return was, row
	}
	if met.Until.IsZero() {
		met.Until = now.Add(guess(row))
	}
	if least := now.Add(time.Second << min(3*row, 12)); met.Until.Before(least) { // a reset that has passed must not become a run of requests
		met.Until = least
	}
	return met, row + 1
}

// accounts is what a worker, or who looks at a fleet, knows of accounts.
type accounts struct {
	client    client.Client
	converter converter.DataConverter

	mu  sync.Mutex
	met map[string]wire.Limit // by this worker, by backend: the server may not know yet
}

// settle is how long the server may take to hear of a limit.
const settle = 10 * time.Second

// accountName is what an account or a backend may be called.
var accountName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

func accountID(account, backend string) (string, error) {
	if !accountName.MatchString(account) || !accountName.MatchString(backend) {
		return "", fmt.Errorf("%q and %q do not name an account", account, backend)
	}
	return "account/" + account + "/" + backend, nil
}

// out reports whether the quota of an account is used up. What cannot be found out is no limit.
func (a *accounts) out(ctx context.Context, account, backend string) (wire.Limit, bool) {
	now := time.Now()
	id, err := accountID(account, backend)
	if err != nil {
		return wire.Limit{}, false
	}
	ctx, done := context.WithTimeout(ctx, connectFor)
	defer done()
	a.mu.Lock()
	met, own := a.met[backend]
	a.mu.Unlock()
	desc, err := a.client.DescribeWorkflowExecution(ctx, id, "")
	switch _, none := errors.AsType[*serviceerror.NotFound](err); {
	case err == nil && desc.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		if l, ok := a.memo(desc.GetWorkflowExecutionInfo()); ok && now.Before(l.Until) {
			return l, true
		}
	case err != nil && !none:
		return met, own && now.Before(met.Until)
	}
	return met, own && now.Before(met.Until) && now.Sub(met.At) < settle
}

// note tells the fleet of a limit that this worker met.
func (a *accounts) note(ctx context.Context, l wire.Limit) error {
	id, err := accountID(l.Account, l.Backend)
	if err != nil {
		return err
	}
	l.At = time.Now()
	first, _ := extend(wire.Limit{}, l, 0, l.At)
	a.mu.Lock()
	if a.met == nil {
		a.met = map[string]wire.Limit{}
	}
	a.met[l.Backend] = first
	a.mu.Unlock()
	ctx, done := context.WithTimeout(ctx, connectFor)
	defer done()
	_, err = a.client.SignalWithStartWorkflow(ctx, id, limitSignal, l, client.StartWorkflowOptions{TaskQueue: Queue, Memo: map[string]any{limitMemo: first},
		StaticSummary: "quota of account " + l.Account + " for " + l.Backend}, accountWorkflow, wire.Limit{}, 0)
	return err
}

// clear forgets the limits of an account, and says of which backends.
func (a *accounts) clear(ctx context.Context, account string) (cleared []string, err error) {
	list, err := a.list(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		if l.Account != account {
			continue
		}
		id, err := accountID(l.Account, l.Backend)
		if err == nil {
			err = a.client.SignalWorkflow(ctx, id, "", clearSignal, nil)
		}
		if err != nil {
			return cleared, err
		}
		cleared = append(cleared, l.Backend)
	}
	return cleared, nil
}

// list are the accounts whose quota is used up.
func (a *accounts) list(ctx context.Context, now time.Time) (out []wire.Limit, err error) {
	list, err := a.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", accountWorkflow), PageSize: mostShown})
	if err != nil {
		return nil, fmt.Errorf("ask for the accounts: %w", err)
	}
	for _, e := range list.GetExecutions() {
		if l, ok := a.memo(e); ok && now.Before(l.Until) {
			out = append(out, l)
		}
	}
	return out, nil
}

// memo reads what an account's workflow says.
func (a *accounts) memo(e *workflowpb.WorkflowExecutionInfo) (l wire.Limit, ok bool) {
	p := e.GetMemo().GetFields()[limitMemo]
	return l, p != nil && a.converter.FromPayload(p, &l) == nil
}
