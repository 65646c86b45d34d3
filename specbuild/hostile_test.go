package specbuild

import (
	"fmt"
	"strings"
	"testing"

	"descartes/tasks"
	"descartes/tasks/plan"
)

// hostilePlans are inputs of a given size that are slow or large in some reading.
func hostilePlans(size int) map[string]string {
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	deepList := func() string {
		var b strings.Builder
		for depth := 0; b.Len() < size; depth++ {
			b.WriteString(strings.Repeat("  ", depth) + "- x\n")
		}
		return b.String()
	}
	counted := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i, i%7)
		}
		return b.String()
	}
	return map[string]string{
		"quotes on a line":     fill("> > > > > > > > > > > > > > > > > > > > > > > > > > > >"),
		"quotes without end":   strings.Repeat(">", size),
		"quoted lines":         fill("> > > > > > > > > > > > > > > > > > > > x\n"),
		"lists on a line":      fill("- + * 1. "),
		"lists on lines":       fill("- + * 1. - + * 1. - + * 1. - + * 1. - + * 1. - + * 1. x\n"),
		"deep list":            deepList(),
		"links":                fill("[a]("),
		"brackets":             fill("# [[[[[[[["),
		"backticks":            fill("```"),
		"open fences":          fill("```go\n"),
		"open fences and text": fill("```go\nx\n## y\n"),
		"growing fences":       counted("````````%.0s%.0s\n```x\n~~~\n"),
		"markdown fences":      fill("```md\n\n```\nx\n"),
		"tables":               fill("| Task | Phase |\n|---|---|\n| 1 | 1 |\n| 2 | x |\n"),
		"one table":            "| Task | Phase |\n|---|---|\n" + counted("| %d | Phase %d |\n") + "\n# Phase 1\n",
		"markers":              fill("SCUD Task 1: x\n"),
		"marked items":         fill("- [ ] x (SCUD Task 1)\n"),
		"ranges":               fill("SCUD Tasks 1-99, 1-99, 1-99, 1-99\n"),
		"dashes":               fill("-\n"),
		"rules under text":     fill("a\n---\n"),
		"equals under text":    fill("a\n==="),
		"one long line":        fill("word "),
		"one paragraph":        fill("word\n"),
		"html":                 fill("<div>\n<!--\n"),
		"front matter":         "---\n" + fill("# a\n"),
		"escapes":              fill(`# \*\_\[`),
	}
}

// Plans that one reading or another is quadratic in. Each may be refused.
func TestHostilePlans(t *testing.T) {
	t.Parallel()
	for _, src := range hostilePlans(2 << 10) {
		askHostile(src)
	}
}

func askHostile(src string) {
	if p, err := plan.Parse("plan.md", []byte(src)); err == nil {
		for _, task := range []tasks.Task{{ID: "1", Title: "Word x of y"}, {ID: "2", Title: "Phase and task"}} {
			p.Section(task, nil)
		}
	}
}

func BenchmarkHostile(b *testing.B) {
	for name, src := range hostilePlans(128 << 10) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				askHostile(src)
			}
		})
	}
}
