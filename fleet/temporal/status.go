package temporal

import (
	"cmp"
	"context"
	"fmt"
	"io"
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

// Seen is a worker that asked for work lately.
type Seen struct {
	Name string    `json:"name"`
	Has  string    `json:"has"`  // slots and labels, in words
	Used int       `json:"used"` // slots
	Last time.Time `json:"last"`
}

// Underway is an attempt that is not over.
type Underway struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
	On    string    `json:"on,omitempty"`    // the worker that has it
	Waits string    `json:"waits,omitempty"` // what it waits for that no worker has
	Last  string    `json:"last,omitempty"`  // why the worker before did not make it
}

// slotsMark is what the identity of a worker has, and that of no other program.
const slotsMark = ": slots "

const (
	goneAfter = askEvery + 10*time.Second
	mostShown = 200
)

// Status asks the server.
func (f *Fleet) Status(ctx context.Context) (s Status, err error) {
	s = Status{Workers: []Seen{}, Runs: []fleet.Hello{}, Attempts: []Underway{}}
	q, err := f.client.DescribeTaskQueue(ctx, Queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return s, fmt.Errorf("ask for the workers: %w", err)
	}
	for _, p := range q.GetPollers() {
		name, has, ok := strings.Cut(p.GetIdentity(), slotsMark)
		if last := p.GetLastAccessTime().AsTime(); ok && time.Since(last) < goneAfter {
			s.Workers = append(s.Workers, Seen{Name: name, Has: has, Last: last})
		}
	}
	slices.SortFunc(s.Workers, func(a, b Seen) int { return strings.Compare(a.Name, b.Name) })
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
			s.Attempts = append(s.Attempts, u)
			for i := range s.Workers {
				if s.Workers[i].Name == u.On {
					s.Workers[i].Used++
				}
			}
		}
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
		say("worker %s: %d of its slots in use: %s", x.Name, x.Used, x.Has)
	}
	for _, h := range s.Runs {
		say("%s by %s, run %s", h.Tag, h.Host, fleet.LoopName(h.Loop))
	}
	for _, x := range s.Attempts {
		where := "on " + x.On
		if x.Waits != "" {
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
