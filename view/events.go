package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
)

// Events says a run's events to a person, a line each, or a few.
type Events struct {
	Waves int    // of the tag; 0 where nobody knows
	Usual string // the backend of tasks that ask for none
	paint terminal.Paint
	began map[string]time.Time    // of the tasks under way
	costs map[string]journal.Cost // of their agents
}

// NewEvents begins with a run.
func NewEvents(paint terminal.Paint) *Events {
	return &Events{paint: paint, began: map[string]time.Time{}, costs: map[string]journal.Cost{}}
}

// Line takes an event into account and is what it says to a person, "" if it is not worth a line.
func (p *Events) Line(e *journal.Event) string {
	if e.Type == journal.AgentFinished {
		cost := p.costs[e.Task]
		cost.Add(e.Detail)
		p.costs[e.Task] = cost
	}
	return p.line(e)
}

// line is an event for a person, "" if it is not worth one.
func (p *Events) line(e *journal.Event) string {
	switch e.Type {
	case journal.LoopStarted:
		return fmt.Sprintf("loop %s started", e.Loop)
	case journal.LoopResumed:
		if n := len(e.Tasks); n > 0 {
			return fmt.Sprintf("loop %s resumed, %s tried again", e.Loop, terminal.Count(n, "blocked task"))
		}
		return fmt.Sprintf("loop %s resumed", e.Loop)
	case journal.ListChanged:
		p.Waves = e.Of
		return "task list changed: " + terminal.Clean(e.Message)
	case journal.WaveStarted:
		return p.waveLine(e)
	case journal.AttemptStarted:
		return p.attemptLine(e)
	case journal.AttemptWaiting:
		return fmt.Sprintf("  %s attempt %d waits for %s", taskName(e), e.Attempt, terminal.Clean(e.Reason))
	case journal.AttemptFinished:
		return p.failedLine(e)
	case journal.Integrated:
		if e.Verdict == "" {
			return ""
		}
		return fmt.Sprintf("  %s attempt %d %s: %s", taskName(e), e.Attempt, p.paint.In(terminal.Yellow, "not integrated"), terminal.Clean(e.Reason))
	case journal.TaskDone:
		return fmt.Sprintf("  %s %s%s%s", taskName(e), p.paint.In(terminal.Green, doneWord(e)), p.since(e), doneRemark(e))
	case journal.TaskBlocked:
		return fmt.Sprintf("  %s %s after %s: %s", taskName(e), p.paint.In(terminal.Red, "blocked"), terminal.Count(e.Attempt, "attempt"), terminal.Clean(e.Reason))
	case journal.TaskHeld:
		return fmt.Sprintf("  %s %s: %s", taskName(e), p.paint.In(terminal.Yellow, "held"), terminal.Clean(e.Reason))
	case journal.WaveCommitted:
		what := fmt.Sprintf("wave %d", e.Wave)
		if e.Task != "" { // a commit of its own
			what = "task " + terminal.Clean(e.Task)
		}
		return fmt.Sprintf("%s committed %s%s", what, p.paint.In(terminal.Bold, Short(e.Commit)), files(e.Of))
	case journal.LimitWaiting:
		return p.waitLine(e)
	case journal.Warning:
		return fmt.Sprintf("%s %s", p.paint.In(terminal.Yellow, "warning:"), warned(e))
	case journal.IterationStarted:
		return iterationStarted(e)
	case journal.IterationFinished:
		return p.iterationFinished(e)
	case journal.GateSpoke:
		return gateLines(e)
	case journal.BreakerOpened:
		return p.paint.In(terminal.Red, "breaker opened:") + " " + terminal.Clean(e.Reason)
	case journal.VerifyStarted, journal.VerifyFinished:
		return checkLine(e)
	case journal.TaskStarted, journal.AgentFinished, journal.LoopPaused, journal.LoopFinished:
	}
	return ""
}

// doneWord is done, with the grade.
func doneWord(e *journal.Event) string {
	if d := e.Detail; d != nil && d.Grade != "" {
		return "done (" + string(d.Grade) + ")"
	}
	return "done"
}

// doneRemark is what is to be said of a task that is done.
func doneRemark(e *journal.Event) string {
	if e.Reason == "" {
		return ""
	}
	return ": " + terminal.Clean(e.Reason)
}

