package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"descartes/tasks"
)

// planLines shows the tasks of a plan, one line for each (id, status, title, what it depends on), and its findings.
func planLines(t *testing.T, src string) (lines, findings []string) {
	t.Helper()
	p, err := Parse("plan.md", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.Tasks()
	if err != nil {
		return nil, nil
	}
	for _, x := range list {
		line := fmt.Sprintf("%s %s %s", x.ID, x.Status, x.Title)
		if len(x.DependsOn) > 0 {
			line += " <- " + strings.Join(x.DependsOn, ",")
		}
		if x.Parent != "" {
			line += " in " + x.Parent
		}
		lines = append(lines, line)
	}
	for _, f := range p.Findings() {
		findings = append(findings, fmt.Sprintf("%d %s", f.Line, f.Kind))
	}
	return lines, findings
}

type planCase struct {
	src      string
	want     []string
	findings []string
}

func checkPlans(t *testing.T, cases map[string]planCase) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, findings := planLines(t, c.src)
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if !slices.Equal(findings, c.findings) {
				t.Errorf("findings: got %q, want %q", findings, c.findings)
			}
		})
	}
}

func TestPlanTaskHeadings(t *testing.T) {
	t.Parallel()
	checkPlans(t, map[string]planCase{
		"nested": {
			"# Plan\n\n## Task 1: Parse\nText.\n## Task 2: Print\nDepends on: 1\n### [x] Task 10: Ship (depends on Task 1)\n- [ ] step\n",
			[]string{"1 pending Parse", "2 expanded Print <- 1", "10 done Ship <- 1 in 2"}, nil},
		"ticks behind the number": {"## Task 1: ✅ A\n## Task 2: [x] B\n\n---\n## Task 3: [ ] C\n",
			[]string{"1 done A", "2 done B", "3 pending C"}, nil},
		"siblings": {
			"## Task 1: Parse ✅\n\n## Task 2 - Print\n\n**Dependencies:** Task 1\n\n## Task 3. Ship\n- Blocked by: 1-2\n",
			[]string{"1 done Parse", "2 pending Print <- 1", "3 pending Ship <- 1,2"}, nil},
		"ticked steps": {
			"## Task 1: A\n- [x] one\n- [X] two\n## Task 2: B\n- [x] one\n- [ ] two\n",
			[]string{"1 done A", "2 pending B"}, nil},
		"status line": {
			"## Task 1: A\n**Status:** ✅ Completed\n## Task 2: B\n- Status: in_progress\n## Task 3: C (done)\n## Task 4: D — done\n## Task 5: E (small)\n",
			[]string{"1 done A", "2 in-progress B", "3 done C", "4 done D", "5 pending E (small)"}, nil},
		"numbers restart": {
			"## Phase 1: P\n### Task 1: A\n### Task 2: B\n## Phase 2: Q\n### Task 1: C\n### Task 2: D (blocked by 1)\n",
			[]string{"1.1 pending A", "1.2 pending B", "2.1 pending C <- 1.1,1.2", "2.2 pending D <- 2.1"}, nil},
		"bold headings": {
			"**Task 1: A**\ntext\n**Task 2: B**\nDepends on: 1\n",
			[]string{"1 pending A", "2 pending B <- 1"}, nil},
		"comment and code": {
			"<!--\n## Task 1: no\n-->\n```\n## Task 2: no\n```\n## Task 3: yes\n<!-- ## Task 4: no -->\n",
			[]string{"3 pending yes"}, nil},
		"duplicate": {"## Task 1: A\n## Task 1: B\n", []string{"1 pending A", "1-2 pending B"}, []string{"2 line"}},
		"CRLF and BOM": {"\ufeff## Task 1: A\r\nDepends on: 2\r\n## Task 2: B\r\n",
			[]string{"1 pending A <- 2", "2 pending B"}, nil},
		"odd ids": {"## Task A1: x\n## Task #2: y\n## Task 1st: no\n## Task list\n## Task setup-db: z\n",
			[]string{"A1 pending x", "2 pending y", "setup-db pending z"}, nil},
		"no title": {"## Task 1\n## Task 2:\n", []string{"1 pending Task 1", "2 pending Task 2"}, nil},
	})
}

