package print

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/view"
)

// Events says a run's events to a person, a line each, or a few.
type Events struct {
	Waves int    // of the tag; 0 if unknown
	Usual string // the backend of tasks that ask for none
	paint terminal.Paint
	began map[string]time.Time    // of the tasks under way
	made  map[string]time.Time    // when they passed: their commit may come much later
	costs map[string]journal.Cost // of their agents
}

// NewEvents begins with a run.
func NewEvents(paint terminal.Paint) *Events {
	return &Events{paint: paint, began: map[string]time.Time{}, made: map[string]time.Time{}, costs: map[string]journal.Cost{}}
}

// Line takes an event into account and is what it says to a person, "" if it is not worth a line.
func (p *Events) Line(e *journal.Event) string {
	d := cmp.Or(e.Detail, &journal.Detail{})
	name, reason := terminal.Clean(e.Task)+" "+terminal.FitWords(terminal.Clean(e.Title), 40), terminal.Clean(e.Reason)
	yellow := func(word string) string { return p.paint.In(terminal.Yellow, word) }
	switch e.Type {
	case journal.LoopStarted:
		return fmt.Sprintf("run %s started", e.Loop)
	case journal.LoopResumed:
		return resumed(e)
	case journal.ListChanged:
		p.Waves = e.Of
		return "task list changed: " + terminal.Clean(e.Message)
	case journal.WaveStarted:
		return p.wave(e)
	case journal.AttemptStarted:
		return "  " + name + " " + p.started(e, d)
	case journal.AttemptWaiting:
		return fmt.Sprintf("  %s attempt %d waits for %s", name, e.Attempt, reason)
	case journal.AgentFinished:
		cost := p.costs[e.Task]
		cost.Add(e.Detail)
		p.costs[e.Task] = cost
	case journal.AttemptFinished: // the end of a task has its own line
		if e.Verdict == journal.Verified {
			p.made[e.Task] = e.TS
		}
		if !slices.Contains([]journal.Verdict{journal.Verified, journal.Blocked, journal.Limited}, e.Verdict) {
			return fmt.Sprintf("  %s attempt %d %s: %s", name, e.Attempt, yellow(view.VerdictWord(e.Verdict)),
				reason) + leftover(e, d)
		}
	case journal.TaskDone:
		return "  " + name + " " + p.done(e, d)
	case journal.TaskBlocked:
		if d.Question != "" {
			return fmt.Sprintf("  %s %s: %s", name, yellow("asks"), terminal.Clean(d.Question))
		}
		return fmt.Sprintf("  %s %s after %s: %s", name, p.paint.In(terminal.Red, "blocked"),
			terminal.Count(e.Attempt, "attempt"), reason)
	case journal.TaskHeld:
		return fmt.Sprintf("  %s %s: %s", name, yellow("held"), reason)
	case journal.WaveCommitted:
		return p.committed(e)
	case journal.LimitWaiting:
		return "  " + waits(e, d, name)
	case journal.Warning:
		return p.warning(e)
	case journal.IterationStarted:
		return strings.Join(append([]string{marker(e)}, clean(e.Lines)...), "\n")
	case journal.IterationFinished:
		if e.Detail != nil {
			return "  " + p.iteration(e, d)
		}
	case journal.GateSpoke:
		return strings.Join(clean(e.Lines), "\n")
	case journal.BreakerOpened:
		return p.paint.In(terminal.Red, "breaker opened:") + " " + reason
	case journal.VerifyStarted, journal.VerifyFinished:
		if e.Detail.Apart() {
			return check(e, d)
		}
	}
	return ""
}

func resumed(e *journal.Event) string {
	if n := len(e.Tasks); n > 0 {
		return fmt.Sprintf("run %s resumed, %s tried again", e.Loop, terminal.Count(n, "blocked task"))
	}
	return fmt.Sprintf("run %s resumed", e.Loop)
}

// wave says that a wave starts.
func (p *Events) wave(e *journal.Event) string {
	s := fmt.Sprintf("wave %d", e.Wave)
	if p.Waves > 0 {
		s += fmt.Sprintf(" of %d", max(p.Waves, e.Wave))
	}
	if e.Of > 0 {
		s += ": " + terminal.Count(e.Of, "task")
	}
	return p.paint.In(terminal.Bold, s)
}

// done says that a task is done, behind its name.
func (p *Events) done(e *journal.Event, d *journal.Detail) string {
	word := "done"
	if d.Grade != "" {
		word = "done (" + string(d.Grade) + ")"
	}
	said := p.paint.In(terminal.Green, word) + p.since(e)
	if e.Reason != "" {
		said += ": " + terminal.Clean(e.Reason)
	}
	return said
}

// committed says which commit holds a wave, or a task.
func (p *Events) committed(e *journal.Event) string {
	what := fmt.Sprintf("wave %d", e.Wave)
	if e.Task != "" { // a commit of its own
		what = "task " + terminal.Clean(e.Task)
	}
	said := what + " committed " + p.paint.In(terminal.Bold, view.Short(e.Commit))
	if e.Message != "" {
		said += " " + terminal.Fit(terminal.Clean(e.Message), 60)
	}
	if e.Of > 0 {
		said += " (" + terminal.Count(e.Of, "file") + ")"
	}
	return said
}

func (p *Events) warning(e *journal.Event) string {
	about := ""
	if e.Task != "" {
		about = "task " + terminal.Clean(e.Task) + ": "
	}
	return p.paint.In(terminal.Yellow, "warning:") + " " + about + terminal.Clean(e.Message)
}

// marker is how programs know that an iteration starts.
func marker(e *journal.Event) string {
	line := fmt.Sprintf("[loop %s iteration %d/%d]", e.Loop, e.Iteration, e.Of)
	if e.Attempt > 1 {
		line += fmt.Sprintf(" again, time %d", e.Attempt)
	}
	return line
}

