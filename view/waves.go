package view

import (
	"cmp"
	"fmt"
	"strings"

	"descartes/internal/terminal"
)

type WavesJSON struct {
	Tag      string        `json:"tag"`
	Source   string        `json:"source"`
	Waves    []Wave        `json:"waves"`
	Added    []addedJSON   `json:"added,omitempty"` // dependencies that only the plan states
	Problems []problemJSON `json:"problems"`
}

func (b *Board) Report() WavesJSON {
	return WavesJSON{Tag: b.File.Tag(), Source: b.source(), Waves: b.standing(), Added: b.added(), Problems: b.problems()}
}

// source is the file that the tasks come from: the list, or the plan that a run would import.
func (b *Board) source() string {
	if b.job.Import != nil {
		return b.Scud.PlanPath
	}
	return Relative(b.Root, b.File.Path())
}

// maxIDs is how wide the column of ids gets: a longer one moves its own line.
const maxIDs = 16

// Text is the plan for a person, in lines of so many columns where titles can give way; 0 is any length.
func (b *Board) Text(p terminal.Paint, width int) string {
	var s strings.Builder
	waves := b.Waves()
	fmt.Fprintf(&s, "%s: %s in %s (%s)%s\n", b.File.Tag(), terminal.Count(b.Graph.Counts().Total, "task"), terminal.Count(len(waves), "wave"),
		terminal.Clean(b.source()), b.tally())
	commits := b.committed()
	ids := 0
	for _, w := range waves {
		for _, t := range w.Tasks {
			if n := terminal.Width(terminal.Clean(t.ID.ID)); n <= maxIDs {
				ids = max(ids, n)
			}
		}
	}
	for _, w := range waves {
		commit := ""
		if hash := commits[w.Number]; hash != "" {
			commit = "  committed " + Short(hash)
		}
		fmt.Fprintf(&s, "\n%s%s\n", p.In(terminal.Bold, fmt.Sprintf("Wave %d", w.Number)), commit)
		for _, t := range w.Tasks {
			if b.interrupted(t.ID.ID) {
				t.State = "interrupted"
			}
			writeTaskLine(&s, p, t, ids, width)
		}
	}
	for i, d := range b.added() {
		if i == 0 {
			fmt.Fprintf(&s, "\nAdded by %s\n", terminal.Clean(b.Scud.PlanPath))
		}
		fmt.Fprintf(&s, "  %s waits for %s\n", terminal.Clean(d.Task.ID), terminal.Clean(d.On.ID))
	}
	for i, problem := range b.problems() {
		if i == 0 {
			s.WriteString("\nProblems\n")
		}
		fmt.Fprintf(&s, "  %s: %s\n", p.In(terminal.Yellow, problem.Kind), terminal.Clean(problem.Message))
	}
	return s.String()
}

// leastTitle is how much of a title there is at least.
const leastTitle = 16

func writeTaskLine(s *strings.Builder, p terminal.Paint, t Task, ids, width int) {
	id, title, after := terminal.Clean(t.ID.ID), terminal.Clean(t.Title), ""
	switch {
	case t.Cause != "":
		after = "  (" + terminal.Clean(t.Cause) + ")"
	case t.Grade != "":
		after = "  (" + string(t.Grade) + ")"
	case t.State == "other":
		after = "  (status " + terminal.Clean(string(t.Status)) + ")"
	}
	if t.Stale != nil {
		after += "  (stale: " + terminal.Clean(t.Stale.String()) + ")"
	}
	if t.Agent != nil && t.State != "done" {
		after += "  [" + t.Agent.String() + "]"
	}
	id += strings.Repeat(" ", max(0, ids-terminal.Width(id)))
	gap := strings.Repeat(" ", max(0, 7-len(t.State)))
	if width > 0 {
		title = terminal.FitWords(title, max(leastTitle, width-terminal.Width("  "+id+"  "+t.State+gap+"  "+after)))
	}
	fmt.Fprintf(s, "  %s  %s%s  %s%s\n", id, p.In(stateColour(t.State), t.State), gap, title, after)
	if t.Verify != "" && t.State != "done" {
		indent := strings.Repeat(" ", terminal.Width("  "+id+"  "+t.State+gap+"  "))
		line := "verify: " + terminal.Clean(t.Verify)
		if width > 0 {
			line = terminal.Fit(line, max(leastTitle, width-len(indent)))
		}
		fmt.Fprintf(s, "%s%s\n", indent, p.In(terminal.Faint, line))
	}
}

func stateColour(state string) string {
	switch state {
	case "done":
		return terminal.Green
	case "blocked":
		return terminal.Red
	case "held", "other", "interrupted":
		return terminal.Yellow
	}
	return terminal.Faint
}

