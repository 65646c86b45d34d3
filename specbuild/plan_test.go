package specbuild

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"descartes/tasks"
)

func TestRefusedPlans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ src, want string }{
		"nul":      {"# a\n\x00", "NUL byte in line 2"},
		"latin 1":  {"# a\n\nK\xe4se\n", "not UTF-8 text: invalid byte in line 3"},
		"utf-16":   {"\xff\xfe#\x00", "UTF-16"},
		"big":      {strings.Repeat("x", MaxPlanBytes+1), "too large: 8.0 MiB"},
		"headings": {strings.Repeat("# x\n", 50_001), "50001 headings"},
		"lines":    {strings.Repeat("x\n", 300_001), "300001 lines"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParsePlan("p.md", []byte(c.src))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "plan p.md") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	for _, src := range []string{"", "\n", "text only", "\ufeff", "---\n---\n", "#", "# ", "```"} {
		p := parsePlan(t, src)
		if s := p.Section(tasks.Task{ID: "1", Title: "x"}, nil, nil); s.Rule != RuleOutline {
			t.Errorf("%q: got %+v", src, s)
		}
		if _, err := Build(Request{Task: tasks.Task{ID: "1"}, Plan: p}); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
}

// headingsOf shows the headings of a plan as "level text@line".
func headingsOf(p *Plan) []string {
	var out []string
	for _, h := range p.heads {
		out = append(out, fmt.Sprintf("%d %s@%d", h.level, h.text, p.doc.LineAt(h.start)+1))
	}
	return out
}

// What is a heading, and what only looks like one.
func TestHeadings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		src  string
		want []string
	}{
		"plain":                 {"# A\n## B ##\n### *C* `d` [e](f)\n", []string{"1 A@1", "2 B@2", "3 C d e@3"}},
		"bash comments":         {"# A\n```bash\n# b\n## c\n```\n## D\n", []string{"1 A@1", "2 D@6"}},
		"tilde fence":           {"# A\n~~~\n```\n# b\n~~~\n## D\n", []string{"1 A@1", "2 D@6"}},
		"indented code":         {"# A\n\n    # b\n\n## D\n", []string{"1 A@1", "2 D@5"}},
		"nested fence":          {"# A\n```markdown\n# b\n```go\n# c\n```\n# d\n```\n## D\n", []string{"1 A@1", "2 D@9"}},
		"nested bare fence":     {"# A\n```md\n# b\n\n```\n# c\n```\n\n# d\n```\n## D\n", []string{"1 A@1", "2 D@11"}},
		"nested twice":          {"# A\n````md\n```\n# c\n````\n## D\n", []string{"1 A@1", "2 D@6"}},
		"nested in plain fence": {"# A\n```\nprompt\n```sh\n# c\n```\n# d\n```\n## D\n", []string{"1 A@1", "2 D@9"}},
		"two markdown fences":   {"# A\n```md\n# b\n```\n\n## C\n\n```md\n# d\n```\n## D\n", []string{"1 A@1", "2 C@6", "2 D@11"}},
		"forgotten close":       {"# A\n```go\nx\n\n## B\n\ntext\n", []string{"1 A@1", "2 B@5"}},
		"forgotten then closed": {"# A\n```go\nx\n## B\n```go\ny\n```\n## C\n", []string{"1 A@1", "2 C@8"}},
		"markdown not closed":   {"# A\n```md\n# b\n```go\nx\n```\n\n## C\n", []string{"1 A@1", "2 C@8"}},
		"fence in a list":       {"# A\n1. x\n   ```sh\n# b\n   ```\n2. y\n\n## C\n", []string{"1 A@1", "2 C@8"}},
		"fence in a quote":      {"# A\n> ```\n> # b\n> ```\n\n## C\n", []string{"1 A@1", "2 C@6"}},
		"code span of ticks":    {"# A\n```x``` y\n## B\n", []string{"1 A@1", "2 B@3"}},
		"quoted heading":        {"# A\n> ## b\n\n## C\n", []string{"1 A@1", "2 C@4"}},
		"list heading":          {"# A\n- ## b\n\n## C\n", []string{"1 A@1", "2 C@4"}},
		"html comment":          {"# A\n<!--\n## b\n-->\n## C\n", []string{"1 A@1", "2 C@5"}},
		"rule under text":       {"# A\n**Status**: x\n---\n## C\n", []string{"1 A@1", "2 C@4"}},
		"underlined":            {"A\n=\n\nB\n---\n\nC\n---\n", []string{"1 A@1", "2 B@4", "2 C@7"}},
		"underlined title":      {"A\n===\n\n## B\n", []string{"1 A@1", "2 B@4"}},
		"front matter":          {"---\na: b\n# c\n---\n# A\n", []string{"1 A@5"}},
		"toml front matter":     {"+++\na = 1\n+++\n# A\n", []string{"1 A@4"}},
		"rule first":            {"---\n\n# A\n\n---\n\n## B\n", []string{"1 A@3", "2 B@7"}},
		"seven hashes":          {"# A\n####### b\n#c\n", []string{"1 A@1"}},
		"skipped levels":        {"# A\n#### B\n## C\n", []string{"1 A@1", "4 B@2", "2 C@3"}},
		"escapes":               {"# A\\_b \\*c\\*\n", []string{"1 A_b *c*@1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := headingsOf(parsePlan(t, c.src)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A section goes to the next heading of the same or a higher level.
func TestExtent(t *testing.T) {
	t.Parallel()
	p := parsePlan(t, "# A\n\n## Phase 1\n\n### Alpha gadget\n\ntext\n\n#### deeper\n\n```\n### no\n```\n\n### Beta\n\n## Phase 2\n\nend")
	s := p.Section(tasks.Task{ID: "9", Title: "Alpha gadget"}, nil, nil)
	if len(s.Parts) != 1 || s.Parts[0].FirstLine != 5 || s.Parts[0].LastLine != 13 {
		t.Fatalf("got %+v", s)
	}
	if want := "### Alpha gadget\n\ntext\n\n#### deeper\n\n```\n### no\n```"; s.Parts[0].Text != want {
		t.Errorf("got %q, want %q", s.Parts[0].Text, want)
	}
	if got := strings.Join(s.Parts[0].Heading, " > "); got != "A > Phase 1 > Alpha gadget" {
		t.Errorf("got %q", got)
	}
}

// rows: plan, id and title of the task, rule that must match, first line of the section (0: none).
func TestRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan, id, title string
		rule            string
		line            int
	}{
		"marker before heading":   {"# Task 3\n# Else (SCUD Task 3)\n", "3", "x", RuleMarker, 2},
		"marker at the start":     {"# P\n## SCUD Task 3: Name\n## b\n", "3", "x", RuleMarker, 2},
		"marker list":             {"# P\n## a (SCUD Tasks 3.1, 3.2 and 4)\n## b\n", "4", "x", RuleMarker, 2},
		"marker range":            {"# P\n## a (SCUD Tasks 3-5)\n## b\n", "4", "x", RuleMarker, 2},
		"marker of another":       {"# P\n## a (SCUD Task 31)\n## b\n", "3", "x", RuleOutline, 0},
		"marker prefix":           {"# P\n## a (SCUD Task 3.1)\n## b\n", "3", "x", RuleOutline, 0},
		"marker in prose":         {"# P\n## a\nneeds SCUD Task 3 first\n## b\n", "3", "x", RuleOutline, 0},
		"marker in lower case":    {"# P\n## a\n- b: SCUD task 3\n## SCUD task 4\n", "4", "x", RuleMarker, 4},
		"marker line":             {"# P\n## a\n**SCUD Task 3:** do\n## b\n", "3", "x", RuleMarker, 2},
		"marker of a namespace":   {"# P\n## a (SCUD Task 3)\n## b\n", "auth:3", "x", RuleMarker, 2},
		"parentheses":             {"# P\n## a (Task 3)\n## b\n", "3", "x", RuleMarker, 2},
		"parentheses in a remark": {"# P\n## a (after Task 3)\n## b\n", "3", "x", RuleOutline, 0},
		"table":                   {"# P\n| Task | Section |\n|--|--|\n| 3 | b |\n## a\n## b\n", "3", "x", RuleMarker, 6},
		"table of titles":         {"# P\n| Task | Phase |\n|--|--|\n| 3 mice | b |\n## a\n## b\n", "3", "x", RuleOutline, 0},
		"table, section twice":    {"# P\n| Task | Section |\n|--|--|\n| 3 | b |\n## b\n## b\n", "3", "x", RuleOutline, 0},
		"table in a fence":        {"# P\n```\n| Task | Section |\n|--|--|\n| 3 | b |\n```\n## b\n", "3", "x", RuleOutline, 0},
		"heading":                 {"# P\n### Task 3: Name\n## b\n", "3", "x", RuleHeading, 2},
		"heading, end":            {"# P\n### Task 3\n## b\n", "3", "x", RuleHeading, 2},
		"heading, dash":           {"# P\n### Task 3 — Name\n## b\n", "3", "x", RuleHeading, 2},
		"heading, tight colon":    {"# P\n### Task 3:Name\n## b\n", "3", "x", RuleHeading, 2},
		"heading, code":           {"# P\n### Task `setup-repo`: Name\n", "setup-repo", "x", RuleHeading, 2},
		"heading, longer number":  {"# P\n### Task 10: Name\n## b\n", "1", "x", RuleOutline, 0},
		"heading, ordinal":        {"# P\n### Task 1st\n## b\n", "1", "x", RuleOutline, 0},
		"heading, subtask":        {"# P\n### Task 1.2 Name\n## b\n", "1", "x", RuleOutline, 0},
		"heading, zero":           {"# P\n### Task 1.10 Name\n### Task 1.1 Other\n", "1.1", "x", RuleHeading, 3},
		"heading before title":    {"# P\n## Task 3: Other\n## Paint the shed\n", "3", "Paint the shed", RuleHeading, 2},
		"title":                   {"# P\n## 1. Paint the shed\n## 2. Mow the lawn\n", "2", "Paint shed", RuleTitle, 2},
		"title, no clear winner":  {"# P\n## A\n### Tests\n## B\n### Tests\n", "7", "Tests", RuleOutline, 0},
		"title by phase":          {"# P\n## Shed\n### Tests\n## Lawn\n### Tests\n", "7", "Tests of the lawn", RuleTitle, 5},
		"title, both halves":      {"# P\n## 1. Extract shapes\n## 2. Convert shapes\n## 3. Print\n", "7", "Extract and convert shapes", RuleTitle, 2},
		"title, boilerplate":      {"# P\n## Testing Strategy\n## b\n", "7", "Testing strategy", RuleOutline, 0},
		"title of the plan":       {"# Paint the shed\n## a\n## b\n", "7", "Paint the shed", RuleOutline, 0},
		"title, background":       {"# P\n## Current State Analysis\n### Paint store\n## b\n", "7", "Paint store", RuleOutline, 0},
		"title, other script":     {"# P\n## 1. 設定を読む\n## 2. 出力する\n", "9", "設定を読む", RuleTitle, 2},
		"number agrees":           {"# P\n## Phase 3: Garden fence posts and nails\n## Phase 4: Garden\n", "3", "Straighten crooked fence on the far side of everything", RuleNumber, 2},
		"number, other text":      {"# P\n## 3. Roof\n## 4. Cellar\n", "3", "Garden fence", RuleOutline, 0},
		"number collides":         {"# P\n## Phase 2: Doors\n### 2.1 Hinges\n## Phase 3: Locks\n", "2.1", "Bolts", RuleOutline, 0},
		"checklist":               {"# P\n## Open\n- [ ] Paint the shed (P1)\n- [ ] Mow the lawn\n", "1", "Mow lawn", RuleTitle, 4},
		"checklist of checks":     {"# P\n## Success Criteria\n- [ ] Shed is painted\n", "1", "Painted shed", RuleOutline, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := parsePlan(t, c.plan).Section(tasks.Task{ID: c.id, Title: c.title}, nil, nil)
			line := 0
			if len(s.Parts) > 0 {
				line = s.Parts[0].FirstLine
			}
			if s.Rule != c.rule || line != c.line || s.Why == "" {
				t.Errorf("got %s, line %d (%s), want %s, line %d", s.Rule, line, s.Why, c.rule, c.line)
			}
		})
	}
}

