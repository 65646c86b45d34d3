package main

import (
	"github.com/spf13/cobra"

	"descartes/internal/report"
)

func newAttemptsCmd() *cobra.Command {
	var look looking
	cmd := &cobra.Command{
		Use:   "attempts <task>",
		Short: "List the kept attempts of a task: refs, verdicts and reasons",
		Args:  takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			t, err := need(b, args[0])
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
			if look.json {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return write(cmd.OutOrStdout(), report.AttemptTable(t.ID, list))
		},
	}
	look.register(cmd, "print the attempts as JSON")
	look.completeTask(cmd)
	return cmd
}
