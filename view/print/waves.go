package print

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/terminal"
	"descartes/loop/store"
	"descartes/view"
)

// Waves is the plan of a tag, in lines of so many columns if titles can give way; 0 is any length.
func Waves(b *view.Board, p terminal.Paint, width int) string {
	t, all := &text{}, b.Report()
	on := ""
	if b.On != "" {
		on = " on the branch " + terminal.Clean(b.On)
	}
	t.say("%s: %s in %s (%s%s)%s", b.File.Tag(), terminal.Count(b.Graph.Counts().Total, "task"),
		terminal.Count(len(all.Waves), "wave"), terminal.Clean(all.Source), on, b.Tally())
	ids := 0
	for _, w := range all.Waves {
		for _, one := range w.Tasks {
			if n := terminal.Width(terminal.Clean(one.ID.ID)); n <= 16 { // a longer one moves its own line
				ids = max(ids, n)
			}
		}
	}
	for _, w := range all.Waves {
		commit := ""
		if w.Commit != nil {
			commit = "  committed " + view.Short(*w.Commit)
		}
		t.say("\n%s%s", p.In(terminal.Bold, fmt.Sprintf("Wave %d", w.Number)), commit)
		for i := range w.Tasks {
			t.task(&w.Tasks[i], p, ids, width)
		}
	}
	for i, d := range all.Added {
		if i == 0 {
			t.say("\nAdded by %s", terminal.Clean(b.Scud.PlanPath))
		}
		t.say("  %s waits for %s", terminal.Clean(d.Task.ID), terminal.Clean(d.On.ID))
	}
	for i, problem := range all.Problems {
		if i == 0 {
			t.say("\nProblems")
		}
		t.say("  %s: %s", p.In(terminal.Yellow, problem.Kind), terminal.Clean(problem.Message))
	}
	return t.String()
}

func (t *text) task(one *view.Task, p terminal.Paint, ids, width int) {
	const least = 16 // columns of a title
	id, title, state, after := terminal.Clean(one.ID.ID), terminal.Clean(one.Title), string(one.Stand), ""
	if text := one.Said(); text != "" {
		after = "  (" + terminal.Clean(text) + ")"
	}
	if one.Stale != nil {
		after += "  (stale: " + terminal.Clean(one.Stale.String()) + ")"
	}
	if one.Agent != nil && one.Stand != view.Done {
		after += "  [" + one.Agent.String() + "]"
	}
	id += strings.Repeat(" ", max(0, ids-terminal.Width(id)))
	gap := strings.Repeat(" ", max(0, 7-len(state)))
	if width > 0 {
		title = terminal.FitWords(title, max(least, width-terminal.Width("  "+id+"  "+state+gap+"  "+after)))
	}
	t.say("  %s  %s%s  %s%s", id, p.In(one.Stand.Colour(), state), gap, title, after)
	if one.Verify != "" && one.Stand != view.Done {
		indent, line := strings.Repeat(" ", terminal.Width("  "+id+"  "+state+gap+"  ")),
			"verify: "+terminal.Clean(one.Verify)
		if width > 0 {
			line = terminal.Fit(line, max(least, width-len(indent)))
		}
		t.say("%s%s", indent, p.In(terminal.Faint, line))
	}
}

