package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"descartes/internal/terminal"
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

// measure is a number in JSON where its text is one, and text elsewhere.
type measure string

func (m measure) MarshalJSON() ([]byte, error) {
	if m != "" && (m[0] == '-' || m[0] >= '0' && m[0] <= '9') && json.Valid([]byte(m)) {
		return []byte(m), nil
	}
	return json.Marshal(string(m))
}

// Details lists every task in the file's order, containers included, each id once.
func (b *Board) Details() []TaskDetail {
	out := []TaskDetail{}
	seen := map[string]bool{}
	for i := range b.File.Tasks() {
		t := &b.File.Tasks()[i]
		if !seen[t.ID] {
			seen[t.ID] = true
			out = append(out, b.Detail(t))
		}
	}
	return out
}

func (b *Board) Detail(t *tasks.Task) TaskDetail {
	d := TaskDetail{Description: t.Description, Details: t.Details, TestStrategy: t.TestStrategy, Acceptance: t.Acceptance, Priority: t.Priority,
		Complexity: measure(t.Complexity), Children: b.FileIDs(t.Children), Line: t.Line}
	d.Task = Task{ID: store.TaskID{ID: t.ID, Numeric: t.Numeric}, Title: t.Title, Verify: t.Verify, Status: t.Status, DependsOn: b.dependsOn(t), Agent: b.agent(t), Grade: b.grade(t.ID)}
	if t.Parent != "" {
		d.Parent = &b.FileIDs([]string{t.Parent})[0]
	}
	if t.Container() {
		d.State = "container"
		return d
	}
	d.Status = b.Graph.Status(t.ID)
	state, cause := b.Graph.State(t.ID)
	d.State, d.Cause, d.Wave, d.Stale = string(state), cause, b.Graph.Wave(t.ID), b.isStale(t.ID)
	return d
}

// Table is the list for a person: containers stand before the tasks in them.
func (b *Board) Table() string {
	var s strings.Builder
	list := b.Details()
	ids, states := 0, 0
	for _, t := range list {
		ids, states = max(ids, terminal.Width(terminal.Clean(t.ID.ID))), max(states, terminal.Width(terminal.Clean(string(t.Status))))
	}
	for _, t := range list {
		id, status := terminal.Clean(t.ID.ID), terminal.Clean(string(t.Status))
		title := terminal.Clean(t.Title)
		if len(t.Children) > 0 {
			title += fmt.Sprintf("  (%s)", terminal.Count(len(t.Children), "subtask"))
		} else if t.State == "held" && t.Cause != "" {
			title += fmt.Sprintf("  (held: %s)", terminal.Clean(t.Cause))
		} else if t.Grade != "" {
			title += fmt.Sprintf("  (%s)", t.Grade)
		}
		if t.Stale != nil {
			title += fmt.Sprintf("  (stale: %s)", terminal.Clean(t.Stale.String()))
		}
		fmt.Fprintf(&s, "%s%s  %s%s  %s\n", id, strings.Repeat(" ", ids-terminal.Width(id)), status, strings.Repeat(" ", states-terminal.Width(status)), title)
	}
	return s.String()
}

func (d *TaskDetail) Text() string {
	var s strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&s, "  %-13s %s\n", name+":", value)
		}
	}
	fmt.Fprintf(&s, "%s %s\n", terminal.Clean(d.ID.ID), terminal.Clean(d.Title))
	field("Status", terminal.Clean(string(d.Status)))
	state := d.State
	if d.Cause != "" {
		state += " (" + terminal.Clean(d.Cause) + ")"
	}
	field("State", state)
	if d.Stale != nil {
		field("Stale", terminal.Clean(d.Stale.String()))
	}
	if d.Wave > 0 {
		field("Wave", strconv.Itoa(d.Wave))
	}
	field("Depends on", IDList(d.DependsOn))
	if d.Parent != nil {
		field("Part of", terminal.Clean(d.Parent.ID))
	}
	field("Subtasks", IDList(d.Children))
	field("Priority", terminal.Clean(d.Priority))
	field("Complexity", terminal.Clean(string(d.Complexity)))
	field("Agent", d.Agent.String())
	field("Verify", terminal.Clean(d.Verify))
	field("Line", strconv.Itoa(d.Line))
	for _, part := range []struct{ name, Text string }{{"Description", d.Description}, {"Details", d.Details}, {"Test strategy", d.TestStrategy}, {"Acceptance criteria", d.Acceptance}} {
		if part.Text != "" {
			fmt.Fprintf(&s, "\n%s\n  %s\n", part.name, strings.ReplaceAll(terminal.CleanLines(strings.TrimRight(part.Text, "\n")), "\n", "\n  "))
		}
	}
	return s.String()
}

