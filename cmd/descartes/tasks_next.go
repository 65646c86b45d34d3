package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
)

func newTasksNextCmd() *cobra.Command {
	var a app
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Show the task that a loop would start first",
		Args:  takes(0, 0, ""),
		RunE: a.does(func([]string) error {
			b, err := a.board()
			if err != nil {
				return err
			}
			id := b.Next()
			if id == "" {
				fmt.Fprintln(a.cmd.ErrOrStderr(), b.NothingReady())
				return a.show(nil, "")
			}
			t, err := need(b, id)
			if err != nil {
				return err
			}
			return a.show(b.Detail(t), terminal.Clean(id+" "+t.Title)+"\n")
		}),
	}
	a.register(cmd, "print the task as JSON, null if there is none")
	a.registerGraph(cmd)
	return cmd
}
