package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
	"descartes/internal/receipt"
	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/tasks"
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

func newReceiptCmd() *cobra.Command {
	var look tagFlags
	var bundle bool
	cmd := &cobra.Command{
		Use:   "receipt <task>",
		Short: "Show the proof of a done task: commit, checks, agent, cost, who signed it",
		Long: `Show the proof of a done task, as the note on its commit has it: which checks passed on
which tree, who worked on it and what that cost, what else examined it, who signed it.

  descartes receipt 3            for a person
  descartes receipt 3 --json     the receipt (docs/receipt.schema.json)
  descartes receipt 3 --bundle   its in-toto statements, one a line

git notes --ref descartes show COMMIT shows the same.

Exit codes: 0 there is one, 2 there is none, 3 the note was changed or is somebody else's.`,
		Args: takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if bundle && look.json {
				return badInput("", "choose one of --json and --bundle")
			}
			return showReceipt(cmd, look, args[0], bundle)
		},
	}
	look.register(cmd, "print the receipt as JSON")
	cmd.Flags().BoolVar(&bundle, "bundle", false, "print the in-toto statements as JSON lines")
	look.completeTask(cmd)
	return cmd
}

func showReceipt(cmd *cobra.Command, look tagFlags, id string, bundle bool) error {
	ctx, w := cmd.Context(), cmd.OutOrStdout()
	b, t, err := look.task(cmd, id)
	if err != nil {
		return err
	}
	repo, err := openRepo(ctx, b.Root, nil)
	if err != nil {
		return err
	}
	defer repo.Close()
	notes, err := readReceipts(ctx, b.Root, repo)
	if err != nil {
		return err
	}
	on := latest(notes, b.File.Tag(), t.ID)
	if on == "" {
		return noReceipt(b, t)
	}
	tree, err := repo.CommitTree(on)
	if err != nil {
		tree = "" // the commit was not fetched, or is gone
	}
	claims, err := receipt.Claims(on, string(tree), notes[on])
	at := slices.IndexFunc(claims, func(c receipt.Claim) bool { return c.Receipt.Tag == b.File.Tag() && c.Receipt.Task == t.ID })
	if at < 0 {
		return &failure{code: exitBlocked, err: fmt.Errorf("the note on commit %.12s cannot be read: %w", on, err), hint: "git notes --ref descartes show " + on}
	}
	r := report.Receipt{Claim: claims[at], On: on, Next: "git show --stat " + on[:12]}
	if err != nil {
		r.Problems = append(r.Problems, "of its note: "+err.Error())
	}
	if path := look.Receipts.Signers; path != "" {
		signers, err := readSigners(b.Root, path)
		if err != nil {
			return err
		}
		if r.Signer, err = r.SignedBy(ctx, signers); err != nil {
			return err
		}
	}
	switch {
	case bundle:
		for _, l := range r.Lines {
			if _, err := fmt.Fprintf(w, "%s\n", l.Text); err != nil {
				return err
			}
		}
	case look.json:
		err = writeJSON(w, r.Claim.Receipt)
	default:
		err = write(w, r.Text())
	}
	if err == nil && len(r.Problems) > 0 {
		return quiet(exitBlocked)
	}
	return err
}

// readSigners reads whose signatures count.
func readSigners(root, path string) (*receipt.Signers, error) {
	text, err := plainfile.Read("", absolute(root, path), config.MaxFile)
	if err == nil {
		var s *receipt.Signers
		if s, err = receipt.ReadSigners(text); err == nil {
			return s, nil
		}
	}
	return nil, badInput("ssh-keygen's manual has the format of ALLOWED SIGNERS; for gpg a line is: NAME openpgp FINGERPRINT", "allowed signers %s: %w", path, err)
}

// readReceipts reads the notes with receipts, and where one is gone the copy in .descartes/receipts.
func readReceipts(ctx context.Context, root string, repo *gitops.Repo) (map[string][]byte, error) {
	notes, err := receipt.Saved(loop.NewHome(root).Receipts())
	if err != nil {
		return nil, err
	}
	noted, err := repo.ReadNotes(ctx, receipt.NotesRef)
	maps.Copy(notes, noted)
	return notes, err
}

// latest is the commit with the newest receipt of a task, "" where there is none.
func latest(notes map[string][]byte, tag, task string) (on string) {
	var newest time.Time
	for commit, text := range notes {
		for _, r := range receipt.Held(text) {
			if r.Tag == tag && r.Task == task && (on == "" || r.Finished.After(newest)) {
				on, newest = commit, r.Finished
			}
		}
	}
	return on
}

// noReceipt says why a task has none.
func noReceipt(b *report.Board, t *tasks.Task) error {
	if status := b.Graph.Status(t.ID); status != tasks.Done {
		return badInput("descartes why "+terminal.Quote(t.ID)+b.Named(), "task %s has no receipt: its status is %s", t.ID, status)
	}
	return badInput("git fetch origin "+receipt.NotesRef+":"+receipt.NotesRef+" brings those that were pushed", "task %s has no receipt here: no loop that is known committed it, or its notes were not fetched", t.ID)
}
