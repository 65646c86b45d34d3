package plan

import (
	"strings"
	"testing"
)

// Sizes at which anything that is not linear would show.
func TestPlanHostile(t *testing.T) {
	t.Parallel()
	const size = 1 << 18
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, src := range map[string]string{
		"one line of keywords":    "## Task 1: A\n" + fill("xdepends on "),
		"statements":              "## Task 1: A\n## Task 2: B\n" + fill("depends on: 1, 9, T4, Phase 3\n"),
		"labels over labels":      "## Task 1: A\n" + fill("- deps:\n"),
		"phases":                  "## Task 1: A\n" + fill("## Phase 1 in parallel with Phase 1\nDepends on: 7\n"),
		"parentheses":             "## Task 1: " + fill("(depends on 1"),
		"brackets":                "- [ ] " + fill("[a]("),
		"bold":                    "## Task 1: A\n" + fill("**Task 1: x**\n"),
		"comments":                "## Task 1: A\n" + fill("<!--\n"),
		"fences":                  "## Task 1: A\n" + fill("```a\n"),
		"heading":                 "## Phase 1: " + fill("x ") + "\n" + strings.Repeat("- [ ] a\n", maxPlanTasks),
		"table":                   "| Task | Depends on |\n|--|--|\n" + strings.Repeat("| A | A |\n", maxPlanTasks),
		"bars":                    fill("|--"),
		"nested":                  "- [ ] a\n" + fill("  - [ ] b\n"),
		"front matter":            "---\na: " + fill("[") + "\n---\n- [ ] a\n",
		"phases block each other": "## Phase 1\n" + strings.Repeat("- [ ] a\n", 500) + "## Phase 2\nDepends on: Phase 1\n" + strings.Repeat("- [ ] a (blocks Phase 1)\n", 500),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Parse("plan.md", []byte(src))
			if err != nil {
				return
			}
			if out, err := p.encode("x"); err != nil && p.limit == nil || len(out) > 64<<20 {
				t.Errorf("%d bytes, %v", len(out), err)
			}
		})
	}
}
