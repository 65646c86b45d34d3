// Package temporal carries the attempts of a fleet over a Temporal server. An attempt is a workflow with one activity,
// and the claim of a run on its tag is another one: no workflow stands above the attempts of a run, whose own journal
// is the record of what was started and what came of it. What lies in the server's history are names and hashes.
package temporal

import (
	"math"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"descartes/fleet"
)

// Queue is the task queue of workers, and of what decides. Its name has the version of what is said over it.
const Queue = "descartes-3"

// queueOf is the task queue of attempts with these needs: that of the first label. A worker without the others hands
// them back.
func queueOf(needs []string) string {
	if len(needs) == 0 {
		return Queue
	}
	return Queue + "/" + needs[0]
}

// The names under which workflows and activities are registered.
const (
	attemptWorkflow = "Attempt"
	runWorkflow     = "Run"
	makeActivity    = "Make"
	holdActivity    = "Hold"
)

// The types of the errors of an activity.
const (
	refused    = "Refused"    // no other worker would make the attempt either
	notMade    = "NotMade"    // another one may
	handedBack = "HandedBack" // it was not begun
	noQuota    = "NoQuota"    // it was not begun either; the details say until when
)

// heartbeat is the silence after which a worker is given up, unless DESCARTES_FLEET_SILENT says otherwise. It is long,
// for that throws the agent's work away.
const heartbeat = 60 * time.Second

// ask is what an attempt's workflow gets.
type ask struct {
	fleet.Ask
	Silent time.Duration `json:"silent"`
}

// Attempt is one attempt: it ends with what one worker made of it. A worker that is lost, or cannot make it, is no
// attempt: another one tries.
func Attempt(ctx workflow.Context, a ask) (k fleet.Kept, err error) {
	limit := time.Duration(a.Limit) * time.Second
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              queueOf(a.Needs),
		ScheduleToCloseTimeout: 2*limit + 7*24*time.Hour, // it may wait long for a worker
		StartToCloseTimeout:    limit,
		HeartbeatTimeout:       a.Silent,
		WaitForCancellation:    true, // its processes are dead then
		Summary:                a.String(),
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2,
			MaximumInterval: time.Minute, MaximumAttempts: math.MaxInt32, NonRetryableErrorTypes: []string{refused}},
	})
	err = workflow.ExecuteActivity(ctx, makeActivity, a.Ask).Get(ctx, &k)
	// else the server does not know it
	if sought := workflow.GetTypedSearchAttributes(ctx); err == nil && sought.ContainsKey(byVerdict) {
		err = workflow.UpsertTypedSearchAttributes(ctx, byVerdict.ValueSet(k.Verdict))
	}
	return k, err
}

// aliveFor is how long the claim of a run outlasts its process.
const aliveFor = 90 * time.Second

// Run keeps others from running the same tag of the same repository, for its id is theirs. It lasts as long as the
// run's own process, which alone serves the queue, holds it.
func Run(ctx workflow.Context, queue string) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: queue,
		StartToCloseTimeout: 10 * 365 * 24 * time.Hour, ScheduleToStartTimeout: aliveFor,
		HeartbeatTimeout: aliveFor, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
	return workflow.ExecuteActivity(ctx, holdActivity).Get(ctx, nil)
}

// decide registers the workflows. Every program of a fleet can serve them.
func decide(k worker.Worker) {
	k.RegisterWorkflowWithOptions(Attempt, workflow.RegisterOptions{Name: attemptWorkflow})
	k.RegisterWorkflowWithOptions(Run, workflow.RegisterOptions{Name: runWorkflow})
}
