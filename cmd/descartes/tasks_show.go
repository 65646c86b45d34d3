package main

import (
	"github.com/spf13/cobra"

	"descartes/view/print"
)

func newTasksShowCmd() *cobra.Command {
	var a app
	cmd := &cobra.Command{
		Use:   "show <task>",
		Short: "Show everything about one task",
		Args:  takes(1, 1, "one task"),
		RunE: a.does(func(args []string) error {
			b, t, err := a.task(args[0])
			if err == nil {
				err = a.markStale(b)
			}
			if err != nil {
				return err
			}
			d := b.Detail(t)
			return a.show(d, print.Task(&d))
		}),
	}
	a.register(cmd, "print the task as JSON")
	a.registerGraph(cmd)
	return cmd
}
