package main

import (
	"github.com/spf13/cobra"
)

func newTasksCheckCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Name everything suspicious in a tag, with line numbers",
		Long: `Name everything suspicious in a tag, with line numbers: what a run starts from, what it will not run
and why, statuses that contradict each other, a mirror or declared waves that are out of step, and what
SCUD would refuse or lose.

Exit codes: 0 nothing was found, 3 something was found, 2 the list cannot be read.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			found := b.Findings()
			w := cmd.OutOrStdout()
			if look.json {
				err = writeJSON(w, found)
			} else {
				err = write(w, b.CheckText(found))
			}
			if err == nil && len(found) > 0 {
				return quiet(exitBlocked)
			}
			return err
		},
	}
	look.register(cmd, "print the findings as JSON")
	look.registerGraph(cmd)
	return cmd
}