func TestPlanDependencies(t *testing.T) {
	t.Parallel()
	checkPlans(t, map[string]planCase{
		"blocks": {
			"## Task 1: A\nBlocks: 2, 3\n## Task 2: B (P0 - blocks 3 other tasks)\n## Task 3: C (blocks Task 2)\n",
			[]string{"1 pending A", "2 pending B (P0 - blocks 3 other tasks) <- 1,3", "3 pending C <- 1"}, nil},
		"missing and prose": {
			"## Task 1: A\nDepends on: 9\n## Task 2: B\nDependencies: zod, react\nThis depends on 1 person.\n## Task 3: C\nDepends on: none\nDependencies: ES2020\n",
			[]string{"1 pending A <- 9", "2 pending B", "3 pending C"},
			[]string{"2 dependency", "4 dependency", "8 dependency"}},
		"prose": {
			"## Task 1: A\n## Task 2: B\nIt depends on Task 1 being there. Independent of 3. It depends on 1 or so.\n",
			[]string{"1 pending A", "2 pending B <- 1"}, nil},
		"titles": {
			"## Task 1: Set up\n## Task 2: Read, then write\n## Task 3: C\nDepends on: Set up, C2\n## Task 4: D\nDepends on: read, then write.\n## Task 5: E\nDepends on: D, Set up\n",
			[]string{"1 pending Set up", "2 pending Read, then write", "3 pending C <- 1", "4 pending D <- 2",
				"5 pending E <- 4,1"}, []string{"4 dependency"}},
		"lists": {
			"## Task 1: A\n## Task 2: B\n## Task 3: C\n### Dependencies\n- Task 1\n- Task 2 (the other)\n\nText\n## Task 4: D\n**Depends on:**\n\n- 3\n",
			[]string{"1 pending A", "2 pending B", "3 pending C <- 1,2", "4 pending D <- 3"}, nil},
		"forms": {
			"## Task 1: A\n## Task 2: B\n## Task 3: C\n## Task 4: D\n_Depends on: Tasks 1, 2 and 3_\n## Task 5: E\n> Depends on: `1`, `2` & [3](#x).\n## Task 6: F\n- **Depends on**: #1 (A), #2–4\n## Task 7: G\nDepends on tasks 1 through 3.\n",
			[]string{"1 pending A", "2 pending B", "3 pending C", "4 pending D <- 1,2,3", "5 pending E <- 1,2,3",
				"6 pending F <- 1,2,3,4", "7 pending G <- 1,2,3"}, nil},
		"unknown labels": {
			"## Task 1: A\n## Task 2: B\nBuilds on: Task 1\nFiles: 1, 2\nNote: Task 1 is fast\n## Task 3: C\nKommt nach: Aufgabe 1, Task 2\n",
			[]string{"1 pending A", "2 pending B", "3 pending C"}, []string{"3 label", "7 label"}},
		"unknown words": {"## Zadanie 1: A\n## Zadanie 2: B\nZależy od: Zadanie 1\n", []string{"1 pending A", "2 pending B"},
			[]string{"3 label"}},
		"itself": {"## Task 1: A\nDepends on: 1\n", []string{"1 pending A"}, nil},
		"table": {
			"## Task 1: A\n## Task 2: B\n## Task 3: C\n| Task | Blocked by |\n|--|--|\n| Task 2 | Task 1 |\n| 3 | A |\n",
			[]string{"1 pending A", "2 pending B <- 1", "3 pending C <- 1"}, nil},
	})
}

