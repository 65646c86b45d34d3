package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"descartes/loop"
	"descartes/tasks"
)

func newTasksListCmd() *cobra.Command {
	var look looking
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tasks of a tag",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			for _, message := range b.elsewhere() {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", clean(message))
			}
			if look.json {
				return writeJSON(cmd.OutOrStdout(), b.details())
			}
			return write(cmd.OutOrStdout(), b.table())
		},
	}
	look.register(cmd, "print the tasks as JSON")
	look.registerGraph(cmd)
	return cmd
}

// detailJSON is everything about one task. A container has no state.
type detailJSON struct {
	taskJSON
	Description  string        `json:"description,omitempty"`
	Details      string        `json:"details,omitempty"`
	TestStrategy string        `json:"test_strategy,omitempty"`
	Priority     string        `json:"priority,omitempty"`
	Complexity   measure       `json:"complexity,omitempty"`
	Parent       *loop.TaskID  `json:"parent_id,omitempty"`
	Children     []loop.TaskID `json:"subtasks,omitempty"`
	Wave         int           `json:"wave,omitempty"`
	Line         int           `json:"line"`
}

// measure is a number in JSON where its text is one, and text elsewhere.
type measure string

func (m measure) MarshalJSON() ([]byte, error) {
	if m != "" && (m[0] == '-' || m[0] >= '0' && m[0] <= '9') && json.Valid([]byte(m)) {
		return []byte(m), nil
	}
	return json.Marshal(string(m))
}

// details lists every task in the file's order, containers included, each id once.
func (b *board) details() []detailJSON {
	out := []detailJSON{}
	seen := map[string]bool{}
	for i := range b.file.Tasks() {
		t := &b.file.Tasks()[i]
		if !seen[t.ID] {
			seen[t.ID] = true
			out = append(out, b.detail(t))
		}
	}
	return out
}

func (b *board) detail(t *tasks.Task) detailJSON {
	d := detailJSON{Description: t.Description, Details: t.Details, TestStrategy: t.TestStrategy, Priority: t.Priority,
		Complexity: measure(t.Complexity), Children: b.fileIDs(t.Children), Line: t.Line}
	d.taskJSON = taskJSON{ID: loop.TaskID{ID: t.ID, Numeric: t.Numeric}, Title: t.Title, Status: t.Status, DependsOn: b.dependsOn(t), Agent: b.agent(t)}
	if t.Parent != "" {
		d.Parent = &b.fileIDs([]string{t.Parent})[0]
	}
	if t.Container() {
		d.State = "container"
		return d
	}
	d.Status = b.graph.Status(t.ID)
	state, cause := b.graph.State(t.ID)
	d.State, d.Cause, d.Wave = string(state), cause, b.graph.Wave(t.ID)
	return d
}

// fileIDs gives ids, containers' too, the form that they have in the file.
func (b *board) fileIDs(list []string) []loop.TaskID {
	out := make([]loop.TaskID, 0, len(list))
	for _, id := range list {
		t, ok := b.file.Task(id)
		out = append(out, loop.TaskID{ID: id, Numeric: ok && t.Numeric})
	}
	return out
}

// table is the list for a person: containers stand before the tasks in them.
func (b *board) table() string {
	var s strings.Builder
	list := b.details()
	ids, states := 0, 0
	for _, t := range list {
		ids, states = max(ids, width(clean(t.ID.ID))), max(states, width(clean(string(t.Status))))
	}
	for _, t := range list {
		id, status := clean(t.ID.ID), clean(string(t.Status))
		title := clean(t.Title)
		if len(t.Children) > 0 {
			title += fmt.Sprintf("  (%s)", count(len(t.Children), "subtask"))
		} else if t.State == "held" && t.Cause != "" {
			title += fmt.Sprintf("  (held: %s)", clean(t.Cause))
		}
		fmt.Fprintf(&s, "%s%s  %s%s  %s\n", id, strings.Repeat(" ", ids-width(id)), status, strings.Repeat(" ", states-width(status)), title)
	}
	return s.String()
}
