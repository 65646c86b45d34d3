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
		return m.fill([]string{"", " " + cmp.Or(m.trouble, "waiting for the loop to start …")}, nil, foot)
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
	var recent []string
	if room >= 12 {
		recent = m.recent(min(6, room/3))
	}
	list := m.list(room - len(recent))
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
	return sides(left, right, m.width)
}

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

// head says which loop it is and how it stands.
func (m *model) head() []string {
	a := m.loop
	word, colour := a.word(m.opt.Now().Location())
	state := styleOf(colour).Bold(true).Render(word)
	if d := a.elapsed(m.opt.Now()); d > 0 {
		state += faint.Render(" " + clock(d))
	}
	var out []string
	if title := " " + bold.Render(a.title()); m.narrow() {
		out = append(out, ansi.Truncate(title, m.width, "…"), " "+state)
	} else {
		out = append(out, m.sides(title, state+" "))
	}
	parts, left := m.facts()
	facts := m.inLines(parts)
	if n := len(facts); left != "" && n == 1 && ansi.StringWidth(facts[0])+ansi.StringWidth(left)+3 <= m.width {
		facts[0] = m.sides(facts[0], faint.Render(left)+" ")
	} else if left != "" {
		facts = append(facts, " "+faint.Render(left))
	}
	var said []string
	if text := m.pending(); text != "" {
		for line := range strings.SplitSeq(ansi.Wordwrap(text, m.width-2, ""), "\n") {
			said = append(said, " "+yellow.Render(line))
		}
	}
	if m.trouble != "" {
		said = append(said, " "+red.Render(terminal.Clean(m.trouble)))
	}
	if m.low() { // the list has at least half of the screen
		room := max(0, m.height/2-len(out)-len(said))
		facts = append(facts, m.bars()...)
		return append(append(append(out, facts[:min(len(facts), room)]...), said...), m.gap()...)
	}
	out = append(append(append(out, facts...), said...), "")
	return append(append(out, m.bars()...), "")
}

// gap is an empty line where there is room for one.
func (m *model) gap() []string {
	if m.height < 14 {
		return nil
	}
	return []string{""}
}

// pending is what is asked of the loop, and what it does where no attempt is under way.
func (m *model) pending() string {
	a := m.loop
	if !a.live || a.state.Finished != nil {
		if end := a.state.Finished; end != nil && end.Message != "" {
			return terminal.Clean(end.Message)
		}
		return ""
	}
	switch {
	case m.stops > 1:
		return "interrupted: the agent is ended, the state is saved"
	case m.stops == 1:
		return "interrupted: ends after the running " + m.unit() + "; Ctrl-C again ends it now"
	}
	if text := a.asked.Text(); text != "" {
		return text
	}
	if since := a.state.Baseline; !since.IsZero() {
		return "baseline: verify runs on the untouched tree, " + clock(m.opt.Now().Sub(since))
	}
	return ""
}

