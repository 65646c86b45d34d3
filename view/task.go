package view

import (
	"cmp"
	"encoding/json"
	"slices"

	"descartes/loop/store"
	"descartes/tasks"
)

// TaskDetail is everything about one task. A container has no state.
type TaskDetail struct {
	Task
	Description  string         `json:"description,omitempty"`
	Details      string         `json:"details,omitempty"`
	TestStrategy string         `json:"test_strategy,omitempty"`
	Acceptance   string         `json:"acceptance,omitempty"`
	Priority     string         `json:"priority,omitempty"`
	Complexity   measure        `json:"complexity,omitempty"`
	Parent       *store.TaskID  `json:"parent_id,omitempty"`
	Children     []store.TaskID `json:"subtasks,omitempty"`
	Wave         int            `json:"wave,omitempty"`
	Line         int            `json:"line"`
}

// measure is a number in JSON if its text is one, else text.
type measure string

func (m measure) MarshalJSON() ([]byte, error) {
	if m != "" && (m[0] == '-' || m[0] >= '0' && m[0] <= '9') && json.Valid([]byte(m)) {
		return []byte(m), nil
	}
	return json.Marshal(string(m))
}

// Details lists every task in the file's order, containers included, each id once.
func (b *Board) Details() []TaskDetail {
	out, seen := []TaskDetail{}, map[string]bool{}
	for i := range b.File.Tasks() {
		t := &b.File.Tasks()[i]
		if !seen[t.ID] {
			seen[t.ID] = true
			out = append(out, b.Detail(t))
		}
	}
	return out
}

// Detail is one of them.
func (b *Board) Detail(t *tasks.Task) TaskDetail {
	d := TaskDetail{Description: t.Description, Details: t.Details, TestStrategy: t.TestStrategy,
		Acceptance: t.Acceptance, Priority: t.Priority,
		Complexity: measure(t.Complexity), Children: b.ids(t.Children), Line: t.Line}
	if t.Parent != "" {
		parent := b.ID(t.Parent)
		d.Parent = &parent
	}
	if t.Container() {
		d.Task = Task{ID: b.ID(t.ID), Title: t.Title, Verify: t.Verify, Status: t.Status, DependsOn: b.dependsOn(t),
			State: "container", Grade: b.grade(t.ID)}
		return d
	}
	if _, listed := b.Graph.Task(t.ID); !listed {
		d.Task = b.ownTask(t)
		return d
	}
	d.Task, d.Wave = b.task(t.ID), b.Graph.Wave(t.ID)
	d.State = string(b.Graph.State(t.ID))
	return d
}

// Finding is something suspicious in a list.
type Finding struct {
	File    string         `json:"file,omitempty"` // if it is not the task file
	Line    int            `json:"line,omitempty"`
	Kind    string         `json:"kind"`
	Tasks   []store.TaskID `json:"tasks"`
	Message string         `json:"message"`
}

// Findings joins what the reader and the graph have to say, in the order of the file.
func (b *Board) Findings() []Finding {
	out := b.PlanFindings(slices.Concat(b.File.Findings(), b.File.Lint(b.Root)))
	for _, one := range b.PlanFindings(b.job.Conflicts) {
		one.File, one.Kind = b.Scud.PlanPath, "plan"
		out = append(out, one)
	}
	for _, p := range b.Graph.Problems() {
		one := Finding{Kind: p.Kind, Tasks: b.ids(p.Tasks), Message: p.Message}
		if slices.ContainsFunc(out, func(f Finding) bool {
			return f.Kind == p.Kind && slices.Equal(f.Tasks, one.Tasks)
		}) {
			continue
		}
		if len(p.Tasks) > 0 {
			if t, ok := b.File.Task(p.Tasks[0]); ok {
				one.Line = t.Line
			}
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line))
	})
	return slices.CompactFunc(out, func(x, y Finding) bool {
		return x.File == y.File && x.Line == y.Line && x.Kind == y.Kind && x.Message == y.Message
	})
}

// PlanFindings is what was odd about a plan.
func (b *Board) PlanFindings(found []tasks.Finding) []Finding {
	out := []Finding{}
	for _, f := range found {
		one := Finding{Line: f.Line, Kind: f.Kind, Tasks: []store.TaskID{}, Message: f.Message}
		if f.ID != "" {
			one.Tasks = b.ids([]string{f.ID})
		}
		out = append(out, one)
	}
	return out
}
