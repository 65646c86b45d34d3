package main

import (
	"github.com/spf13/cobra"

	"descartes/view/print"
)

func newTasksCheckCmd() *cobra.Command {
	var a app
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Name everything suspicious in a tag, with line numbers",
		Long: `Name everything suspicious in a tag, with line numbers: what a run starts from, what it will not run
and why, statuses that contradict each other, a mirror or declared waves that are out of step, and what
SCUD would refuse or lose.

Exit codes: 0 nothing was found, 3 something was found, 2 the list cannot be read.`,
		Args: takes(0, 0, ""),
		RunE: a.does(func([]string) error {
			b, err := a.board()
			if err != nil {
				return err
			}
			found := b.Findings()
			if err = a.show(found, print.Findings(b, found)); err == nil && len(found) > 0 {
				err = quiet(exitBlocked)
			}
			return err
		}),
	}
	a.register(cmd, "print the findings as JSON")
	a.registerGraph(cmd)
	return cmd
}