// checkLine announces a check that is of no attempt: before the first one, without the work of a blocked task, or on the work as a whole. How one
// ended that failed has lines of its own.
func checkLine(e *journal.Event) string {
	d := e.Detail
	if !d.Apart() {
		return ""
	}
	name, began, took := "verify", e.Type == journal.VerifyStarted, " in "+terminal.Duration(time.Duration(d.Seconds*float64(time.Second)))
	if d.Check != "" {
		name = "check " + terminal.Clean(d.Check)
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
		return name + " passes," + took + remark(d)
	case d.At != "":
		return name + " fails: " + terminal.Clean(e.Reason)
	case began && e.Task != "":
		return "  " + name + " runs once more without the work on task " + terminal.Clean(e.Task)
	case e.Task != "" && d.Passed:
		return "  " + name + " passes without it," + took
	case began:
		if d.Alone {
			return "baseline: " + name + " runs as a fresh clone has the project"
		}
		return "baseline: " + name + " runs once before the first attempt"
	case d.Passed:
		return "baseline: " + name + " passes," + took + remark(d)
	case e.Message != "":
		return "baseline: " + name + ": " + terminal.Clean(e.Message) + "," + took
	}
	return ""
}

// remark is what is to be said of a check that passed.
func remark(d *journal.Detail) string {
	s := ""
	if d.Tests != nil && d.Tests.Known > 0 {
		s = ", " + terminal.Count(d.Tests.Known, "known failure") + ", none new"
	}
	if d.Tries > 1 {
		s += fmt.Sprintf(", in run %d: it is flaky", d.Tries)
	}
	return s
}

func files(n int) string {
	if n == 0 {
		return ""
	}
	return " (" + terminal.Count(n, "file") + ")"
}

func warned(e *journal.Event) string {
	if e.Task == "" {
		return terminal.Clean(e.Message)
	}
	return "task " + terminal.Clean(e.Task) + ": " + terminal.Clean(e.Message)
}

func (p *Events) waveLine(e *journal.Event) string {
	s := fmt.Sprintf("wave %d", e.Wave)
	if p.Waves > 0 {
		s += fmt.Sprintf(" of %d", max(p.Waves, e.Wave))
	}
	if e.Of > 0 {
		s += ": " + terminal.Count(e.Of, "task")
	}
	return p.paint.In(terminal.Bold, s)
}

func (p *Events) attemptLine(e *journal.Event) string {
	if _, again := p.began[e.Task]; !again {
		p.began[e.Task] = e.TS
	}
	with := ""
	if d := e.Detail; d != nil && d.Backend != "" && p.Usual != "" && d.Backend != p.Usual {
		with = " with " + terminal.Clean(d.Backend)
	}
	if len(e.Tasks) > 0 {
		with += " in the session of task " + terminal.Clean(e.Tasks[0])
	}
	if e.Round > 0 {
		return fmt.Sprintf("  %s candidate %d started%s (attempt %d)", taskName(e), e.Attempt-e.Round+1, with, e.Attempt)
	}
	if e.Attempt <= 1 {
		return fmt.Sprintf("  %s started%s", taskName(e), with)
	}
	return fmt.Sprintf("  %s attempt %d started%s", taskName(e), e.Attempt, with)
}

// VerdictWord is a verdict as what an attempt did.
func VerdictWord(v journal.Verdict) string {
	switch v {
	case journal.Verified:
		return "done"
	case journal.TimedOut:
		return "timed out"
	case journal.Cancelled:
		return "was interrupted"
	case journal.Dropped:
		return "was dropped"
	case journal.Limited:
		return "ran out of quota"
	case journal.Blocked, journal.Crashed, journal.Failed:
	}
	return string(v)
}

// failedLine is for an attempt that another follows; the end of a task has its own line.
func (p *Events) failedLine(e *journal.Event) string {
	if e.Verdict == journal.Verified || e.Verdict == journal.Blocked || e.Verdict == journal.Limited {
		return ""
	}
	word := VerdictWord(e.Verdict)
	line := fmt.Sprintf("  %s attempt %d %s: %s", taskName(e), e.Attempt, p.paint.In(terminal.Yellow, word), terminal.Clean(e.Reason))
	if e.Reason == journal.Killed && e.Ref != "" {
		line += "; kept as " + terminal.Clean(e.Ref)
	}
	if e.Detail != nil {
		for _, what := range e.Detail.Denied {
			line += "\n    the sandbox refused " + terminal.Clean(what)
		}
	}
	return line
}

