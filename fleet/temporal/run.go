package temporal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"google.golang.org/grpc/codes"

	"descartes/fleet"
	"descartes/internal/oneline"
)

// Search attributes by which Temporal's own page and tools find what belongs to a tag, task, wave or loop, and what
// came of it. A server has to know them first; on one that does not, workflows have none. They are never encrypted: no
// title is among them.
var (
	byTag     = temporal.NewSearchAttributeKeyKeyword("DescartesTag")
	byTask    = temporal.NewSearchAttributeKeyKeyword("DescartesTask")
	byLoop    = temporal.NewSearchAttributeKeyKeyword("DescartesLoop")
	byWave    = temporal.NewSearchAttributeKeyInt64("DescartesWave")
	byVerdict = temporal.NewSearchAttributeKeyKeyword("DescartesVerdict")
)

// SearchAttributes are their names and types, as name=Type.
var SearchAttributes = []string{"DescartesTag=Keyword", "DescartesTask=Keyword", "DescartesLoop=Keyword",
	"DescartesWave=Int", "DescartesVerdict=Keyword"}

// start starts a workflow that can be found by these search attributes, where the server knows them.
func (f *Fleet) start(ctx context.Context, o client.StartWorkflowOptions, by []temporal.SearchAttributeUpdate,
	workflow string, arg any) (client.WorkflowRun, error) {
	o.TaskQueue, o.TypedSearchAttributes = Queue, temporal.NewSearchAttributes(by...)
	run, err := f.client.ExecuteWorkflow(ctx, o, workflow, arg)
	if _, bad := errors.AsType[*serviceerror.InvalidArgument](err); bad {
		o.TypedSearchAttributes = temporal.SearchAttributes{}
		return f.client.ExecuteWorkflow(ctx, o, workflow, arg)
	}
	return run, err
}

// helloMemo has the Hello of a claim.
const helloMemo = "run"

// Claim makes this the only run of its tag. Of a run that was killed and is resumed it takes over.
func (f *Fleet) Claim(ctx context.Context, h fleet.Hello, note func(string), lost func(error)) (release func(),
	err error) {
	f.server.Note = note
	over := make(chan struct{})
	queue := Queue + "-run/" + h.Loop
	holder := worker.New(f.client, queue, worker.Options{DisableWorkflowWorker: true, WorkerStopTimeout: time.Second})
	holder.RegisterActivityWithOptions(func(ctx context.Context) error { return hold(ctx, over) },
		activity.RegisterOptions{Name: holdActivity})
	decider := worker.New(f.client, Queue, worker.Options{LocalActivityWorkerOnly: true})
	decide(decider)
	for _, k := range []worker.Worker{holder, decider} {
		if err := k.Start(); err != nil {
			return nil, fmt.Errorf("start a worker of the run: %w", err)
		}
	}
	stop := func() { holder.Stop(); decider.Stop() }
	held, err := f.own(ctx, h, queue)
	if err != nil {
		stop()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			_ = f.server.Do(ctx, 0, func() error { return held.Get(ctx, nil) })
			select {
			case <-over:
				return
			default: // the server was away for longer than a claim lasts
			}
			err := f.server.Do(ctx, 0, func() (err error) {
				held, err = f.own(ctx, h, queue)
				return err
			})
			if err != nil {
				lost(err)
				return
			}
		}
	}()
	return func() {
		close(over)
		select {
		case <-ended:
		case <-time.After(connectFor): // else it ends by itself
		}
		cancel()
		stop()
	}, nil
}

