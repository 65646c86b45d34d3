package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop/journal"
)

// printer shows a run's events: a line per step for a person, the journal's own lines for a program.
type printer struct {
	text  *liveWriter // people's text
	lines *liveWriter // events as JSON; nil if nobody wants them
	paint terminal.Paint
	box   bool // there is room for the wave box
	waves int
	live  bool   // a terminal on which a line can be rewritten
	usual string // backend of tasks that ask for none
	began map[string]time.Time
	count *countdown              // of the wait under way
	costs map[string]journal.Cost // of the tasks under way
}

// newPrinter prints for people on stdout, or, with events there, on stderr.
func newPrinter(stdout, stderr io.Writer, events, ci bool) *printer {
	p := &printer{began: map[string]time.Time{}, costs: map[string]journal.Cost{}}
	people := stdout
	if events {
		p.lines, people = newLiveWriter(stdout), stderr
	}
	p.text = newLiveWriter(people)
	p.box = terminal.HasRoom(people) && !ci
	p.live = terminal.IsTerminal(people) && !ci && os.Getenv("TERM") != "dumb"
	p.paint = terminal.Colours(terminal.IsTerminal(people) && !ci)
	return p
}

// close brings out everything.
func (p *printer) close() {
	p.count.stop()
	p.count = nil
	p.text.Flush()
	if p.lines != nil {
		p.lines.Flush()
	}
}

func (p *printer) say(format string, args ...any) { fmt.Fprintf(p.text, format+"\n", args...) }

// tell shows a text of whole lines.
func (p *printer) tell(text string) { fmt.Fprint(p.text, text) }

func (p *printer) warn(message string) {
	p.say("%s %s", p.paint.In(terminal.Yellow, "warning:"), terminal.Clean(message))
}

// observe is told of every event.
func (p *printer) observe(e journal.Event) {
	p.count.stop()
	p.count = nil
	if p.lines != nil {
		if b, err := e.Line(); err == nil {
			_, _ = p.lines.Write(b) // a liveWriter never fails
		}
	}
	if line := p.note(&e); line != "" {
		p.say("%s", line)
	}
	if e.Type == journal.LimitWaiting && e.Detail != nil && e.Detail.Until != nil {
		p.count = startCountdown(p, &e, p.live)
	}
}

// note takes an event into account and returns its line.
func (p *printer) note(e *journal.Event) string {
	if e.Type == journal.AgentFinished || e.Type == journal.SpecRefined {
		cost := p.costs[e.Task]
		cost.Add(e.Detail)
		p.costs[e.Task] = cost
	}
	return p.line(e)
}

// line is an event for a person, "" if it is not worth one.
func (p *printer) line(e *journal.Event) string {
	switch e.Type {
	case journal.LoopStarted:
		return fmt.Sprintf("loop %s started", e.Loop)
	case journal.LoopResumed:
		if n := len(e.Tasks); n > 0 {
			return fmt.Sprintf("loop %s goes on, %s tried again", e.Loop, terminal.Count(n, "blocked task"))
		}
		return fmt.Sprintf("loop %s goes on", e.Loop)
	case journal.WaveStarted:
		return p.waveLine(e)
	case journal.AttemptStarted:
		return p.attemptLine(e)
	case journal.AttemptFinished:
		return p.failedLine(e)
	case journal.SpecRefined:
		return p.reviewLine(e)
	case journal.TaskDone:
		return fmt.Sprintf("  %s %s%s", taskName(e), p.paint.In(terminal.Green, "done"), p.since(e))
	case journal.TaskBlocked:
		line := fmt.Sprintf("  %s %s after %s: %s", taskName(e), p.paint.In(terminal.Red, "blocked"), terminal.Count(e.Attempt, "attempt"), terminal.Clean(e.Reason))
		if e.Message != "" {
			line += "\n  restored: " + terminal.Clean(e.Message)
		}
		return line
	case journal.TaskHeld:
		return fmt.Sprintf("  %s %s: %s", taskName(e), p.paint.In(terminal.Yellow, "held"), terminal.Clean(e.Reason))
	case journal.WaveCommitted:
		return fmt.Sprintf("wave %d committed %s%s", e.Wave, p.paint.In(terminal.Bold, report.Short(e.Commit)), files(e.Of))
	case journal.LimitWaiting:
		return p.waitLine(e)
	case journal.Warning:
		return fmt.Sprintf("%s %s", p.paint.In(terminal.Yellow, "warning:"), warned(e))
	case journal.IterationStarted:
		return turnStarted(e)
	case journal.IterationFinished:
		return p.turnFinished(e)
	case journal.GateSpoke:
		return gateLines(e)
	case journal.BreakerOpened:
		return p.paint.In(terminal.Red, "breaker opened:") + " " + terminal.Clean(e.Reason)
	case journal.VerifyStarted, journal.VerifyFinished:
		return baselineLine(e)
	case journal.TaskStarted, journal.AgentFinished, journal.LoopPaused, journal.LoopFinished:
	}
	return ""
}