// A subtask has its parent's section, unless a heading is clearly its own.
func TestSubtasks(t *testing.T) {
	t.Parallel()
	p := parsePlan(t, "# P\n## Phase 1\n### Build the shed\nWalls.\n#### Roof beams\nOak.\n### Dig the pond\n## Phase 2\n### Write tests\n")
	parent := tasks.Task{ID: "1", Title: "Build shed", Children: []string{"1.1", "1.2", "1.3", "1.4"}}
	list := []tasks.Task{parent}
	for i, c := range []struct {
		title, rule string
		line        int
	}{
		{"Put up the walls", RuleParent, 3},
		{"Beams of the roof", RuleTitle, 5},
		{"Tests", RuleParent, 3},
		{"Dig the pond", RuleTitle, 7},
	} {
		list = append(list, tasks.Task{ID: fmt.Sprintf("1.%d", i+1), Title: c.title, Parent: "1"})
		s := p.Section(list[i+1], list[:1], list)
		if s.Rule != c.rule || len(s.Parts) != 1 || s.Parts[0].FirstLine != c.line {
			t.Errorf("%s: got %s (%s) %+v, want %s in line %d", c.title, s.Rule, s.Why, s.Parts, c.rule, c.line)
		}
	}
	grand := tasks.Task{ID: "1.1.1", Title: "Nails", Parent: "1.1"}
	if s := p.Section(grand, list[:2], list); s.Rule != RuleParent || s.Parts[0].FirstLine != 3 {
		t.Errorf("got %+v", s)
	}
}