func TestPlanPhases(t *testing.T) {
	t.Parallel()
	checkPlans(t, map[string]planCase{
		"tasks": {
			"## Phase 1: P\n### Task 1: A\n### Task 2: B (depends on 1)\n## Phase 2: Q\n### Task 3: C\n### Task 4: D\nDepends on: Task 1\n### Task 5: E\nDepends on: nothing\n## Phase 3\nDepends on: Phase 1\n### Task 6: F\n",
			[]string{"1 pending A", "2 pending B <- 1", "3 pending C <- 1,2", "4 pending D <- 1", "5 pending E",
				"6 pending F <- 1,2"}, nil},
		"items": {
			"# P\n## Overview\n1. not a task\n## Phase 1: First\n### Overview\nx\n### Changes Required:\n#### 1. Reader\nread it\n#### 2. Writer\n### Success Criteria:\n#### Automated Verification:\n- [ ] `make test`\n" +
				"## Phase 2: Second\n### Changes\n#### 1. Printer\n```sh\n# 2. no heading\n```\n## Testing Strategy\n- [ ] no task\n",
			[]string{"1.1 pending Reader", "1.2 pending Writer", "2.1 pending Printer <- 1.1,1.2"},
			[]string{"21 left"}},
		"dotted": {
			"## Phase 1: First\n#### 1.1 Reader\n#### 1.2: Writer\n## Phase 2: Second\n#### 2.1 Printer (depends on 1.2)\n#### 2.2 Other\n",
			[]string{"1.1 pending Reader", "1.2 pending Writer", "2.1 pending Printer <- 1.2",
				"2.2 pending Other <- 1.1,1.2"}, nil},
		"checklists": {
			"## Phase 1: First\n- [x] 1.1 Reader\n- [ ] Writer\n  - [ ] nested\n  more\n### Success Criteria\n- [ ] no\n## Phase 2\n1. Print\n2. Ship\n## Phase 3: No items\nText\n",
			[]string{"1.1 done Reader", "1.2 pending Writer", "2.1 pending Print <- 1.1,1.2",
				"2.2 pending Ship <- 1.1,1.2", "3 pending No items <- 2.1,2.2"}, nil},
		"codes": {
			"## Phase 1: First\n- [ ] T001 A\n- [ ] T002 B\n## Phase 2: Second\n- [ ] T003 C (depends on T001)\n",
			[]string{"T001 pending A", "T002 pending B <- T001", "T003 pending C <- T001,T002"}, nil},
		"numbers restart within": {
			"## Phase 1: First\n### Server\n#### 1. A\n### Client\n#### 1. B\n",
			[]string{"1.1 pending A", "1.2 pending B"}, nil},
		"finished": {
			"## Phase 1: First\n#### 1. Reader\n### Success Criteria\n- [x] yes\n## ✅ Phase 2: Second\n#### 1. Writer\n",
			[]string{"1.1 pending Reader", "2.1 done Writer <- 1.1"}, nil},
		"alone": {
			"## Phase 1: A\ntext\n## Phase 2: B\ntext\n## Phase 3: C\nDepends on: 1\n## Phase 4: D (in parallel with Phase 3)\n## Phase 4: again\n",
			[]string{"1 pending A", "2 pending B <- 1", "3 pending C <- 1", "4 pending D <- 3",
				"4-2 pending again <- 4"}, []string{"8 line"}},
		"beside": {
			"## Phase 1: A\n#### 1. a\n## Phase 2: B\n#### 1. b\n## Phase 3: C\nRuns in parallel with Phase 2.\n#### 1. c\n## Phase 4: D\n#### 1. d\n",
			[]string{"1.1 pending a", "2.1 pending b <- 1.1", "3.1 pending c <- 2.1", "4.1 pending d <- 3.1"}, nil},
		"without tasks": {
			"## Phase 1: A\n### Task 1: a\n## Phase 2: nothing\n## Phase 3: B\n### Task 2: b\n",
			[]string{"1 pending a", "2 pending b <- 1"}, []string{"3 left"}},
		"table": {
			"## Phase 1: A\n#### 1. a\n## Phase 2: B\n#### 1. b\n## Phase 3: C\n#### 1. c\n## Order\n| Phase | Depends on |\n|--|--|\n| Phase 3 | Phase 1 |\n",
			[]string{"1.1 pending a", "2.1 pending b <- 1.1", "3.1 pending c <- 1.1"}, nil},
		"steps": {"## Step 1: A\n## Step 2: B\n", []string{"1 pending A", "2 pending B <- 1"}, nil},
		"letters": {"## Phase A: x\n## Phase B: y\n## Phase out the old\n",
			[]string{"A pending x", "B pending y <- A"}, nil},
	})
}

