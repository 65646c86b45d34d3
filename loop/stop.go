package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/oneline"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/verify"
)

// stopper collects everything that can end a run between two attempts or during one.
type stopper struct {
	soft   <-chan struct{}
	ask    func() (store.Request, bool)
	marked func() bool  // whether another program marked the loop as cancelled in its state file; nil: not checked
	yield  func(func()) // lets other lanes work while it waits; nil: there are none
	over   func() bool  // whether another lane has ended the run
}

// pollEvery is how often a running attempt checks for a request to stop at once.
const pollEvery = 300 * time.Millisecond

// watch returns a context that ends when another terminal asks to stop at once. done waits for the watcher.
func (s *stopper) watch(ctx context.Context) (_ context.Context, done func()) {
	return s.poll(ctx, nil, func(_ store.Request, now bool) bool { return now })
}

// soon returns a context that ends when the run is asked to stop, even only after its attempt: for work that is not an attempt and can simply be done
// again.
func (s *stopper) soon(ctx context.Context) (_ context.Context, done func()) {
	return s.poll(ctx, s.soft, func(r store.Request, _ bool) bool { return r != "" })
}

// poll returns a context that ends with soft, or when stops accepts another terminal's request.
func (s *stopper) poll(ctx context.Context, soft <-chan struct{}, stops func(r store.Request, now bool) bool) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-soft:
				cancel()
				return
			case <-tick.C:
				if stops(s.ask()) {
					cancel()
				}
			}
		}
	})
	return ctx, func() { cancel(); wg.Wait() }
}

// lastCommit is how long a commit may take that starts when the run ends, or that is under way at the deadline.
const lastCommit = 30 * time.Second

// committing returns the context of a commit. A new request to stop at once also ends its hooks; an earlier one does not: an interrupted run still
// commits what it has. done waits for the watcher.
func (s *stopper) committing(ctx context.Context, deadline *time.Time) (_ context.Context, done func()) {
	_, now := s.ask()
	late := ctx.Err() != nil || now
	stops := []func(){}
	if late {
		ctx = context.WithoutCancel(ctx)
	} else {
		var over func()
		ctx, over = s.watch(ctx)
		stops = append(stops, over)
	}
	if late || deadline != nil {
		left := lastCommit
		if !late {
			left += max(0, time.Until(*deadline))
		}
		bound, cancel := context.WithTimeoutCause(ctx, left, errNoTime)
		ctx, stops = bound, append([]func(){cancel}, stops...)
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

var errNoTime = errors.New("the run was about to end")

// failed is the end of a run by an error. What git rejected is no internal error, and what a request to stop at once caused counts as that request.
func (s *stopper) failed(ctx context.Context, err error) (Outcome, error) {
	_, stopped := errors.AsType[*gitops.StoppedError](err)
	out := s.asked(ctx)
	if checks, ok := errors.AsType[*ChecksError](err); ok {
		return Outcome{Ending: journal.ChecksFail, Message: checks.Error(), Checks: checks}, nil
	}
	if edited, ok := errors.AsType[*gitops.EditedError](err); ok {
		return Outcome{Ending: journal.Paused, Message: edited.Error()}, nil
	}
	switch {
	case DiskFull(err):
		return Outcome{Ending: journal.DiskFull, Message: "the disk is full: " + err.Error()}, nil
	case out != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ErrTerminated) || stopped && (out.Ending == journal.UserCancelled || out.Ending == journal.Interrupted)):
		out.Message += ": " + err.Error() + resumes
		return *out, nil
	case isGit(err):
		out = &Outcome{Ending: journal.GitRefused, Message: err.Error()}
		if refused, ok := errors.AsType[*gitops.RefusedError](err); ok && refused.Hint != "" {
			out.Message += "; to fix it: " + refused.Hint
		}
		if stopped {
			out.Message += resumes
		}
		return *out, nil
	}
	return Outcome{Ending: journal.OwnError, Message: err.Error(), Err: err}, err
}

const resumes = "; the work is kept, and resuming the loop commits it"

// ErrTerminated is the cause of a run's context that SIGTERM ended.
var ErrTerminated = errors.New("terminated")

