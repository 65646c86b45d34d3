package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/oneline"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/verify"
)

// stopper knows everything that can end a run between two attempts or during one.
type stopper struct {
	ctx    context.Context
	soft   <-chan struct{}
	ask    func() (r store.Request, atOnce bool)
	marked func() bool     // whether another program marked the loop as cancelled in its state file; nil: not checked
	now    context.Context // over when the run is to end at once
	atOnce context.CancelFunc
	ending atomic.Pointer[ending]
}

// pollEvery is how often a run looks for requests of other terminals.
const pollEvery = 300 * time.Millisecond

// lastCommit is how long a commit may take that starts when the run ends, or that is under way at the deadline.
const lastCommit = 30 * time.Second

// committing returns the context of a commit. A new request to stop at once also ends its hooks; an earlier one does
// not: an interrupted run still commits what it has.
func (s *stopper) committing(deadline *time.Time) (context.Context, context.CancelFunc) {
	_, asked := s.ask()
	left := lastCommit
	switch late := s.now.Err() != nil || asked; {
	case late:
		return context.WithTimeoutCause(context.WithoutCancel(s.ctx), left, errNoTime)
	case deadline != nil:
		return context.WithTimeoutCause(s.now, left+max(0, time.Until(*deadline)), errNoTime)
	}
	return context.WithCancel(s.now)
}

var errNoTime = errors.New("the run was about to end")

// failed is the end of a run by an error. What git rejected is no internal error, and what a request to stop at once
// caused counts as that request.
func (s *stopper) failed(err error) (Outcome, error) {
	_, stopped := errors.AsType[*gitops.StoppedError](err)
	out := s.asked()
	if checks, ok := errors.AsType[*ChecksError](err); ok {
		return Outcome{Ending: journal.ChecksFail, Message: checks.Error(), Checks: checks}, nil
	}
	switch {
	case DiskFull(err):
		return Outcome{Ending: journal.DiskFull, Message: "the disk is full: " + err.Error()}, nil
	case out != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ErrTerminated) || stopped &&
		(out.Ending == journal.UserCancelled || out.Ending == journal.Interrupted)):
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

const resumes = "; the work is kept, and resuming the run commits it"

// ErrTerminated is the cause of a run's context that SIGTERM ended.
var ErrTerminated = errors.New("terminated")

