package tui

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"descartes/internal/terminal"
	"descartes/loop/journal"
)

// heading is what stands over a section.
func (m *model) heading(in section, n int) string {
	switch in {
	case running:
		if !m.loop.tag() {
			return "Current Iteration"
		}
		if n == 1 {
			return "Current Task"
		}
		return fmt.Sprintf("Current Tasks: %d", n)
	case waiting:
		return "Waiting for the provider"
	case asks:
		return fmt.Sprintf("Waiting for an answer: %d", n)
	case blocked:
		return fmt.Sprintf("Blocked Tasks: %d", n)
	case next:
		return fmt.Sprintf("Next: %d", n)
	case later:
		return fmt.Sprintf("Waiting for others: %d", n)
	case held:
		return fmt.Sprintf("Held: %d", n)
	case done:
		return fmt.Sprintf("Done: %d", n)
	}
	return "Iteration History"
}

// mark is the sign of a section, which says without colour what a row is.
func mark(in section) (sign string, style lipgloss.Style) {
	switch in {
	case running:
		return "●", accent
	case waiting:
		return "…", yellow
	case asks:
		return "?", yellow
	case blocked:
		return "✗", red
	case next, later:
		return "○", faint
	case held:
		return "◌", yellow
	}
	return "✓", green
}

// high is how many lines a row takes.
func (r *row) high(narrow bool) int {
	switch r.in {
	case running, asks, blocked, waiting:
		if narrow {
			return 3
		}
		return 2
	}
	return 1
}

