package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"descartes/loop"
	"descartes/tasks"
)

func newTasksCheckCmd() *cobra.Command {
	var look looking
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Name everything suspicious in a tag, with line numbers",
		Long: `Name everything suspicious in a tag, with line numbers: what a run goes on from, what it will not run
and why, statuses that contradict each other, a mirror or declared waves that are out of step, and what
SCUD would refuse or lose.

Exit codes: 0 nothing was found, 3 something was found, 2 the list cannot be read.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			found := b.findings()
			w := cmd.OutOrStdout()
			if look.json {
				err = writeJSON(w, found)
			} else {
				err = write(w, b.checkText(found))
			}
			if err == nil && len(found) > 0 {
				return quiet(exitBlocked)
			}
			return err
		},
	}
	look.register(cmd, "print the findings as JSON")
	look.registerGraph(cmd)
	return cmd
}

type findingJSON struct {
	File    string        `json:"file,omitempty"` // where it is not the task file
	Line    int           `json:"line,omitempty"`
	Kind    string        `json:"kind"`
	Tasks   []loop.TaskID `json:"tasks"`
	Message string        `json:"message"`
}

// findings joins what the reader and the graph have to say, in the order of the file.
func (b *board) findings() []findingJSON {
	out := []findingJSON{}
	for _, f := range slices.Concat(b.file.Findings(), b.file.Lint(b.root)) {
		out = append(out, b.finding(f))
	}
	for _, f := range b.against {
		one := b.finding(f)
		one.File, one.Kind = b.scud.PlanPath, "plan"
		out = append(out, one)
	}
	for _, p := range b.graph.Problems() {
		if slices.ContainsFunc(out, func(f findingJSON) bool { return f.Kind == p.Kind && sameIDs(f.Tasks, p.Tasks) }) {
			continue
		}
		one := findingJSON{Kind: p.Kind, Tasks: b.fileIDs(p.Tasks), Message: p.Message}
		if len(p.Tasks) > 0 {
			if t, ok := b.file.Task(p.Tasks[0]); ok {
				one.Line = t.Line
			}
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(x, y findingJSON) int { return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line)) })
	return slices.CompactFunc(out, func(x, y findingJSON) bool {
		return x.File == y.File && x.Line == y.Line && x.Kind == y.Kind && x.Message == y.Message
	})
}

func (b *board) finding(f tasks.Finding) findingJSON {
	one := findingJSON{Line: f.Line, Kind: f.Kind, Tasks: []loop.TaskID{}, Message: f.Message}
	if f.ID != "" {
		one.Tasks = b.fileIDs([]string{f.ID})
	}
	return one
}

func sameIDs(list []loop.TaskID, ids []string) bool {
	return slices.EqualFunc(list, ids, func(x loop.TaskID, y string) bool { return x.ID == y })
}

func (b *board) checkText(found []findingJSON) string {
	var s strings.Builder
	list := clean(shown(b.root, b.file.Path()))
	for _, f := range found {
		path := clean(orWord(f.File, list))
		if f.Line > 0 {
			fmt.Fprintf(&s, "%s:%d: %s: %s\n", path, f.Line, f.Kind, clean(f.Message))
		} else {
			fmt.Fprintf(&s, "%s: %s: %s\n", path, f.Kind, clean(f.Message))
		}
	}
	if len(found) == 0 {
		fmt.Fprintf(&s, "%s: %s, nothing suspicious\n", list, count(b.graph.Counts().Total, "task"))
	}
	return s.String()
}
