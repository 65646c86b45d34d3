package tui

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/view"
)

// heading is what stands over the rows of a stand.
func (m *model) heading(in view.Stand, n int) string {
	switch {
	case in == past:
		return "Iteration History"
	case m.loop.Prompt():
		return in.Heading()
	}
	return fmt.Sprintf("%s: %d", in.Heading(), n)
}

// high is how many lines a row takes.
func (r *row) high(narrow bool) int {
	switch r.in {
	case view.Running, view.Asks, view.Blocked, view.Limited:
		if narrow {
			return 3
		}
		return 2
	}
	return 1
}

// title is the name of the chosen row in as many lines as it needs, three at most, if the screen is narrow: the others' are cut.
func (m *model) title(r *row) []string {
	if !m.narrow() || r.in == past {
		return []string{m.name(r)}
	}
	lines := strings.Split(ansi.Wrap(m.name(r), max(8, m.width-6), ""), "\n")
	return lines[:min(len(lines), 3)]
}

// list draws the rows that fit in so many lines around the chosen one.
func (m *model) list(room int) []string {
	rows := m.loop.rows
	if room <= 0 {
		return nil
	}
	if len(rows) == 0 {
		return []string{faint.Render(" nothing has happened yet")}
	}
	m.at = max(0, min(m.at, len(rows)-1))
	counts := map[view.Stand]int{}
	for i := range rows {
		counts[rows[i].in]++
	}
	var all []string
	begin, end := 0, 0 // of the chosen row
	for i := range rows {
		r := &rows[i]
		if i == m.at {
			begin = len(all)
		}
		if i == 0 || r.in != rows[i-1].in {
			if i > 0 && !m.low() {
				all = append(all, "")
			}
			style := lipgloss.NewStyle()
			if r.in == view.Asks || r.in == view.Blocked {
				style = styleOf(r.in.Colour())
			}
			all = append(all, " "+style.Bold(true).Render(m.heading(r.in, counts[r.in])))
			if r.in == past && !m.narrow() {
				all = append(all, faint.Render(m.columns("   ", "#", "Duration", "Exit Code", "Decision", "Preview")))
			}
		}
		if i > m.at+m.height || i < m.at-m.height { // not on the screen: only its height counts
			all = append(all, make([]string, r.high(m.narrow()))...)
		} else {
			all = append(all, m.draw(r, i == m.at)...)
		}
		if i == m.at {
			end = len(all)
		}
	}
	shown := room
	if end < len(all) && room > 3 { // the last line says how many more there are
		shown--
	}
	m.top = min(m.top, begin)
	if end > m.top+shown {
		m.top = min(end-shown, begin)
	}
	m.top = max(0, min(m.top, len(all)-room))
	if more := len(all) - m.top - shown; more > 1 && shown < room {
		return append(all[m.top:m.top+shown:m.top+shown], faint.Render(fmt.Sprintf(" ↓ %d more lines", more)))
	}
	return all[m.top:min(len(all), m.top+room)]
}

// draw is a row in as many lines as it is high.
func (m *model) draw(r *row, chosen bool) []string {
	style, narrow, cursor := styleOf(r.in.Colour()), m.narrow(), " "
	if chosen {
		cursor = accent.Render("▸")
	}
	if r.in == past {
		return []string{cursor + m.iteration(r.attempt)}
	}
	if r.in == view.Running {
		style = accent
	}
	names := []string{m.name(r)}
	if chosen {
		names = m.title(r)
	}
	for i, name := range names {
		if chosen {
			names[i] = bold.Render(name)
		} else if r.in == view.Done || r.in == view.Waiting || r.in == view.Held {
			names[i] = faint.Render(name)
		}
	}
	left := cursor + style.Render(r.in.Sign()) + " " + names[0]
	right, below := m.about(r)
	if r.in == view.Running {
		style = faint
	}
	if !narrow {
		out := []string{sides(left, faint.Render(right)+" ", m.width)}
		if r.high(narrow) > 1 {
			out = append(out, m.under(below, style))
		}
		return out
	}
	out := []string{ansi.Truncate(left, m.width, "…")}
	for _, more := range names[1:] {
		out = append(out, "     "+more)
	}
	if r.high(true) > 1 {
		out = append(out, m.under(right, faint), m.under(below, style))
	}
	return out
}

