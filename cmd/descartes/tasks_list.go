package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
)

func newTasksListCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tasks of a tag",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err == nil {
				err = markStale(cmd.Context(), b)
			}
			if err != nil {
				return err
			}
			for _, message := range b.Elsewhere() {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", terminal.Clean(message))
			}
			return show(cmd.OutOrStdout(), look.json, b.Details(), b.Table())
		},
	}
	look.register(cmd, "print the tasks as JSON")
	look.registerGraph(cmd)
	return cmd
}
