package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
)

func newTasksNextCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Show the task that a loop would start first",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			id := b.Next()
			switch {
			case id == "" && look.json:
				return writeJSON(w, nil)
			case id == "":
				fmt.Fprintln(cmd.ErrOrStderr(), b.NothingReady())
				return nil
			}
			t, err := need(b, id)
			if err != nil {
				return err
			}
			d := b.Detail(t)
			if look.json {
				return writeJSON(w, d)
			}
			_, err = fmt.Fprintf(w, "%s %s\n", terminal.Clean(id), terminal.Clean(t.Title))
			return err
		},
	}
	look.register(cmd, "print the task as JSON, null if there is none")
	look.registerGraph(cmd)
	return cmd
}
