package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/receipt"
	"descartes/loop/store"
	"descartes/view"
)

func newWhyCmd() *cobra.Command {
	var look tagFlags
	cmd := &cobra.Command{
		Use:   "why <task>",
		Short: "Say why a task is done, blocked or waiting, and what to type next",
		Long: `Say why a task is where it is: who did it and what verified it, why it was given up, what it
waits for. Below that are its attempts, the evidence (commit, kept work, log, journal),
and the next command.`,
		Args: takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return why(cmd, look, args[0])
		},
	}
	look.register(cmd, "print it as JSON")
	look.registerGraph(cmd)
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
	if err := markStale(ctx, b); err != nil {
		return err
	}
	var refs []gitops.Ref
	commit := func(string) string { return "" }
	if err == nil {
		defer repo.Close()
		if refs, err = repo.Refs(ctx, "refs/descartes/"); err != nil {
			return err
		}
		commit = func(loop string) string { return commitOf(ctx, repo, b.File.Tag(), loop, t.ID) }
	}
	w, err := b.Why(t, refs, commit, fromHere(b.Root))
	if err != nil {
		return err
	}
	return show(cmd.OutOrStdout(), look.json, w, w.Text())
}

// markStale adds the receipts of its tasks to a board, if a repository can be read.
func markStale(ctx context.Context, b *view.Board) error {
	repo, err := openRepo(ctx, b.Root, nil)
	if err != nil {
		return nil
	}
	defer repo.Close()
	notes, err := readReceipts(ctx, b.Root, repo)
	if err != nil || len(notes) == 0 {
		return err
	}
	confirmed, err := receipt.ReadConfirmed(store.NewHome(b.Root).Receipts())
	if err != nil {
		return err
	}
	b.MarkStale(notes, confirmed)
	return nil
}

// commitOf is the newest commit that claims to contain a loop's work on a task, or "". Without a loop it takes one of any loop over the tag: ids of
// other tags look alike.
func commitOf(ctx context.Context, repo *gitops.Repo, tag, loop, task string) string {
	lines := []string{"Descartes-Task: " + oneline.Text(task)}
	if loop != "" {
		lines = append(lines, "Descartes-Loop: "+loop)
	}
	hash, ok, err := repo.FindCommit(ctx, "", lines...)
	if err != nil || !ok {
		return ""
	}
	if loop == "" {
		if w, err := repo.ReadWave(ctx, hash); err != nil || !strings.Contains(w.Subject, "("+tag+")") {
			return ""
		}
	}
	return hash
}
