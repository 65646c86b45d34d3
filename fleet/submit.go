package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"descartes/fleet/wire"
	"descartes/internal/proc"
)

// RunsQueue is the task queue of submitted runs. It is one of its own: a run waits for its attempts, so that runs in all slots of a worker
// would wait for ever.
const RunsQueue = Queue + "-runs"

// The names under which a submitted run's workflow and activity are registered.
const (
	submittedWorkflow  = "SubmittedRun"
	coordinateActivity = "Coordinate"
)

// longest is how long a submitted run may take.
const longest = 30 * 24 * time.Hour

// SubmittedRun is a run that workers coordinate, one after the other where one is lost.
func SubmittedRun(ctx workflow.Context, s wire.Submission) (over wire.Over, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: RunsQueue, ScheduleToCloseTimeout: longest, StartToCloseTimeout: longest,
		HeartbeatTimeout: cmp.Or(time.Duration(s.Silent)*time.Second, heartbeat), WaitForCancellation: true, Summary: "run of " + s.Tag,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute, MaximumAttempts: mostTries,
			NonRetryableErrorTypes: []string{refused}}})
	err = workflow.ExecuteActivity(ctx, coordinateActivity, s).Get(ctx, &over)
	return over, err
}

// runs serves submitted runs.
func (w *Worker) runs(c client.Client) worker.Worker {
	k := worker.New(c, RunsQueue, worker.Options{MaxConcurrentActivityExecutionSize: w.Runs, MaxConcurrentActivityTaskPollers: 1, WorkerStopTimeout: stopFor, DisableWorkflowWorker: true,
		MaxHeartbeatThrottleInterval: throttle, DefaultHeartbeatThrottleInterval: throttle})
	k.RegisterActivityWithOptions(w.coordinate, activity.RegisterOptions{Name: coordinateActivity})
	return k
}

// coordinate coordinates a submitted run, in a program of its own.
func (w *Worker) coordinate(ctx context.Context, s wire.Submission) (over wire.Over, err error) {
	if !w.accepts(s.Remote) {
		return over, temporal.NewNonRetryableApplicationError(fmt.Sprintf("no worker may work for %s: --repo names those that it works for", s.Remote), refused, nil)
	}
	info := activity.GetInfo(ctx)
	host, _ := os.Hostname()
	note := func(format string, args ...any) {
		fmt.Fprintf(w.Log, "%s run %s of %s %s\n", time.Now().Format(time.TimeOnly), s.Loop, s.Tag, fmt.Sprintf(format, args...))
	}
	note("is coordinated here")
	var said tail
	p, err := proc.StartCompanion([]string{w.Program, wire.RunCommand}, append(os.Environ(), w.At.environment()...), &said)
	if err != nil {
		return over, err
	}
	tell := json.NewEncoder(p.In)
	work := wire.Coordination{Submission: s, Cache: w.Cache, Try: fmt.Sprintf("%d-%s", info.Attempt, short(info.WorkflowExecution.RunID)), Confine: w.Confine}
	_ = tell.Encode(work) // where it has ended, its output has, too
	lines := wire.Lines(p.Out)
	now := beat{Host: host}
	alive := startPulse(ctx, now, w.report)
	defer alive.end()
	cancelled, lost, stopped, done := alive.cancelled, alive.lost, activity.GetWorkerStopChannel(ctx), false
	var why error // the run is left to another worker
	for open := true; open; {
		select {
		case <-cancelled:
			cancelled = nil
			_ = tell.Encode(wire.Line{Cancel: true})
		case <-lost:
			lost, why = nil, errors.New("the server does not answer, or gave it to another worker")
			_ = p.In.Close()
		case <-stopped:
			stopped, why = nil, errors.New("the worker was stopped")
			_ = p.In.Close()
		case l, ok := <-lines:
			switch {
			case !ok:
				open = false
			case l.Over != nil:
				over, done = *l.Over, true
			case l.Live != nil:
				now.Live = l.Live
				alive.say(now)
			}
		}
	}
	_, err = p.End(stopFor)
	switch {
	case done:
		note("ended with exit status %d", over.Code)
		return over, nil
	case why != nil:
		err = why
	case err == nil:
		err = temporal.NewApplicationError(fmt.Sprintf("%s could not coordinate the run: %s", host, said.text()), notMade)
	}
	note("is given back: %v", err)
	return over, err
}

