package plan

import (
	"strings"

	"descartes/internal/markdown"

	"descartes/tasks/prose"

	"descartes/tasks"
)

// describe gives each task its text, and what that says about its status and priority.
func (p *planner) describe() {
	for i := range p.plan.tasks {
		t := &p.plan.tasks[i]
		var text, checks []string
		checking := 0 // level of the heading over checks, 0 for none
		for n := t.first; n < t.last; n++ {
			l := &p.md.Lines[n]
			if l.Kind == markdown.Heading && (checking == 0 || l.Level <= checking) {
				checking = 0
				if isCriteria(prose.Fold(markdown.Inline(p.md.Words(n)))) {
					checking = l.Level
					continue
				}
			}
			p.attribute(t, n)
			if checking > 0 {
				checks = append(checks, p.md.Line(n))
			} else {
				text = append(text, p.md.Line(n))
			}
		}
		if t.Description == "" {
			t.Description = prose.Block(text)
		}
		t.TestStrategy = prose.Block(checks)
		if !t.settled && p.allTicked(t.first, t.last) {
			t.Status = tasks.Done
		}
	}
}

// isCriteria recognises a heading over checks rather than work; text is folded.
func isCriteria(text string) bool {
	for _, word := range []string{"criteria", "verification", "test strategy", "testing strategy", "definition of done", "done when"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return text == "testing" || text == "tests"
}

// attribute reads a line "Status: done" or "Priority: high" of a task.
func (p *planner) attribute(t *planTask, n int) {
	if k := p.md.Lines[n].Kind; k != markdown.Text && k != markdown.Entry {
		return
	}
	name, value, ok := strings.Cut(markdown.Inline(p.md.Words(n)), ":")
	if !ok || len(name) > 20 {
		return
	}
	value = strings.Trim(value, " *`.✅✓⏳🚧")
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "status":
		if status, ok := tasks.ParseStatus(value); ok && status != tasks.Expanded {
			t.Status, t.settled = status, true
		}
	case "priority":
		if word := prose.Priority(value); word != "" {
			t.Priority = word
		}
	case "complexity":
		if plainNumber(value) && len(value) < 4 {
			t.Complexity = value
		}
	}
}
