package specbuild

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"descartes/tasks"
	"descartes/tasks/plan"
)

func build(t *testing.T, req Request) Spec {
	t.Helper()
	spec, err := Build(req)
	if err != nil {
		t.Fatal(err)
	}
	checkBasics(t, spec)
	return spec
}

func checkBasics(t *testing.T, spec Spec) {
	t.Helper()
	if spec.Tokens != Tokens(spec.Text) || !utf8.ValidString(spec.Text) || strings.ContainsRune(spec.Text, 0) ||
		!strings.HasPrefix(spec.Text, "# Task ") || !strings.HasSuffix(spec.Text, "\n") ||
		strings.HasSuffix(spec.Text, "\n\n") {
		t.Errorf("bad text of %d tokens: %q", spec.Tokens, spec.Text)
	}
}

func TestFilesMustBeText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a\x00b", "\xff", "\xfe\xffa"} {
		_, err := Build(Request{Task: tasks.Task{ID: "1"}, Files: []File{{"ok.md", "fine"}, {"logo.png", text}}})
		if err == nil || !strings.HasPrefix(err.Error(), "spec file logo.png is not") &&
			!strings.HasPrefix(err.Error(), "spec file logo.png is UTF-16") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// Text from tasks and outputs may hold anything and must not break the prompt.
func TestForeignText(t *testing.T) {
	t.Parallel()
	spec := build(t, Request{
		Tag: "x\ny",
		Task: tasks.Task{ID: "1", Title: "-p /slash\n# two\x00lines",
			Description: "\r\n  indented\r\nnext\x1b[31mred\x1b[0m\x07\n\n"},
		Attempt: Attempt{Failure: &Failure{
			Attempt: 1, Verdict: "failed", Reason: "exit\n1", Output: "\xff\xfe\x1b]0;title\x07ok\n~~~\n`````\n",
			Words: strings.Repeat("päh ", 4000) + "\nend",
		}},
	})
	for _, want := range []string{
		"# Task 1: -p /slash # twolines (tag x y)\n", "\n\n  indented\nnextred\n\n", "failed (exit 1)",
		"``````\n\ufffdok\n~~~\n`````\n``````\n", "[...]\n", "\nend\n```\n",
	} {
		if !strings.Contains(spec.Text, want) {
			t.Errorf("no %q in\n%s", want, spec.Text)
		}
	}
	if len(spec.Text) > maxWords+4000 {
		t.Errorf("last words are not cut: %d bytes", len(spec.Text))
	}
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	req := Request{
		Task: tasks.Task{ID: "1", Title: "T", Description: "{report} {plan}"}, Verify: "make", Handoff: "from before",
		Files: []File{{"a.md", "{task}"}}, Attempt: Attempt{Failure: &Failure{Attempt: 1, Verdict: "failed"}},
	}
	has := func(template string, want ...string) {
		t.Helper()
		req.Template = template
		text, at := build(t, req).Text, 0
		for _, w := range want {
			i := strings.Index(text[at:], w)
			if i < 0 {
				t.Fatalf("%q: no %q behind byte %d of\n%s", template, w, at, text)
			}
			at += i + len(w)
		}
	}
	has("- {task}", "# Task 1: T\n\n- ", "{report} {plan}", "## Handoff", "## The last attempt", "## How to report")
	has("{report}{failure}{handoff}\nbye", "## How to report", "## The last attempt", "## Handoff", "\nbye\n")
	has("{custom} {} {x} {task {{verification}}", "<document name=\"a.md\">\n{task}\n", " {} {x} {task {",
		"## Verification", "}\n")
	has("{plan}|", "# Task 1: T\n\n|\n")
	req.Template = "{report}{failure}{handoff}{task}{task}"
	if n := strings.Count(build(t, req).Text, "How to report"); n != 1 {
		t.Errorf("reported %d times", n)
	}
}

