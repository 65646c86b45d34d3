package tasks

import (
	"strings"

	"descartes/internal/markdown"
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
				if isCriteria(fold(markdown.Inline(p.md.Words(n)))) {
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
			t.Description = block(text)
		}
		t.TestStrategy = block(checks)
		if !t.settled && p.allTicked(t.first, t.last) {
			t.Status = Done
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

// block joins lines without what all of them are indented by, and without blank lines around.
func block(lines []string) string {
	common := -1
	for _, line := range lines {
		if bare := strings.TrimLeft(line, " \t"); bare != "" && (common < 0 || len(line)-len(bare) < common) {
			common = len(line) - len(bare)
		}
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimRight(line[min(len(line), max(common, 0)):], " \t"))
		b.WriteByte('\n')
	}
	return strings.Trim(strings.TrimSuffix(strings.TrimRight(b.String(), "\n"), "\n---"), "\n") // a rule before the next heading
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
		if status, ok := ParseStatus(value); ok && status != Expanded {
			t.Status, t.settled = status, true
		}
	case "priority":
		if word := planPriority(value); word != "" {
			t.Priority = word
		}
	case "complexity":
		if plainNumber(value) && len(value) < 4 {
			t.Complexity = value
		}
	}
}

// planPriority reads a word for a priority, or P0 to P3; "" for anything else.
func planPriority(s string) string {
	switch s = strings.ToLower(strings.TrimSpace(s)); s {
	case "critical", "high", "medium", "low":
		return s
	case "p0":
		return "critical"
	case "p1":
		return "high"
	case "p2":
		return "medium"
	case "p3", "p4":
		return "low"
	}
	return ""
}