func clean(lines []string) (out []string) {
	for _, l := range lines {
		out = append(out, terminal.Clean(l))
	}
	return out
}

func (p *Events) started(e *journal.Event, d *journal.Detail) string {
	if _, again := p.began[e.Task]; !again {
		p.began[e.Task] = e.TS
	}
	with := ""
	if d.Backend != "" && p.Usual != "" && d.Backend != p.Usual {
		with = " with " + terminal.Clean(d.Backend)
	}
	if e.Attempt > 1 {
		return fmt.Sprintf("attempt %d started%s", e.Attempt, with)
	}
	return "started" + with
}

// leftover says where the work of a cut short attempt is, and what its sandbox refused.
func leftover(e *journal.Event, d *journal.Detail) (s string) {
	if (d.Cause == journal.CauseKilled || e.Reason == journal.NotCommitted) && e.Ref != "" {
		s = "; kept as " + terminal.Clean(e.Ref)
	}
	for _, what := range d.Denied {
		s += "\n    the sandbox refused " + terminal.Clean(what)
	}
	return s
}

func waits(e *journal.Event, d *journal.Detail, name string) string {
	if name += " "; e.Task == "" {
		name = ""
	}
	if d.Until != nil && d.Cause != "" { // the line of the attempt's end had the reason
		return fmt.Sprintf("%stries again in %s", name, terminal.Spell(d.Until.Sub(e.TS)))
	}
	until := ""
	if d.Until != nil {
		until = " until " + d.Until.Local().Format("2006-01-02 15:04")
	}
	return fmt.Sprintf("%swaits%s: %s", name, until, terminal.Clean(e.Reason))
}

// since is what a task took, and cost.
func (p *Events) since(e *journal.Event) string {
	began, ok := p.began[e.Task]
	if !ok {
		return ""
	}
	end := e.TS
	if made := p.made[e.Task]; made.After(began) {
		end = made
	}
	s := " in " + terminal.Duration(end.Sub(began))
	if cost := p.costs[e.Task]; cost.USD != nil {
		s += ", " + cost.Dollars()
	}
	delete(p.began, e.Task)
	delete(p.made, e.Task)
	delete(p.costs, e.Task)
	if e.Attempt > 1 {
		s += fmt.Sprintf(" (attempt %d)", e.Attempt)
	}
	return s
}

// iteration says how one ended and what its gate made of it.
func (p *Events) iteration(e *journal.Event, d *journal.Detail) string {
	colour, word := terminal.Yellow, d.End
	switch d.End {
	case journal.EndFinished:
		colour, word = terminal.Green, "exit status 0"
	case journal.EndCrashed:
		word = "the agent failed"
	case journal.EndTimedOut:
		word = "timed out"
	case journal.EndIdle:
		word = "the agent was silent too long"
	case journal.EndLimited:
		word = "out of quota"
	case journal.EndCancelled:
		word = "interrupted"
	}
	s := p.paint.In(colour, word) + " in " + seconds(d.Seconds)
	if d.Changed > 0 {
		s += ", " + terminal.Count(d.Changed, "file") + " changed"
	}
	if e.Commit != "" {
		s += ", committed " + p.paint.In(terminal.Bold, view.Short(e.Commit))
	}
	text := cmp.Or(e.Message, e.Reason) // of one that is done again there is only the reason
	if d.End != journal.EndFinished || d.Refused {
		text = e.Reason
	}
	if text != "" && (d.End != journal.EndCancelled || d.Cause == journal.CauseKilled) {
		s += ": " + terminal.Clean(text)
	}
	s += leftover(e, d)
	for _, line := range e.Lines {
		if line != "[status] "+e.Message { // which was just said
			s += "\n  " + terminal.Clean(line)
		}
	}
	return s
}

// named says what of a check that passed can be compared later: its tests, or its exit status alone.
func named(t *journal.Tests) string {
	if t == nil {
		return "; only its exit status counts"
	}
	return ": " + terminal.Count(t.Ran, "test")
}

// check announces a check that is of no attempt: before the first one, without the work of a blocked task, or on the
// work as a whole. How one ended that failed has lines of its own.
func check(e *journal.Event, d *journal.Detail) string {
	name, began, took := "verify", e.Type == journal.VerifyStarted, " in "+seconds(d.Seconds)
	if d.Check != "" {
		name = "check " + terminal.Clean(d.Check)
	}
	if d.Tests != nil && d.Tests.Known > 0 {
		took += ", " + terminal.Count(d.Tests.Known, "known failure") + ", none new"
	}
	if d.Tries > 1 {
		took += fmt.Sprintf(", in run %d: it is flaky", d.Tries)
	}
	switch {
	case d.At == "merge":
		return ""
	case d.At == "end" && began:
		return "end: " + name + " runs on the work as a whole"
	case d.At != "" && began:
		return name + " runs on the work as a whole"
	case d.At != "" && d.Standing:
		return name + " fails as before, and does not decide"
	case d.At != "" && d.Passed:
		return name + " passes," + took
	case d.At != "":
		return name + " fails: " + terminal.Clean(e.Reason)
	case began && e.Task != "":
		return "  " + name + " runs once more without the work on task " + terminal.Clean(e.Task)
	case e.Task != "" && d.Passed:
		return "  " + name + " passes without it," + took
	case began && d.Alone:
		return "baseline: " + name + " runs as a fresh clone has the project"
	case began:
		return "baseline: checking that " + name + " passes before any task"
	case d.Passed:
		return "baseline: " + name + " passes," + took + named(d.Tests)
	case e.Message != "":
		return "baseline: " + name + ": " + terminal.Clean(e.Message) + "," + took
	}
	return ""
}
