package fleet

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"descartes/fleet/wire"
	"descartes/internal/terminal"
)

// NewDispatcher connects to the server.
func NewDispatcher(ctx context.Context, at Server, out io.Writer) (*Dispatcher, error) {
	c, conv, err := at.open(ctx)
	if err != nil {
		return nil, err
	}
	return &Dispatcher{Client: c, Converter: conv, Out: out}, nil
}

// Status is what a fleet does.
type Status struct {
	Workers  []Seen       `json:"workers"`
	Accounts []wire.Limit `json:"accounts"` // whose quota is used up
	Queues   []Length     `json:"queues"`   // of attempts that no worker has
	Attempts []Underway   `json:"attempts"`
	More     bool         `json:"more,omitempty"` // there are more attempts than are listed
}

// Seen is a worker that asked for work lately.
type Seen struct {
	Name    string    `json:"name"`
	Slots   int       `json:"slots"`
	Used    int       `json:"used"`
	Account string    `json:"account"`
	Labels  []string  `json:"labels"`
	Paused  string    `json:"paused,omitempty"` // why it makes no attempt
	Last    time.Time `json:"last"`
}

// Length is how many attempts with the same needs wait.
type Length struct {
	Needs []string `json:"needs"`
	Waits int      `json:"waits"`
}

// Underway is an attempt that is not over.
type Underway struct {
	ID      string     `json:"id"`
	Needs   []string   `json:"needs,omitempty"`
	Backend string     `json:"backend,omitempty"`
	Since   time.Time  `json:"since"`
	On      string     `json:"on,omitempty"`    // the worker; "" while it waits for one
	Waits   *wire.Wait `json:"waits,omitempty"` // what for
	Tries   int        `json:"tries"`           // workers that began it
	Last    string     `json:"last,omitempty"`  // why the last one could not make it
}

// mostShown bounds the attempts of a Status.
const mostShown = 500

// goneAfter is how long a worker may not have asked for anything. It asks again once a minute.
const goneAfter = 75 * time.Second

// look asks for the workers and the accounts.
func (d *Dispatcher) look(ctx context.Context, now time.Time) (s Status, err error) {
	q, err := d.Client.DescribeTaskQueue(ctx, Queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return s, fmt.Errorf("ask for the workers: %w", err)
	}
	last := map[string]Seen{} // one that has changed has asked under several identities
	for _, p := range q.GetPollers() {
		id, at := readIdentity(p.GetIdentity()), p.GetLastAccessTime().AsTime()
		if id.Slots > 0 && now.Sub(at) < goneAfter && at.After(last[id.Name].Last) {
			last[id.Name] = Seen{Name: id.Name, Slots: id.Slots, Account: id.Account, Labels: append([]string{}, id.Labels...), Paused: id.Paused, Last: at}
		}
	}
	s.Workers = []Seen{}
	for _, w := range last {
		s.Workers = append(s.Workers, w)
	}
	slices.SortFunc(s.Workers, func(a, b Seen) int { return strings.Compare(a.Name, b.Name) })
	limits, err := (&accounts{client: d.Client, converter: d.Converter}).list(ctx, now)
	slices.SortFunc(limits, func(a, b wire.Limit) int {
		return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Backend, b.Backend))
	})
	s.Accounts = append([]wire.Limit{}, limits...)
	return s, err
}

// Clear forgets that an account has no quota left, and names the backends that it was used up for.
func (d *Dispatcher) Clear(ctx context.Context, account string) ([]string, error) {
	return (&accounts{client: d.Client, converter: d.Converter}).clear(ctx, account)
}

// waits says what an attempt waits for that no worker has.
func (s *Status) waits(needs []string, backend string) *wire.Wait {
	with := "a worker"
	if len(needs) > 0 {
		with = "a worker with " + strings.Join(needs, " and ")
	}
	able := slices.DeleteFunc(slices.Clone(s.Workers), func(w Seen) bool { return !identity{Labels: w.Labels}.can(needs) })
	if len(able) == 0 {
		return &wire.Wait{For: with}
	}
	able = slices.DeleteFunc(able, func(w Seen) bool { return w.Paused != "" })
	if len(able) == 0 {
		return &wire.Wait{For: with + " that has room on its disk"}
	}
	var out []wire.Limit
	for _, w := range able {
		at := slices.IndexFunc(s.Accounts, func(l wire.Limit) bool { return l.Account == w.Account && l.Backend == backend })
		if at < 0 {
			return &wire.Wait{For: "a free slot"}
		}
		out = append(out, s.Accounts[at])
	}
	first := slices.MinFunc(out, func(a, b wire.Limit) int { return a.Until.Compare(b.Until) })
	return &wire.Wait{For: fmt.Sprintf("quota: account %s has none until %s", first.Account, first.Until.Local().Format(untilFormat)), Until: first.Until,
		Reason: cmp.Or(first.Reason, fmt.Sprintf("the quota of account %s is used up", first.Account))}
}