// asked returns, between two attempts, the outcome if the run must end here.
func (s *stopper) asked(ctx context.Context) *Outcome {
	if errors.Is(context.Cause(ctx), ErrTerminated) {
		return &Outcome{Ending: journal.Interrupted, Message: ErrTerminated.Error()}
	}
	select {
	case <-s.soft:
		return &Outcome{Ending: journal.UserCancelled, Message: "interrupted"}
	default:
	}
	if r, _ := s.ask(); r != "" {
		return requested(r)
	}
	if s.marked != nil && s.marked() {
		return &Outcome{Ending: journal.UserCancelled, Message: "marked as cancelled in its state file"}
	}
	if ctx.Err() != nil {
		return &Outcome{Ending: journal.UserCancelled, Message: "interrupted"}
	}
	return nil
}

// outcome is the end of a run whose agent was interrupted.
func (s *stopper) outcome(ctx context.Context) *Outcome {
	if out := s.asked(ctx); out != nil {
		return out
	}
	return &Outcome{Ending: journal.UserCancelled, Message: "interrupted"}
}

func requested(r store.Request) *Outcome {
	if r == store.RequestPause {
		return &Outcome{Ending: journal.Paused, Message: "paused by request"}
	}
	return &Outcome{Ending: journal.UserCancelled, Message: "cancelled by request"}
}

// wait waits until the wall clock shows a time, or until the run has to end. It checks the wall clock on each tick: after the machine slept it is at
// most one tick late, and if the clock was set back it waits no longer than planned.
func (s *stopper) wait(ctx context.Context, t *Tools, until time.Time) *Outcome {
	until = until.Round(0) // a monotonic reading would stand still while the machine sleeps
	last := t.Now().Round(0)
	for {
		if out := s.asked(ctx); out != nil {
			return out
		}
		if s.over != nil && s.over() {
			return &Outcome{}
		}
		now := t.Now().Round(0)
		if now.Before(last) {
			until = now.Add(until.Sub(last))
		}
		last = now
		left := until.Sub(now)
		if left <= 0 {
			return nil
		}
		s.sleep(ctx, t, min(left, pollEvery))
	}
}

// sleep waits for d, or until something ends the run.
func (s *stopper) sleep(ctx context.Context, t *Tools, d time.Duration) {
	if s.yield != nil {
		alone := *s
		alone.yield = nil
		s.yield(func() { alone.sleep(ctx, t, d) })
		return
	}
	if t.Sleep != nil {
		t.Sleep(d)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.soft:
	}
}

// CancelDead marks a loop without a process as cancelled, in its journal and its state file. It can still be resumed.
// A live loop is a *store.BusyError: use store.Home.Ask.
func CancelDead(ctx context.Context, fsys atomicfile.FS, home store.Home, s store.Saved, now func() time.Time) (err error) {
	lk, err := store.TakeLock(ctx, store.LockOf(s.Path), 50*time.Millisecond, store.Holder{Loop: s.State.ID, Tag: s.State.Tag, At: now()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lk.Release()) }()
	if s.State.ID == "" { // written by another program: it has no journal, and gets none for this
		st := *s.State
		st.ExitReason = store.ExitReason{Type: string(journal.UserCancelled), Message: "cancelled while it was not running"}
		return st.Save(fsys, s.Path)
	}
	j, _, err := journal.Open(fsys, home.Events(s.State.ID), s.State.ID, now)
	if err != nil {
		return err
	}
	e := &journal.Event{Type: journal.LoopFinished, Reason: string(journal.UserCancelled), Message: "cancelled while it was not running"}
	if err := errors.Join(j.Append(e), j.Close()); err != nil {
		return err
	}
	st := *s.State
	st.ExitReason = store.ExitReason{Type: e.Reason, Message: e.Message}
	if err := st.Save(fsys, s.Path); err != nil || !dropsLoopFile(st.Config, false, true) {
		return err
	}
	return removeLoopFile(cmp.Or(st.Config.WorkingDirectory, filepath.Dir(string(home))))
}

// DefaultBreaker is how many tasks in a row must fail in the same way to open the breaker. BreakerOff disables it.
const (
	DefaultBreaker = 3
	BreakerOff     = -1
)

// breakerOf is the breaker's setting; 0 disables it.
func breakerOf(c *Config) int {
	switch {
	case c.Breaker == 0:
		return DefaultBreaker
	case c.Breaker < 0:
		return 0
	}
	return c.Breaker
}

// idleAgent is the signature of an attempt whose agent crashed, or did and said nothing, whatever it printed.
const idleAgent = "agent"

