package tui

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
)

// The colours are the terminal's own sixteen, so that they suit its background; what is drawn says the same without them.
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
		return m.fill([]string{"", " " + cmp.Or(terminal.Clean(m.trouble), "waiting for the run to start …")}, nil, foot)
	}
	if m.page != nil && m.entry == nil && m.choice == nil && len(m.asked) == 0 {
		head := []string{m.sides(" "+bold.Render(m.page.title()), faint.Render(fmt.Sprintf("%3.0f%% ", 100*m.page.text.ScrollPercent()))), ""}
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
	recent := m.recent(min(6, room-len(list)))
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
func (m *model) sides(left, right string) string { return sides(left, right, m.width) }

func sides(left, right string, width int) string {
	room := width - ansi.StringWidth(right)
	if right == "" || room < 8 {
		return ansi.Truncate(left, width, "…")
	}
	left = ansi.Truncate(left, room-1, "…")
	return left + strings.Repeat(" ", room-ansi.StringWidth(left)) + right
}

func (m *model) low() bool    { return m.height < 18 }
func (m *model) narrow() bool { return m.width < 60 }

// head says which run it is, how it stands, and what waits for whom.
func (m *model) head() []string {
	a, now := m.loop, m.opt.Now()
	state := styleOf(a.Stand.Colour()).Bold(true).Render(terminal.Clean(a.Word))
	if a.Stand == view.Running {
		state = green.Bold(true).Render(terminal.Clean(a.Word))
	}
	if !a.begun.IsZero() {
		end := now
		if !a.ended.IsZero() {
			end = a.ended
		} else if !a.Run.Live {
			end = a.LastActivity
		}
		state += faint.Render(" " + clock(end.Sub(a.begun)))
	}
	var out, said []string
	if title := " " + bold.Render(a.title()); m.narrow() {
		out = append(out, ansi.Truncate(title, m.width, "…"), " "+ansi.Truncate(state, m.width-1, "…"))
	} else {
		out = append(out, m.sides(title, state+" "))
	}
	for _, part := range m.facts() { // side by side, in as many lines as they need
		if n := len(out) - 1; n > 0 && (!m.narrow() || n > 1) && ansi.StringWidth(out[n])+3+ansi.StringWidth(part) <= m.width {
			out[n] += faint.Render(" · ") + part
		} else {
			out = append(out, " "+part)
		}
	}
	if text := m.pending(); text != "" {
		for line := range strings.SplitSeq(ansi.Wordwrap(text, max(1, m.width-2), ""), "\n") {
			said = append(said, " "+yellow.Render(line))
		}
	}
	if m.trouble != "" {
		said = append(said, " "+red.Render(terminal.Clean(m.trouble)))
	}
	if m.low() { // the list has at least half of the screen
		out = out[:min(len(out), max(1, m.height/2-len(said)))]
		if out = append(out, said...); m.height >= 14 {
			out = append(out, "")
		}
		return out
	}
	return append(append(append(out, m.bars()...), said...), "")
}

// pending is what is asked of the run, why it ended, or what it does while no attempt is under way.
func (m *model) pending() string {
	a := m.loop
	switch since := a.Run.History.Baseline; {
	case a.over():
		return terminal.Clean(a.Run.Outcome.Message)
	case m.stops > 1:
		return "interrupted: the agent is ended, the state is saved"
	case m.stops == 1:
		return "interrupted: ends after the running " + m.unit() + "; Ctrl-C again ends it now"
	case a.Run.Asked.Text() != "":
		return a.Run.Asked.Text()
	case !since.IsZero():
		return "baseline: verify runs on the untouched tree, " + clock(m.opt.Now().Sub(since))
	}
	return ""
}

func (a *account) title() string {
	switch s := a.Run.State; {
	case !a.Prompt():
		return terminal.Clean(a.Name())
	case s.Kind != store.KindPrompt:
		return terminal.Clean(s.Kind)
	default:
		return terminal.Clean(firstLine(s.Config.Prompt))
	}
}

// firstLine is the first line of a prompt that is no heading, or its first one.
func firstLine(prompt string) string {
	lines := strings.Split(strings.TrimSpace(prompt), "\n")
	for _, l := range lines {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
			return l
		}
	}
	return strings.TrimLeft(lines[0], "# ")
}

// facts are the run in numbers, what waits for a person first, and when it will be over.
func (m *model) facts() (parts []string) {
	a, c, now := m.loop, m.loop.Tasks, m.opt.Now()
	count := func(n int, style lipgloss.Style, word string) {
		if n > 0 {
			parts = append(parts, style.Render(fmt.Sprintf("%d %s", n, word)))
		}
	}
	if n := len(a.Questions); n > 0 {
		parts = append(parts, yellow.Bold(true).Render(terminal.Count(n, "question")))
	}
	if a.Prompt() {
		parts = append(parts, fmt.Sprintf("iteration %d of %d", a.Iteration, a.MaxIteration))
	} else {
		count(c.Blocked, red, "blocked")
		count(len(a.Running), bold, "running")
		parts = append(parts, fmt.Sprintf("%d/%d done", c.Done, c.Total))
		count(c.Held, yellow, "held")
	}
	if a.Board == nil && !a.Prompt() {
		parts = append(parts, "the task list cannot be read")
	}
	if a.Run.State.Cost != nil && a.Cost.USD != nil {
		parts = append(parts, a.Run.State.Cost.Dollars())
	}
	if a.over() {
		return parts
	}
	if end := a.Run.State.Config.Deadline; end != nil {
		parts = append(parts, "no attempt after "+end.In(now.Location()).Format("15:04"))
	}
	left := ""
	if d, late, ok := a.Left(now); late {
		left = "longer than usual"
	} else if ok {
		about := "about "
		switch {
		case a.Prompt():
			about = "at most "
		case roughly(d) == aFew:
			about = ""
		}
		left = about + roughly(d) + " left, until " + now.Add(d).Format("15:04")
	} else if !a.Prompt() {
		left = "no estimate before a task is done"
	}
	if left != "" {
		parts = append(parts, faint.Render(left))
	}
	return parts
}

