package temporal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"descartes/fleet"
	"descartes/internal/oscall"
	"descartes/internal/terminal"
	"descartes/loop"
)

// Worker makes attempts in slots of this machine.
type Worker struct {
	fleet.Maker
	Slots  int      // attempts at a time
	Repos  []string // patterns of the URLs that it works for, as path.Match has them; a final * also matches slashes
	Labels []string // what it has that tasks may need, sorted
	Least  int64    // free bytes below which it begins no attempt
	Log    io.Writer

	report func(ctx context.Context, token []byte, details ...any) error
	slots  slots

	mu   sync.Mutex
	full time.Time // when an attempt last found the disk full
	said string    // why none begins now
}

// stopFor is how long a worker that is asked to end waits for its agents to end.
const stopFor = 20 * time.Second

// Serve works until ctx ends. What is under way then is given back: another worker makes it.
func (w *Worker) Serve(ctx context.Context, f *Fleet) (err error) {
	w.report, w.Note = f.client.RecordActivityHeartbeat, func(text string) { w.tell("%s", text) }
	w.slots = newSlots(w.Slots)
	id := fmt.Sprintf("%s@%d (%s)", fleet.Host(), os.Getpid(), strings.Join(append([]string{
		terminal.Count(w.Slots, "slot")}, w.Labels...), ", "))
	queues := []string{Queue}
	for _, l := range w.Labels {
		queues = append(queues, queueOf([]string{l}))
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var ending sync.WaitGroup
	defer ending.Wait()
	for _, queue := range queues {
		tuner, err := w.slots.tuner()
		if err != nil {
			return err
		}
		k := worker.New(f.client, queue, worker.Options{Identity: id, Tuner: tuner, WorkerStopTimeout: stopFor,
			DisableWorkflowWorker: queue != Queue, DisableEagerActivities: true})
		if k.RegisterActivityWithOptions(w.make, activity.RegisterOptions{Name: makeActivity}); queue == Queue {
			decide(k)
		}
		if err := k.Start(); err != nil {
			return fmt.Errorf("start working: %w", err)
		}
		defer ending.Go(k.Stop)
	}
	fmt.Fprintf(w.Log, "ready: %s, repositories in %s; Ctrl-C ends it\n", terminal.Count(w.Slots, "slot"), w.Cache)
	<-ctx.Done()
	return nil
}

// room says why no attempt may begin now, "" where one may.
func (w *Worker) room() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	why := loop.Room(oscall.Free, w.Least, w.Cache)
	if why == "" && time.Since(w.full) < fullFor {
		why = "an attempt found no space on the disk"
	}
	switch {
	case why != "" && w.said == "":
		w.tell("no attempt begins here now: %s (--min-free-disk)", why)
	case why == "" && w.said != "":
		w.tell("there is room on the disk again: attempts begin here")
	}
	w.said = why
	return why
}

// tell prints what happened.
func (w *Worker) tell(format string, args ...any) {
	fmt.Fprintf(w.Log, "%s %s\n", time.Now().Format(time.TimeOnly), terminal.Clean(fmt.Sprintf(format, args...)))
}

// handBack gives an attempt to others that was not begun. It is no failure.
func handBack(kind, why string, after time.Duration, details ...any) error {
	return temporal.NewApplicationErrorWithOptions(why, kind,
		temporal.ApplicationErrorOptions{NextRetryDelay: after, Category: temporal.ApplicationErrorCategoryBenign,
			Details: details})
}

// mostTries is how many workers may begin one attempt.
const mostTries = 20

// How long a slot of a worker that could not make an attempt is left out, so that others come first, and how long a
// disk that was full is believed to be.
const (
	stepAside = 3 * time.Second
	fullFor   = 50 * time.Second
)