// TakenError says that somebody runs a tag already.
type TakenError struct{ wire.Hello }

func (e *TakenError) Error() string {
	return fmt.Sprintf("%s runs %s already (loop %s); if that run was killed, resume it there, or wait %v", e.Host, e.Tag, wire.LoopName(e.Loop), aliveFor)
}

// Submit has some worker coordinate a run, unless somebody runs its tag already.
func (d *Dispatcher) Submit(ctx context.Context, s wire.Submission) error {
	s.Silent = int(d.Silent.Seconds())
	_, err := d.start(ctx, client.StartWorkflowOptions{ID: submittedID(s.Loop), TaskQueue: Queue, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		StaticSummary: fmt.Sprintf("run of %s, submitted on %s", s.Tag, s.Host), Memo: map[string]any{"tag": s.Tag, "loop": s.Loop}},
		[]temporal.SearchAttributeUpdate{byTag.ValueSet(s.Tag), byLoop.ValueSet(s.Loop)}, submittedWorkflow, s)
	return err
}

func submittedID(loopID string) string { return "submit/" + loopID }

// Free fails with a TakenError where somebody runs the tag.
func (d *Dispatcher) Free(ctx context.Context, remote, tag string) error {
	id := claimID(remote, tag)
	desc, err := d.Client.DescribeWorkflowExecution(ctx, id, "")
	if _, none := errors.AsType[*serviceerror.NotFound](err); none || err == nil && desc.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil
	}
	if err != nil {
		return err
	}
	who, err := d.who(ctx, id, tag)
	if err == nil {
		err = &TakenError{who}
	}
	return err
}

// followEvery is how often a submitted run is looked at.
const followEvery = 2 * time.Second

// Follow prints what a submitted run prints, until it is over.
func (d *Dispatcher) Follow(ctx context.Context, p *wire.Project, loopID string, out io.Writer) (over wire.Over, err error) {
	if _, err := d.submitted(ctx, loopID); err != nil {
		return over, err
	}
	printed := 0
	more := func() error {
		text, err := p.Output(ctx, loopID)
		if err == nil && len(text) > printed {
			_, err = out.Write(text[printed:])
			printed = len(text)
		}
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Client.GetWorkflow(ctx, submittedID(loopID), "").Get(ctx, &over) }()
	for {
		select {
		case <-ctx.Done():
			return over, ctx.Err()
		case err := <-ended:
			return over, errors.Join(explain(err), more())
		case <-time.After(followEvery):
			_ = more() // the remote may be away for a while
		}
	}
}

// explain is a workflow's error without what Temporal wraps it in.
func explain(err error) error {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return errors.New(app.Message())
	}
	return err
}

// CancelRun cancels a submitted run: its agents are interrupted.
func (d *Dispatcher) CancelRun(ctx context.Context, loopID string) error {
	running, err := d.submitted(ctx, loopID)
	if err == nil && !running {
		err = &wire.InputError{Message: "run " + loopID + " has ended", Hint: "descartes-fleet follow " + loopID + " prints what it said"}
	}
	if err != nil {
		return err
	}
	return d.Client.CancelWorkflow(ctx, submittedID(loopID), "")
}

// submitted reports whether a submitted run is under way.
func (d *Dispatcher) submitted(ctx context.Context, loopID string) (running bool, err error) {
	desc, err := d.Client.DescribeWorkflowExecution(ctx, submittedID(loopID), "")
	if _, none := errors.AsType[*serviceerror.NotFound](err); none {
		return false, &wire.InputError{Message: "no run " + loopID + " was submitted to this server", Hint: `temporal workflow list --query 'WorkflowType = "` + submittedWorkflow + `"'`}
	}
	return desc.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, err
}