// tally counts what is not simply waiting.
func (b *Board) tally() string {
	c, cut := b.counts()
	off, other := b.setAside()
	var parts []string
	for _, x := range []struct {
		n    int
		word string
	}{{c.Done, "done"}, {c.InProgress, "in progress"}, {cut, "interrupted"}, {c.Blocked, "blocked"}, {c.Held, "held"}, {off, "set aside"}, {other, "not run"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.word))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// Dot is the graph for Graphviz, arrows from what comes first.
func (b *Board) Dot() string {
	var s strings.Builder
	fmt.Fprintf(&s, "digraph %s {\n  rankdir=LR;\n  node [shape=box];\n", dotQuote(b.File.Tag()))
	waves := b.standing()
	for _, w := range waves {
		fmt.Fprintf(&s, "  subgraph cluster_%d {\n    label=\"Wave %d\";\n", w.Number, w.Number)
		for _, t := range w.Tasks {
			fmt.Fprintf(&s, "    %s [label=%s, class=%s];\n", dotQuote(t.ID.ID), dotQuote(t.ID.ID+" "+t.Title), dotQuote(t.State))
		}
		s.WriteString("  }\n")
	}
	for _, w := range waves {
		for _, t := range w.Tasks {
			for _, d := range b.Graph.Deps(t.ID.ID) {
				fmt.Fprintf(&s, "  %s -> %s;\n", dotQuote(d), dotQuote(t.ID.ID))
			}
		}
	}
	s.WriteString("}\n")
	return s.String()
}

func dotQuote(s string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(terminal.Clean(s), `\`, `\\`), `"`, `\"`) + `"`
}

// Mermaid is the graph for Mermaid. Ids are numbered, because Mermaid takes few characters in them.
func (b *Board) Mermaid() string {
	var s strings.Builder
	s.WriteString("flowchart LR\n")
	node := map[string]string{}
	waves := b.standing()
	for _, w := range waves {
		fmt.Fprintf(&s, "  subgraph wave%d [Wave %d]\n", w.Number, w.Number)
		for _, t := range w.Tasks {
			node[t.ID.ID] = fmt.Sprintf("t%d", len(node)+1)
			fmt.Fprintf(&s, "    %s[\"%s\"]:::%s\n", node[t.ID.ID], mermaidText(t.ID.ID+" "+t.Title), t.State)
		}
		s.WriteString("  end\n")
	}
	for _, w := range waves {
		for _, t := range w.Tasks {
			for _, d := range b.Graph.Deps(t.ID.ID) {
				if from := node[d]; from != "" {
					fmt.Fprintf(&s, "  %s --> %s\n", from, node[t.ID.ID])
				}
			}
		}
	}
	return s.String()
}

func mermaidText(s string) string {
	return strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "#", "&#35;").Replace(terminal.Clean(s))
}

const barWidth = 16

// bars is the wave view: one bar per wave, the tasks under way, what is blocked. reached is the last wave that a loop
// began, 0 where none did.
func (b *Board) bars(p terminal.Paint, live bool, reached int, current []string, blocked []blockedLine) []string {
	waves := b.standing()
	c := b.Graph.Counts()
	now := 0
	lines := make([]string, 0, len(waves))
	for _, w := range waves {
		bar := BarOf(w)
		if now == 0 && bar.Done < bar.All {
			now = w.Number
		}
		words := bar.Words()
		if !live && bar.running == 0 { // nobody makes progress
			words = strings.Replace(words, "In Progress", "Unfinished", 1)
		}
		lines = append(lines, fmt.Sprintf("Wave %d: %s %s", w.Number, p.In(bar.Colour(), bar.blocks()), words))
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
	for _, id := range current {
		t, ok := b.Graph.Task(id)
		if !ok {
			continue
		}
		status := string(b.Graph.Status(id))
		if b.interrupted(id) {
			status = "interrupted"
		}
		out = append(out, "", "Current Task: "+terminal.Clean(t.Title), "Status: "+terminal.Clean(status))
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

// Bar is one wave in numbers; All are those that somebody wants done.
type Bar struct{ All, Done, running, ready, blocked, held, aside int }

func BarOf(w Wave) Bar {
	n := Bar{All: len(w.Tasks)}
	for _, t := range w.Tasks {
		if t.State == "other" && setAside(t.Status) {
			n.aside++
			n.All--
			continue
		}
		switch t.State {
		case "done":
			n.Done++
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

func (n Bar) blocks() string {
	full := barWidth
	if n.All > 0 {
		full = barWidth * n.Done / n.All
	}
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

func (n Bar) Words() string {
	tasks := terminal.Count(n.All, "task")
	part := fmt.Sprintf("%d/%s", n.Done, tasks)
	switch {
	case n.All == 0 && n.aside > 0:
		return "Set aside (" + terminal.Count(n.aside, "task") + ")"
	case n.Done == n.All:
		return "Complete (" + tasks + ")"
	case n.running > 0 || n.Done > 0 && n.ready > 0:
		return "In Progress (" + part + ")"
	case n.ready > 0:
		return "Pending (" + tasks + ")"
	case n.blocked > 0:
		return "Blocked (" + part + ")"
	}
	return "Held (" + part + ")"
}

func (n Bar) Colour() string {
	switch {
	case n.Done == n.All:
		return terminal.Green
	case n.blocked > 0:
		return terminal.Red
	case n.held > 0:
		return terminal.Yellow
	}
	return terminal.Bold
}
