package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
)

// Attempt is one attempt at a task, or one run of an iteration, as people see it.
type Attempt struct {
	*journal.Attempt `json:"-"`

	Loop    string    `json:"loop"`
	N       int       `json:"attempt"`
	Outcome string    `json:"verdict"` // "running" and "interrupted" without one
	Reason  string    `json:"reason"`
	Kept    *string   `json:"ref"` // null if the attempt left nothing to keep
	Commit  *string   `json:"commit"`
	Backend string    `json:"backend,omitempty"` // what it was run with
	Model   string    `json:"model,omitempty"`
	Log     string    `json:"log"`
	At      time.Time `json:"at"`
	Price   *costJSON `json:"cost"` // null if unknown

	Stand Stand `json:"-"`
	asks  bool  // as the ref that keeps it says, where there is no journal
}

// AttemptOf is an attempt of a loop; runs says that somebody may work on it.
func AttemptOf(root, loop string, a *journal.Attempt, runs bool) *Attempt {
	out := newAttempt(root, loop, a)
	switch {
	case a.Over():
	case runs && a.Phase != journal.PhaseOpen:
		out.Stand, out.Outcome = Running, "running"
	default:
		out.Stand, out.Outcome = Other, "interrupted"
	}
	return out
}

func newAttempt(root, loop string, a *journal.Attempt) *Attempt {
	home := store.NewHome(root)
	path := home.Log(loop, a.Task, a.Number)
	if a.Iteration > 0 {
		path = home.IterationLog(loop, a.Iteration, a.Number)
	}
	out := &Attempt{Attempt: a, Loop: loop, N: a.Number, Outcome: a.Outcome(),
		Reason: a.Reason, At: a.Ended,
		Log: store.Relative(root, path)}
	out.Stand = verdictStand(out.Outcome)
	if d := cmp.Or(a.Result, a.Agent); d != nil {
		out.Backend, out.Model = d.Backend, d.Model
	}
	if a.Cost.Runs > 0 {
		c := jsonCost(a.Cost)
		out.Price = &c
	}
	return out
}

// Done reports whether its work was taken, by the checks or by a person.
func (a *Attempt) Done() bool { return a.Stand == Done && a.Iteration == 0 }

// Counts reports whether it used up one of its task's attempts.
func (a *Attempt) Counts() bool { return journal.Verdict(a.Outcome).Counts() }

// Word says what it did, or what it does.
func (a *Attempt) Word() string {
	switch {
	case a.Stand == Running:
		return a.Doing()
	case a.Task == "" && a.Iteration > 0:
		return a.Decided()
	}
	if a.isAsking() {
		return "asked"
	}
	return VerdictWord(journal.Verdict(a.Outcome))
}

// isAsking reports whether it waits for a person's answer.
func (a *Attempt) isAsking() bool { return a.asks || a.asked() != "" }

// asked is what its agent asked at its end, "" for nothing.
func (a *Attempt) asked() string {
	if a.Result == nil || journal.Verdict(a.Outcome) != journal.Blocked {
		return ""
	}
	return a.Result.Question
}

// Doing is what is being done for it.
func (a *Attempt) Doing() string {
	switch {
	case a.Waits != "":
		return a.Attempt.Place()
	case a.Phase == journal.PhaseAgent:
		return "the agent works"
	case a.Phase == journal.PhaseVerify:
		return "verify runs"
	case a.Phase == journal.PhaseLook:
		return LookWords(a.Look)
	case a.Phase == journal.PhaseIntegrating:
		return "its work is merged"
	}
	return "nobody works on it"
}

// Place is where it is worked on.
func (a *Attempt) Place() string {
	if a.Waits != "" { // which is what it does
		return ""
	}
	return a.Attempt.Place()
}

// LookWords says what is being done to an attempt that passed its verification.
func LookWords(look string) string {
	if words := map[string]string{"guard": "the old tests run on its code", "holdout": "held-out checks run",
		"prove": "its tests must prove themselves", "review": "a reviewer reads it"}[look]; words != "" {
		return words
	}
	return "the " + terminal.Clean(look) + " looks at it"
}

// Decided is what an iteration came to, in a word or two.
func (a *Attempt) Decided() string {
	switch a.Verdict {
	case "", journal.Cancelled:
		return "interrupted"
	case journal.Limited:
		return "no quota"
	}
	return string(a.Verdict)
}

// Which is its number, and of how many.
func (a *Attempt) Which() string {
	if a.Task != "" && a.Of >= a.Number {
		return "attempt " + strconv.Itoa(a.Number) + " of " + strconv.Itoa(a.Of)
	}
	return "attempt " + strconv.Itoa(a.Number)
}

