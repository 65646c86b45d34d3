package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"descartes/internal/redact"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/view/print"
)

// printer shows a run's events: a line per step for people, the journal's own lines for programs.
type printer struct {
	text   *liveWriter // people's text
	lines  *liveWriter // events as JSON; nil if nobody wants them
	paint  terminal.Paint
	box    bool // there is room for the wave box
	width  int  // of a line
	times  bool // what happens is said with its time
	events *print.Events
	view   *runView      // that may have the terminal; nil where there is none
	cut    chan struct{} // closed where a run is to end at once: nobody waits for a reader any more
}

// newPrinter prints for people on stdout, or on stderr if events go to stdout.
func newPrinter(stdout, stderr io.Writer, events, ci bool) *printer {
	p := &printer{cut: make(chan struct{})}
	people := stdout
	if events {
		p.lines, people = p.writer(stdout), stderr
	}
	p.text = p.writer(people)
	p.width, p.times = lineWidth(people), true
	p.box = terminal.HasRoom(people) && !ci
	p.paint = terminal.Colours(terminal.IsTerminal(people) && !ci)
	p.events = print.NewEvents(p.paint)
	return p
}

// close flushes everything.
func (p *printer) close() {
	p.text.Flush()
	if p.lines != nil {
		p.lines.Flush()
	}
}

// lineWidth is the number of columns: a terminal's, else COLUMNS, else 80.
func lineWidth(w io.Writer) int {
	if n := terminal.Columns(w); n > 0 {
		return n
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 80
}

// say shows a line, in the view if there is one.
func (p *printer) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.text.redact != nil {
		text = p.text.redact.Text(text)
	}
	p.view.say(text)
	p.put("", text)
}

// tell shows a text of whole lines.
func (p *printer) tell(text string) { p.put("", strings.TrimSuffix(text, "\n")) }

// put shows lines after a margin, broken at words if they are too long. It masks secrets first.
func (p *printer) put(margin, text string) {
	if p.text.redact != nil {
		text = p.text.redact.Text(text)
	}
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		for _, part := range broken(line, p.width-len(margin)) {
			b.WriteString(strings.TrimRight(margin+part, " ") + "\n")
			margin = strings.Repeat(" ", len(margin))
		}
	}
	fmt.Fprint(p.text, b.String())
}

// broken breaks a line at words. Commands to type stay whole, each on its own line.
func broken(line string, width int) []string {
	if terminal.Width(line) <= width {
		return []string{line}
	}
	if label, _, _ := strings.Cut(line, ": "); label == "next" || label == "then" || label == "or" {
		return []string{line}
	}
	if at := strings.LastIndex(line, ": git "); at >= 0 {
		return append(terminal.Hang(line[:at+1], width, 2), "  "+line[at+2:])
	}
	return terminal.Hang(line, width, 2)
}

func (p *printer) warn(message string) {
	p.say("%s %s", p.paint.In(terminal.Yellow, "warning:"), terminal.Clean(message))
}

// margin is the time at which something happened, in front of its line.
func (p *printer) margin(at time.Time) string {
	if !p.times {
		return ""
	}
	return at.Local().Format("15:04:05 ")
}

// happened shows an event's line with its time.
func (p *printer) happened(e *journal.Event, line string) {
	margin := p.margin(e.TS)
	if e.Type == journal.IterationStarted { // its line is a marker for programs
		margin = ""
	}
	p.put(margin, line)
}

// observe gets every event.
func (p *printer) observe(e journal.Event) {
	if p.lines != nil {
		if b, err := e.Line(); err == nil {
			_, _ = p.lines.Write(b) // a liveWriter never fails
		}
	}
	if line := p.events.Line(&e); line != "" {
		p.happened(&e, line)
	}
}

// liveWriter is what a run prints to. It shows no secret, and the run continues if nobody reads any more.
type liveWriter struct {
	mu     sync.Mutex
	w      *terminal.Screen
	term   *terminal.Screen // w, if it is a terminal
	redact *redact.Redactor
	kept   [][]byte // what was written since a view has the terminal, the last of it; nil: no view has it
}

// keptLines is how much of it a person sees who leaves the view.
const keptLines = 20

func (p *printer) writer(w io.Writer) *liveWriter {
	l := &liveWriter{w: &terminal.Screen{W: w, Until: p.cut}}
	if terminal.IsTerminal(w) {
		l.w.Until, l.term = nil, l.w
	}
	return l
}

// Write takes in whole lines of text. It never fails.
func (l *liveWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := p
	if l.redact != nil {
		b = l.redact.Bytes(bytes.Clone(p))
	}
	if l.kept != nil {
		l.kept = append(l.kept[max(0, len(l.kept)-keptLines+1):], bytes.Clone(b))
		return len(p), nil
	}
	_, err := l.w.Write(b)
	return len(p), err
}

// hold keeps text back while a view has the terminal.
func (l *liveWriter) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = [][]byte{}
}

// release writes again and, if wanted, first shows the last of what was kept back.
func (l *liveWriter) release(shown bool) {
	l.mu.Lock()
	kept := l.kept
	l.kept = nil
	for _, b := range kept {
		if shown {
			_, _ = l.w.Write(b) // a screen never fails
		}
	}
	l.mu.Unlock()
}

// Flush waits for everything to be shown.
func (l *liveWriter) Flush() { l.w.Wait() }
