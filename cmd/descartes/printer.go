package main

import (
	"fmt"
	"io"
	"os"

	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop/journal"
)

// printer shows a run's events: a line per step for a person, the journal's own lines for a program.
type printer struct {
	text   *liveWriter // people's text
	lines  *liveWriter // events as JSON; nil if nobody wants them
	paint  terminal.Paint
	box    bool // there is room for the wave box
	live   bool // a terminal on which a line can be rewritten
	events *report.Events
	count  *countdown // of the wait under way
}

// newPrinter prints for people on stdout, or, with events there, on stderr.
func newPrinter(stdout, stderr io.Writer, events, ci bool) *printer {
	p := &printer{}
	people := stdout
	if events {
		p.lines, people = newLiveWriter(stdout), stderr
	}
	p.text = newLiveWriter(people)
	p.box = terminal.HasRoom(people) && !ci
	p.live = terminal.IsTerminal(people) && !ci && os.Getenv("TERM") != "dumb"
	p.paint = terminal.Colours(terminal.IsTerminal(people) && !ci)
	p.events = report.NewEvents(p.paint)
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
	if line := p.events.Line(&e); line != "" {
		p.say("%s", line)
	}
	if e.Type == journal.LimitWaiting && e.Detail != nil && e.Detail.Until != nil {
		p.count = startCountdown(p, &e, p.live)
	}
}
