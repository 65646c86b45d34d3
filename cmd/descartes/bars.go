package main

import (
	"cmp"
	"fmt"
	"strings"

	"descartes/internal/terminal"
)

const barWidth = 16

// bars is the wave view: one bar per wave, the task under way, what is blocked. reached is the last wave that a loop
// began, 0 where none did.
func (b *board) bars(p terminal.Paint, reached int, current string, blocked []blockedLine) []string {
	waves := b.waves()
	c := b.graph.Counts()
	now := 0
	lines := make([]string, 0, len(waves))
	for _, w := range waves {
		bar := barOf(w)
		if now == 0 && bar.done < bar.all {
			now = w.Number
		}
		lines = append(lines, fmt.Sprintf("Wave %d: %s %s", w.Number, p.In(bar.colour(), bar.blocks()), bar.words()))
	}
	where := ""
	switch {
	case now == 0:
		now, where = len(waves), "All "+terminal.Count(len(waves), "wave")
	case reached > 0 && reached <= len(waves):
		now = reached
	}
	head := []string{cmp.Or(where, fmt.Sprintf("Wave %d of %d", now, len(waves))), fmt.Sprintf("Tasks: %d/%d completed", c.Done, c.Total), ""}
	out := append(head, foldWaves(lines, now)...)
	if t, ok := b.graph.Task(current); ok && current != "" {
		out = append(out, "", "Current Task: "+terminal.Clean(t.Title), "Status: "+terminal.Clean(string(b.graph.Status(current))))
		if t.Complexity != "" {
			out = append(out, "Complexity: "+terminal.Clean(t.Complexity))
		}
	}
	if len(blocked) > 0 {
		out = append(out, "", fmt.Sprintf("Blocked Tasks: %d", len(blocked)))
		for _, t := range blocked {
			out = append(out, fmt.Sprintf("  - Task %s: \"%s\" (%s)", terminal.Clean(t.id), terminal.Fit(terminal.Clean(t.title), 40), terminal.Clean(t.reason)))
		}
	}
	return out
}

// foldWaves leaves out waves far from the one under way, where there are many.
func foldWaves(lines []string, now int) []string {
	const most = 24
	if len(lines) <= most {
		return lines
	}
	first := min(max(0, now-1-most/2), len(lines)-most)
	out := append([]string{}, lines[first:first+most]...)
	if first > 0 {
		out = append([]string{fmt.Sprintf("(%s before)", terminal.Count(first, "wave"))}, out...)
	}
	if rest := len(lines) - first - most; rest > 0 {
		out = append(out, fmt.Sprintf("(%s after)", terminal.Count(rest, "wave")))
	}
	return out
}

// blockedLine is a task that was given up.
type blockedLine struct{ id, title, reason string }

// bar is one wave in numbers; all are those that somebody wants done.
type bar struct{ all, done, running, ready, blocked, held, aside int }

func barOf(w waveJSON) bar {
	n := bar{all: len(w.Tasks)}
	for _, t := range w.Tasks {
		if t.State == "other" && setAside(t.Status) {
			n.aside++
			n.all--
			continue
		}
		switch t.State {
		case "done":
			n.done++
		case "running":
			n.running++
		case "ready", "waiting":
			n.ready++
		case "held":
			n.held++
		default:
			n.blocked++
		}
	}
	return n
}

func (n bar) blocks() string {
	full := barWidth
	if n.all > 0 {
		full = barWidth * n.done / n.all
	}
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

func (n bar) words() string {
	tasks := terminal.Count(n.all, "task")
	part := fmt.Sprintf("%d/%s", n.done, tasks)
	switch {
	case n.all == 0 && n.aside > 0:
		return "Set aside (" + terminal.Count(n.aside, "task") + ")"
	case n.done == n.all:
		return "Complete (" + tasks + ")"
	case n.running > 0 || n.done > 0 && n.ready > 0:
		return "In Progress (" + part + ")"
	case n.ready > 0:
		return "Pending (" + tasks + ")"
	case n.blocked > 0:
		return "Blocked (" + part + ")"
	}
	return "Held (" + part + ")"
}

func (n bar) colour() string {
	switch {
	case n.done == n.all:
		return terminal.Green
	case n.blocked > 0:
		return terminal.Red
	case n.held > 0:
		return terminal.Yellow
	}
	return terminal.Bold
}
