package main

import (
	"github.com/spf13/cobra"
)

func newTasksShowCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "show <task>",
		Short: "Show everything about one task",
		Args:  takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, t, err := look.task(cmd, args[0])
			if err != nil {
				return err
			}
			if err := markStale(cmd.Context(), b); err != nil {
				return err
			}
			d := b.Detail(t)
			return show(cmd.OutOrStdout(), look.json, d, d.Text())
		},
	}
	look.register(cmd, "print the task as JSON")
	look.registerGraph(cmd)
	return cmd
}
