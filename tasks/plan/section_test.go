package plan

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/internal/markdown"
	"descartes/scheduler"
	"descartes/tasks"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/golden/<name>.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got\n%s", path, got)
	}
}

func planFile(t testing.TB, name string) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", "plans", name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// taskFile reads lines of id | title | parent.
func taskFile(t testing.TB, name string) []tasks.Task {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", "plans", name+".tasks"))
	if err != nil {
		t.Fatal(err)
	}
	var list []tasks.Task
	for line := range strings.Lines(string(src)) {
		c := strings.Split(strings.TrimSpace(line), " | ")
		task := tasks.Task{ID: c[0], Title: c[1]}
		if len(c) > 2 {
			task.Parent = c[2]
		}
		list = append(list, task)
	}
	return list
}

func parentsOf(list []tasks.Task, id string) []tasks.Task {
	for _, t := range list {
		if t.ID == id && t.Parent != "" {
			for _, p := range list {
				if p.ID == t.Parent {
					return append(parentsOf(list, p.ID), p)
				}
			}
		}
	}
	return nil
}

// mapping shows for each task which rule matched and what it got.
func mapping(p *Document, list []tasks.Task) string {
	var b strings.Builder
	for _, t := range list {
		s := p.Section(t, parentsOf(list, t.ID))
		fmt.Fprintf(&b, "%s %s\n    %s: %s\n", t.ID, t.Title, s.Rule, s.Why)
		for _, part := range s.Parts {
			fmt.Fprintf(&b, "    lines %d-%d: %s\n", part.FirstLine, part.LastLine, strings.Join(part.Heading, " > "))
		}
		for _, part := range s.Criteria {
			fmt.Fprintf(&b, "    criteria %d-%d: %s\n", part.FirstLine, part.LastLine,
				strings.Join(part.Heading, " > "))
		}
	}
	return b.String()
}

// tasksAndWaves shows the tasks of a plan and the waves that they make.
func tasksAndWaves(t *testing.T, p *Document) string {
	t.Helper()
	list, err := p.Tasks()
	if err != nil {
		return "\n" + err.Error() + "\n"
	}
	var b strings.Builder
	b.WriteString("\ntasks\n")
	for _, x := range list {
		fmt.Fprintf(&b, "%s %s %q line %d, after %q\n", x.ID, x.Status, x.Title, x.Line, x.DependsOn)
	}
	for _, wave := range scheduler.New(list, scheduler.Options{}).Waves() {
		fmt.Fprintf(&b, "wave %d: %s\n", wave.Number, strings.Join(wave.Tasks, " "))
	}
	return b.String()
}

// Every shape of plan that is known from the wild: which section does each task get, and why.
func TestMapping(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"phases", "numbered", "taskheads", "markers", "checklist", "nested", "listed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, list := planFile(t, name), taskFile(t, name)
			p := fromPlan(t, string(src))
			got := mapping(p, list)
			golden(t, name+".map", got+"\nheadings\n"+p.contents+"\n"+tasksAndWaves(t, p))

			crlf := strings.ReplaceAll(string(src), "\n", "\r\n")
			for how, text := range map[string]string{"CRLF": crlf, "CR": strings.ReplaceAll(crlf, "\r\n", "\r"),
				"BOM": markdown.BOM + string(src)} {
				if other := mapping(fromPlan(t, text), list); other != got {
					t.Errorf("with %s the mapping is\n%s", how, other)
				}
			}
		})
	}
}

// Any text is a plan to ask for sections.
func TestNoSections(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"", "\n", "text only", "\ufeff", "---\n---\n", "#", "# ", "```"} {
		if s := fromPlan(t, src).Section(tasks.Task{ID: "1", Title: "x"}, nil); s.Rule != RuleOutline {
			t.Errorf("%q: got %+v", src, s)
		}
	}
}

