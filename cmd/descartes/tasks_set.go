package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/atomicfile"
	"descartes/loop"
	"descartes/tasks"
)

func newTasksSetCmd() *cobra.Command {
	var look looking
	cmd := &cobra.Command{
		Use:   "set <task> <status>",
		Short: "Change the status of a task",
		Args:  takes(2, 2, "a task and a status"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setStatus(cmd, look, args[0], args[1])
		},
	}
	look.register(cmd, "print the change as JSON")
	var words []string
	for _, s := range []tasks.Status{tasks.Pending, tasks.InProgress, tasks.Done, tasks.Review, tasks.Blocked, tasks.Deferred, tasks.Cancelled, tasks.Failed} {
		words = append(words, string(s))
	}
	look.completeTask(cmd, words...)
	return cmd
}

func setStatus(cmd *cobra.Command, look looking, id, word string) error {
	root, c, err := look.source(cmd)
	if err != nil {
		return err
	}
	file, err := loop.OpenTasks(root, c)
	if err != nil {
		return err
	}
	home := loop.NewHome(root)
	t, err := ownTask(cmd.Context(), home, file, c, id)
	if err != nil {
		return err
	}
	to, _ := tasks.ParseStatus(word)
	if t.Container() && (t.Status != tasks.Done || to != tasks.Pending) {
		return badInput("set its subtasks: it is done when they are; one that is done can be set to pending", "task %s has subtasks", t.ID)
	}
	if err := tasks.CanChange(t.Status, to); err != nil {
		return badInput("", "task %s: %w", t.ID, err)
	}
	if !file.Holds(to) {
		return badInput("there are done and pending", "%s has no word for %s", shown(root, file.Path()), to)
	}
	change := statusChange{Task: loop.TaskID{ID: t.ID, Numeric: t.Numeric}, From: t.Status, To: to, File: shown(root, file.Path())}
	if same := change.From == to && tasks.Status(t.RawStatus) == to; !same {
		if err := file.Save(atomicfile.OS(), map[string]tasks.Status{change.Task.ID: to}); err != nil {
			return unwritable(err)
		}
	}
	if look.json {
		return writeJSON(cmd.OutOrStdout(), change)
	}
	return write(cmd.OutOrStdout(), change.text())
}

// ownTask is a task whose status may be changed by hand: no live loop owns its list, and the list has what dead
// ones could not write any more.
func ownTask(ctx context.Context, home loop.Home, file *tasks.File, c loop.ScudConfig, id string) (*tasks.Task, error) {
	if err := unowned(home, file); err != nil {
		return nil, err
	}
	if err := home.CatchUp(ctx, atomicfile.OS(), file, time.Now); err != nil {
		return nil, unwritable(err)
	}
	t, ok := file.Task(id)
	if !ok {
		return nil, badInput("descartes tasks list"+ofTag(file.Tag(), c.TasksFile), "tag %q has no task %q", file.Tag(), id)
	}
	return t, nil
}

// unowned refuses to change a list that a live loop writes to.
func unowned(home loop.Home, file *tasks.File) error {
	who, owned := home.Owner(file)
	if !owned {
		return nil
	}
	hint := "descartes loop pause " + who.Loop + " first: a running loop owns the statuses of its tag"
	if who.Tag != file.Tag() {
		hint = "descartes loop pause " + who.Loop + " first: a running loop owns its task file, which holds tag " + file.Tag() + " too"
	}
	return &failure{code: exitInput, err: &loop.BusyError{Holder: who}, hint: hint}
}

// unwritable is a list that its owner does not let us write: the user's to change.
func unwritable(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &failure{code: exitInput, err: err, hint: "make it writable first, e.g. with chmod u+w"}
}

type statusChange struct {
	Task loop.TaskID  `json:"task"`
	From tasks.Status `json:"from"`
	To   tasks.Status `json:"to"`
	File string       `json:"file"`
}

func (c statusChange) text() string {
	if c.From == c.To {
		return fmt.Sprintf("task %s: %s already\n", clean(c.Task.ID), c.To)
	}
	return fmt.Sprintf("task %s: %s -> %s\n", clean(c.Task.ID), clean(string(c.From)), c.To)
}
