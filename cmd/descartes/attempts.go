package main

import (
	"github.com/spf13/cobra"

	"descartes/view/print"
)

func newAttemptsCmd() *cobra.Command {
	var a app
	cmd := &cobra.Command{
		Use:   "attempts <task>",
		Short: "List the kept attempts of a task: refs, verdicts and reasons",
		Args:  takes(1, 1, "one task"),
		RunE: a.does(func(args []string) error {
			b, t, err := a.task(args[0])
			if err != nil {
				return err
			}
			refs, err := a.refs()
			if err != nil {
				return err
			}
			list, err := b.Attempts(t.ID, refs)
			if err != nil {
				return err
			}
			return a.show(list, print.Attempts(t.ID, list))
		}),
	}
	a.register(cmd, "print the attempts as JSON")
	return cmd
}