// Subject is the task or the iteration that it is about.
func (a *Attempt) Subject() string {
	if a.Iteration > 0 {
		return "iteration " + strconv.Itoa(a.Iteration)
	}
	return a.Task
}

// By is what it was run with.
func (a *Attempt) By() string { return strings.TrimSpace(a.Backend + " " + a.Model) }

// Took is how long it ran, "" before its end.
func (a *Attempt) Took() string {
	if !a.Over() {
		return ""
	}
	return took(a.Seconds())
}

// Dollars is what it cost, "" if unknown.
func (a *Attempt) Dollars() string {
	if a.Cost.USD == nil {
		return ""
	}
	return a.Cost.Dollars()
}

// Failed reports whether its agent or its verification failed.
func (a *Attempt) Failed() bool {
	if a.Iteration == 0 {
		return a.Over() && a.Stand == Blocked
	}
	if !a.Over() || a.Verdict == journal.Cancelled || a.Verdict == journal.Limited {
		return false
	}
	r := a.Result
	return a.Verdict == journal.Retry || r != nil && (r.End != journal.EndFinished || r.Refused ||
		len(a.Checks) > 0 && !r.Passed)
}

// Story is what became of a run of an iteration, for a report.
func (l *Loop) Story(a *Attempt) string {
	switch {
	case a.Stand == Running:
		return "running"
	case !a.Over() && !l.Run.Killed(): // its run ended before it could be judged
		return "not finished"
	case a.Over() && a.Reason == journal.NotCommitted:
		return a.Reason
	case !a.Over(), a.Verdict == journal.Cancelled:
		return "interrupted, not finished"
	case a.Verdict == journal.Limited:
		return "out of quota: " + a.Reason
	case a.Failed():
		return "failed: " + cmp.Or(a.Reason, string(a.Verdict))
	}
	return strings.TrimSuffix(string(a.Verdict)+": "+a.Reason, ": ")
}

// Output is the end of what its verification printed, and its agent's last words.
func (a *Attempt) Output() string {
	if a.Result == nil {
		return ""
	}
	return terminal.CleanLines(strings.TrimSpace(a.Result.Output + "\n" + a.Result.Words))
}

// Words are its agent's last words.
func (a *Attempt) Words() string {
	if a.Result == nil {
		return ""
	}
	return a.Result.Words
}

// Spent is what it cost.
func (a *Attempt) Spent() *journal.Cost { return &a.Cost }

// Said is what a person should look at.
func (a *Attempt) Said() []string { return a.Result.Said() }

// took is seconds in words.
func took(seconds float64) string {
	return terminal.Duration(time.Duration(seconds * float64(time.Second)))
}

// Kept is what a repository keeps of runs, and how it names a list there.
type Kept struct {
	List gitops.Named
	Refs []gitops.Ref
}

// Attempts joins a task's attempts in the journals of all loops with the refs that keep them. A ref whose journal is
// gone is described by its own message.
func (b *Board) Attempts(id string, kept Kept) ([]*Attempt, error) {
	home := store.NewHome(b.Root)
	all, err := home.List()
	if err != nil {
		return nil, err
	}
	out, told, key := []*Attempt{}, map[string]*Attempt{}, b.job.Key()
	for _, s := range all {
		if s.State == nil || s.State.Key() != key {
			continue
		}
		h, err := journal.Load(home.Events(s.State.ID))
		if err != nil {
			return nil, err
		}
		for _, one := range h.Ended {
			if one.Task == id {
				a := newAttempt(b.Root, s.State.ID, one)
				out, told[store.RefPrefix(a.Loop, id)+strconv.Itoa(a.N)] = append(out, a), a
			}
		}
	}
	for _, r := range kept.Refs {
		a := told[r.Name]
		if k, ok := source.ReadKept(r, kept.List, id); ok && a == nil {
			a = &Attempt{Attempt: &journal.Attempt{Key: journal.Key{Task: id, Number: k.Attempt}}, Loop: k.Loop,
				N: k.Attempt, Outcome: k.Verdict, Reason: k.Reason, At: r.When, Stand: verdictStand(k.Verdict), asks: k.Asks}
			out = append(out, a)
		}
		if a != nil && source.KeepsWork(r) {
			a.Kept, a.Commit = &r.Name, &r.Hash
		}
	}
	return out, nil
}

// Line is what it came to, for a list of a task's.
func (a *Attempt) Line() string {
	line := fmt.Sprintf("%d in %s %s", a.N, a.Loop, a.Word())
	if !a.At.IsZero() {
		line += ", " + terminal.Moment(a.At)
	}
	if why := cmp.Or(a.asked(), a.Reason); why != "" && !a.Done() {
		line += ": " + terminal.Clean(why)
	}
	if a.Kept != nil {
		line += " (" + *a.Kept + ")"
	}
	return line
}