// Dot is the graph for Graphviz, arrows from what comes first.
func Dot(b *view.Board) string {
	quote := func(s string) string {
		return `"` + strings.ReplaceAll(strings.ReplaceAll(terminal.Clean(s), `\`, `\\`), `"`, `\"`) + `"`
	}
	t := &text{}
	t.say("digraph %s {\n  rankdir=LR;\n  node [shape=box];", quote(b.File.Tag()))
	for _, w := range b.Waves() {
		t.say("  subgraph cluster_%d {\n    label=\"Wave %d\";", w.Number, w.Number)
		for _, one := range w.Tasks {
			t.say("    %s [label=%s, class=%s];", quote(one.ID.ID), quote(one.ID.ID+" "+one.Title), quote(one.State))
		}
		t.say("  }")
	}
	arrows(b, func(from, to string) { t.say("  %s -> %s;", quote(from), quote(to)) })
	t.say("}")
	return t.String()
}

// Mermaid is the graph for Mermaid. Ids are numbered, because Mermaid takes few characters in them.
func Mermaid(b *view.Board) string {
	quote := strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "#", "&#35;")
	t, node := &text{}, map[string]string{}
	t.say("flowchart LR")
	for _, w := range b.Waves() {
		t.say("  subgraph wave%d [Wave %d]", w.Number, w.Number)
		for _, one := range w.Tasks {
			node[one.ID.ID] = fmt.Sprintf("t%d", len(node)+1)
			t.say("    %s[\"%s\"]:::%s", node[one.ID.ID], quote.Replace(terminal.Clean(one.ID.ID+" "+one.Title)),
				one.Class())
		}
		t.say("  end")
	}
	arrows(b, func(from, to string) {
		if node[from] != "" {
			t.say("  %s --> %s", node[from], node[to])
		}
	})
	return t.String()
}

func arrows(b *view.Board, draw func(from, to string)) {
	for _, w := range b.Graph.Waves() {
		for _, id := range w.Tasks {
			for _, d := range b.Graph.Deps(id) {
				draw(d, id)
			}
		}
	}
}

// bars is the wave view: one bar per wave and, if all is asked for, the tasks under way and what is blocked.
func bars(l *view.Loop, p terminal.Paint, boxed, all bool) string {
	const most = 24 // those around the one under way
	now := l.Wave()
	head := []string{upper(l.WaveWords()), fmt.Sprintf("Tasks: %d/%d completed", l.Tasks.Done, l.Tasks.Total), ""}
	var lines []string
	for _, w := range l.Waves {
		bar := w.Bar()
		lines = append(lines, fmt.Sprintf("Wave %d: %s %s", w.Number, p.In(bar.Colour(), blocks(bar.Share())),
			bar.Words(l.Run.Live)))
	}
	if now == 0 {
		now = len(lines)
	}
	if n := len(lines) - most; n > 0 {
		first := min(max(0, now-1-most/2), n)
		lines = lines[first : first+most]
		if first > 0 {
			head = append(head, fmt.Sprintf("(%s before)", terminal.Count(first, "wave")))
		}
		if first < n {
			lines = append(slices.Clip(lines), fmt.Sprintf("(%s after)", terminal.Count(n-first, "wave")))
		}
	}
	lines = append(head, lines...)
	if all {
		lines = append(lines, current(l)...)
	}
	blocked := slices.DeleteFunc(slices.Clone(l.Blocked), func(b store.Blocked) bool { return b.Question != "" })
	if len(blocked) > 0 { // what is asked has lines of its own
		lines = append(lines, "", fmt.Sprintf("Blocked Tasks: %d", len(blocked)))
	}
	for _, b := range blocked {
		lines = append(lines, fmt.Sprintf("  - Task %s: \"%s\" (%s)", terminal.Clean(b.Task.ID),
			terminal.Fit(terminal.Clean(b.Title), 40), terminal.Clean(b.Reason)))
	}
	title := terminal.Clean(l.Name())
	if filepath.Base(filepath.Dir(filepath.Dir(l.Board.File.Path()))) == ".scud" { // SCUD's own words
		title = "SCUD Loop: " + title
	}
	if boxed {
		return terminal.Box(title, lines)
	}
	t := &text{}
	t.say("%s", title)
	for _, line := range lines {
		t.say("%s", strings.TrimRight("  "+line, " "))
	}
	return t.String()
}

// current are the tasks that are worked on, or that a loop which is dead or between two attempts has started.
func current(l *view.Loop) (lines []string) {
	var ids []string
	for _, a := range l.Working() {
		ids = append(ids, a.Task)
	}
	if l.CurrentTask != nil {
		ids = append(ids, l.CurrentTask.ID)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		t, ok := l.Board.Graph.Task(id)
		if !ok {
			continue
		}
		status := string(l.Board.Graph.Status(id))
		if one := l.Task(id); one != nil && one.Stand == view.Interrupted {
			status = "interrupted"
		}
		lines = append(lines, "", "Current Task: "+terminal.Clean(t.Title), "Status: "+terminal.Clean(status))
		if t.Complexity != "" {
			lines = append(lines, "Complexity: "+terminal.Clean(t.Complexity))
		}
	}
	return lines
}

// Tasks is a list: containers stand before the tasks in them.
func Tasks(b *view.Board) string {
	list := b.Details()
	ids, states := 0, 0
	for _, d := range list {
		ids, states = max(ids, terminal.Width(terminal.Clean(d.ID.ID))),
			max(states, terminal.Width(terminal.Clean(string(d.Status))))
	}
	t := &text{}
	for _, d := range list {
		id, status, title := terminal.Clean(d.ID.ID), terminal.Clean(string(d.Status)), terminal.Clean(d.Title)
		switch {
		case len(d.Children) > 0:
			title += fmt.Sprintf("  (%s)", terminal.Count(len(d.Children), "subtask"))
		case d.Stand == view.Held && d.Cause != "":
			title += fmt.Sprintf("  (held: %s)", terminal.Clean(d.Cause))
		case d.Stand == view.Asks:
			title += "  (asks: " + terminal.Clean(d.Why) + ")"
		case d.Grade != "":
			title += fmt.Sprintf("  (%s)", d.Grade)
		}
		if d.Stale != nil {
			title += fmt.Sprintf("  (stale: %s)", terminal.Clean(d.Stale.String()))
		}
		t.say("%s%s  %s%s  %s", id, strings.Repeat(" ", ids-terminal.Width(id)), status,
			strings.Repeat(" ", states-terminal.Width(status)), title)
	}
	return t.String()
}

// Findings is what is suspicious in a list.
func Findings(b *view.Board, found []view.Finding) string {
	t, list := &text{}, terminal.Clean(store.Relative(b.Root, b.File.Path()))
	for _, f := range found {
		place := terminal.Clean(cmp.Or(f.File, list))
		if f.Line > 0 {
			place += fmt.Sprintf(":%d", f.Line)
		}
		t.say("%s: %s: %s", place, f.Kind, terminal.Clean(f.Message))
	}
	if len(found) == 0 {
		t.say("%s: %s, nothing suspicious", list, terminal.Count(b.Graph.Counts().Total, "task"))
	}
	return t.String()
}
