package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/atomicfile"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/tasks"
	"descartes/view"
)

func newTasksSetCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "set <task> <status>",
		Short: "Change the status of a task",
		Args:  takes(2, 2, "a task and a status"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setStatus(cmd, look, args[0], args[1])
		},
	}
	look.register(cmd, "print the change as JSON")
	return cmd
}

func setStatus(cmd *cobra.Command, look tagFlags, id, word string) error {
	root, c, file, err := look.open(cmd)
	if err != nil {
		return err
	}
	to, _ := tasks.ParseStatus(word)
	t, err := settable(cmd.Context(), root, file, c, id, to)
	if err != nil {
		return err
	}
	if t.Container() && (t.Status != tasks.Done || to != tasks.Pending) {
		return badInput("set its subtasks: it is done when they are; one that is done can be set to pending", "task %s has subtasks", t.ID)
	}
	if err := tasks.CanChange(t.Status, to); err != nil {
		return badInput("", "task %s: %w", t.ID, err)
	}
	if !file.Holds(to) {
		return badInput("there are done and pending", "%s has no word for %s", view.Relative(root, file.Path()), to)
	}
	change := statusChange{Task: store.TaskID{ID: t.ID, Numeric: t.Numeric}, From: t.Status, To: to, File: view.Relative(root, file.Path())}
	if same := change.From == to && tasks.Status(t.RawStatus) == to; !same {
		if err := file.Save(map[string]tasks.Status{change.Task.ID: to}); err != nil {
			return unwritable(err)
		}
	}
	return show(cmd.OutOrStdout(), look.json, change, change.text())
}

// settable is a task whose status may be set by hand. A live loop takes that in when it starts its next task, like any edit of the list; it has
// the last word on a task that is under way, and on whether one that it ended is to be done again, and one in the project's folder on all.
func settable(ctx context.Context, root string, file *tasks.File, c loop.ScudConfig, id string, to tasks.Status) (*tasks.Task, error) {
	home := store.NewHome(root)
	who, live := home.Owner(file)
	if !live || workspace.Here(poolOf(root)) {
		return ownTask(ctx, home, file, c, id)
	}
	known, err := journal.Load(home.Events(who.Loop))
	if err != nil {
		return nil, err
	}
	t, ok := file.Task(id)
	switch ours := who.Tag == file.Tag(); {
	case !ok:
		return nil, noTask(home, file, c, id)
	case ours && known.Task(id).Open(), ours && known.Task(id).Attempts > 0 && to == tasks.Pending:
		return nil, unowned(home, file)
	}
	return t, nil
}

func noTask(home store.Home, file *tasks.File, c loop.ScudConfig, id string) error {
	return badInput("descartes tasks list"+listFlags(filepath.Dir(string(home)), file.Tag(), c.TasksFile), "tag %q has no task %q", file.Tag(), id)
}

// ownTask is a task whose status may be changed by hand: no live loop owns its list, and the list has what dead
// ones could not write any more.
func ownTask(ctx context.Context, home store.Home, file *tasks.File, c loop.ScudConfig, id string) (*tasks.Task, error) {
	if err := unowned(home, file); err != nil {
		return nil, err
	}
	if err := home.CatchUp(ctx, atomicfile.OS(), file, time.Now); err != nil {
		return nil, unwritable(err)
	}
	t, ok := file.Task(id)
	if !ok {
		return nil, noTask(home, file, c, id)
	}
	return t, nil
}

// unowned refuses to change a list that a live loop writes to.
func unowned(home store.Home, file *tasks.File) error {
	who, owned := home.Owner(file)
	if !owned {
		return nil
	}
	hint := "descartes loop pause " + who.Loop + " first: a running loop owns the statuses of its tag"
	if who.Tag != file.Tag() {
		hint = "descartes loop pause " + who.Loop + " first: a running loop owns its task file, which holds tag " + file.Tag() + " too"
	}
	return &failure{code: exitInput, err: &store.BusyError{Holder: who}, hint: hint}
}

// unwritable is a list that its owner does not let us write: the user's to change.
func unwritable(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &failure{code: exitInput, err: err, hint: "make it writable first, e.g. with chmod u+w"}
}

type statusChange struct {
	Task store.TaskID `json:"task"`
	From tasks.Status `json:"from"`
	To   tasks.Status `json:"to"`
	File string       `json:"file"`
}

func (c statusChange) text() string {
	if c.From == c.To {
		return fmt.Sprintf("task %s: %s already\n", terminal.Clean(c.Task.ID), c.To)
	}
	return fmt.Sprintf("task %s: %s -> %s\n", terminal.Clean(c.Task.ID), terminal.Clean(string(c.From)), c.To)
}