func TestPlanLists(t *testing.T) {
	t.Parallel()
	checkPlans(t, map[string]planCase{
		"checklist": {
			"# Todo\n- [x] Done thing\n- [ ] Implement X (P0 - blocks 3 other tasks)\n- [ ] Last (blocked by 1, 2)\n* [~] Begun\n- [link](x) no\n- [ ](x) no\n",
			[]string{"1 done Done thing", "2 pending Implement X (P0 - blocks 3 other tasks)", "3 pending Last <- 1,2",
				"4 in-progress Begun"}, nil},
		"titles without remarks": {
			"- [ ] Add a limit (P0 - blocks 3 other tasks)\n- [ ] Cache (depends on: Add a limit)\n- [ ] A\n- [ ] A (b)\n- [ ] C (blocked by A)\n", []string{"1 pending Add a limit (P0 - blocks 3 other tasks)", "2 pending Cache (depends on: Add a limit) <- 1", "3 pending A", "4 pending A (b)", "5 pending C (blocked by A)"}, []string{"5 dependency"}},
		"with ids": {
			"- [ ] T001 First\n- [ ] **T002**: Second (depends on T001)\n- [ ] T003 Third\n  - Depends on: T001-T002\n",
			[]string{"T001 pending First", "T002 pending Second <- T001", "T003 pending Third <- T001,T002"}, nil},
		"table": {
			"| ID | Task | Depends on | Status |\n|---|---|---|---|\n| 1 | A | - | done |\n| 2 | B \\| b | 1 | ⏳ |\n| 3 | C | 1, 2 | |\n",
			[]string{"1 done A", "2 pending B | b <- 1", "3 pending C <- 1,2"}, nil},
		"table of titles": {
			"| Task | Dependencies |\n|---|---|\n| A | None |\n| B | A |\n",
			[]string{"1 pending A", "2 pending B <- 1"}, nil},
		"numbered headings": {
			"# Plan\n## Overview\n## 1. Read\n## 2. Write (depends on 1)\n",
			[]string{"1 pending Read", "2 pending Write <- 1"}, nil},
	})
}