// name is a row's task with its title, or its iteration.
func (m *model) name(r *row) string {
	switch {
	case r.limit != nil && len(r.limit.Tasks) > 1:
		return "tasks " + terminal.Clean(terminal.Few(r.limit.Tasks, 8))
	case r.limit != nil && r.task == nil:
		return terminal.Clean(strings.TrimSpace(r.limit.Backend + " waits"))
	case r.task == nil:
		return strings.TrimSpace(fmt.Sprintf("iteration %d  %s", r.attempt.Iteration, terminal.Clean(r.attempt.Title)))
	}
	id := terminal.Clean(r.task.ID.ID)
	return id + strings.Repeat(" ", max(0, m.loop.ids-terminal.Width(id))) + "  " + terminal.Clean(r.task.Title)
}

func (m *model) under(text string, style lipgloss.Style) string {
	return "     " + style.Render(ansi.Truncate(text, max(4, m.width-6), "…"))
}

// about is what stands at the right of a row, and below it.
func (m *model) about(r *row) (right, below string) {
	switch r.in {
	case view.Running:
		return m.doing(r.attempt), terminal.Clean(m.actions[r.attempt.Key])
	case view.Limited:
		if !r.limit.Until.IsZero() {
			right = "until " + r.limit.Until.In(m.opt.Now().Location()).Format("15:04") + ", " + terminal.Spell(max(0, r.limit.Until.Sub(m.opt.Now())))
		}
		return strings.TrimPrefix(right+" · "+terminal.Clean(r.limit.Backend), " · "), terminal.Clean(r.limit.Reason)
	case view.Asks, view.Blocked:
		if b := r.task.Blocked; b != nil {
			right = terminal.Count(b.Attempts, "attempt")
		}
	case view.Done:
		return m.came(r), ""
	}
	why := terminal.Clean(strings.Join(strings.Fields(r.task.Why), " "))
	if r.high(false) > 1 {
		return right, why
	}
	return why, ""
}

// came is what a task that is done took.
func (m *model) came(r *row) string {
	var parts []string
	if a := r.attempt; a != nil && a.Ended.After(a.Started) {
		if a.Number > 1 {
			parts = append(parts, fmt.Sprintf("attempt %d", a.Number))
		}
		parts = append(parts, terminal.Duration(a.Ended.Sub(a.Started)))
	}
	if r.task.Grade == journal.Accepted {
		parts = append(parts, "accepted")
	}
	if r.task.Price != "" {
		parts = append(parts, r.task.Price)
	}
	return strings.Join(parts, " · ")
}

// iteration is a line of a prompt loop's history.
func (m *model) iteration(a *view.Attempt) string {
	code, exit, preview := 0, "-", a.Reason
	if d := a.Result; d != nil {
		code, exit = d.Code, fmt.Sprint(d.Code)
		if d.Words != "" && !a.Verdict.Unjudged() {
			preview = d.Words
		}
	}
	preview = terminal.Clean(strings.Join(strings.Fields(preview), " "))
	number, took := fmt.Sprint(a.Iteration), "-"
	if a.Number > 1 {
		number += fmt.Sprintf(".%d", a.Number)
	}
	if a.Over() {
		took = a.Took()
	}
	style := lipgloss.NewStyle()
	if code != 0 || a.Verdict.Unjudged() || !a.Over() {
		style = yellow
	}
	text := m.columns("  ", number, took, exit, terminal.Clean(a.Decided()), preview)
	if m.narrow() {
		if code != 0 {
			preview = fmt.Sprintf("exit %d: %s", code, preview)
		}
		text = fmt.Sprintf("  %-4s %-6s %s", number, took, preview)
	}
	return style.Render(ansi.Truncate(text, max(4, m.width-2), "…"))
}

// columns are those of the history; there is room for the decisions on a wide screen.
func (m *model) columns(margin, number, took, code, decision, preview string) string {
	text := fmt.Sprintf("%s%-5s %-10s %-10s ", margin, number, took, code)
	if m.width >= 72 {
		text += fmt.Sprintf("%-12s ", decision)
	}
	return text + preview
}