// make makes one attempt.
func (w *Worker) make(ctx context.Context, a fleet.Ask) (kept fleet.Kept, err error) {
	if !w.accepts(a.Remote) {
		return kept, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("no worker may work for %s: --repo names those that it works for", a.Remote), refused, nil)
	}
	if !w.slots.take() {
		// each poll that was under way brings one at most
		return kept, handBack(handedBack, "all slots of "+fleet.Host()+" are in use", 200*time.Millisecond)
	}
	defer func() {
		if err == nil {
			w.slots.give(0)
		} else {
			w.slots.give(stepAside)
		}
	}()
	for _, l := range a.Needs {
		if !slices.Contains(w.Labels, l) {
			return kept, handBack(handedBack, fleet.Host()+" has no "+l, stepAside-time.Second)
		}
	}
	if full := w.room(); full != "" {
		return kept, handBack(handedBack, fleet.Host()+": "+full, time.Second)
	}
	var before beat // of whoever had it before, if anybody had
	_ = activity.GetHeartbeatDetails(ctx, &before)
	if before.Tries >= mostTries {
		return kept, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("%d workers began it, and none brought it to an end; the last was %s", before.Tries,
				before.Live.Host), refused, nil)
	}
	info := activity.GetInfo(ctx)
	what := fmt.Sprintf("task %s, attempt %d of run %s", a.Task, a.Try, fleet.LoopName(a.Loop))
	mctx, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	var now atomic.Pointer[beat]
	now.Store(&beat{Live: before.Live, Tries: before.Tries + 1})
	stop := sync.OnceFunc(w.pulse(ctx, &now, end))
	defer stop()
	noTry := func() { // the next worker is told so
		stop()
		rctx, done := context.WithTimeout(ctx, reportFor)
		defer done()
		_ = w.report(rctx, info.TaskToken, before)
	}
	w.tell("%s", what)
	kept, err = w.Make(mctx, a, fmt.Sprintf("%d-%s", info.Attempt, info.WorkflowExecution.RunID),
		func(l fleet.Live) { now.Store(&beat{Live: l, Tries: before.Tries + 1}) })
	cause := context.Cause(mctx)
	switch _, no := errors.AsType[*fleet.RefusedError](err); {
	case err == nil:
		w.tell("%s made: %s", what, kept.Verdict)
		return kept, nil
	case no:
		err = temporal.NewNonRetryableApplicationError(err.Error(), refused, nil)
	case errors.Is(cause, fleet.ErrDropped):
		err = fmt.Errorf("lost contact with the server, or was stopped: %w", cause)
	case errors.Is(cause, context.Canceled):
		err = temporal.NewCanceledError()
	default:
		if q, out := errors.AsType[*fleet.QuotaError](err); out {
			before.Refusals++
			noTry()
			err = handBack(noQuota, q.Error(), min(time.Second<<min(info.Attempt, 5),
				max(time.Second, time.Until(q.Until))), q.Wait)
		} else if loop.DiskFull(err) {
			w.mu.Lock()
			w.full = time.Now()
			w.mu.Unlock()
			noTry()
			err = handBack(handedBack, fmt.Sprintf("the disk of %s is full: %v", fleet.Host(), err), time.Second)
		} else {
			err = temporal.NewApplicationError(fmt.Sprintf("%s could not make the attempt: %v", fleet.Host(), err),
				notMade)
		}
	}
	w.tell("%s ended without a result: %v", what, why(err))
	return fleet.Kept{}, err
}

const (
	beatEvery = time.Second // a cancelled attempt is to end soon
	reportFor = 5 * time.Second
)

// pulse tells the server what is known of an attempt while it is made, until stop, and hears there whether it is still
// wanted. While the server is away the attempt goes on: its result is kept on the remote, where the next worker looks
// for it. (The SDK's own heartbeat ends an activity once a report has failed for some seconds.)
func (w *Worker) pulse(ctx context.Context, now *atomic.Pointer[beat], end context.CancelCauseFunc) (stop func()) {
	token, stopped := activity.GetInfo(ctx).TaskToken, activity.GetWorkerStopChannel(ctx)
	ctx, quit := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			rctx, done := context.WithTimeout(ctx, reportFor)
			err := w.report(rctx, token, *now.Load())
			done()
			// another worker has it, or nobody wants it
			if _, gone := errors.AsType[*serviceerror.NotFound](err); gone ||
				errors.Is(err, activity.ErrActivityReset) {
				end(fleet.ErrDropped)
			} else if temporal.IsCanceledError(err) {
				end(nil)
			}
			select {
			case <-stopped:
				stopped = nil
				end(fleet.ErrDropped)
			case <-ctx.Done():
				return
			case <-time.After(beatEvery):
			}
		}
	})
	return func() { quit(); wg.Wait() }
}

// accepts reports whether the worker works for a repository. A URL with a way up in its path may lead out of what a
// pattern allows.
func (w *Worker) accepts(url string) bool {
	if slices.Contains(strings.FieldsFunc(url, func(r rune) bool { return r == '/' || r == '\\' || r == ':' }),
		"..") || strings.Contains(strings.ToLower(url), "%2e") {
		return false
	}
	return slices.ContainsFunc(w.Repos, func(pattern string) bool {
		if prefix, all := strings.CutSuffix(pattern, "*"); all && strings.HasPrefix(url, prefix) {
			return true
		}
		ok, _ := path.Match(pattern, url) // not for a pattern that is none
		return ok
	})
}