func (a *account) title() string {
	switch s := a.saved.State; {
	case a.tag():
		return "SCUD Loop: " + terminal.Clean(s.Tag)
	case s.Kind != store.KindPrompt:
		return "Iterative Loop: " + terminal.Clean(s.Kind)
	default:
		return "Iterative Loop: " + terminal.Clean(firstLine(s.Config.Prompt))
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

func (a *account) elapsed(now time.Time) time.Duration {
	switch {
	case a.begun.IsZero():
		return 0
	case !a.ended.IsZero():
		now = a.ended
	case !a.live:
		now = a.state.At
	}
	return now.Sub(a.begun)
}

// facts are the loop in numbers, and when it will be over.
func (m *model) facts() (parts []string, left string) {
	a := m.loop
	switch {
	case a.tag() && a.board != nil:
		c := a.board.Graph.Counts()
		done := fmt.Sprintf("Tasks: %d/%d completed", c.Done, c.Total)
		if m.narrow() {
			done = fmt.Sprintf("%d/%d done", c.Done, c.Total)
		}
		parts = append(parts, a.whichWave(), done)
		if c.Blocked > 0 {
			parts = append(parts, red.Render(fmt.Sprintf("%d blocked", c.Blocked)))
		}
		if c.Held > 0 {
			parts = append(parts, yellow.Render(fmt.Sprintf("%d held", c.Held)))
		}
	case a.tag():
		parts = append(parts, "the task list cannot be read")
	case m.low():
		parts = append(parts, fmt.Sprintf("iteration %d of %d", a.state.Iteration, a.saved.State.Config.MaxIterations))
	}
	if n := a.slots(); n > 1 && a.live {
		parts = append(parts, fmt.Sprintf("%d of %d slots", len(a.working()), n))
	}
	if a.state.Cost.USD != nil {
		parts = append(parts, a.state.Cost.Dollars())
	}
	if !a.live || a.state.Finished != nil {
		return parts, ""
	}
	if end := a.saved.State.Config.Deadline; end != nil {
		parts = append(parts, "no attempt after "+end.In(m.opt.Now().Location()).Format("15:04"))
	}
	if d, late, ok := a.left(m.opt.Now()); late {
		left = "longer than usual"
	} else if ok {
		about := "about "
		switch {
		case !a.tag():
			about = "at most "
		case roughly(d) == aFew:
			about = ""
		}
		left = about + roughly(d) + " left, until " + m.opt.Now().Add(d).Format("15:04")
	} else if a.tag() {
		left = "no estimate before a task is done"
	}
	return parts, left
}

// inLines puts facts side by side, in as many lines as they need.
func (m *model) inLines(parts []string) (out []string) {
	for _, p := range parts {
		if n := len(out); n > 0 && ansi.StringWidth(out[n-1])+3+ansi.StringWidth(p) <= m.width {
			out[n-1] += faint.Render(" · ") + p
		} else {
			out = append(out, " "+p)
		}
	}
	return out
}

func (a *account) whichWave() string {
	for _, w := range a.waves {
		if w.bar.Done < w.bar.All {
			return fmt.Sprintf("Wave %d of %d", cmp.Or(min(a.state.Wave, len(a.waves)), w.number), len(a.waves))
		}
	}
	return "All " + terminal.Count(len(a.waves), "wave")
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

// bars are the waves of a tag, or how far a prompt loop has come.
func (m *model) bars() []string {
	a := m.loop
	wide := max(6, min(32, m.width/4))
	if m.narrow() {
		wide = max(6, min(wide, m.width-34))
	}
	if !a.tag() {
		if m.low() {
			return nil
		}
		most := a.saved.State.Config.MaxIterations
		n := a.finished()
		part, of := n, most
		if a.saved.State.Completed { // nothing is left, whatever the limit was
			part, of = 1, 1
		}
		text := fmt.Sprintf(" Progress: %s %d%% (%d/%d iterations)", bar(part, of, wide, bold), percent(part, of), n, most)
		out := []string{text}
		if a.live && a.state.Finished == nil {
			out = append(out, fmt.Sprintf(" Current Iteration: %d", max(1, a.state.Iteration)))
		}
		return out
	}
	if a.board == nil {
		return nil
	}
	if m.low() {
		c := a.board.Graph.Counts()
		return []string{" " + bar(c.Done, c.Total, max(6, m.width-2), bold)}
	}
	label := len(fmt.Sprint(len(a.waves)))
	var out []string
	shown, before, after := a.shownWaves(max(3, m.height/3))
	if before > 0 {
		out = append(out, faint.Render(fmt.Sprintf(" (%s before)", terminal.Count(before, "wave"))))
	}
	for _, w := range shown {
		text := fmt.Sprintf(" Wave %*d: %s %s", label, w.number, bar(w.bar.Done, w.bar.All, wide, styleOf(w.bar.Colour())), w.bar.Words())
		commit := ""
		if w.commit != "" && !m.narrow() {
			commit = faint.Render(view.Short(w.commit)) + " "
		}
		out = append(out, m.sides(text, commit))
	}
	if after > 0 {
		out = append(out, faint.Render(fmt.Sprintf(" (%s after)", terminal.Count(after, "wave"))))
	}
	return out
}

// shownWaves are those around the one under way, where there are too many.
func (a *account) shownWaves(most int) (shown []wave, before, after int) {
	if len(a.waves) <= most {
		return a.waves, 0, 0
	}
	now := len(a.waves) - 1
	for i, w := range a.waves {
		if w.bar.Done < w.bar.All {
			now = i
			break
		}
	}
	most = max(1, most-2)
	first := min(max(0, now-most/3), len(a.waves)-most)
	return a.waves[first : first+most], first, len(a.waves) - first - most
}

// finished counts the iterations that came to something.
func (a *account) finished() int {
	n := 0
	for _, at := range a.state.Ended {
		if at.Iteration > 0 && !at.Decision.Failed() {
			n = max(n, at.Iteration)
		}
	}
	return n
}

func percent(n, of int) int { return (100*min(n, of) + max(1, of)/2) / max(1, of) }

func bar(n, of, width int, style lipgloss.Style) string {
	full := 0
	switch {
	case of > 0:
		full = width * min(n, of) / of
	default:
		full = width
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
	if m.notice != "" {
		style := accent
		if strings.HasPrefix(m.notice, "error:") {
			style = red
		}
		return []string{" " + style.Render(ansi.Truncate(m.notice, max(4, m.width-2), "…")), m.keys()}
	}
	if m.low() {
		return []string{m.keys()}
	}
	return []string{m.rule(m.where()), m.keys()}
}

// where says where the loop is.
func (m *model) where() string {
	if m.loop == nil {
		return filepath.Base(m.opt.Root)
	}
	return terminal.Clean(filepath.Base(m.opt.Root)) + " · " + m.loop.saved.State.ID
}

// keys are those that do something now, as many as there is room for.
func (m *model) keys() string {
	var list [][2]string
	live := m.loop != nil && m.loop.live && m.loop.state.Finished == nil
	r := m.row()
	switch {
	case m.entry != nil:
		list = [][2]string{{"Enter", "send"}, {"Ctrl-J", "new line"}, {"Esc", "back"}}
	case len(m.asked) > 0:
		list = [][2]string{{"y", "yes"}, {"n", "no"}}
	case m.choice != nil:
		list = [][2]string{{"Esc", "back"}}
	case m.page != nil:
		list = [][2]string{{"q", "back"}, {"↑↓", "scroll"}, {"g/G", "begin/end"}}
		if m.page.of != nil {
			list = append(list, [2]string{"l", "log"}, [2]string{"s", m.text()}, [2]string{"d", "diff"}, [2]string{"[ ]", "other " + m.unit() + "s"})
		}
	default:
		list = append(list, [2]string{"q", "leave"}, [2]string{"?", "help"})
		undo := store.Request("")
		if live && m.opt.TakeBack != nil {
			undo = m.loop.asked.CanUndo()
		}
		if undo != "" {
			list = append(list, [2]string{keyOf(undo), "don't " + string(undo)})
		}
		if r != nil && r.in == asks && m.opt.Answer != nil || m.loop.gateAsks() != "" && m.opt.Proceed != nil {
			list = append(list, [2]string{"a", "answer"})
		}
		if r != nil && (r.in == blocked || r.in == asks) && m.opt.Answer != nil {
			list = append(list, [2]string{"r", "retry"})
		}
		list = append(list, [2]string{"l", "log"}, [2]string{"s", m.text()}, [2]string{"d", "diff"})
		if live && m.opt.Request != nil {
			for _, r := range []store.Request{store.RequestPause, store.RequestCancel} {
				if r != undo {
					list = append(list, [2]string{keyOf(r), string(r)})
				}
			}
		}
		list = append(list, [2]string{"↑↓", "choose"})
	}
	text := ""
	for _, k := range list {
		one := " " + bold.Render(k[0]) + " " + faint.Render(k[1]) + " "
		if ansi.StringWidth(text)+ansi.StringWidth(one) > m.width {
			break
		}
		text += one
	}
	return text
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
		out = append(out, m.rule("The loop asks"))
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

// linesOf splits a text into lines.
func linesOf(text string) (out []string) {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) != "" {
			out = append(out, line)
		}
	}
	return out
}

// doing is what an attempt does, and for how long.
func (m *model) doing(a *journal.Attempt) string {
	now := m.opt.Now()
	parts := []string{}
	switch {
	case a.Iteration > 0:
		if a.Number > 1 {
			parts = append(parts, fmt.Sprintf("time %d", a.Number))
		}
	case a.Of > 0:
		parts = append(parts, fmt.Sprintf("attempt %d/%d", a.Number, a.Of))
	default:
		parts = append(parts, fmt.Sprintf("attempt %d", a.Number))
	}
	if place := a.Place(); place != "" {
		parts = append(parts, terminal.Clean(place))
	}
	parts = append(parts, string(a.Phase)+" "+clock(now.Sub(a.Since)))
	if a.Cost.USD != nil {
		parts = append(parts, journal.Dollars(*a.Cost.USD))
	}
	return strings.Join(parts, " · ")
}

// ascii writes a screen with the letters that every terminal has.
func ascii(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x7f {
			return r
		}
		switch r {
		case '█':
			return '#'
		case '░', '─', '–', '—':
			return '-'
		case '…':
			return '~'
		case '·', '•':
			return '*'
		case '▸', '›':
			return '>'
		case '✓':
			return '+'
		case '✗':
			return 'x'
		case '●':
			return '*'
		case '○':
			return 'o'
		case '◌':
			return '.'
		case '↑':
			return '^'
		case '↓':
			return 'v'
		case '│', '┃':
			return '|'
		}
		return '?'
	}, text)
}
