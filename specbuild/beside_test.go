package specbuild

import (
	"strings"
	"testing"

	"descartes/tasks"
	"descartes/tasks/plan"
)

// documents are texts by name that lie beside a list.
func documents(t *testing.T, texts ...string) *Beside {
	t.Helper()
	b := &Beside{Names: []string{"contracts/api.yaml"}}
	for i := 0; i < len(texts); i += 2 {
		b.Names = append(b.Names, texts[i])
		p, err := plan.Parse(texts[i], []byte(texts[i+1]))
		if err != nil {
			t.Fatal(err)
		}
		b.Texts = append(b.Texts, p)
	}
	return b
}

const requirements = `# Requirements

## Introduction

People log in.

## Requirements

### Requirement 1: Accounts

1. WHEN a password is stored THEN it SHALL be hashed

### Requirement 2: Sessions

1. WHEN it is old THEN it SHALL end

### Requirement 12: Logs

1. WHEN somebody fails THEN it SHALL be written

## 2. Not a requirement of its own

Nothing.
`

// A task gets what it names of the documents beside its list, what fits its title, and what they say of every task.
func TestBeside(t *testing.T) {
	t.Parallel()
	story := `# Shop

## User Story 1 - Cart

Items.

## User Story 2 - Pay

By card.

## Coding conventions

Tabs.
`
	for name, tt := range map[string]struct {
		task    tasks.Task
		parents []tasks.Task
		has     []string
		hasNot  []string
	}{
		"requirements": {task: tasks.Task{ID: "1", Title: "Store",
			Details: "- do\n- _Requirements: 1.1, 12.1_"}, has: []string{"hashed", "be written", "People log in.",
			"Tabs.", "contracts/api.yaml"}, hasNot: []string{"SHALL end", "Nothing.", "By card."}},
		"of the container": {task: tasks.Task{ID: "1.1", Title: "Store"},
			parents: []tasks.Task{{ID: "1", Title: "All", Details: "Requirements: 2"}},
			has:     []string{"SHALL end", "Nothing."}, hasNot: []string{"hashed"}},
		"story": {task: tasks.Task{ID: "T1", Title: "Charge", Story: "US2"},
			has: []string{"By card.", "Tabs."}, hasNot: []string{"Items.", "hashed"}},
		"nothing but the general": {task: tasks.Task{ID: "9", Title: "Zebra"},
			has: []string{"People log in.", "Tabs."}, hasNot: []string{"hashed", "By card.", "Items."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := build(t, Request{Task: tt.task, Parents: tt.parents,
				Beside: documents(t, "requirements.md", requirements, "spec.md", story)})
			for _, want := range tt.has {
				if strings.Count(spec.Text, want) != 1 {
					t.Errorf("%q stands there %d times in\n%s", want, strings.Count(spec.Text, want), spec.Text)
				}
			}
			for _, not := range tt.hasNot {
				if strings.Contains(spec.Text, not) {
					t.Errorf("%q stands in\n%s", not, spec.Text)
				}
			}
		})
	}
}

// What the documents say together is bounded, and goes first where the budget is short.
func TestBesideIsBounded(t *testing.T) {
	t.Parallel()
	long := "# A\n\n## Overview\n\n" + strings.Repeat("Word after word.\n\n", 400)
	req := Request{Task: tasks.Task{ID: "1", Title: "Store", Details: "Requirements: 1"},
		Beside: documents(t, "a.md", long, "b.md", long, "c.md", long, "requirements.md", requirements)}
	spec := build(t, req)
	if n := len(spec.Text); n > maxBeside+3000 {
		t.Errorf("%d bytes", n)
	}
	if !strings.Contains(spec.Text, "hashed") {
		t.Error("what the task names is missing")
	}
	req.Budget = Budget{Tokens: 500, Cut: true}
	if short := build(t, req); !strings.Contains(short.Text, "hashed") ||
		strings.Contains(short.Text, "Word after word") || len(short.Cut) != 1 {
		t.Errorf("cut %q\n%s", short.Cut, short.Text)
	}
}