// baselineLine announces the verification before the first attempt; how it ended has a line of its own.
func baselineLine(e *journal.Event) string {
	switch d := e.Detail; {
	case d == nil || !d.Baseline:
		return ""
	case e.Type == journal.VerifyStarted && e.Task != "":
		return "  verify runs once more without the work on task " + terminal.Clean(e.Task)
	case e.Task != "" && d.Passed:
		return "  verify passes without it, in " + terminal.Duration(time.Duration(d.Seconds*float64(time.Second)))
	case e.Type == journal.VerifyStarted:
		return "baseline: verify runs once before the first attempt"
	case d.Passed:
		return "baseline: verify passes, in " + terminal.Duration(time.Duration(d.Seconds*float64(time.Second)))
	}
	return "" // the lines that follow say why not
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

func (p *printer) waveLine(e *journal.Event) string {
	s := fmt.Sprintf("wave %d", e.Wave)
	if p.waves > 0 {
		s += fmt.Sprintf(" of %d", p.waves)
	}
	if e.Of > 0 {
		s += ": " + terminal.Count(e.Of, "task")
	}
	return p.paint.In(terminal.Bold, s)
}

func (p *printer) attemptLine(e *journal.Event) string {
	if _, again := p.began[e.Task]; !again {
		p.began[e.Task] = e.TS
	}
	with := ""
	if d := e.Detail; d != nil && d.Backend != "" && p.usual != "" && d.Backend != p.usual {
		with = " with " + terminal.Clean(d.Backend)
	}
	if e.Attempt <= 1 {
		return fmt.Sprintf("  %s started%s", taskName(e), with)
	}
	return fmt.Sprintf("  %s attempt %d started%s", taskName(e), e.Attempt, with)
}

// failedLine tells of an attempt that is followed by another; the end of a task has its own line.
func (p *printer) failedLine(e *journal.Event) string {
	word := ""
	switch e.Verdict {
	case journal.Failed:
		word = "failed"
	case journal.Crashed:
		word = "crashed"
	case journal.TimedOut:
		word = "timed out"
	case journal.Cancelled:
		word = "was interrupted"
	default:
		return ""
	}
	line := fmt.Sprintf("  %s attempt %d %s: %s", taskName(e), e.Attempt, p.paint.In(terminal.Yellow, word), terminal.Clean(e.Reason))
	if e.Detail != nil {
		for _, what := range e.Detail.Denied {
			line += "\n    the sandbox refused " + terminal.Clean(what)
		}
	}
	return line
}

// reviewLine shows the whole advice: it becomes part of the next spec.
func (p *printer) reviewLine(e *journal.Event) string {
	what := taskName(e) + " review, for attempt " + strconv.Itoa(e.Attempt)
	if e.Task == "" {
		what = "review of iteration " + strconv.Itoa(e.Iteration)
	}
	if e.Message == "" {
		return fmt.Sprintf("  %s: %s", what, terminal.Clean(e.Reason))
	}
	var s strings.Builder
	fmt.Fprintf(&s, "  %s:", what)
	for line := range strings.SplitSeq(strings.TrimSpace(e.Message), "\n") {
		s.WriteString("\n    " + terminal.Clean(line))
	}
	return s.String()
}

func (p *printer) waitLine(e *journal.Event) string {
	until := ""
	if e.Detail != nil && e.Detail.Until != nil {
		until = " until " + e.Detail.Until.Local().Format("2006-01-02 15:04")
	}
	who := ""
	if e.Task != "" {
		who = taskName(e) + " "
	}
	if d := e.Detail; d != nil && d.Until != nil && d.Cause != "" { // the end of the attempt was told with its reason
		return fmt.Sprintf("  %stries again in %s", who, terminal.Spell(d.Until.Sub(e.TS)))
	}
	return fmt.Sprintf("  %swaits%s: %s", who, until, terminal.Clean(e.Reason))
}

func (p *printer) since(e *journal.Event) string {
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
	return terminal.Clean(e.Task) + " " + terminal.Fit(terminal.Clean(e.Title), 60)
}
