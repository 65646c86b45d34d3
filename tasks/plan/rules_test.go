package plan

import (
	"slices"
	"testing"

	"descartes/tasks"
	"descartes/tasks/prose"
)

// Each rule by its example, and where two compete.
func TestTaskRules(t *testing.T) {
	t.Parallel()
	checkPlans(t, map[string]planCase{
		"elements": {"<task type=\"auto\">\n<name>Task 1: Read</name>\n<action>do</action>\n</task>\n<task><name>Write</name></task>\n- [ ] a\n- [ ] b\n- [ ] c\n",
			[]string{"1 pending Read", "2 pending Write"}, []string{"6 left", "7 left", "8 left"}},
		"elements with titles": {"<task id=\"1-T1\" type=\"x\">\n  <title>Read</title>\n</task>\n<task><title>2. Write</title></task>\n",
			[]string{"1-T1 pending Read", "2 pending Write"}, nil},
		"entries that are tasks": {"## Phase 1: A\n- ✅ **Task 001: Read** - 완료 (2026-04-14)\n  - **Test checklist**:\n    - [ ] look\n- **Task 002: Write**\n## Phase 2: B\n- **Task 003: Show** (depends on Task 002)\n",
			[]string{"001 done Read", "002 pending Write", "003 pending Show <- 002"}, nil},
		"tasks that are spoken of": {"## Tasks\n- Task 1 needs it\n- Task 2 does not\n", []string{"1 pending needs it", "2 pending does not"}, nil},
		"ids of two numbers": {"## Phase 1: A\n### 1-1. Read\n- **수락 기준**:\n  - [ ] it works\n- **의존성**: 없음\n- **상태**: [ ] 예정 [ ] 진행중 [x] 완료\n### 1-2. Write\n- **의존성**: 1-1\n- **상태**: [ ] 예정 [ ] 완료\n",
			[]string{"1-1 done Read", "1-2 pending Write <- 1-1"}, nil},
		"ids that each phase has": {"## Fase 1 ✓ Cerrada (2026-04-29)\n### WP1 — Read\nx\n## Fase 2\n| WP | Descripción | Estado |\n|--|--|--|\n| WP1 | Write | ✓ Completado |\n| WP2 | Show | Pendiente |\n### WP1 — Write\nx\n### WP2 — Show all\n",
			[]string{"1.WP1 done Read", "2.WP1 done Write <- 1.WP1", "2.WP2 pending Show all <- 1.WP1"}, nil},
		"codes beside numbers": {"## Phase 1: A\n- [ ] T001 a\n- [ ] T002 b\n## Phase 2: B\n1. [ ] c\n2. [ ] d\n## Phase 3: C\n1. [ ] e\n",
			[]string{"T001 pending a", "T002 pending b", "2.1 pending c <- T001,T002", "2.2 pending d <- T001,T002", "3.1 pending e <- 2.1,2.2"}, nil},
		"criteria of a phase": {"## Phase 1: A\ntext\n\n**Acceptance criteria:**\n\n- [x] a\n- [ ] b\n\n## Phase 2: B\n**Done when:**\n- [ ] c\n\nNotes.\n- [ ] d\n",
			[]string{"1 pending A", "2.1 pending d <- 1"}, nil},
		"boxes without bullets": {"[x] A\n    - [x] a\n[ ] B\n[1] no\n[a]: http://x\n", []string{"1 done A", "2 pending B"}, nil},
		"a table of priorities": {"| Priority | Item |\n|--|--|\n| **High** | Split it |\n| Low | Move it |\n", []string{"1 pending Split it", "2 pending Move it"}, nil},
		"what was closed lately": {"## Open Issues\n| # | Title |\n|--|--|\n| #9 | A |\n| #19 | B |\n## Recently Closed\n| # | Title |\n|--|--|\n| #8 | C |\n",
			[]string{"9 pending A", "19 pending B"}, nil},
		"an order in a sentence": {"## Task 1: A\n## Task 2: B\nStart once Task 1 is merged.\n## Task 3: C\nDepends on: Task 2\nIt needs Task 1 too.\n",
			[]string{"1 pending A", "2 pending B", "3 pending C <- 2"}, []string{"3 label"}},
		"a status in a table": {"## Progress\n| Phase | Plans | Status |\n|--|--|--|\n| 1. Read | 1/1 | Complete |\n| 2. Write | 0/1 | Not started |\n## Phases\n### Phase 1: Read\nx\n### Phase 2: Write\ny\n",
			[]string{"1 done Read", "2 pending Write <- 1"}, nil},
		"a phase without a number": {"# Roadmap\n## MVP - Core\n- [ ] a\n## Progress\n- [ ] p\n## Phase 2 - More\n- [ ] b\n## Phase 3\n- [ ] c\n## Later\n- [ ] d\n",
			[]string{"mvp.1 pending a", "2.1 pending b <- mvp.1", "3.1 pending c <- 2.1"}, []string{"5 left", "11 left"}},
		"a task that is spoken of in bold": {"## Phase 1: A\n- **Task 1: a**\n- **Task 2: b**\n\n**Task 1 is done. Next: Task 2**\n",
			[]string{"1 pending a", "2 pending b"}, nil},
		"numbers around boxes": {"## Phase 1: A\n### Tasks\n1. **Set up**\n   - [ ] a\n   - [ ] b\n", []string{"1.1 pending a", "1.2 pending b"}, nil},
		"phases with no marks": {"The plan.\n\nPhase 1: Read\n\nPhase 1 is short.\n- [ ] a\n\nPHASE 2: Write\n- [ ] b\n",
			[]string{"1.1 pending a", "2.1 pending b <- 1.1"}, nil},
		"what is written beside headings":   {"## Task 1: A\nx\n\nTask 2: later\n", []string{"1 pending A"}, nil},
		"an id beside a phase":              {"| Phase | ID | Item |\n|--|--|--|\n| 1 · See | V1 | A |\n| 2 · Find | F1 | B |\n", []string{"V1 pending A", "F1 pending B"}, nil},
		"a phase that is spoken of in bold": {"## Phase 1: A\n- [ ] a\n\n**Phase 1 なので**\n- x\n## Phase 2: B\n- [ ] b\n", []string{"1.1 pending a", "2.1 pending b <- 1.1"}, nil},
		"weeks of two numbers":              {"## Week 1-2: A\n- [ ] a\n## Week 3-4: B\n- [ ] b\n", []string{"1-2.1 pending a", "3-4.1 pending b <- 1-2.1"}, nil},
		"units on two levels": {"## M0: Spike\n## Build\n### M1: Read\n- [x] a\n### M2: Write ✅ DONE (needs a look)\n",
			[]string{"M1 done Read", "M2 done Write"}, []string{"1 left"}},
		"codes of two numbers": {"### P0-1：Search\nx\n### P0-2: Read\n### AC-1: no\n",
			[]string{"P0-1 pending Search", "P0-2 pending Read"}, nil},
		"several in a heading": {"### Task 1, 2: both\n### Task 1: A\n### Task 2: B\n", []string{"1 pending A", "2 pending B"}, nil},
		"numbers in titles":    {"### Task 1: 404: handle\n### Task 2: 3, 4: x\n", []string{"1 pending 404: handle", "2 pending 3, 4: x"}, nil},
		"criteria of a task":   {"## Phase 1: A\n## Phase 2: B\n# End\n## Phase 1 acceptance criteria\n- [ ] x\n", []string{"1 pending A", "2 pending B <- 1"}, nil},
		"phases spoken of elsewhere": {"## Build\n### Phase 1: A\ntext\nmore\n### Phase 2: B\n## Files\n### Phase 1: a.go\n",
			[]string{"1 pending A", "2 pending B <- 1"}, nil},
		"numerals of a language": {"## 阶段一：A\n- [ ] a\n## 阶段二：B\n- [ ] b\n", []string{"1.1 pending a", "2.1 pending b <- 1.1"}, nil},
		"weeks":                  {"## Week 1: A\n- [ ] a\n## Week 2: B\n- [x] b\n", []string{"1.1 pending a", "2.1 done b <- 1.1"}, nil},
		"a title with a dot":     {"## Task 1: .NET\n## Task 2 - x\n", []string{"1 pending .NET", "2 pending x"}, nil},

		"boxes over a table of progress": {"# T\n## A\n- [ ] a\n- [ ] b\n## So far\n| Task | Status |\n|--|--|\n| Week | open |\n",
			[]string{"1 pending a", "2 pending b"}, []string{"8 left"}},
		"a table over fewer boxes": {"## Work\n| # | Task | Status |\n|--|--|--|\n| 1 | A | done |\n| 2 | B | |\n## Setup\n- [ ] x\n",
			[]string{"1 done A", "2 pending B"}, []string{"7 left"}},
		"a table of requirements": {"| ID | Name |\n|--|--|\n| FR-1 | no |\n\n| ID | Task |\n|--|--|\n| T1 | yes |\n", []string{"T1 pending yes"}, nil},
		"specd's table": {"| id | role | files | depends-on | verify | acceptance |\n|--|--|--|--|--|--|\n| ✅ T1 | x | a.go | - | `make` | R1.1 R1.2: it reads |\n| T2 | x | b.go | T1 | true | R2: it writes |\n",
			[]string{"T1 done it reads", "T2 pending it writes <- T1"}, nil},
		"ids in titles of rows": {"## Phase 1: A\n| Task | Time |\n|--|--|\n| **1.1 Read** | 5 |\n| **1.2 Write** | 5 |\n",
			[]string{"1.1 pending Read", "1.2 pending Write"}, nil},
		"numbered headings of which most have boxes": {"### 1. A\n- [x] a\n### 2. B\n- [ ] b\n### 3. C\ntext\n",
			[]string{"1 done A", "2 pending B", "3 pending C"}, nil},
		"numbered headings that all have boxes": {"### 1. A\n- [x] a\n### 2. B\n- [ ] b\n", []string{"1 done a", "2 pending b"}, nil},
		"phases of a list, headings of the work": {"### 1. A\n- [ ] a\n- [ ] b\n### 2. B\n- [ ] c\n- [ ] d\n### 3. C\n### Phase 1: Order\n1. A\n",
			[]string{"1 pending A", "2 pending B", "3 pending C"}, []string{"8 left"}},
		"a heading that ends with tasks": {"# X\n## Completed Work\n1. old\n## Remaining Tasks\n1. **A**\n2. B\n## Plan to reach more\n1. C\n",
			[]string{"1 pending A", "2 pending B", "3 pending C"}, nil},
		"a plan of bullets is prose": {"# The plan\n\nIntent:\n\n- avoid this\n- and that\n\n## Non-goals\n", nil, nil},
		"a legend is no work":        {"## Legend\n- [ ] open\n- [x] done\n## Work\n- [ ] a\n", []string{"1 pending a"}, nil},
		"what stands now is no work": {"## 当前状态\n| 任务 | 状态 |\n|--|--|\n| old | done |\n## P1: A\n## W1: B\n## W2: C\n", []string{"W1 pending B", "W2 pending C"}, nil},
		"headings beside their tasks": {"## Phase 1: A\n### 1.1 Alone\n### 1.2 B\n#### Task 1.2.1: b\n##### 1.2.1.1 Detail\n",
			[]string{"1.1 pending Alone", "1.2.1 pending b"}, nil},
	})
}

