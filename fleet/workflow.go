// Package fleet has the attempts of a run made by workers on other machines, over a Temporal server. The run's engine is the usual one, on the
// machine that started it; an attempt is a workflow with one activity. What lies in the server's history are names and hashes: everything else
// travels as git objects, see package wire.
//
// There is no workflow above the attempts of a run: the run's own journal is the record of what was started and what came of it. So the limits
// of one workflow (2,000 activities at a time, 51,200 events) concern a single attempt, which has one activity and a few hundred events at
// most, and the claim of a run, which continues as new. A dispatcher has at most 500 attempts in flight.
package fleet

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"descartes/fleet/wire"
)

// Queue is the task queue of the workers. Its name has the version of what is said over it.
const Queue = "descartes-1"

// The names under which workflows and activities are registered.
const (
	attemptWorkflow = "Attempt"
	runWorkflow     = "Run"
	accountWorkflow = "Account"
	makeActivity    = "Make"
)

// heartbeat is after which silence a worker is given up. It is long, for a worker that is given up throws the agent's work away; and a
// worker tells of itself far more often, for it learns in the answer that the attempt was cancelled.
const (
	heartbeat = 60 * time.Second
	beatEvery = time.Second
	throttle  = 3 * time.Second / 2
)

// Attempt is one attempt: it ends with what one worker made of it. A worker that is lost, or cannot make it, is no attempt: another one
// tries, and only the result of the one that ended it counts.
func Attempt(ctx workflow.Context, a wire.Ask) (wire.Kept, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              queueOf(a.Needs),
		ScheduleToCloseTimeout: 2*time.Duration(a.Limit)*time.Second + 7*24*time.Hour, // it may wait long for a worker
		StartToCloseTimeout:    time.Duration(a.Limit) * time.Second,
		HeartbeatTimeout:       cmp.Or(time.Duration(a.Silent)*time.Second, heartbeat),
		WaitForCancellation:    true, // its processes are dead then
		Summary:                summary(&a),
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute, MaximumAttempts: math.MaxInt32, // see mostTries
			NonRetryableErrorTypes: []string{refused}},
	})
	for try := 1; ; try++ {
		var k wire.Kept
		err := workflow.ExecuteActivity(ctx, makeActivity, a).Get(ctx, &k)
		if err == nil && k.Cut && ctx.Err() == nil && try < mostTries { // a worker that heard nothing of the server ended it, and nobody else
			continue
		}
		return k, err
	}
}

// mostTries is how many workers may begin one attempt. One that hands it back has not begun it: the workers count, in their heartbeats.
const mostTries = 20

// refused is the type of the error of an order that no other worker would make either.
const refused = "Refused"

// notMade is the type of the error of an attempt that another worker may still make.
const notMade = "NotMade"

func summary(a *wire.Ask) string {
	s := fmt.Sprintf("%s, wave %d, task %s, attempt %d: %s", a.Tag, a.Wave, a.Task, a.Try, a.Title)
	return strings.ToValidUTF8(s[:min(len(s), 200)], "")
}

// A run tells every now and then that it is there. One that says nothing for so long has ended.
const (
	aliveEvery = 20 * time.Second
	aliveFor   = 90 * time.Second
	mostBeats  = 500 // before the history begins anew
)

// The signals of a run, and the question who it is.
const (
	aliveSignal = "alive"
	overSignal  = "over"
	whoQuery    = "who"
)

// Run keeps others from running the same tag of the same repository: its id is theirs. It does nothing but to last as long as somebody says
// that he is there.
func Run(ctx workflow.Context, h wire.Hello) error {
	if err := workflow.SetQueryHandler(ctx, whoQuery, func() (wire.Hello, error) { return h, nil }); err != nil {
		return err
	}
	alive, over := workflow.GetSignalChannel(ctx, aliveSignal), workflow.GetSignalChannel(ctx, overSignal)
	for range mostBeats {
		ended, quiet := false, false
		s := workflow.NewSelector(ctx)
		s.AddReceive(alive, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) })
		s.AddReceive(over, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil); ended = true })
		tctx, cancel := workflow.WithCancel(ctx)
		s.AddFuture(workflow.NewTimer(tctx, aliveFor), func(f workflow.Future) { quiet = f.Get(tctx, nil) == nil })
		s.Select(ctx)
		if cancel(); ended || quiet {
			return nil
		}
	}
	if over.ReceiveAsync(nil) {
		return nil
	}
	return workflow.NewContinueAsNewError(ctx, runWorkflow, h)
}