func (p *Events) waitLine(e *journal.Event) string {
	until := ""
	if e.Detail != nil && e.Detail.Until != nil {
		until = " until " + e.Detail.Until.Local().Format("2006-01-02 15:04")
	}
	who := ""
	if e.Task != "" {
		who = taskName(e) + " "
	}
	if d := e.Detail; d != nil && d.Until != nil && d.Cause != "" { // the line of the attempt's end had the reason
		return fmt.Sprintf("  %stries again in %s", who, terminal.Spell(d.Until.Sub(e.TS)))
	}
	return fmt.Sprintf("  %swaits%s: %s", who, until, terminal.Clean(e.Reason))
}

func (p *Events) since(e *journal.Event) string {
	began, ok := p.began[e.Task]
	if !ok {
		return ""
	}
	s := " in " + terminal.Duration(e.TS.Sub(began))
	if cost := p.costs[e.Task]; cost.USD != nil {
		s += ", " + cost.Dollars()
	}
	delete(p.began, e.Task)
	delete(p.costs, e.Task)
	if e.Attempt > 1 {
		s += fmt.Sprintf(" (attempt %d)", e.Attempt)
	}
	return s
}

func taskName(e *journal.Event) string {
	return terminal.Clean(e.Task) + " " + terminal.FitWords(terminal.Clean(e.Title), 40)
}

// iterationStarted is the marker line of an iteration.
func iterationStarted(e *journal.Event) string {
	again := ""
	if e.Attempt > 1 {
		again = fmt.Sprintf(" again, time %d", e.Attempt)
	}
	line := fmt.Sprintf("[loop %s iteration %d/%d]%s", e.Loop, e.Iteration, e.Of, again)
	for _, l := range e.Lines {
		line += "\n" + terminal.Clean(l)
	}
	return line
}

// iterationFinished says how an iteration ended and what its gate made of it.
func (p *Events) iterationFinished(e *journal.Event) string {
	d := e.Detail
	if d == nil {
		return ""
	}
	colour, word := terminal.Green, "exit status 0"
	switch d.End {
	case journal.EndFinished:
	case journal.EndCrashed:
		colour, word = terminal.Yellow, "the agent failed"
	case journal.EndTimedOut:
		colour, word = terminal.Yellow, "timed out"
	case journal.EndIdle:
		colour, word = terminal.Yellow, "the agent was silent too long"
	case journal.EndLimited:
		colour, word = terminal.Yellow, "out of quota"
	case journal.EndCancelled:
		colour, word = terminal.Yellow, "interrupted"
	default:
		colour, word = terminal.Yellow, d.End
	}
	s := "  " + p.paint.In(colour, word) + " in " + terminal.Duration(time.Duration(d.Seconds*float64(time.Second)))
	if d.Changed > 0 {
		s += ", " + terminal.Count(d.Changed, "file") + " changed"
	}
	if e.Commit != "" {
		s += ", committed " + p.paint.In(terminal.Bold, Short(e.Commit))
	}
	text := cmp.Or(e.Message, e.Reason) // of one that is done again there is only the reason
	if d.End != journal.EndFinished {
		text = e.Reason
	}
	if text != "" && (d.End != journal.EndCancelled || e.Reason == journal.Killed) {
		s += ": " + terminal.Clean(text)
	}
	if (e.Reason == journal.Killed || e.Reason == journal.NotCommitted) && e.Ref != "" {
		s += "; kept as " + terminal.Clean(e.Ref)
	}
	for _, what := range d.Denied {
		s += "\n    the sandbox refused " + terminal.Clean(what)
	}
	for _, line := range e.Lines {
		if line != "[status] "+e.Message { // which was just said
			s += "\n  " + terminal.Clean(line)
		}
	}
	return s
}

// gateLines is what a gate says between iterations.
func gateLines(e *journal.Event) string {
	var out []string
	for _, l := range e.Lines {
		out = append(out, terminal.Clean(l))
	}
	return strings.Join(out, "\n")
}

// LookWords says what is being done to an attempt that passed its verification.
func LookWords(look string) string {
	if words := map[string]string{"guard": "the guard compares the checks", "holdout": "held-out checks run", "prove": "its tests must prove themselves", "mutants": "small faults are put into its code", "review": "a reviewer reads it"}[look]; words != "" {
		return words
	}
	return "the " + terminal.Clean(look) + " looks at it"
}
