package main

import (
	"github.com/spf13/cobra"

	"descartes/view"
)

func newAttemptsCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "attempts <task>",
		Short: "List the kept attempts of a task: refs, verdicts and reasons",
		Args:  takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, t, err := look.task(cmd, args[0])
			if err != nil {
				return err
			}
			repo, err := openRepo(cmd.Context(), b.Root, nil)
			if err != nil {
				return err
			}
			defer repo.Close()
			refs, err := repo.Refs(cmd.Context(), "refs/descartes/")
			if err != nil {
				return err
			}
			list, err := b.Attempts(t.ID, refs)
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), look.json, list, view.AttemptTable(t.ID, list))
		},
	}
	look.register(cmd, "print the attempts as JSON")
	return cmd
}
