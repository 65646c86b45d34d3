package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"descartes/internal/oneline"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/verify"
)

// DefaultBreaker is in how many tasks in a row the same failure opens the breaker where nothing else is said, and
// BreakerOff is the setting of who wants none.
const (
	DefaultBreaker = 3
	BreakerOff     = -1
)

// breakerOf is the setting; 0 where there is none.
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

// streak is the same failure in attempts that followed each other, as the journal has them.
//
//	closed --the same failure in N tasks--> open --resume--> half open --the same failure--> open
//	                                                         half open --anything else--> closed
type streak struct {
	signature string
	shown     string // a line of it
	tasks     []string
	half      bool // the breaker was open, and nothing has happened since
	worked    bool // an agent of this loop did something, at some time
	learned   int  // of the attempts that ended
	openings  int  // and of the breaker's
}

// learn takes in the attempts that ended since the last time.
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

// streak is the one up to now.
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

// failureOf is what an attempt failed with, without what differs from run to run; "" if it did not fail.
func failureOf(a *journal.Attempt) (signature, shown string) {
	switch {
	case a.Verdict == journal.Verified || a.Verdict == journal.Blocked:
		return "", ""
	case a.Verdict == journal.Crashed, a.Reason == verify.NoSignal, a.Verdict == journal.TimedOut && a.Result.Changed == 0:
		return idleAgent, a.Reason
	case a.Verdict == journal.Failed:
		return verifyFailure(a.Result.Output, a.Reason)
	}
	return string(a.Verdict) + " " + gate.Signature(a.Reason), a.Reason
}

// verifyFailure is what a verification failed with.
func verifyFailure(output, reason string) (signature, shown string) {
	signature, shown = gate.Failed(output)
	if strings.TrimSpace(output) == "" {
		shown = reason
	}
	return signature + " " + gate.Signature(reason), shown
}

// tripped says why no further attempt is worth starting, or is empty.
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

// idles reports whether a task whose agent did nothing has its next attempt after the first one of another: no
// agent of this loop has done anything yet, and most likely none can.
func (w *tagWork) idles() bool {
	s := w.streak()
	if breakerOf(w.config) == 0 || s.worked || s.signature != idleAgent || w.scope.Task != "" || len(s.tasks) >= breakerOf(w.config) {
		return false
	}
	return slices.ContainsFunc(w.job.Graph.Waves()[w.passed].Tasks, func(id string) bool { return w.job.Graph.Ready(id) && !w.taken(id) && !slices.Contains(s.tasks, id) })
}

// openBreaker records that the breaker is open. What the task under way has left in the tree is kept under its
// attempts' refs, and the tree goes back to what it was before the task.
func (w *tagWork) openBreaker(ctx context.Context, out *Outcome) error {
	e := &journal.Event{Type: journal.BreakerOpened, Reason: out.Message, Tasks: w.streak().tasks}
	if cur := w.history.Current; w.trunk == nil && cur != "" && w.history.Bases[cur] != "" && w.history.Bases[cur] != w.history.Tree {
		tree, err := w.takeBack(ctx, w.lanes[0], cur)
		if err != nil {
			return err
		}
		e.Task, e.Tree, e.Ref = cur, string(tree), RefPrefix(w.state.ID, cur)
	}
	return w.record(e)
}
