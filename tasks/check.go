package tasks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"descartes/tasks/prose"
)

// Lint reports what a reader accepts silently but a run would trip over: statuses that contradict each other, a task
// that says nothing, an active tag that no list has. The project is at root.
func (f *File) Lint(root string) []Finding {
	l := &linter{File: f}
	for i := range f.tasks {
		if t := &f.tasks[i]; f.index[t.ID] == i {
			l.task(t)
		}
	}
	if tag, from, ok := Active(root); ok && !slices.Contains(Known(root), tag) {
		l.out = append(l.out, Finding{Kind: "tag", Message: fmt.Sprintf("%s names the tag %s, which no task file has",
			below(root, from), prose.Short(tag))})
	}
	return l.out
}

type linter struct {
	*File
	out []Finding
}

// task compares a task's status with those of its dependencies and subtasks.
func (l *linter) task(t *Task) {
	say := func(kind, format string, args ...any) {
		l.out = append(l.out, Finding{Line: t.Line, ID: t.ID, Kind: kind,
			Message: "task " + t.ID + ": " + fmt.Sprintf(format, args...)})
	}
	if strings.TrimSpace(t.Title) == "" {
		say("title", "it has no title")
	}
	if prose.Priority(t.Priority) == "" {
		say("priority", "priority %s is not one of critical, high, medium, low", prose.Short(t.Priority))
	}
	own, _ := l.Outcome(t.ID)
	for _, id := range t.DependsOn {
		switch s, ok := l.Outcome(id); {
		case ok && own == Done && s != Done:
			on, _ := l.Task(id)
			say("status", "it is done, but depends on %s, which is %s", id, cmp.Or(on.RawStatus, string(on.Status)))
		case own != Done && (s == Cancelled || s == Deferred):
			say("status", "it depends on %s, which is %s: it does not run until that changes", id, s)
		}
	}
	if t.Container() && t.Status != Done && t.Status != Expanded && own == Done && l.Holds(Blocked) {
		say("status", "all its subtasks are done, but it is %s", cmp.Or(t.RawStatus, string(t.Status)))
	}
}