func TestPlanText(t *testing.T) {
	t.Parallel()
	p, err := Parse("plan.md",
		[]byte("# P\n## Phase 1: First\n### Task 1: A\nDo it.\n\n```go\n# x\n```\nPriority: P1\nComplexity: 5\n#### Success Criteria\n- [ ] `make`\n#### Notes\nlast\n### Task 2: B\n- one\n"))
	if err != nil {
		t.Fatal(err)
	}
	a := p.tasks[0]
	if want := "Do it.\n\n```go\n# x\n```\nPriority: P1\nComplexity: 5\n#### Notes\nlast"; a.Description != want {
		t.Errorf("description: got %q, want %q", a.Description, want)
	}
	if a.TestStrategy != "- [ ] `make`" || a.Priority != "high" || a.Complexity != "5" || a.Line != 3 || !a.Numeric {
		t.Errorf("got %+v", a)
	}
	p = fromPlan(t, "## Task 1: A\n**Verify:** `make a`\n```\nVerify: no\n```\n## Task 2: B\n- one\n")
	if p.tasks[0].Verify != "make a" || p.tasks[1].Verify != "" {
		t.Errorf("own checks: got %q, %q", p.tasks[0].Verify, p.tasks[1].Verify)
	}
	p, err = Parse("plan.md", []byte("- [ ] A\n   - nested\n\n     deeper\n- [ ] B\n\nprose\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.tasks[0].Description; got != "- nested\n\n  deeper" {
		t.Errorf("got %q", got)
	}
	if got := p.tasks[1].Description; got != "" {
		t.Errorf("got %q", got)
	}
}

func TestPlanRefused(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"empty": "", "prose": "# Plan\n\nWe shall see.\n", "binary": "## Task 1: A\n\x00",
		"latin1": "## Task 1: \xe9\n",
		"large":  strings.Repeat(" ", MaxBytes+1), "lines": strings.Repeat("\n", 300_000+1),
	} {
		p, err := Parse("plan.md", []byte(src))
		if err == nil {
			_, err = p.Tasks()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "plan.md:") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A limit that a plan is beyond is never silent.
func TestPlanLimits(t *testing.T) {
	t.Parallel()
	for want, src := range map[string]string{
		"more than 20000 tasks": strings.Repeat("- [ ] x\n", maxTasks+1),
		"split the phases": "## Phase 1: A\n" + strings.Repeat("- [ ] x\n", 2000) + "## Phase 2: B\n" +
			strings.Repeat("- [ ] x\n", 2000),
	} {
		if _, err := fromPlan(t, src).Tasks(); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "plan.md:") {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// chain is a plan in which each task waits for the one before, and its list without that.
func chain(n int) (string, []tasks.Task) {
	var b strings.Builder
	var list []tasks.Task
	for i := range n {
		fmt.Fprintf(&b, "### Task %d: Do\nDepends on: %d\n", i+1, max(1, i))
		list = append(list, tasks.Task{ID: fmt.Sprint(i + 1)})
	}
	return b.String(), list
}

func TestPlanChain(t *testing.T) {
	t.Parallel()
	src, list := chain(300)
	if more, conflicts := fromPlan(t, src).Extra(list); len(more) != 299 || len(conflicts) != 0 {
		t.Errorf("got %d, %v", len(more), conflicts)
	}
}

func BenchmarkChain(b *testing.B) {
	src, list := chain(maxTasks)
	for b.Loop() {
		fromPlan(b, src).Extra(list)
	}
}

// One name that is no task does not drop the others.
func TestPlanMixedLists(t *testing.T) {
	t.Parallel()
	const two = "## Task 1: Parse, then check\n## Task 2: Print\n## Task 3: Ship\nDepends on: "
	case3 := func(deps string) []string {
		return []string{"1 pending Parse, then check", "2 pending Print", "3 pending Ship" + deps}
	}
	checkPlans(t, map[string]planCase{
		"before":        {two + "Node 18, Task 1\n", case3(" <- 1"), []string{"4 dependency"}},
		"a word":        {two + "Redis, 2\n", case3(" <- 2"), []string{"4 dependency"}},
		"between":       {two + "Task 1, Node 18, Task 2\n", case3(" <- 1,2"), []string{"4 dependency"}},
		"number before": {two + "1, Redis, 2\n", case3(" <- 1,2"), []string{"4 dependency"}},
		"titles":        {two + "Redis, Print\n", case3(" <- 2"), []string{"4 dependency"}},
		"and":           {two + "Redis and Task 2\n", case3(" <- 2"), []string{"4 dependency"}},
		"with a comma":  {two + "Parse, then check\n", case3(" <- 1"), nil},
		"prose behind":  {two + "Task 1, which has to be merged first\n", case3(" <- 1"), []string{"4 dependency"}},
		"missing":       {two + "Redis, Task 9\n", case3(" <- 9"), []string{"4 dependency", "4 dependency"}},
		"letters": {"## Task A: Alpha\n## Task B: Beta\nDepends on: Task A\n## Task C: Gamma\nDepends on: A, Task B\n",
			[]string{"A pending Alpha", "B pending Beta <- A", "C pending Gamma <- A,B"}, nil},
	})
}

// hostile are plans of a size at which what is not linear shows.
func hostile(size int) map[string]string {
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	return map[string]string{
		"one line of keywords": "## Task 1: A\n" + fill("xdepends on "),
		"statements":           "## Task 1: A\n## Task 2: B\n" + fill("depends on: 1, 9, T4, Phase 3\n"),
		"labels over labels":   "## Task 1: A\n" + fill("- deps:\n"),
		"phases":               "## Task 1: A\n" + fill("## Phase 1 in parallel with Phase 1\nDepends on: 7\n"),
		"parentheses":          "## Task 1: " + fill("(depends on 1"),
		"brackets":             "- [ ] " + fill("[a]("),
		"bold":                 "## Task 1: A\n" + fill("**Task 1: x**\n"),
		"comments":             "## Task 1: A\n" + fill("<!--\n"),
		"fences":               "## Task 1: A\n" + fill("```a\n"),
		"heading":              "## Phase 1: " + fill("x ") + "\n" + fill("- [ ] a\n"),
		"table":                "| Task | Depends on |\n|--|--|\n" + fill("| A | A |\n"),
		"marked table":         "| Task | Phase |\n|---|---|\n" + fill("| 1 | 1 |\n| 2 | x |\n") + "\n# Phase 1\n",
		"bars":                 fill("|--"),
		"nested":               "- [ ] a\n" + fill("  - [ ] b\n"),
		"front matter":         "---\na: " + fill("[") + "\n---\n- [ ] a\n",
		"phases block each other": "## Phase 1\n" + fill("- [ ] a\n") + "## Phase 2\nDepends on: Phase 1\n" +
			fill("- [ ] a (blocks Phase 1)\n"),
	}
}

func TestPlanHostile(t *testing.T) {
	t.Parallel()
	for name, src := range hostile(1 << 10) {
		p := fromPlan(t, src)
		if _, err := p.Tasks(); err != nil {
			continue
		}
		if _, err := p.List(t.TempDir(), "x"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkHostile(b *testing.B) {
	for name, src := range hostile(1 << 18) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				fromPlan(b, src).Section(tasks.Task{ID: "1", Title: "Word x of y"}, nil)
			}
		})
	}
}