// streak counts consecutive attempts with the same failure, from the journal.
//
//	closed --the same failure in N tasks--> open --resume--> half open --the same failure--> open
//	                                                         half open --anything else--> closed
type streak struct {
	signature string
	shown     string // one line of it
	tasks     []string
	half      bool // the breaker was open, and nothing has happened since
	worked    bool // an agent of this loop did something at some time
	learned   int  // ended attempts taken in
	openings  int  // openings of the breaker taken in
}

// learn takes in the attempts that ended since the last call.
func (s *streak) learn(h *journal.State) *streak {
	s.learned = max(s.learned, h.Rewound)
	for {
		if s.openings < len(h.BreakerOpenings) && h.BreakerOpenings[s.openings] <= s.learned {
			s.half, s.tasks, s.openings = true, nil, s.openings+1
			continue
		}
		if s.learned == len(h.Ended) {
			return s
		}
		s.add(h.Ended[s.learned])
		s.learned++
	}
}

// streak is the current one.
func (w *tagWork) streak() *streak { return w.failing.learn(w.history) }

func (s *streak) add(a *journal.Attempt) {
	d := a.Result
	if d == nil || !a.Verdict.Counts() || d.End == journal.EndRefused || d.Transient() {
		return // nobody's fault
	}
	if d.End == journal.EndFinished && (d.Changed > 0 || d.Claimed || a.Verdict == journal.Blocked) {
		s.worked = true
	}
	signature, shown := failureOf(a)
	if signature != s.signature {
		*s = streak{signature: signature, worked: s.worked, learned: s.learned, openings: s.openings}
	}
	s.shown = shown
	if signature == "" {
		s.half = false
	} else if !slices.Contains(s.tasks, a.Task) {
		s.tasks = append(s.tasks, a.Task)
	}
}

// failureOf returns what an attempt failed with, without what differs from run to run; "" if it did not fail.
func failureOf(a *journal.Attempt) (signature, shown string) {
	switch {
	case a.Verdict == journal.Blocked && strings.HasPrefix(a.Reason, verify.Said): // "Please log in" of every task
		return a.Reason, a.Reason
	case a.Verdict == journal.Verified || a.Verdict == journal.Blocked:
		return "", ""
	case a.Verdict == journal.Crashed, strings.HasPrefix(a.Reason, verify.NoSignal), a.Verdict == journal.TimedOut && a.Result.Changed == 0:
		return idleAgent, a.Reason
	case a.Verdict == journal.Failed:
		return verifyFailure(a.Result.Output, a.Reason)
	}
	return string(a.Verdict) + " " + gate.Signature(a.Reason), a.Reason
}

// verifyFailure returns what a verification failed with.
func verifyFailure(output, reason string) (signature, shown string) {
	signature, shown = gate.Failed(output)
	if strings.TrimSpace(output) == "" {
		shown = reason
	}
	return signature + " " + gate.Signature(reason), shown
}

// tripped says why no further attempt is worth starting, or returns "".
func (w *tagWork) tripped() string {
	n, s := breakerOf(w.config), w.streak()
	if n == 0 || s.signature == "" || len(s.tasks) < n && !(s.half && len(s.tasks) > 0) {
		return ""
	}
	what := "the same failure"
	if s.signature == idleAgent {
		what = "agents crashed or did nothing"
	}
	where := fmt.Sprintf(" in %d tasks in a row", len(s.tasks))
	if len(s.tasks) == 1 {
		where = " in a task"
	}
	if s.half {
		where = " again after the breaker had opened"
	}
	return what + where + " (" + strings.Join(s.tasks, ", ") + "): " + oneline.Text(s.shown)
}

// idles reports whether a task whose agent did nothing should wait until another task had its first attempt: no agent of this loop has done anything
// yet, and most likely none can.
func (w *tagWork) idles() bool {
	s := w.streak()
	if breakerOf(w.config) == 0 || s.worked || s.signature != idleAgent || w.scope.Task != "" || len(s.tasks) >= breakerOf(w.config) {
		return false
	}
	return slices.ContainsFunc(w.job.Graph.Waves()[w.passed].Tasks, func(id string) bool { return w.job.Graph.Ready(id) && !w.taken(id) && !slices.Contains(s.tasks, id) })
}

// openBreaker records that the breaker is open. Refs keep what the current task left in the tree, which goes back to the state before the task.
func (w *tagWork) openBreaker(ctx context.Context, out *Outcome) error {
	e := &journal.Event{Type: journal.BreakerOpened, Reason: out.Message, Tasks: w.streak().tasks}
	return w.record(e)
}