// asked returns, between two attempts, the outcome if the run must end here.
func (s *stopper) asked() *Outcome {
	if errors.Is(context.Cause(s.ctx), ErrTerminated) {
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
	if s.ctx.Err() != nil {
		return &Outcome{Ending: journal.UserCancelled, Message: "interrupted"}
	}
	return nil
}

// outcome is the end of a run whose agent was interrupted.
func (s *stopper) outcome() *Outcome {
	if out := s.asked(); out != nil {
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

// wait waits until the wall clock shows a time, and reports whether it does, or until ctx is over. It checks the wall
// clock on each tick: after the machine slept it is at most one tick late, and if the clock was set back it waits no
// longer than planned.
func (s *stopper) wait(ctx context.Context, t *Tools, until time.Time) (over bool) {
	until = until.Round(0) // a monotonic reading would stand still while the machine sleeps
	last := t.Now().Round(0)
	for ctx.Err() == nil && s.asked() == nil {
		now := t.Now().Round(0)
		if now.Before(last) {
			until = now.Add(until.Sub(last))
		}
		last = now
		left := min(until.Sub(now), pollEvery)
		switch {
		case left <= 0:
			return true
		case t.Sleep != nil:
			t.Sleep(left)
			continue
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return false
}

// CancelDead marks a loop without a process as cancelled, in its journal and its state file. It can still be resumed.
// A live loop is a *store.BusyError: use store.Home.Ask.
func CancelDead(ctx context.Context, fsys atomicfile.FS, home store.Home, s store.Saved,
	now func() time.Time) (err error) {
	lk, err := store.TakeLock(ctx, store.LockOf(s.Path), 50*time.Millisecond,
		store.Holder{Loop: s.State.ID, Tag: s.State.Tag, At: now()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lk.Release()) }()
	// written by another program: it has no journal, and gets none for this
	if _, gone := os.Stat(home.Events(s.State.ID)); s.State.ID == "" || gone != nil {
		st := *s.State
		st.ExitReason = store.ExitReason{Type: string(journal.UserCancelled),
			Message: "cancelled while it was not running"}
		return st.Save(fsys, s.Path)
	}
	j, _, err := journal.Open(fsys, home.Events(s.State.ID), s.State.ID, now)
	if err != nil {
		return err
	}
	e := &journal.Event{Type: journal.LoopFinished, Reason: string(journal.UserCancelled),
		Message: "cancelled while it was not running"}
	if err := errors.Join(j.Append(e), j.Close()); err != nil {
		return err
	}
	root := filepath.Dir(string(home))
	list, _ := source.OpenTasks(root, s.State.Config.Scud) // else ids are written as texts
	v, err := home.View(s, list)
	if err != nil {
		return err
	}
	v.State.Seq = s.State.Seq
	if err := v.State.Save(fsys, s.Path); err != nil || !DropsLoopFile(s.State.Config, false, true) {
		return err
	}
	return RemoveLoopFile(cmp.Or(s.State.Config.WorkingDirectory, root))
}

// breakerOf is the breaker's setting; 0 disables it.
func breakerOf(c *Config) int {
	switch {
	case c.Breaker == 0:
		return config.DefaultBreaker
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

// breaker ends a run whose tasks fail in the same way one after the other.
type breaker struct {
	run     *Loop
	tag     *tagWork
	failing streak
}

// streak is the current one.
func (w *breaker) streak() *streak { return w.failing.learn(w.run.history) }

func (s *streak) add(a *journal.Attempt) {
	d := a.Result
	if d == nil || a.Verdict.Nobodys(d) {
		return
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
	case a.Verdict == journal.Crashed, strings.HasPrefix(a.Reason, verify.NoSignal), a.Verdict == journal.TimedOut &&
		a.Result.Changed == 0:
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
func (w *breaker) tripped() string {
	n, s := breakerOf(w.run.config), w.streak()
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

// idles reports whether a task whose agent did nothing should wait until another task had its first attempt: no agent
// of this loop has done anything yet, and most likely none can.
func (w *breaker) idles() bool {
	s := w.streak()
	if breakerOf(w.run.config) == 0 || s.worked || s.signature != idleAgent || w.tag.scope.Task != "" ||
		len(s.tasks) >= breakerOf(w.run.config) {
		return false
	}
	waves := w.run.job.Graph.Waves()
	return w.tag.queue.passed < len(waves) && slices.ContainsFunc(waves[w.tag.queue.passed].Tasks,
		func(id string) bool {
			return w.run.job.Graph.Ready(id) && w.tag.queue.at(id) == nil && !slices.Contains(s.tasks, id)
		})
}

// open records that the breaker is open.
func (w *breaker) open(out *Outcome) error {
	return w.run.record(&journal.Event{Type: journal.BreakerOpened, Reason: out.Message, Tasks: w.streak().tasks})
}

// UsedUp returns the outcome if the deadline or the budget is used up, else nil.
func UsedUp(c *Config, now time.Time, cost journal.Cost) *Outcome {
	switch {
	case c.Deadline != nil && !now.Before(*c.Deadline):
		return &Outcome{Ending: journal.DeadlinePast, Message: "the deadline " + c.Deadline.Format(time.RFC3339) +
			" has passed"}
	case c.MaxCostUSD > 0 && cost.USD != nil && *cost.USD >= c.MaxCostUSD:
		return &Outcome{Ending: journal.CostReached, Message: "the agents cost " + cost.Dollars() + ", the limit is " +
			journal.Dollars(c.MaxCostUSD)}
	}
	return nil
}