// title is the name of the chosen row in as many lines as it needs, three at most, where the screen is narrow: the others' are cut.
func (m *model) title(r *row) []string {
	if !m.narrow() || r.in == history {
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
	narrow := m.narrow()
	// Where each row begins, its heading included.
	m.at = max(0, min(m.at, len(rows)-1))
	chosen := rows[m.at].high(narrow) + len(m.title(&rows[m.at])) - 1
	high := func(i int) int {
		if i == m.at {
			return chosen
		}
		return rows[i].high(narrow)
	}
	begin, at := make([]int, len(rows)+1), 0
	counts := map[section]int{}
	for i := range rows {
		begin[i] = at
		counts[rows[i].in]++
		if i == 0 || rows[i].in != rows[i-1].in {
			at++
			if i > 0 && !m.low() {
				at++
			}
			if rows[i].in == history && !narrow {
				at++
			}
		}
		at += high(i)
	}
	begin[len(rows)] = at
	m.top = min(m.top, begin[m.at])
	if end := begin[m.at+1]; end > m.top+room {
		m.top = min(end-room, end-chosen) // its name before what stands below it
	}
	m.top = max(0, min(m.top, max(0, at-room)))
	var out []string
	for i := range rows {
		if begin[i+1] <= m.top {
			continue
		}
		if begin[i+1]-high(i) >= m.top+room { // its heading would stand alone
			break
		}
		var lines []string
		if r := &rows[i]; i == 0 || r.in != rows[i-1].in {
			if i > 0 && !m.low() {
				lines = append(lines, "")
			}
			_, style := mark(r.in)
			if r.in != asks && r.in != blocked {
				style = lipgloss.NewStyle()
			}
			lines = append(lines, " "+style.Bold(true).Render(m.heading(r.in, counts[r.in])))
			if r.in == history && !narrow {
				lines = append(lines, faint.Render(m.columns("   ", "#", "Duration", "Exit Code", "Decision", "Preview")))
			}
		}
		lines = append(lines, m.draw(&rows[i], i == m.at, narrow)...)
		for j, l := range lines {
			if y := begin[i] + j; y >= m.top && len(out) < room {
				out = append(out, l)
			}
		}
		if len(out) >= room {
			break
		}
	}
	return out
}

// draw is a row in as many lines as it is high.
func (m *model) draw(r *row, chosen, narrow bool) []string {
	sign, style := mark(r.in)
	cursor := " "
	if chosen {
		cursor = accent.Render("▸")
	}
	if r.in == history {
		return []string{cursor + m.iteration(r.attempt, narrow)}
	}
	names := []string{m.name(r)}
	if chosen {
		names = m.title(r)
	}
	for i, name := range names {
		if chosen {
			names[i] = bold.Render(name)
		} else if r.in == done || r.in == later || r.in == held {
			names[i] = faint.Render(name)
		}
	}
	left := cursor + style.Render(sign) + " " + names[0]
	right, below := m.about(r)
	if narrow {
		out := []string{ansi.Truncate(left, m.width, "…")}
		for _, more := range names[1:] {
			out = append(out, "     "+more)
		}
		if r.high(true) > 1 {
			out = append(out, m.under(right, faint), m.under(below, style))
		}
		return out
	}
	out := []string{sides(left, faint.Render(right)+" ", m.width)}
	if r.high(narrow) > 1 {
		if r.in == running {
			style = faint
		}
		out = append(out, m.under(below, style))
	}
	return out
}

// name is a row's task with its title, or its iteration.
func (m *model) name(r *row) string {
	if !m.loop.tag() {
		if r.attempt == nil {
			return "waiting"
		}
		return strings.TrimSpace(fmt.Sprintf("iteration %d  %s", r.attempt.Iteration, terminal.Clean(r.attempt.Title)))
	}
	id := terminal.Clean(r.task)
	return id + strings.Repeat(" ", max(0, m.loop.ids-terminal.Width(id))) + "  " + terminal.Clean(r.title)
}

func (m *model) under(text string, style lipgloss.Style) string {
	return "     " + style.Render(ansi.Truncate(text, max(4, m.width-6), "…"))
}

// about is what stands at the right of a row, and below it.
func (m *model) about(r *row) (right, below string) {
	switch r.in {
	case running:
		return m.doing(r.attempt), terminal.Clean(m.actions[r.attempt.Key])
	case waiting:
		if !r.wait.Until.IsZero() {
			right = "until " + r.wait.Until.In(m.opt.Now().Location()).Format("15:04") + ", " + terminal.Spell(max(0, r.wait.Until.Sub(m.opt.Now())))
		}
		return right, terminal.Clean(r.wait.Reason)
	case asks, blocked:
		if r.blocked == nil {
			return "", terminal.Clean(r.cause)
		}
		right = terminal.Count(r.blocked.Attempts, "attempt")
		if q := r.blocked.Question; q != "" {
			return right, terminal.Clean(strings.Join(strings.Fields(q), " "))
		}
		return right, terminal.Clean(r.blocked.Reason)
	case done:
		return m.came(r), ""
	}
	return terminal.Clean(r.cause), ""
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
	if c := m.loop.state.Task(r.task).Cost; c.USD != nil {
		parts = append(parts, c.Dollars())
	}
	return strings.Join(parts, " · ")
}

// iteration is a line of a prompt loop's history.
func (m *model) iteration(a *journal.Attempt, narrow bool) string {
	took := "-"
	if a.Over() {
		took = terminal.Duration(time.Duration(a.Seconds() * float64(time.Second)))
	}
	code, exit, preview := 0, "-", a.Reason
	if d := a.Result; d != nil {
		code, exit = d.Code, fmt.Sprint(d.Code)
		if d.Words != "" && !a.Decision.Failed() {
			preview = d.Words
		}
	}
	preview = terminal.Clean(strings.Join(strings.Fields(preview), " "))
	number := fmt.Sprint(a.Iteration)
	if a.Number > 1 {
		number += fmt.Sprintf(".%d", a.Number)
	}
	style := lipgloss.NewStyle()
	if code != 0 || a.Decision.Failed() || !a.Over() {
		style = yellow
	}
	text := m.columns("  ", number, took, exit, decided(a.Decision), preview)
	if narrow {
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

// decided is what an iteration came to, in a word or two.
func decided(d journal.Decision) string {
	switch d {
	case "":
		return "interrupted"
	case journal.NoQuota:
		return "no quota"
	case journal.CutShort:
		return "interrupted"
	}
	return terminal.Clean(string(d))
}

// help says what every key does.
func (m *model) help() string {
	var b strings.Builder
	say := func(keys, what string) {
		for line := range strings.SplitSeq(ansi.Wrap(what, max(12, m.width-19), ""), "\n") {
			fmt.Fprintf(&b, "  %-14s %s\n", keys, strings.TrimSpace(line))
			keys = ""
		}
	}
	b.WriteString("Keys\n\n")
	tag := m.loop == nil || m.loop.tag()
	say("↑ ↓ j k", "choose "+map[bool]string{true: "a task", false: "an iteration"}[tag])
	say("PgUp PgDn g G", "a page up, a page down; to the start, to the end")
	say("Enter l", "its log, which follows what the agent prints")
	say("s", "its "+m.text()+": what its agent is given")
	if tag {
		say("d", "the diff of its last attempt")
		say("[ ]", "there: the attempt before, and the next one")
		say("a", "answer what a task's agent asked")
		say("r", "try a blocked task again")
	} else {
		say("d", "its diff")
		say("[ ]", "there: the iteration before, and the next one")
		say("y n", "answer what the loop asks")
	}
	say("p", "pause the loop, or take that back")
	say("c", "cancel the loop, or take that back")
	if m.opt.Interrupt != nil {
		say("Ctrl-C", "finish the running attempt and end; again: interrupt the agent")
	}
	if m.opt.Here {
		say("q", "leave the view: plain lines from then on, or cancel")
	} else {
		say("q Ctrl-C", "leave; the loop keeps running")
	}
	if !tag {
		return b.String()
	}
	b.WriteString("\nSigns\n\n")
	for _, s := range []struct {
		in   section
		what string
	}{{running, "worked on"}, {waiting, "waits for its provider"}, {asks, "waits for your answer"}, {blocked, "blocked"},
		{next, "ready, or waits for other tasks"}, {held, "held by a blocked task"}, {done, "done"}} {
		sign, _ := mark(s.in)
		say(sign, s.what)
	}
	return b.String()
}