// Status asks the server.
func (d *Dispatcher) Status(ctx context.Context) (s Status, err error) {
	if s, err = d.look(ctx, time.Now()); err != nil {
		return s, err
	}
	list, err := d.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", attemptWorkflow), PageSize: mostShown})
	if err != nil {
		return s, fmt.Errorf("ask for the attempts: %w", err)
	}
	s.More = len(list.GetNextPageToken()) > 0
	found := make([]Underway, len(list.GetExecutions()))
	var asking sync.WaitGroup
	few := make(chan struct{}, 16)
	for i, e := range list.GetExecutions() {
		few <- struct{}{}
		asking.Go(func() {
			found[i] = d.underway(ctx, e)
			<-few
		})
	}
	asking.Wait()
	s.Attempts = slices.DeleteFunc(found, func(u Underway) bool { return u.ID == "" }) // those that have ended meanwhile
	slices.SortFunc(s.Attempts, func(a, b Underway) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID)) })
	s.count()
	return s, nil
}

// underway asks for one attempt.
func (d *Dispatcher) underway(ctx context.Context, e *workflowpb.WorkflowExecutionInfo) (u Underway) {
	desc, err := d.Client.DescribeWorkflowExecution(ctx, e.GetExecution().GetWorkflowId(), "")
	if err != nil || desc.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return u
	}
	u.ID, u.Since = e.GetExecution().GetWorkflowId(), e.GetStartTime().AsTime()
	memo := desc.GetWorkflowExecutionInfo().GetMemo().GetFields()
	for name, to := range map[string]any{needsMemo: &u.Needs, backendMemo: &u.Backend} {
		if p := memo[name]; p != nil {
			_ = d.Converter.FromPayload(p, to) // what another version wrote
		}
	}
	for _, p := range desc.GetPendingActivities() {
		b, _ := d.beatOf(p)
		if u.Tries = b.Tries; p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED {
			u.On = readIdentity(p.GetLastWorkerIdentity()).Name
		}
		if f := p.GetLastFailure(); f != nil && !handedBack(f.GetApplicationFailureInfo().GetType()) {
			u.Last = why(failures(d.Converter).FailureToError(f))
		}
	}
	return u
}

// count adds up what the attempts say of workers and queues.
func (s *Status) count() {
	waiting := map[string]*Length{}
	for i := range s.Attempts {
		u := &s.Attempts[i]
		if at := slices.IndexFunc(s.Workers, func(w Seen) bool { return w.Name == u.On }); at >= 0 {
			s.Workers[at].Used++
		}
		if u.On != "" {
			continue
		}
		u.Waits = s.waits(u.Needs, u.Backend)
		key := queueOf(u.Needs)
		if waiting[key] == nil {
			waiting[key] = &Length{Needs: append([]string{}, u.Needs...)}
		}
		waiting[key].Waits++
	}
	s.Queues = []Length{}
	for _, l := range waiting {
		s.Queues = append(s.Queues, *l)
	}
	slices.SortFunc(s.Queues, func(a, b Length) int { return slices.Compare(a.Needs, b.Needs) })
}

// Print prints it for people.
func (s *Status) Print(w io.Writer, now time.Time) {
	if len(s.Workers) == 0 {
		fmt.Fprintln(w, "no worker asks for work; descartes-fleet worker starts one")
	}
	for _, x := range s.Workers {
		line := fmt.Sprintf("worker %s: %d of %d slots in use, account %s", x.Name, x.Used, x.Slots, x.Account)
		if len(x.Labels) > 0 {
			line += ", labels " + strings.Join(x.Labels, ",")
		}
		if x.Paused != "" {
			line += "; it begins no attempt: " + x.Paused
		}
		fmt.Fprintln(w, terminal.Clean(line))
	}
	for _, l := range s.Accounts {
		line := fmt.Sprintf("account %s has no quota for %s until %s", l.Account, l.Backend, l.Until.Local().Format(untilFormat))
		if l.Reason != "" {
			line += ": " + l.Reason
		}
		fmt.Fprintln(w, terminal.Clean(line))
	}
	for _, q := range s.Queues {
		line := terminal.Count(q.Waits, "attempt") + " in the queue"
		if len(q.Needs) > 0 {
			line += " for workers with " + strings.Join(q.Needs, " and ")
		}
		fmt.Fprintln(w, terminal.Clean(line))
	}
	for _, x := range s.Attempts {
		where := "on " + x.On
		if x.Waits != nil {
			where = "waits for " + x.Waits.For
		}
		fmt.Fprintf(w, "%s: %s, %s\n", terminal.Clean(x.ID), now.Sub(x.Since).Round(time.Second), terminal.Clean(where))
		if x.Last != "" {
			fmt.Fprintf(w, "  before: %s\n", terminal.Clean(x.Last))
		}
	}
	if s.More {
		fmt.Fprintf(w, "and more than these %d\n", len(s.Attempts))
	}
	if len(s.Attempts) == 0 {
		fmt.Fprintln(w, "no attempt is under way")
	}
}