// bulky is a request with something in every part.
func bulky(t *testing.T) Request {
	t.Helper()
	list := taskFile(t, "phases")
	task := list[4]
	task.Description = "The task's own words."
	return Request{
		Tag: "t", Task: task, Parents: []tasks.Task{{ID: "0", Title: "Parent",
			Description: strings.Repeat("parent ", 50)}},
		Dependencies: []Dependency{{ID: "1", Title: "Dep", Delivered: strings.Repeat("delivered ", 50)}},
		Plan: parsePlan(t, strings.Replace(string(planFile(t, "phases")), "A path must exist;",
			strings.Repeat("Long paragraph.\n\n", 200)+"A path must exist;", 1)),
		Files:   []File{{"first.md", strings.Repeat("first\n", 100)}, {"second.md", strings.Repeat("second\n", 100)}},
		Handoff: strings.Repeat("handoff ", 50),
		Attempt: Attempt{Number: 2, Failure: &Failure{Attempt: 1, Verdict: "failed",
			Output: strings.Repeat("output ", 50), Words: "words"}},
		Verify: "make check",
	}
}

// With a budget the least specific parts go first, and the text says so.
func TestBudget(t *testing.T) {
	t.Parallel()
	req := bulky(t)
	whole := build(t, req)
	if whole.Over || len(whole.Cut) > 0 {
		t.Errorf("without a budget: over %v, cut %v", whole.Over, whole.Cut)
	}
	req.Budget.Tokens = whole.Tokens - 1
	if warned := build(t, req); !warned.Over || warned.Text != whole.Text {
		t.Errorf("a budget alone warns and changes nothing: over %v, cut %v", warned.Over, warned.Cut)
	}
	req.Budget.Cut = true
	order := []string{
		"what plan.md says of every task", "second.md", "first.md", "plan.md, lines ", "success criteria in plan.md",
		"handoff", "the tasks that this one is a part of",
		"what its dependencies delivered", "output of the last attempt",
	}
	for size := whole.Tokens - 1; size > 360; size -= 97 {
		req.Budget.Tokens = size
		spec := build(t, req)
		if spec.Over || spec.Tokens > size {
			t.Fatalf("budget %d: %d tokens, cut %v", size, spec.Tokens, spec.Cut)
		}
		for i, name := range spec.Cut {
			if !strings.HasPrefix(name, order[i]) || !strings.Contains(spec.Text, name) {
				t.Fatalf("budget %d: cut %v", size, spec.Cut)
			}
		}
	}
	req.Budget.Tokens = 1
	least := build(t, req)
	if !least.Over || len(least.Cut) != len(order) {
		t.Errorf("got over %v, cut %v", least.Over, least.Cut)
	}
	for _, want := range []string{"The task's own words.", "make check", "COMPLETE", "Left out"} {
		if !strings.Contains(least.Text, want) {
			t.Errorf("no %q in\n%s", want, least.Text)
		}
	}
	if again := bulky(t); len(req.Files) != len(again.Files) {
		t.Error("the caller's request was changed")
	}
}

// A plan section is shortened at the end of a block, and the source map says how far it goes.
func TestSectionIsCutAtBlocks(t *testing.T) {
	t.Parallel()
	req := bulky(t)
	req.Files, req.Budget.Tokens, req.Budget.Cut = nil, 1030, true
	spec := build(t, req)
	for _, s := range spec.Sources {
		if s.Part == "plan" {
			if s.FirstLine != 97 || s.LastLine <= 100 || s.LastLine >= 500 || s.Tokens > 1030 {
				t.Errorf("got %+v", s)
			}
		}
	}
	if !strings.Contains(spec.Text, "Long paragraph.\n</plan>") || len(spec.Cut) != 2 {
		t.Errorf("cut %v", spec.Cut)
	}
}

func TestOutlineIsCutFirst(t *testing.T) {
	t.Parallel()
	req := bulky(t)
	req.Task = tasks.Task{ID: "77", Title: "Unheard of"}
	req.Budget.Tokens, req.Budget.Cut = build(t, req).Tokens-1, true
	if spec := build(t, req); len(spec.Cut) != 1 || spec.Cut[0] != "outline of plan.md" ||
		strings.Contains(spec.Text, "## The plan") {
		t.Errorf("cut %v\n%s", spec.Cut, spec.Text)
	}
	req.Budget.Tokens = 0
	if s := req.Plan.Section(req.Task, nil); s.Outline == "" || s.Overview == nil {
		t.Errorf("cutting one spec changed the plan: %+v", s)
	}
}