// hold lasts as long as the run.
func hold(ctx context.Context, over chan struct{}) error {
	tick := time.NewTicker(aliveFor / 9)
	defer tick.Stop()
	for {
		activity.RecordHeartbeat(ctx)
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// own starts the workflow that keeps others from the tag.
func (f *Fleet) own(ctx context.Context, h fleet.Hello, queue string) (client.WorkflowRun, error) {
	sum := sha256.Sum256([]byte(h.Remote + "\n" + h.Tag))
	o := client.StartWorkflowOptions{ID: "run/" + h.Tag + "/" + hex.EncodeToString(sum[:8]),
		WorkflowExecutionErrorWhenAlreadyStarted: true, Memo: map[string]any{helloMemo: h},
		StaticSummary: fmt.Sprintf("%s by %s, run %s", h.Tag, h.Host, h.Loop)}
	by := []temporal.SearchAttributeUpdate{byTag.ValueSet(h.Tag), byLoop.ValueSet(h.Loop)}
	run, err := f.start(ctx, o, by, runWorkflow, queue)
	if _, taken := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); !taken {
		return run, err
	}
	desc, err := f.client.DescribeWorkflowExecution(ctx, o.ID, "")
	if err != nil {
		return nil, fmt.Errorf("ask who runs %s: %w", h.Tag, err)
	}
	var who fleet.Hello
	if f.memo(desc.GetWorkflowExecutionInfo(), helloMemo, &who); who.Loop != h.Loop {
		return nil, &fleet.TakenError{Hello: who}
	}
	o.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING
	return f.start(ctx, o, by, runWorkflow, queue)
}

// memo reads what a workflow's memo has.
func (f *Fleet) memo(e *workflowpb.WorkflowExecutionInfo, key string, to any) {
	if p := e.GetMemo().GetFields()[key]; p != nil {
		_ = f.converter.FromPayload(p, to) // of another version, perhaps
	}
}

// How often an attempt is looked at while it is made, and how much longer that is for each other one.
const (
	lookEvery = 3 * time.Second
	lookMore  = time.Second / 30
)

// Carry has an attempt made, or finds the one that was begun before.
func (f *Fleet) Carry(ctx context.Context, a fleet.Ask, hear func(fleet.Report) error) (kept fleet.Kept, err error) {
	f.inFlight.Add(1)
	defer f.inFlight.Add(-1)
	asked, watched := context.WithCancel(context.WithoutCancel(ctx))
	defer watched()
	var run client.WorkflowRun
	if err := f.server.Do(ctx, 0, func() (err error) {
		run, err = f.start(ctx, client.StartWorkflowOptions{ID: a.ID(),
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
			WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, StaticSummary: a.String(),
			EnableEagerStart: true,
			// a small run does not wait for the end of a large one
			Priority: temporal.Priority{PriorityKey: rank(&a), FairnessKey: a.Loop},
			Memo:     map[string]any{needsMemo: a.Needs}},
			[]temporal.SearchAttributeUpdate{byTag.ValueSet(a.Tag), byTask.ValueSet(a.Task),
				byWave.ValueSet(int64(a.Wave)), byLoop.ValueSet(a.Loop), byVerdict.ValueSet("none yet")},
			attemptWorkflow, ask{a, f.silent})
		return err
	}); err != nil {
		return kept, err
	}
	over := make(chan error, 1)
	go func() { over <- f.server.Do(asked, 0, func() error { return run.Get(asked, &kept) }) }()
	cancel := func() error {
		cctx, done := context.WithTimeout(asked, connectFor)
		defer done()
		return f.client.CancelWorkflow(cctx, a.ID(), "")
	}
	cancelled := ctx.Done()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var seen fleet.Report
	for {
		select {
		case err := <-over:
			return kept, why(err)
		case <-cancelled:
			cancelled = nil
			if err := cancel(); err != nil && away(err) { // who cancels does not wait for the server
				return fleet.Kept{}, errors.New("it was cancelled, and the Temporal server did not hear of it")
			}
		case <-tick.C:
			tick.Reset(lookEvery + time.Duration(f.inFlight.Load())*lookMore)
			now, _, err := f.look(asked, a.ID())
			if f.server.Heard(err); now == seen || now == (fleet.Report{}) {
				continue
			}
			seen = now
			if err := hear(now); err != nil {
				_ = cancel() // nobody waits for it any more
				return fleet.Kept{}, err
			}
		}
	}
}

// mostRefusals is how many workers have to lack quota for an attempt before none is believed to have any.
const mostRefusals = 3

// look asks how an attempt stands. It has no id if it has ended, and no report if the server did not say.
func (f *Fleet) look(ctx context.Context, id string) (r fleet.Report, u Underway, err error) {
	ctx, done := context.WithTimeout(ctx, connectFor)
	defer done()
	desc, err := f.client.DescribeWorkflowExecution(ctx, id, "")
	info := desc.GetWorkflowExecutionInfo()
	if err != nil || info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return r, u, err
	}
	u.ID, u.Since = id, info.GetStartTime().AsTime()
	for _, p := range desc.GetPendingActivities() {
		said := failures(f.converter).FailureToError(p.GetLastFailure())
		app, _ := errors.AsType[*temporal.ApplicationError](said)
		if said != nil && (app == nil || app.Type() == notMade) {
			u.Last = why(said).Error()
		}
		if p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED {
			r.Live, u.On = f.beatOf(p).Live, p.GetLastWorkerIdentity()
			continue
		}
		if app == nil || app.Type() != noQuota || app.Details(&r.Wait) != nil {
			var needs []string
			if r.Wait.For = "a free worker"; u.Last != "" {
				r.Wait.For = "another worker: " + oneline.Text(u.Last)
			}
			if f.memo(info, needsMemo, &needs); len(needs) > 0 {
				r.Wait.For = "a worker with " + strings.Join(needs, " and ")
			}
		} else if f.beatOf(p).Refusals < mostRefusals { // there may be one with another account
			r.Wait.Reason = ""
		}
		u.Waits = r.Wait.For
	}
	return r, u, nil
}

// needsMemo has what an attempt needs.
const needsMemo = "needs"

// beat is what a worker says of an attempt while it makes it.
type beat struct {
	Live  fleet.Live `json:"live"`
	Tries int        `json:"tries"` // workers that began it, this one included
	// workers in a row that had no quota for it
	Refusals int `json:"refusals,omitempty"`
}

// beatOf is what a worker said last of an attempt.
func (f *Fleet) beatOf(p *workflowpb.PendingActivityInfo) (b beat) {
	if details := p.GetHeartbeatDetails().GetPayloads(); len(details) > 0 {
		_ = f.converter.FromPayload(details[0], &b) // of another version, perhaps
	}
	return b
}

// why is the reason that an attempt has no result.
func why(err error) error {
	if temporal.IsCanceledError(err) {
		return errors.New("it was cancelled")
	} else if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return errors.New(app.Message())
	} else if late, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		if late.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT {
			return errors.New("its worker was lost")
		}
		return errors.New("no worker made it in time")
	}
	return err
}

// rank is the priority of an attempt for the server, which begins with the smallest.
func rank(a *fleet.Ask) int {
	return cmp.Or(map[string]int{"critical": 1, "high": 2, "low": 4}[a.Rank], 3)
}

// away reports whether the server did not answer, or cannot at this moment: asking again may help.
func away(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	said, ok := errors.AsType[serviceerror.ServiceError](err)
	return ok && slices.Contains([]codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted,
		codes.Aborted, codes.Internal, codes.Canceled}, said.Status().Code())
}