// headingsOf shows the headings of a plan as "level text@line".
func headingsOf(p *Document) []string {
	var out []string
	for _, h := range p.Heads {
		out = append(out, fmt.Sprintf("%d %s@%d", h.Level, h.Text, h.Line+1))
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
		"plain":         {"# A\n## B ##\n### *C* `d` [e](f)\n", []string{"1 A@1", "2 B@2", "3 *C* `d` e@3"}},
		"bash comments": {"# A\n```bash\n# b\n## c\n```\n## D\n", []string{"1 A@1", "2 D@6"}},
		"tilde fence":   {"# A\n~~~\n```\n# b\n~~~\n## D\n", []string{"1 A@1", "2 D@6"}},
		"indented code": {"# A\n\n    # b\n\n## D\n", []string{"1 A@1", "2 D@5"}},
		"nested fence": {"# A\n```markdown\n# b\n```go\n# c\n```\n# d\n```\n## D\n",
			[]string{"1 A@1", "2 D@9"}},
		"nested bare fence":     {"# A\n```md\n# b\n\n```\n# c\n```\n\n# d\n```\n## D\n", []string{"1 A@1", "2 D@11"}},
		"nested twice":          {"# A\n````md\n```\n# c\n````\n## D\n", []string{"1 A@1", "2 D@6"}},
		"nested in plain fence": {"# A\n```\nprompt\n```sh\n# c\n```\n# d\n```\n## D\n", []string{"1 A@1", "2 D@9"}},
		"two markdown fences": {"# A\n```md\n# b\n```\n\n## C\n\n```md\n# d\n```\n## D\n",
			[]string{"1 A@1", "2 C@6", "2 D@11"}},
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
		"escapes":               {"# A\\_b \\*c\\*\n", []string{`1 A\_b \*c\*@1`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := headingsOf(fromPlan(t, c.src)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A section goes to the next heading of the same or a higher level.
func TestExtent(t *testing.T) {
	t.Parallel()
	p := fromPlan(t, "# A\n\n## Phase 1\n\n### Alpha gadget\n\ntext\n\n#### deeper\n\n```\n### no\n```\n\n### Beta\n\n## Phase 2\n\nend")
	s := p.Section(tasks.Task{ID: "9", Title: "Alpha gadget"}, nil)
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
		"table": {"# P\n| Task | Section |\n|--|--|\n| 3 | b |\n## a\n## b\n", "3", "x", RuleMarker,
			6},
		"table of titles": {"# P\n| Task | Phase |\n|--|--|\n| 3 mice | b |\n## a\n## b\n", "3", "x",
			RuleOutline, 0},
		"table, section twice": {"# P\n| Task | Section |\n|--|--|\n| 3 | b |\n## b\n## b\n", "3", "x", RuleOutline,
			0},
		"table in a fence": {"# P\n```\n| Task | Section |\n|--|--|\n| 3 | b |\n```\n## b\n", "3", "x",
			RuleOutline, 0},
		"heading":                {"# P\n### Task 3: Name\n## b\n", "3", "x", RuleHeading, 2},
		"heading, end":           {"# P\n### Task 3\n## b\n", "3", "x", RuleHeading, 2},
		"heading, dash":          {"# P\n### Task 3 — Name\n## b\n", "3", "x", RuleHeading, 2},
		"heading, tight colon":   {"# P\n### Task 3:Name\n## b\n", "3", "x", RuleHeading, 2},
		"heading, longer number": {"# P\n### Task 10: Name\n## b\n", "1", "x", RuleOutline, 0},
		"heading, ordinal":       {"# P\n### Task 1st\n## b\n", "1", "x", RuleOutline, 0},
		"heading, subtask":       {"# P\n### Task 1.2 Name\n## b\n", "1", "x", RuleOutline, 0},
		"heading, zero":          {"# P\n### Task 1.10 Name\n### Task 1.1 Other\n", "1.1", "x", RuleHeading, 3},
		"heading before title": {"# P\n## Task 3: Other\n## Paint the shed\n", "3", "Paint the shed", RuleHeading,
			2},
		"title": {"# P\n## 1. Paint the shed\n## 2. Mow the lawn\n", "2", "Paint shed", RuleTitle,
			2},
		"title, no clear winner": {"# P\n## A\n### Tests\n## B\n### Tests\n", "7", "Tests", RuleOutline, 0},
		"title by phase": {"# P\n## Shed\n### Tests\n## Lawn\n### Tests\n", "7", "Tests of the lawn",
			RuleTitle, 5},
		"title, all but one word": {"# P\n## 1. Check the shed door\n## 2. Paint the fence\n", "7",
			"Repair the shed door", RuleTitle, 2},
		"title, of two the whole": {"# P\n## Web socket server\n## Web socket\n", "7", "Web socket and sessions",
			RuleTitle, 3},
		"title of its own list": {"# P\n## Phase 1: A\n1. Paint\n2. Mow\n## Phase 2: B\n1. Paint\n", "2.1", "paint",
			RuleTask, 6},
		"title, boilerplate": {"# P\n## Testing Strategy\n## b\n", "7", "Testing strategy", RuleOutline, 0},
		"title of the plan":  {"# Paint the shed\n## a\n## b\n", "7", "Paint the shed", RuleOutline, 0},
		"title, background": {"# P\n## Current State Analysis\n### Paint store\n## b\n", "7", "Paint store",
			RuleOutline, 0},
		"title, other script": {"# P\n## 1. 設定を読む\n## 2. 出力する\n", "9", "設定を読む", RuleTitle, 2},
		"number, other text":  {"# P\n## 3. Roof\n## 4. Cellar\n", "3", "Garden fence", RuleOutline, 0},
		"number collides": {"# P\n## Phase 2: Doors\n### 2.1 Hinges\n## Phase 3: Locks\n", "2.1", "Bolts",
			RuleOutline, 0},
		"checklist": {"# P\n## Open\n- [ ] Paint the shed (P1)\n- [ ] Mow the lawn\n", "1", "Mow lawn",
			RuleTitle, 4},
		"checklist of checks": {"# P\n## Success Criteria\n- [ ] Shed is painted\n", "1", "Painted shed", RuleOutline,
			0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fromPlan(t, c.plan).Section(tasks.Task{ID: c.id, Title: c.title}, nil)
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
	p := fromPlan(t, "# P\n## Phase 1\n### Build the shed\nWalls.\n#### Roof beams\nOak.\n### Dig the pond\n## Phase 2\n### Write tests\n")
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
		s := p.Section(list[i+1], list[:1])
		if s.Rule != c.rule || len(s.Parts) != 1 || s.Parts[0].FirstLine != c.line {
			t.Errorf("%s: got %s (%s) %+v, want %s in line %d", c.title, s.Rule, s.Why, s.Parts, c.rule, c.line)
		}
	}
	grand := tasks.Task{ID: "1.1.1", Title: "Nails", Parent: "1.1"}
	if s := p.Section(grand, list[:2]); s.Rule != RuleParent || s.Parts[0].FirstLine != 3 {
		t.Errorf("got %+v", s)
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
	s := fromPlan(t, b.String()).Section(tasks.Task{ID: "x"}, nil)
	if len(s.Overview.Text) > maxGeneral || len(s.Outline) > maxOutline*160 ||
		!strings.Contains(s.Outline, "more headings") {
		t.Errorf("%d bytes: %s", len(s.Outline), s.Outline)
	}
}

// In a plan that counts anew in each phase a number says nothing by itself.
func TestRestartingNumbers(t *testing.T) {
	t.Parallel()
	const headings = "# Plan\n\n## Phase 1: Front end\n\n### Task 1: Lexer\nTokens.\n\n### Task 2: Parser\nTrees.\n\n" +
		"## Phase 2: Back end\n\n### Task 1: Code generator\nEmit.\n\n### Task 2: Linker\nLink.\n\n### Task 3: Optimizer passes\nFold.\n"
	const items = "# Plan\n\n## Phase 1: Pages\n\n### 1.1 Login page\nx\n\n### 1.2 Upload form styling\ny\n\n" +
		"## Phase 2: Queue\n\n### 1. Worker loop\nx\n\n### 2. Upload form colours\ny\n\n## Phase 3: Release\n\n### 1. Notes\nx\n\n### 2. Tarball\ny\n"
	const table = "# Plan\n\n| Task | Section |\n|--|--|\n| 1 | Task 10 |\n| 2 | Task 1 |\n\n### Task 10: Foo\nx\n\n### Task 1: Bar\ny\n\n### Task 1: Baz\ny\n"
	const unique = "# Plan\n\n## 1. Pages\nx\n\n## 2. Upload form styling\ny\n\n## 3. Queue\nz\n"
	for name, c := range map[string]struct {
		src        string
		all        []tasks.Task
		id         string
		rule, head string
	}{
		"another task of the same number": {headings, list("1", "Build the lexer", "2", "Write the parser", "3",
			"Implement code generator", "4", "Linker", "5", "Run optimizer passes"), "3", RuleTitle,
			"Task 1: Code generator"},
		"the number and the title": {headings, list("1", "Build the lexer", "2", "Write the parser", "3",
			"Optimizer passes"), "3", RuleTitle, "Task 3: Optimizer passes"},
		"the title alone": {headings, list("1", "Build the lexer", "5", "Run the optimizer passes"),
			"5", RuleTitle, "Task 3: Optimizer passes"},
		"a number and nothing else": {headings, list("1", "Build the lexer", "3", "Documentation"), "3",
			RuleOutline, ""},
		"one word of an item": {items, list("1", "Login page", "2", "Retry uploads on failure"), "2",
			RuleOutline, ""},
		"one word of an item, dotted": {items, list("1.1", "Login page", "1.2", "Retry uploads on failure"),
			"1.2", RuleOutline, ""},
		"one word, with a parent": {items, list("1", "Login page", "2", "Retry uploads on failure"), "2",
			RuleOutline, ""},
		"one of two, by its title": {headings, list("1", "Write a code generator", "2", "Lexer"), "1",
			RuleTitle, "Task 1: Code generator"},
		"a table names a task heading":      {table, list("1", "Quux"), "1", RuleMarker, "Task 10: Foo"},
		"a table names one of two":          {table, list("2", "Quux"), "2", RuleOutline, ""},
		"one word where numbers are unique": {unique, list("1", "Pages", "2", "Upload things"), "2", RuleOutline, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fromPlan(t, c.src)
			for _, task := range c.all {
				if task.ID != c.id {
					continue
				}
				s := p.Section(task, nil)
				head := ""
				if len(s.Parts) > 0 {
					head = s.Parts[0].Heading[len(s.Parts[0].Heading)-1]
				}
				if s.Rule != c.rule || head != c.head {
					t.Errorf("got %s %q (%s), want %s %q", s.Rule, head, s.Why, c.rule, c.head)
				}
			}
		})
	}
}

func list(pairs ...string) (all []tasks.Task) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, tasks.Task{ID: pairs[i], Title: pairs[i+1]})
	}
	return all
}
