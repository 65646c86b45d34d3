package main

import (
	"fmt"
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
	look.register(cmd, "")
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
	if who, busy := home.Live(); busy && (who.Tag == file.Tag() || who.Tag == "") {
		return &failure{code: exitInput, err: &loop.BusyError{Holder: who}, hint: "descartes loop pause " + who.Loop + " first: a running loop owns the statuses of its tag"}
	}
	if err := home.CatchUp(cmd.Context(), atomicfile.OS(), file, time.Now); err != nil {
		return err
	}
	t, ok := file.Task(id)
	if !ok {
		return badInput("descartes tasks list"+ofTag(file.Tag(), c.TasksFile), "tag %q has no task %q", file.Tag(), id)
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
	from, name := t.Status, t.ID
	if from == to && tasks.Status(t.RawStatus) == to {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "task %s: %s already\n", clean(name), to)
		return err
	}
	if err := file.Save(atomicfile.OS(), map[string]tasks.Status{name: to}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "task %s: %s -> %s\n", clean(name), clean(string(from)), to)
	return err
}
