package temporal

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"descartes/fleet"
	"descartes/internal/terminal"
)

// Status is what a fleet does.
type Status struct {
	Workers  []Seen        `json:"workers"`
	Runs     []fleet.Hello `json:"runs"`
	Attempts []Underway    `json:"attempts"`
	More     bool          `json:"more,omitempty"` // there is more under way than is listed
}

// Seen is a worker that asked for work lately, or has some.
type Seen struct {
	Name string `json:"name"` // with its slots and labels
	Used int    `json:"used"` // slots
}

// Underway is an attempt that is not over.
type Underway struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
	On    string    `json:"on,omitempty"`    // the worker that has it
	Waits string    `json:"waits,omitempty"` // what it waits for that no worker has
	Last  string    `json:"last,omitempty"`  // why the worker before did not make it
}

const (
	goneAfter = askEvery + 10*time.Second
	mostShown = 200
)

// Status asks the server.
func (f *Fleet) Status(ctx context.Context) (s Status, err error) {
	s = Status{Workers: []Seen{}, Runs: []fleet.Hello{}, Attempts: []Underway{}}
	q, err := f.client.DescribeTaskQueue(ctx, Queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return s, fmt.Errorf("ask for the workers: %w", err)
	}
	used := map[string]int{}
	for _, p := range q.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < goneAfter {
			used[p.GetIdentity()] = 0
		}
	}
	list, err := f.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: mostShown,
		Query: fmt.Sprintf("WorkflowType IN ('%s', '%s') AND ExecutionStatus = 'Running'", attemptWorkflow,
			runWorkflow)})
	if err != nil {
		return s, fmt.Errorf("ask for the attempts: %w", err)
	}
	s.More = len(list.GetNextPageToken()) > 0
	for _, e := range list.GetExecutions() {
		if e.GetType().GetName() == runWorkflow {
			var h fleet.Hello
			f.memo(e, helloMemo, &h)
			s.Runs = append(s.Runs, h)
		} else if _, u, err := f.look(ctx, e.GetExecution().GetWorkflowId()); err == nil && u.ID != "" {
			if s.Attempts = append(s.Attempts, u); u.On != "" {
				used[u.On]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		s.Workers = append(s.Workers, Seen{name, used[name]})
	}
	slices.SortFunc(s.Attempts, func(a, b Underway) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
	})
	return s, nil
}

// Print prints it for people.
func (s *Status) Print(w io.Writer, now time.Time) {
	say := func(format string, args ...any) { fmt.Fprintln(w, terminal.Clean(fmt.Sprintf(format, args...))) }
	if len(s.Workers) == 0 {
		say("no worker asks for work; descartes-fleet worker starts one")
	}
	for _, x := range s.Workers {
		say("worker %s: %d in use", x.Name, x.Used)
	}
	for _, h := range s.Runs {
		say("%s by %s, run %s", h.Tag, h.Host, fleet.LoopName(h.Loop))
	}
	for _, x := range s.Attempts {
		where := "with the server" // it begins, or its result is being recorded
		if x.On != "" {
			where = "on " + x.On
		} else if x.Waits != "" {
			where = "waits for " + x.Waits
		}
		if say("%s: %s, %s", x.ID, now.Sub(x.Since).Round(time.Second), where); x.Last != "" {
			say("  before: %s", x.Last)
		}
	}
	if s.More {
		say("and more than these")
	}
	if len(s.Attempts) == 0 {
		say("no attempt is under way")
	}
}