func IDList(list []store.TaskID) string {
	names := make([]string, 0, len(list))
	for _, id := range list {
		names = append(names, terminal.Clean(id.ID))
	}
	return strings.Join(names, ", ")
}

// Next is the first task in wave order that is ready, or "".
func (b *Board) Next() string {
	for _, w := range b.Graph.Waves() {
		for _, id := range w.Tasks {
			if b.Graph.Ready(id) {
				return id
			}
		}
	}
	return ""
}

func (b *Board) NothingReady() string {
	c := b.Graph.Counts()
	if c.Done == c.Total {
		return "nothing left to do: " + terminal.Count(c.Total, "task") + " done"
	}
	return fmt.Sprintf("no task is ready%s; descartes waves%s shows why", b.tally(), b.Named())
}

type Finding struct {
	File    string         `json:"file,omitempty"` // where it is not the task file
	Line    int            `json:"line,omitempty"`
	Kind    string         `json:"kind"`
	Tasks   []store.TaskID `json:"tasks"`
	Message string         `json:"message"`
}

// Findings joins what the reader and the graph have to say, in the order of the file.
func (b *Board) Findings() []Finding {
	out := []Finding{}
	for _, f := range slices.Concat(b.File.Findings(), b.File.Lint(b.Root)) {
		out = append(out, b.finding(f))
	}
	for _, f := range b.against {
		one := b.finding(f)
		one.File, one.Kind = b.Scud.PlanPath, "plan"
		out = append(out, one)
	}
	for _, p := range b.Graph.Problems() {
		if slices.ContainsFunc(out, func(f Finding) bool { return f.Kind == p.Kind && sameIDs(f.Tasks, p.Tasks) }) {
			continue
		}
		one := Finding{Kind: p.Kind, Tasks: b.FileIDs(p.Tasks), Message: p.Message}
		if len(p.Tasks) > 0 {
			if t, ok := b.File.Task(p.Tasks[0]); ok {
				one.Line = t.Line
			}
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(x, y Finding) int { return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line)) })
	return slices.CompactFunc(out, func(x, y Finding) bool {
		return x.File == y.File && x.Line == y.Line && x.Kind == y.Kind && x.Message == y.Message
	})
}

func (b *Board) finding(f tasks.Finding) Finding {
	one := Finding{Line: f.Line, Kind: f.Kind, Tasks: []store.TaskID{}, Message: f.Message}
	if f.ID != "" {
		one.Tasks = b.FileIDs([]string{f.ID})
	}
	return one
}

func sameIDs(list []store.TaskID, ids []string) bool {
	return slices.EqualFunc(list, ids, func(x store.TaskID, y string) bool { return x.ID == y })
}

func (b *Board) CheckText(found []Finding) string {
	var s strings.Builder
	list := terminal.Clean(Relative(b.Root, b.File.Path()))
	for _, f := range found {
		path := terminal.Clean(cmp.Or(f.File, list))
		if f.Line > 0 {
			fmt.Fprintf(&s, "%s:%d: %s: %s\n", path, f.Line, f.Kind, terminal.Clean(f.Message))
		} else {
			fmt.Fprintf(&s, "%s: %s: %s\n", path, f.Kind, terminal.Clean(f.Message))
		}
	}
	if len(found) == 0 {
		fmt.Fprintf(&s, "%s: %s, nothing suspicious\n", list, terminal.Count(b.Graph.Counts().Total, "task"))
	}
	return s.String()
}

// PlanFindings is what was odd about a plan.
func (b *Board) PlanFindings(found []tasks.Finding) []Finding {
	out := []Finding{}
	for _, f := range found {
		out = append(out, b.finding(f))
	}
	return out
}
