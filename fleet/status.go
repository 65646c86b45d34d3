package fleet

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"descartes/internal/terminal"
)

// NewDispatcher connects to the server.
func NewDispatcher(ctx context.Context, at Server, out io.Writer) (*Dispatcher, error) {
	conv, err := at.converter()
	if err != nil {
		return nil, err
	}
	c, err := at.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &Dispatcher{Client: c, Converter: conv, Out: out}, nil
}

// Status is what a fleet does.
type Status struct {
	Workers  []Seen     `json:"workers"`
	Attempts []Underway `json:"attempts"`
	More     bool       `json:"more,omitempty"` // there are more attempts than are listed
}

// Seen is a worker that asked for work lately.
type Seen struct {
	Name string    `json:"name"`
	Last time.Time `json:"last"`
}

// Underway is an attempt that is not over.
type Underway struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
	On    string    `json:"on,omitempty"`   // the worker; "" while it waits for one
	Tries int       `json:"tries"`          // workers that had it
	Last  string    `json:"last,omitempty"` // why the last one could not make it
}

// mostShown bounds the attempts of a Status.
const mostShown = 200

// Status asks the server.
func (d *Dispatcher) Status(ctx context.Context) (s Status, err error) {
	s.Workers, s.Attempts = []Seen{}, []Underway{}
	q, err := d.Client.DescribeTaskQueue(ctx, Queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return s, fmt.Errorf("ask for the workers: %w", err)
	}
	for _, p := range q.GetPollers() {
		s.Workers = append(s.Workers, Seen{p.GetIdentity(), p.GetLastAccessTime().AsTime()})
	}
	slices.SortFunc(s.Workers, func(a, b Seen) int { return strings.Compare(a.Name, b.Name) })
	list, err := d.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", attemptWorkflow), PageSize: mostShown})
	if err != nil {
		return s, fmt.Errorf("ask for the attempts: %w", err)
	}
	s.More = len(list.GetNextPageToken()) > 0
	for _, e := range list.GetExecutions() {
		u := Underway{ID: e.GetExecution().GetWorkflowId(), Since: e.GetStartTime().AsTime()}
		desc, err := d.Client.DescribeWorkflowExecution(ctx, u.ID, "")
		if err != nil {
			continue // it has ended meanwhile
		}
		for _, p := range desc.GetPendingActivities() {
			if u.Tries = int(p.GetAttempt()); p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED {
				u.On = p.GetLastWorkerIdentity()
			}
			u.Last = p.GetLastFailure().GetMessage()
		}
		s.Attempts = append(s.Attempts, u)
	}
	slices.SortFunc(s.Attempts, func(a, b Underway) int { return a.Since.Compare(b.Since) })
	return s, nil
}

// Print prints it for people.
func (s *Status) Print(w io.Writer, now time.Time) {
	if len(s.Workers) == 0 {
		fmt.Fprintln(w, "no worker asks for work; descartes-fleet worker starts one")
	}
	for _, x := range s.Workers {
		fmt.Fprintf(w, "worker %s, seen %s ago\n", terminal.Clean(x.Name), now.Sub(x.Last).Round(time.Second))
	}
	for _, x := range s.Attempts {
		where := "waits for a worker"
		if x.On != "" {
			where = "on " + x.On
		}
		fmt.Fprintf(w, "%s: %s, %s\n", terminal.Clean(x.ID), now.Sub(x.Since).Round(time.Second), terminal.Clean(where))
		if x.Last != "" && x.Tries > 1 {
			fmt.Fprintf(w, "  try %d; before: %s\n", x.Tries, terminal.Clean(x.Last))
		}
	}
	if s.More {
		fmt.Fprintf(w, "and more than these %d\n", len(s.Attempts))
	}
	if len(s.Attempts) == 0 {
		fmt.Fprintln(w, "no attempt is under way")
	}
}
