package main

import (
	"github.com/spf13/cobra"

	"descartes/view/print"
)

func newTasksListCmd() *cobra.Command {
	var a app
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tasks of a tag",
		Args:  takes(0, 0, ""),
		RunE: a.does(func([]string) error {
			b, err := a.proven()
			if err != nil {
				return err
			}
			for _, message := range b.Elsewhere() {
				a.warn(message)
			}
			return a.show(b.Details(), print.Tasks(b))
		}),
	}
	a.register(cmd, "print the tasks as JSON")
	a.registerGraph(cmd)
	return cmd
}
