package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"descartes/internal/terminal"
	"descartes/view"
)

// row is a line of the list that a person can choose.
type row struct {
	in      view.Stand
	task    *view.Task    // nil for a prompt loop
	attempt *view.Attempt // the last; nil if there was none
	limit   *view.Limit   // of a wait, for all tasks that wait for the same
}

// past is where the iterations of a prompt loop stand that are over.
const past view.Stand = "past"

func (r *row) key() string {
	switch {
	case r.task != nil:
		return r.task.ID.ID
	case r.attempt != nil:
		return fmt.Sprintf("%d.%d", r.attempt.Iteration, r.attempt.Number)
	}
	return ""
}

// row is the one that is chosen; nil where there is none.
func (m *model) row() *row {
	if m.at >= len(m.rows) {
		return nil
	}
	return &m.rows[m.at]
}

// arrange orders what there is, what waits for a person first, and keeps the chosen row chosen.
func (m *model) arrange() {
	const widest = 8 // columns of ids
	l, by := m.loop, map[view.Stand][]row{}
	m.rows, m.ids = []row{}, 0
	for _, one := range l.Limits {
		by[view.Limited] = append(by[view.Limited], row{in: view.Limited, limit: one})
	}
	for _, a := range slices.Backward(l.Iterations) {
		in := past
		if a.Stand == view.Running {
			in = view.Running
		}
		by[in] = append(by[in], row{in: in, attempt: a})
	}
	for _, w := range l.Waves {
		for i := range w.Tasks {
			t := &w.Tasks[i]
			if r := (row{in: t.Stand, task: t, attempt: t.Last()}); t.Stand != view.Limited {
				by[t.Stand] = append(by[t.Stand], r)
			} else if at := slices.IndexFunc(by[t.Stand], func(r row) bool {
				return slices.Contains(r.limit.Tasks, t.ID.ID)
			}); at >= 0 {
				by[t.Stand][at].task, by[t.Stand][at].attempt = t, t.Last()
			}
			if n := terminal.Width(terminal.Clean(t.ID.ID)); n <= widest {
				m.ids = max(m.ids, n)
			}
		}
	}
	slices.SortStableFunc(by[view.Running], func(x, y row) int { return x.attempt.Started.Compare(y.attempt.Started) })
	slices.SortStableFunc(by[view.Done], func(x, y row) int { return endOf(y.attempt).Compare(endOf(x.attempt)) })
	for _, in := range append(view.Stands(), past) {
		m.rows = append(m.rows, by[in]...)
	}
	if key := m.chosen.key(); key != "" {
		if at := slices.IndexFunc(m.rows, func(r row) bool { return r.key() == key && r.in == m.chosen.in }); at >= 0 {
			m.at = at
		}
	}
	if m.at = max(0, min(m.at, len(m.rows)-1)); m.chosen.key() != "" {
		m.move(0)
	}
}

func endOf(a *view.Attempt) time.Time {
	if a == nil {
		return time.Time{}
	}
	return a.Ended
}

// heading is what stands over the rows of a stand.
func (m *model) heading(in view.Stand, n int) []string {
	style := lipgloss.NewStyle().Bold(true)
	if in == past {
		return []string{" " + style.Render("Iteration History"),
			faint.Render(columns("   ", "#", "Duration", "Exit Code", "Decision", "Preview"))}
	}
	if in == view.Asks || in == view.Blocked {
		style = styleOf(in.Colour()).Bold(true)
	}
	text := in.Heading()
	if !m.loop.Prompt() {
		text += fmt.Sprintf(": %d", n)
	}
	return []string{" " + style.Render(text)}
}

// high is how many lines a row takes.
func (m *model) high(r *row) int {
	switch r.in {
	case view.Running:
		if m.actions[r.attempt.Key] == "" {
			return 1
		}
		return 2
	case view.Asks, view.Blocked, view.Limited:
		return 2
	}
	return 1
}

// list draws the rows that fit in so many lines around the chosen one.
func (m *model) list(room int) []string {
	if room <= 0 {
		return nil
	}
	if len(m.rows) == 0 {
		return []string{faint.Render(" nothing has happened yet")}
	}
	counts := map[view.Stand]int{}
	for i := range m.rows {
		counts[m.rows[i].in]++
	}
	var all []string
	begin, end := 0, 0 // of the chosen row
	for i := range m.rows {
		r := &m.rows[i]
		if i == m.at {
			begin = len(all)
		}
		if i == 0 || r.in != m.rows[i-1].in {
			if i > 0 {
				all = append(all, "")
			}
			all = append(all, m.heading(r.in, counts[r.in])...)
		}
		own := len(all)
		if i > m.at+m.height || i < m.at-m.height { // not on the screen: only its height counts
			all = append(all, make([]string, m.high(r))...)
		} else {
			all = append(all, m.draw(r, i == m.at)...)
		}
		if i == m.at {
			if end = len(all); end-begin > room { // its heading gives way
				begin = own
			}
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
	style, cursor := styleOf(r.in.Colour()), " "
	if chosen {
		cursor = accent.Render("▸")
	}
	if r.in == past {
		return []string{cursor + m.iteration(r.attempt)}
	}
	name, below := m.name(r), style
	switch {
	case chosen:
		name = bold.Render(name)
	case r.in == view.Done || r.in == view.Waiting || r.in == view.Held:
		name = faint.Render(name)
	}
	if r.in == view.Running {
		style, below = accent, faint
	}
	left := cursor + style.Render(r.in.Sign()) + " " + name
	right, why := m.about(r)
	if m.width-ansi.StringWidth(right)-2 < min(30, ansi.StringWidth(left)) { // the name comes first
		right, why = "", strings.Trim(right+" · "+why, " ·")
	}
	out := []string{m.sides(left, faint.Render(right)+" ")}
	if m.high(r) > 1 {
		out = append(out, "     "+below.Render(ansi.Truncate(why, max(4, m.width-6), "…")))
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
	return id + strings.Repeat(" ", max(0, m.ids-terminal.Width(id))) + "  " + terminal.Clean(r.task.Title)
}

// about is what stands at the right of a row, and below it.
func (m *model) about(r *row) (right, below string) {
	now := m.opt.Now()
	switch r.in {
	case view.Running:
		return r.attempt.Now(terminal.Spell(now.Sub(r.attempt.Since)), m.width >= 100),
			terminal.Clean(m.actions[r.attempt.Key])
	case view.Limited:
		return r.limit.Left(now), terminal.Clean(r.limit.Reason)
	case view.Asks, view.Blocked:
		if b := r.task.Blocked; b != nil {
			right = terminal.Count(b.Attempt, "attempt")
		}
		return right, terminal.Clean(strings.Join(strings.Fields(r.task.Why), " "))
	case view.Done:
		return r.task.Came(), ""
	}
	return terminal.Clean(strings.Join(strings.Fields(r.task.Why), " ")), ""
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
	text := columns("  ", number, took, exit, terminal.Clean(a.Decided()),
		terminal.Clean(strings.Join(strings.Fields(preview), " ")))
	return style.Render(ansi.Truncate(text, max(4, m.width-2), "…"))
}

// columns are those of the history.
func columns(margin, number, took, code, decision, preview string) string {
	return fmt.Sprintf("%s%-5s %-10s %-10s %-12s %s", margin, number, took, code, decision, preview)
}