// The same request gives the same bytes, from any goroutine and after any other question.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	list := taskFile(t, "phases")
	want := map[string]string{}
	for _, task := range list {
		want[task.ID] = build(t, Request{Task: task, Parents: parentsOf(list, task.ID),
			Plan: parsePlan(t, string(planFile(t, "phases")))}).Text
	}
	p := parsePlan(t, string(planFile(t, "phases")))
	other := taskFile(t, "numbered")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range list {
				task := list[(i*3+j)%len(list)]
				p.Section(other[j%len(other)], nil)
				spec, err := Build(Request{Task: task, Parents: parentsOf(list, task.ID), Plan: p})
				if err != nil || spec.Text != want[task.ID] {
					t.Errorf("task %s differs: %v\n%s", task.ID, err, spec.Text)
				}
			}
		})
	}
	wg.Wait()
}

// A task without anything but its id is still a prompt.
func TestBareTask(t *testing.T) {
	t.Parallel()
	spec := build(t, Request{Task: tasks.Task{ID: "1"}})
	if !strings.HasPrefix(spec.Text, "# Task 1\n\nDo this one task") || strings.Contains(spec.Text, "\n\n\n") {
		t.Errorf("got\n%s", spec.Text)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	req := Request{Task: tasks.Task{ID: "3", Title: "Indent"},
		Answers: []Answer{{Question: "Tabs\nor spaces?", Text: "Tabs.\x1b[1m\n\nReally."}, {Text: "And short lines."}}}
	s, err := Build(req)
	if err != nil {
		t.Fatal(err)
	}
	const want = "\n## Questions and answers\n\nThe person who wants this task done has decided:\n" +
		"\nQuestion:\n\n> Tabs\n> or spaces?\n\nAnswer:\n\n> Tabs.\n> \n> Really.\n\n> And short lines.\n\n"
	if !strings.Contains(s.Text, want) || len(s.Sources) < 2 || s.Sources[1].Part != "answers" {
		t.Errorf("got %s %+v", s.Text, s.Sources)
	}
	req.Template = "Do {task}.\n\n{answers}\n\nNow."
	if s, err = Build(req); err != nil || strings.Count(s.Text, "And short lines.") != 1 ||
		strings.Index(s.Text, "And short lines.") > strings.Index(s.Text, "Now.") {
		t.Errorf("by template: %s", s.Text)
	}
	req.Template = "Do {task}."
	if s, err = Build(req); err != nil || strings.Count(s.Text, "And short lines.") != 1 {
		t.Errorf("not named by the template: %s", s.Text)
	}
}

// What a plan says of every task is in every spec: its introduction and its sections of rules, once, and nothing that
// only sounds like them.
func TestWhatConcernsEveryTask(t *testing.T) {
	t.Parallel()
	const text = `# Shop

Money is counted in cents.

## Overview

A shop.

## Coding Conventions

Tabs.

## What We’re NOT doing

No discounts.

## Task 1: Validation rules

Rules of a form.

### Constraints

Of this task alone.

## Phase 2: House rules engine

## Task 2: Cart

A cart.
`
	p, err := plan.Parse("plan.md", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	list := []tasks.Task{{ID: "1", Title: "Validation rules"}, {ID: "2", Title: "Cart"}}
	for i, want := range [][]string{{"Money", "Tabs.", "No discounts.", "Rules of a form.", "Of this task alone."},
		{"Money", "Tabs.", "No discounts.", "A cart."}} {
		spec := build(t, Request{Task: list[i], Plan: p})
		var got []string
		for _, word := range []string{"Money", "A shop.", "Tabs.", "No discounts.", "Rules of a form.",
			"Of this task alone.", "engine", "A cart."} {
			switch strings.Count(spec.Text, word) {
			case 1:
				got = append(got, word)
			case 0:
			default:
				t.Errorf("task %d: %q stands there twice", i+1, word)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("task %d: got %q, want %q\n%s", i+1, got, want, spec.Text)
		}
	}
}