// clock is a time that runs.
func clock(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	h, m, s := int(d/time.Hour), int(d/time.Minute)%60, int(d/time.Second)%60
	switch {
	case h > 0:
		return fmt.Sprintf("%dh%02dm", h, m)
	case m > 0:
		return fmt.Sprintf("%dm%02ds", m, s)
	}
	return fmt.Sprintf("%ds", s)
}

const aFew = "a few seconds"

// roughly is how long an estimate is: no more exact than it can be.
func roughly(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return aFew
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", d.Round(10*time.Second)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d.Round(time.Minute)/time.Minute)
	}
	return terminal.Spell(d.Round(5 * time.Minute))
}

// bars are the waves in one line, each as wide as any other, or how far a prompt loop has come.
func (m *model) bars() []string {
	a := m.loop
	if a.Prompt() {
		n, of := a.Iteration, max(1, a.MaxIteration)
		if !a.over() {
			n = max(0, n-1) // the last one runs
		}
		if a.Run.State.Completed { // nothing is left, whatever the limit was
			n, of = 1, 1
		}
		return []string{" " + bar(n, of, max(6, min(48, m.width-12)), bold) + fmt.Sprintf(" %d%%", (100*min(n, of)+of/2)/of)}
	}
	now, width := 0, m.width-16
	if len(a.Waves) == 0 {
		return nil
	}
	each := max(1, min(16, (width+1)/len(a.Waves)-1))
	line := ""
	for i, w := range a.Waves {
		b := w.Bar()
		if now == 0 && b.Done < b.All {
			now = i + 1
		}
		if line += bar(b.Done, b.All, each, styleOf(b.Colour())); each > 2 {
			line += " "
		}
	}
	where := fmt.Sprintf(" wave %d of %d ", now, len(a.Waves))
	if now == 0 {
		where = fmt.Sprintf(" all %s ", terminal.Count(len(a.Waves), "wave"))
	}
	return []string{where + ansi.Truncate(line, max(1, m.width-len(where)), "…")}
}

func bar(n, of, width int, style lipgloss.Style) string {
	full := width
	if of > 0 {
		full = width * min(n, of) / of
	}
	return style.Render(strings.Repeat("█", full)) + faint.Render(strings.Repeat("░", width-full))
}

// recent is what happened last.
func (m *model) recent(most int) []string {
	list := m.loop.said
	if len(list) == 0 || most < 3 {
		return nil
	}
	list = list[max(0, len(list)-most+2):]
	out := []string{"", m.rule("Recently")}
	for _, s := range list {
		out = append(out, faint.Render(" "+s.at.In(m.opt.Now().Location()).Format("15:04:05")+"  "+ansi.Truncate(strings.TrimSpace(s.text), max(4, m.width-13), "…")))
	}
	return out
}

// rule is a line with a word in it.
func (m *model) rule(word string) string {
	return faint.Render("─ " + word + " " + strings.Repeat("─", max(0, m.width-ansi.StringWidth(word)-3)))
}

// foot is the last line: what to read, and which keys there are.
func (m *model) foot() []string {
	where := terminal.Clean(filepath.Base(m.opt.Root))
	if m.loop != nil {
		where += " · " + m.loop.ID
	}
	above := m.rule(where)
	switch {
	case m.notice != "":
		style := accent
		if strings.HasPrefix(m.notice, "error:") {
			style = red
		}
		above = " " + style.Render(ansi.Truncate(m.notice, max(4, m.width-2), "…"))
	case m.low():
		return []string{m.keys()}
	}
	return []string{above, m.keys()}
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
		if m.loop != nil { // what led to the question
			for _, s := range m.loop.said[max(0, len(m.loop.said)-max(0, m.height/2-6)):] {
				out = append(out, faint.Render("  "+strings.TrimSpace(s.text)))
			}
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

// doing is what an attempt does, and for how long.
func (m *model) doing(a *view.Attempt) string {
	parts := []string{a.Which()}
	if a.Iteration > 0 && a.Number == 1 {
		parts = nil
	}
	if place := a.Place(); place != "" && m.width >= 100 {
		parts = append(parts, terminal.Clean(place))
	}
	parts = append(parts, a.Doing()+" "+clock(m.opt.Now().Sub(a.Since)))
	if a.Cost.USD != nil {
		parts = append(parts, journal.Dollars(*a.Cost.USD))
	}
	return strings.Join(parts, " · ")
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
