package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/oneline"
)

func newWhyCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "why <task>",
		Short: "Say why a task is done, blocked, waiting, held or running, and what to type next",
		Long: `Say why a task is where it is: who did it and what verified it, why it was given up, what it
waits for. Below stand its attempts, what shows all this (commit, kept work, log, journal),
and the command that comes next.`,
		Args: takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return why(cmd, look, args[0])
		},
	}
	look.register(cmd, "print it as JSON")
	look.registerGraph(cmd)
	look.completeTask(cmd)
	return cmd
}

func why(cmd *cobra.Command, look tagFlags, id string) (err error) {
	ctx := cmd.Context()
	b, t, err := look.task(cmd, id)
	if err != nil {
		return err
	}
	repo, err := openRepo(ctx, b.Root, nil)
	if err != nil && !errors.Is(err, gitops.ErrNotRepo) {
		return err
	}
	var refs []gitops.Ref
	commit := func(string) string { return "" }
	if err == nil {
		defer repo.Close()
		if refs, err = repo.Refs(ctx, "refs/descartes/"); err != nil {
			return err
		}
		commit = func(loop string) string { return commitOf(ctx, repo, loop, t.ID) }
	}
	w, err := b.Why(t, refs, commit, fromHere(b.Root))
	if err != nil {
		return err
	}
	if look.json {
		return writeJSON(cmd.OutOrStdout(), w)
	}
	return write(cmd.OutOrStdout(), w.Text())
}

// commitOf is the newest commit that says it holds a loop's work on a task, "" where there is none.
func commitOf(ctx context.Context, repo *gitops.Repo, loop, task string) string {
	hash, _, err := repo.FindCommit(ctx, "", "Descartes-Loop: "+loop, "Descartes-Task: "+oneline.Text(task))
	if err != nil {
		return ""
	}
	return hash
}
