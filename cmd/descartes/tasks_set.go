package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"descartes/config"
	"descartes/internal/atomicfile"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/tasks"
)

func newTasksSetCmd() *cobra.Command {
	var a app
	cmd := &cobra.Command{
		Use:   "set <task> <status>",
		Short: "Change the status of a task",
		Args:  takes(2, 2, "a task and a status"),
		RunE:  a.does(func(args []string) error { return a.setStatus(args[0], args[1]) }),
	}
	a.register(cmd, "print the change as JSON")
	return cmd
}

func (a *app) setStatus(id, word string) error {
	c, file, err := a.open()
	if err != nil {
		return err
	}
	to, _ := tasks.ParseStatus(word)
	t, err := a.settable(file, c, id, to)
	if err != nil {
		return err
	}
	if t.Container() && (t.Status != tasks.Done || to != tasks.Pending) {
		return badInput("change its subtasks instead", "task %s has subtasks", t.ID)
	}
	if err := tasks.CanChange(t.Status, to); err != nil {
		return badInput("", "task %s: %w", t.ID, err)
	}
	change := statusChange{Task: store.TaskID{ID: t.ID, Numeric: t.Numeric}, From: t.Status, To: to,
		File: store.Relative(a.root, file.Path())}
	if !file.Holds(to) {
		return badInput("this file knows only done and pending", "%s has no word for %s", change.File, to)
	}
	text := fmt.Sprintf("task %s: %s -> %s\n", t.ID, change.From, to)
	if change.From == to {
		text = fmt.Sprintf("task %s: %s already\n", t.ID, to)
	}
	if change.From != to || tasks.Status(t.RawStatus) != to {
		if err := file.Save(map[string]tasks.Status{t.ID: to}); err != nil {
			return unwritable(err)
		}
	}
	return a.show(change, terminal.CleanLines(text))
}

// settable is a task whose status may be set by hand. A live loop takes that in when it starts its next task, like any
// edit of the list; it has the last word on a task that is under way, and on whether one that it ended is to be done
// again.
func (a *app) settable(file *tasks.File, c config.ScudConfig, id string, to tasks.Status) (*tasks.Task, error) {
	who, live := a.home.Owner(file)
	if !live {
		return ownTask(a.ctx(), a.home, file, c, id)
	}
	known, err := journal.Load(a.home.Events(who.Loop))
	if err != nil {
		return nil, err
	}
	t, ok := file.Task(id)
	switch ours := who.List == a.home.KeyOf(file); {
	case !ok:
		return nil, noTask(a.root, file, c, id)
	case ours && known.Task(id).Open(), ours && known.Task(id).Attempts > 0 && to == tasks.Pending:
		return nil, unowned(a.home, file)
	}
	return t, nil
}

func noTask(root string, file *tasks.File, c config.ScudConfig, id string) error {
	return badInput("descartes tasks list"+listFlags(root, file.Tag(), c.TasksFile), "tag %q has no task %q",
		file.Tag(), id)
}

// ownTask is a task whose status may be changed by hand: no live loop owns its list, and the list has what dead
// ones could not write any more.
func ownTask(ctx context.Context, home store.Home, file *tasks.File, c config.ScudConfig, id string) (*tasks.Task,
	error) {
	if err := unowned(home, file); err != nil {
		return nil, err
	}
	if err := home.CatchUp(ctx, atomicfile.OS(), file, time.Now, elsewhere(ctx, home, file)); err != nil {
		return nil, unwritable(err)
	}
	t, ok := file.Task(id)
	if !ok {
		return nil, noTask(filepath.Dir(string(home)), file, c, id)
	}
	return t, nil
}

// elsewhere reports of a branch whether its list is another one than the given one.
func elsewhere(ctx context.Context, home store.Home, file *tasks.File) func(branch string) bool {
	return func(branch string) bool {
		repo, err := openRepo(ctx, filepath.Dir(string(home)))
		if err != nil { // there is no other branch
			return false
		}
		defer repo.Close()
		return trunk.IsElsewhere(ctx, repo, file, branch)
	}
}

// unowned refuses to change a list that a live loop writes to.
func unowned(home store.Home, file *tasks.File) error {
	who, owned := home.Owner(file)
	if !owned {
		return nil
	}
	return &failure{code: exitInput, err: &store.BusyError{Holder: who},
		hint: "descartes pause " + who.Loop + " first: a run under way owns the statuses in its task file"}
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
