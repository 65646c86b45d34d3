package mode

import (
	"strings"

	"descartes/config"
	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/journal"
)

// Listed is what makes a loop over a prompt with a status gate differ from others: the gate knows the
// project's plan, and each prompt names the item that comes next. It is made once for a loop and not safe for
// concurrent use.
type Listed struct {
	loop.Plain
	Project Project
	Config  config.Config
	Gate    *gate.Status

	before *gate.Plan
	choice gate.Choice
}

// Before chooses the plan's item that comes next.
func (l *Listed) Before(t *loop.Iteration) *loop.Outcome {
	here := l.Project.in(t)
	plan, err := here.ReadPlan()
	if err != nil {
		return &loop.Outcome{Ending: journal.OwnError, Message: err.Error()}
	}
	l.before = plan
	l.choice = gate.Choose(plan, gate.Situation{TestsFail: t.Failing, Specs: here.Specs()})
	return nil
}

// Compose names it in the prompt.
func (l *Listed) Compose(t *loop.Iteration) (string, bool) {
	parts := []string{l.Config.Prompt}
	if t.Number > 1 && l.Config.IterationContext {
		parts = append(parts, loop.IterationContext(t.Number, t.Max, ""))
	}
	parts = append(parts, l.instructions(), t.Next)
	return joined(parts), true
}

// instructions are the gate's. Where there is no plan nothing is said of its items.
func (l *Listed) instructions() string {
	if l.before == nil && l.choice.Row == gate.RowNothing {
		return l.Gate.Instructions()
	}
	return l.Gate.Prompt(l.choice)
}

// Facts tells the gate of the plan, before and after.
func (l *Listed) Facts(it *loop.Iteration) error {
	after, err := l.Project.in(it).ReadPlan()
	if err != nil {
		return err
	}
	it.Facts.Before, it.Facts.After = l.before, after
	return nil
}

// joined joins parts of a prompt, a blank line between them.
func joined(parts []string) string {
	var out []string
	for _, p := range parts {
		if p = strings.TrimRight(p, "\n"); strings.TrimSpace(p) != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "\n\n") + "\n"
}

// decider is the gate that decides: the one inside, of a build that plans again.
func (r *Run) decider() loop.Gate {
	if a, ok := r.Gate.(*Alternate); ok {
		return a.Inner
	}
	return r.Gate
}

// promised reports whether the promise ends the mode.
func (r *Run) promised() bool {
	_, ok := r.decider().(*gate.Promise)
	return ok || r.Gate == nil
}

// Within is the gate that judges what was built.
func (a *Alternate) Within() loop.Gate { return a.Inner }

// says reports whether the status block of a final message speaks of the end: done, or blocked.
func says(final string) bool {
	report, ok := gate.ParseReport(final)
	return ok && (report.ExitSignal || report.Status == gate.IsBlocked)
}
