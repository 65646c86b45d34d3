package tui

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"descartes/internal/terminal"
	"descartes/loop/journal"
)

// page is a text that takes the place of the list, and scrolls.
type page struct {
	key  string // that opens it
	what string
	of   *journal.Attempt // nil for a text about none
	raw  string
	text viewport.Model

	log      bool // it may grow, and others may follow it
	reading  bool // it is being read again
	filled   bool
	complete bool // what is read is all that it will ever have
}

// pageEdge is how many lines a page does not have for its text.
const pageEdge = 4

func newPage(what string, of *journal.Attempt, width, height int) *page {
	p := &page{what: what, of: of, text: viewport.New()}
	p.text.SetHorizontalStep(8)
	p.raw = "…"
	p.resize(width, height)
	return p
}

// title is what the page shows.
func (p *page) title() string {
	switch a := p.of; {
	case a == nil:
		return p.what
	case a.Iteration > 0:
		return fmt.Sprintf("%s of iteration %d", p.what, a.Iteration)
	case a.Number == 0:
		return fmt.Sprintf("%s of task %s", p.what, terminal.Clean(a.Task))
	default:
		return fmt.Sprintf("%s of task %s, attempt %d", p.what, terminal.Clean(a.Task), a.Number)
	}
}

func (p *page) resize(width, height int) {
	end := p.log && p.text.AtBottom()
	p.text.SetWidth(max(1, width-2))
	p.text.SetHeight(max(1, height-pageEdge))
	if p.set(p.raw); end {
		p.text.GotoBottom()
	}
}

// fill gives a page its text. A log that is read to its end stays there.
func (p *page) fill(msg textMsg) {
	p.reading = false
	if msg.of != p.of {
		return
	}
	text := msg.text
	if msg.err != nil {
		text = "error: " + msg.err.Error()
	}
	end := p.log && (!p.filled || p.text.AtBottom())
	p.set(terminal.CleanLines(strings.TrimRight(text, "\n")))
	if end {
		p.text.GotoBottom()
	}
	p.filled = true
}

func (p *page) set(text string) {
	if p.raw = text; strings.TrimSpace(text) == "" {
		text = "nothing yet"
	}
	lines := strings.Split(text, "\n")
	switch {
	case p.what == "diff": // its lines are not broken: the arrow keys move it sideways
		for i, l := range lines {
			lines[i] = paintDiff(l)
		}
	case p.log:
		for i, l := range lines {
			lines[i] = paintLog(l)
		}
	default:
		lines = strings.Split(ansi.Wrap(text, p.text.Width(), ""), "\n")
	}
	p.text.SetContentLines(lines)
}

// paintDiff colours a line of a unified diff.
func paintDiff(line string) string {
	for _, s := range []struct {
		begin string
		paint func(...string) string
	}{{"diff ", bold.Render}, {"+++ ", bold.Render}, {"--- ", bold.Render}, {"@@", accent.Render}, {"+", green.Render},
		{"-", red.Render}} {
		if strings.HasPrefix(line, s.begin) {
			return s.paint(line)
		}
	}
	return line
}

// paintLog colours a line of a rendered log: what the agent does stands out, what it read and thought steps back.
func paintLog(line string) string {
	switch trimmed := strings.TrimLeft(line, " "); {
	case strings.HasPrefix(trimmed, "• "):
		return accent.Render(line)
	case strings.HasPrefix(trimmed, "$ "):
		return bold.Render(line)
	case strings.HasPrefix(trimmed, "– "), strings.HasPrefix(trimmed, "… "), strings.HasPrefix(line, "  "):
		return faint.Render(line)
	}
	return line
}

// turn is a key over a page.
func (m *model) turn(k tea.KeyPressMsg) tea.Cmd {
	p := m.page
	switch key := k.String(); key {
	case "q", "esc", "?":
		m.page = nil
		return nil
	case "home", "g":
		p.text.GotoTop()
		return nil
	case "end", "G":
		p.text.GotoBottom()
		return nil
	case "l", "s", "d":
		if p.of != nil {
			return m.open(key, p.of)
		}
		return nil
	case "[", "]":
		if a := m.beside(p.of, map[string]int{"[": -1, "]": 1}[key]); a != nil {
			return m.open(p.key, a)
		}
		return nil
	}
	var cmd tea.Cmd
	p.text, cmd = p.text.Update(k)
	return cmd
}
