package tui

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"descartes/internal/terminal"
	"descartes/view"
)

// The colours are the terminal's own sixteen, so that they suit its background; what is drawn says the same without
// them.
var (
	bold   = lipgloss.NewStyle().Bold(true)
	faint  = lipgloss.NewStyle().Faint(true)
	green  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	yellow = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	red    = lipgloss.NewStyle().Foreground(lipgloss.Red)
	accent = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
)

// styleOf is the style of a colour's code.
func styleOf(colour string) lipgloss.Style {
	switch colour {
	case terminal.Green:
		return green
	case terminal.Yellow:
		return yellow
	case terminal.Red:
		return red
	case terminal.Faint:
		return faint
	}
	return bold
}

// View draws the screen.
func (m *model) View() tea.View {
	lines := m.lines()
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "")
	}
	text := strings.Join(lines[:min(len(lines), m.height)], "\n")
	if !m.unicode {
		text = ascii(text)
	}
	v := tea.NewView(text)
	v.AltScreen = true
	return v
}

// lines are those of the screen: the head, what is in the middle, and the foot at its end.
func (m *model) lines() []string {
	foot := m.foot()
	if m.loop == nil {
		return m.fill([]string{"", " " + cmp.Or(terminal.Clean(m.trouble), "waiting for the run to start …")}, nil,
			foot)
	}
	if m.page != nil && m.entry == nil && m.choice == nil && len(m.asked) == 0 {
		head := []string{m.sides(" "+bold.Render(m.page.title()),
			faint.Render(fmt.Sprintf("%3.0f%% ", 100*m.page.text.ScrollPercent()))), ""}
		for line := range strings.SplitSeq(m.page.text.View(), "\n") {
			head = append(head, " "+line)
		}
		return m.fill(head, nil, foot)
	}
	head := m.head()
	room := m.height - len(head) - len(foot)
	if box := m.box(); box != nil {
		return m.fill(head, box, foot)
	}
	list := m.list(room)
	recent := m.recent(min(max(6, m.height/4), room-len(list)))
	for len(list) < room-len(recent) {
		list = append(list, "")
	}
	return m.fill(append(head, list...), recent, foot)
}

// fill puts parts one below the other, and the foot on the last lines.
func (m *model) fill(head, middle, foot []string) []string {
	out := append(append([]string{}, head...), middle...)
	if over := len(out) - max(0, m.height-len(foot)); over > 0 {
		out = out[:len(out)-over]
	}
	for len(out)+len(foot) < m.height {
		out = append(out, "")
	}
	return append(out, foot...)
}

// sides puts one text at the left and one at the right; the left one gives way.
func (m *model) sides(left, right string) string {
	room := m.width - ansi.StringWidth(right)
	if right == "" || room < 8 {
		return ansi.Truncate(left, m.width, "…")
	}
	left = ansi.Truncate(left, room-1, "…")
	return left + strings.Repeat(" ", room-ansi.StringWidth(left)) + right
}

// head says which run it is, how it stands, and what waits for whom.
func (m *model) head() []string {
	l, now := m.loop, m.opt.Now()
	state := styleOf(l.Stand.Colour())
	if l.Stand == view.Running {
		state = green
	}
	out := []string{m.sides(" "+bold.Render(terminal.Clean(l.Title())),
		state.Bold(true).Render(terminal.Clean(l.Word))+faint.Render(" "+terminal.Spell(l.Elapsed(now)))+" ")}
	var parts []string
	for _, n := range l.Numbers() {
		style := styleOf(n.Stand.Colour())
		if n.Stand == view.Done {
			style = lipgloss.NewStyle()
		}
		parts = append(parts, style.Render(n.Text))
	}
	if c := l.Run.State.Cost; c != nil && c.USD != nil {
		parts = append(parts, c.Dollars())
	}
	parts = append(parts, l.Times(now)...)
	line := ""
	for i, part := range append(parts, "") { // side by side, in as many lines as they need and there is room for
		switch {
		case i == len(parts) || line != "" && ansi.StringWidth(line)+3+ansi.StringWidth(part) > m.width:
			if out = append(out, line); len(out) > max(1, m.height/6) {
				part = ""
			}
			line = " " + part
		case line == "":
			line = " " + part
		default:
			line += faint.Render(" · ") + part
		}
		if line == " " {
			break
		}
	}
	out = append(out, m.bars()...)
	if text := m.pending(); text != "" {
		for line := range strings.SplitSeq(ansi.Wordwrap(text, max(1, m.width-2), ""), "\n") {
			out = append(out, " "+yellow.Render(line))
		}
	}
	if m.trouble != "" {
		out = append(out, " "+red.Render(terminal.Clean(m.trouble)))
	}
	return append(out, "")
}

// pending is what is asked of the run, why it ended, or what it does while no attempt is under way.
func (m *model) pending() string {
	switch l := m.loop; {
	case l.Over():
		return terminal.Clean(l.Run.Outcome.Message)
	case m.stops > 1:
		return "interrupted: the agent is ended, the state is saved"
	case m.stops == 1:
		return "interrupted: ends after the running " + m.unit() + "; Ctrl-C again ends it now"
	default:
		return l.Meanwhile()
	}
}

