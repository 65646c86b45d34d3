package specbuild

import (
	"slices"
	"strings"
	"testing"

	"descartes/tasks"
)

const speckitSpec = `# Feature Specification: Login

## User Scenarios & Testing *(mandatory)*

### User Story 1 - Log in (Priority: P1)

Someone logs in.

**Why this priority**: Nothing works without.

**Acceptance Scenarios**:

1. **Given** a known user, **When** they log in, **Then** they see their page
2. **Given** an unknown user,
   **When** they log in,
   **Then** they see an error

---

### User Story 2 - Log out (Priority: P2)

Given that this is prose, it is no scenario.

### Edge Cases

- What happens when the server is down?
`

func TestCriteria(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		task  tasks.Task
		want  []string
		stays string // of the details, the description and the test strategy
	}{
		"none": {task: tasks.Task{Details: "Keep it small.\n\n- a\n- b",
			TestStrategy: "Run the tests:\n- all\n- twice"},
			stays: "Keep it small.\n\n- a\n- bRun the tests:\n- all\n- twice"},
		"acceptance list": {task: tasks.Task{Acceptance: "- It sorts\n- It is\n  stable"},
			want: []string{"It sorts", "It is stable"}},
		"acceptance text": {task: tasks.Task{Acceptance: "It sorts\nIt is stable"},
			want: []string{"It sorts", "It is stable"}},
		"test strategy": {task: tasks.Task{TestStrategy: "- [ ] `make` passes\n- [x] A table test\n"},
			want: []string{"`make` passes", "A table test"}},
		"heading": {task: tasks.Task{
			Details: "Do it.\n\n## Acceptance Criteria\n\n- A\n- B:\n  - b1\n  - b2\n\nMore of it.\n\n## Notes\n\n- no criterion\n"},
			want: []string{"A", "B: b1; b2"}, stays: "Do it.\n\n\n\nMore of it.\n\n## Notes\n\n- no criterion"},
		"bold line": {task: tasks.Task{
			Description: "As a user.\n\n**Acceptance criteria:**\n* A\n* B\n\nNot these:\n* C"},
			want: []string{"A", "B"}, stays: "As a user.\n\n\nNot these:\n* C"},
		"plain line": {task: tasks.Task{Details: "Acceptance criteria:\n1. A\n2. B"}, want: []string{"A", "B"}},
		"code in it": {task: tasks.Task{Details: "Acceptance criteria:\n- Prints\n  ```\n  1\n  ```\n- B"},
			want: []string{"Prints", "B"}, stays: "- Prints\n  ```\n  1\n  ```"},
		"scenarios": {task: tasks.Task{
			Details: "Intro.\n\nScenario: Known user\n  Given a user\n  When they log in\n  Then they are in\n  And it is logged\n\nGiven none\nWhen they log in\nThen they are out"},
			want: []string{"Scenario: Known user Given a user When they log in Then they are in And it is logged",
				"Given none When they log in Then they are out"}, stays: "Intro."},
		"openspec": {task: tasks.Task{
			Details: "#### Scenario: Expired\n- **WHEN** the token is old\n- **THEN** it is refused\n"},
			want: []string{"Scenario: Expired WHEN the token is old THEN it is refused"}},
		"prose": {task: tasks.Task{
			Details: "Given the parser, the reader then reads. Acceptance is up to you.\n\n- a"},
			stays: "Given the parser, the reader then reads. Acceptance is up to you.\n\n- a"},
		"said twice":    {task: tasks.Task{Acceptance: "- A", TestStrategy: "- A\n- B"}, want: []string{"A", "B"}},
		"terminal text": {task: tasks.Task{Acceptance: "- A\x1b[31m red\x00"}, want: []string{"A red"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDraft(Request{Task: c.task})
			var got []string
			for _, g := range d.accept {
				got = append(got, g.Texts...)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			x := d.Task
			if stays := x.Acceptance + x.Details + x.Description +
				x.TestStrategy; strings.TrimSpace(stays) != strings.TrimSpace(c.stays) {
				t.Errorf("the texts are left as %q, want %q", stays, c.stays)
			}
		})
	}
}

// A text without criteria is the same byte for byte, whatever else it holds.
func TestNoCriteria(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"phases", "numbered", "markers", "checklist", "nested"} {
		src := string(planFile(t, name))
		if rest, found := readCriteria(src, false, maxCriterionList); rest != src || found != nil {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

func TestStories(t *testing.T) {
	t.Parallel()
	stories, err := ParseStories("specs/login/spec.md", []byte(speckitSpec))
	if err != nil {
		t.Fatal(err)
	}
	s := stories["US1"]
	if len(stories) != 1 || s == nil || s.Name != "User Story 1 - Log in" || s.FirstLine != 13 || s.LastLine != 16 ||
		len(s.Scenarios) != 2 {
		t.Fatalf("got %+v (%d stories)", s, len(stories))
	}
	got := Criteria(Request{Task: tasks.Task{ID: "T1", Acceptance: "- Own"}, Story: s})
	want := []Criterion{{"Own", false}, {"Given a known user, When they log in, Then they see their page", true},
		{"Given an unknown user, When they log in, Then they see an error", true}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}

// The checklist is bounded, is in the source map, and what a document holds too gives way to the budget.
func TestAcceptanceBudget(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("- "+strings.Repeat("x", 3000)+"\n", 1) + strings.Repeat("- many\n", 1)
	plan := parsePlan(t, "# Plan\n\n## Task 1: A\n\n"+strings.Repeat("Text.\n\n", 100)+"**Acceptance criteria**\n\n"+
		long)
	req := Request{Task: tasks.Task{ID: "1", Title: "A", Acceptance: "- Own"}, Plan: plan}
	spec, err := Build(req)
	if err != nil {
		t.Fatal(err)
	}
	if x := spec.Sources[2]; x.Part != "acceptance" || x.FirstLine != 207 || x.LastLine != 208 || x.Rule == "" {
		t.Errorf("the source of the plan's criteria is %+v", x)
	}
	if strings.Count(spec.Text, "- [ ] ") != 3 || strings.Contains(spec.Text,
		"- [ ] "+strings.Repeat("x", maxCriterion+1)) {
		t.Errorf("the checklist is\n%s", spec.Text)
	}
	req.Budget = Budget{Tokens: 300, Cut: true}
	if spec, err = Build(req); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(spec.Text, "- [ ] Own\n") || strings.Contains(spec.Text, "- [ ] x") ||
		!slices.Contains(spec.Cut, "acceptance criteria in plan.md, line 207") {
		t.Errorf("cut %q:\n%s", spec.Cut, spec.Text)
	}
	most := tasks.Task{Acceptance: strings.Repeat("- A\n", 0)}
	for i := range 70 {
		most.Acceptance += "- criterion " + strings.Repeat("i", i+1) + "\n"
	}
	spec, err = Build(Request{Task: most})
	if n := strings.Count(spec.Text, "criterion i"); err != nil || n != 70 ||
		strings.Count(spec.Text, "- [ ] ") != maxCriterionList {
		t.Errorf("of 70 criteria %d are in the spec: %v", n, err)
	}
}