// FuzzAccount: each line with a box belongs to a task, says how far one is, is a criterion, or was left out, which is
// said.
func FuzzAccount(f *testing.F) {
	for _, src := range []string{"## Task 1: A\n- [ ] a\n## Notes\n- [x] b\n## Done when\n- [ ] c\n",
		"## Step 1: A\n## Step 2: B\n- [x] Step 1: A\n- [?] x\n", "| Task | Status |\n|-|-|\n| A | x |\n- [ ] a\n- [ ] b\n",
		"## Phase 1\n- [ ] a\n  - [ ] b\n## Legend\n- [ ] c\n# Checklist\n* [x] d\n1. [ ] e\n> - [ ] f\n"} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		p, err := Parse("plan.md", []byte(src))
		if err != nil || p.fault != nil {
			return
		}
		for n := range p.Lines {
			said := slices.ContainsFunc(p.findings, func(x tasks.Finding) bool { return x.Line == n+1 && x.Kind == tasks.KindLeft })
			criterion := p.Under(n) == prose.Checklist || p.Under(n) == prose.Criteria
			if p.Lines[n].Box != 0 && !p.Within(n) && !p.mentions[n] && !criterion && !said {
				t.Fatalf("line %d of %q is lost", n+1, src)
			}
		}
	})
}