// bars are the waves in one line, each as wide as any other, or how far a prompt loop has come.
func (m *model) bars() []string {
	l := m.loop
	if l.Prompt() {
		share := l.Share()
		return []string{" " + bar(share, max(6, min(48, m.width-12)), bold) + fmt.Sprintf(" %.0f%%", 100*share)}
	}
	if len(l.Waves) == 0 {
		return nil
	}
	each := max(1, min(16, (m.width-15)/len(l.Waves)-1))
	line := ""
	for _, w := range l.Waves {
		b := w.Bar()
		if line += bar(b.Share(), each, styleOf(b.Colour())); each > 2 {
			line += " "
		}
	}
	where := " " + l.WaveWords() + " "
	return []string{where + ansi.Truncate(line, max(1, m.width-len(where)), "…")}
}

func bar(share float64, width int, style lipgloss.Style) string {
	full := int(share * float64(width))
	return style.Render(strings.Repeat("█", full)) + faint.Render(strings.Repeat("░", width-full))
}

// recent is what happened last.
func (m *model) recent(most int) []string {
	if len(m.said) == 0 || most < 3 {
		return nil
	}
	out := []string{"", m.rule("Recently")}
	for _, s := range m.said[max(0, len(m.said)-most+2):] {
		out = append(out, faint.Render(" "+s.at.In(m.opt.Now().Location()).Format("15:04:05")+"  "+
			ansi.Truncate(strings.TrimSpace(s.text), max(4, m.width-13), "…")))
	}
	return out
}

// rule is a line with a word in it.
func (m *model) rule(word string) string {
	return faint.Render("─ " + word + " " + strings.Repeat("─", max(0, m.width-ansi.StringWidth(word)-3)))
}

// foot is the last lines: what to read, and which keys there are.
func (m *model) foot() []string {
	where := terminal.Clean(filepath.Base(m.opt.Root))
	if m.loop != nil {
		where += " · " + m.loop.ID
	}
	above := m.rule(where)
	if m.notice != "" {
		style := accent
		if strings.HasPrefix(m.notice, "error:") {
			style = red
		}
		above = " " + style.Render(ansi.Truncate(m.notice, max(4, m.width-2), "…"))
	}
	h := help.New()
	h.ShortSeparator = "  "
	h.Styles = help.Styles{ShortKey: bold, ShortDesc: faint, ShortSeparator: faint}
	keys := m.keys()
	for len(keys) > 1 && ansi.StringWidth(h.ShortHelpView(keys)) > m.width-2 { // whole ones only
		keys = keys[:len(keys)-1]
	}
	return []string{above, " " + h.ShortHelpView(keys)}
}

// keys are those that do something now, the most important first.
func (m *model) keys() (list []key.Binding) {
	add := func(words ...string) {
		for i := 0; i < len(words); i += 2 {
			list = append(list, key.NewBinding(key.WithKeys(words[i]), key.WithHelp(words[i], words[i+1])))
		}
	}
	switch {
	case m.entry != nil:
		add("Enter", "send", "Ctrl-J", "new line", "Esc", "back")
	case len(m.asked) > 0:
		add("y", "yes", "n", "no")
	case m.choice != nil:
		add("Esc", "back")
	case m.page != nil:
		if add("q", "back", "↑↓", "scroll", "g/G", "begin/end"); m.page.of != nil {
			add("l", "log", "s", m.text(), "d", "diff", "[ ]", "other "+m.unit()+"s")
		}
	default:
		for _, s := range m.shortcuts() {
			if s.short != "" && !s.off {
				add(s.name, s.short)
			}
		}
	}
	return list
}

// box is what a person is asked; nil for nothing.
func (m *model) box() []string {
	var out []string
	switch {
	case m.entry != nil:
		out = append(out, m.rule(m.entry.title))
		out = append(out, m.wrap(m.entry.about, max(2, m.height/3))...)
		out = append(out, "")
		for line := range strings.SplitSeq(m.entry.area.View(), "\n") {
			out = append(out, " "+line)
		}
	case len(m.asked) > 0:
		for _, s := range m.said[max(0, len(m.said)-max(0, m.height/2-6)):] { // what led to the question
			out = append(out, faint.Render("  "+strings.TrimSpace(s.text)))
		}
		out = append(out, m.rule("The run asks"))
		out = append(out, m.wrap(terminal.CleanLines(m.asked[0].question), max(2, m.height/2))...)
		out = append(out, "", "   "+bold.Render("y")+" yes   "+bold.Render("n")+" no")
	case m.choice != nil:
		out = append(out, m.rule(m.choice.title))
		for _, a := range m.choice.keys {
			out = append(out, "   "+bold.Render(a.keys[0])+"  "+a.text)
		}
	}
	return out
}

// wrap is a text in lines that are as wide as the screen, at most so many.
func (m *model) wrap(text string, most int) []string {
	lines := strings.Split(ansi.Wrap(text, max(4, m.width-4), ""), "\n")
	if len(lines) > most {
		lines = append(lines[:most-1], "…")
	}
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

// ascii writes a screen with the letters that every terminal has.
func ascii(text string) string {
	const from, to = "█░─–—…·•▸›✓✗●○◌↑↓│┃", "#----~**>>+x*o.^v||"
	signs := []rune(from)
	return strings.Map(func(r rune) rune {
		if r < 0x7f {
			return r
		}
		for i, sign := range signs {
			if r == sign {
				return rune(to[i])
			}
		}
		return '?'
	}, text)
}