// A heading that another task fits clearly better is not this task's.
func TestRivals(t *testing.T) {
	t.Parallel()
	p := parsePlan(t, "# P\n## Cache of remote results\n## Remote login\n## Print\n")
	list := []tasks.Task{{ID: "1", Title: "Cache of remote results"}, {ID: "2", Title: "Cache invalidation of results"}}
	if s := p.Section(list[1], nil, list[1:]); s.Rule != RuleTitle {
		t.Errorf("alone: got %+v", s)
	}
	if s := p.Section(list[1], nil, list); s.Rule != RuleOutline {
		t.Errorf("with the rival: got %+v", s)
	}
	if s := p.Section(list[0], nil, list); s.Rule != RuleTitle {
		t.Errorf("the rival: got %+v", s)
	}
}

// An outline is bounded, whatever the plan.
func TestOutlineIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# P\n\n## Overview\n\n")
	for range 500 {
		b.WriteString("A paragraph of the overview.\n\n")
	}
	for i := range 300 {
		fmt.Fprintf(&b, "## Phase %d: %s\n\n### a\n\n### b\n\n", i, strings.Repeat("long ", 60))
	}
	spec, err := Build(Request{Task: tasks.Task{ID: "x"}, Plan: parsePlan(t, b.String())})
	if err != nil {
		t.Fatal(err)
	}
	if len(spec.Text) > maxOverview+maxOutlineLines*160+2000 || !strings.Contains(spec.Text, "more headings") {
		t.Errorf("%d bytes: %s", len(spec.Text), spec.Text)
	}
}
