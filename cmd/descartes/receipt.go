package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/plainfile"
	"descartes/internal/receipt"
	"descartes/internal/terminal"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/view"
)

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

git notes --ref descartes show COMMIT shows the same. descartes recheck runs the checks again.

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
	on := latest(ctx, repo, notes, b.File.Tag(), t.ID)
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
	r := view.Receipt{Claim: claims[at], On: on, Next: "descartes recheck --commit " + on[:12] + b.Named()}
	r.Next += otherVerify(&r.Claim.Receipt, look, b.Root)
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

// readReceipts reads the notes with receipts, or if one is gone its copy in .descartes/receipts.
func readReceipts(ctx context.Context, root string, repo *gitops.Repo) (map[string][]byte, error) {
	notes, err := receipt.Saved(store.NewHome(root).Receipts())
	if err != nil {
		return nil, err
	}
	noted, err := repo.ReadNotes(ctx, receipt.NotesRef)
	maps.Copy(notes, noted)
	return notes, err
}

// latest is the commit with a task's newest receipt, or "". A commit in HEAD's history comes before others.
func latest(ctx context.Context, repo *gitops.Repo, notes map[string][]byte, tag, task string) (on string) {
	var newest time.Time
	ours := false
	head, err := repo.Head(ctx)
	for commit, text := range notes {
		for _, r := range receipt.Held(text) {
			if r.Tag != tag || r.Task != task {
				continue
			}
			led := err == nil && repo.LeadsTo(ctx, head.Hash, commit)
			if on == "" || led && !ours || led == ours && r.Finished.After(newest) {
				on, newest, ours = commit, r.Finished, led
			}
		}
	}
	return on
}

// noReceipt says why a task has none.
func noReceipt(b *view.Board, t *tasks.Task) error {
	if status := b.Graph.Status(t.ID); status != tasks.Done {
		return badInput("descartes why "+terminal.Quote(t.ID)+b.Named(), "task %s has no receipt: its status is %s", t.ID, status)
	}
	return badInput("git fetch origin "+receipt.NotesRef+":"+receipt.NotesRef+" brings those that were pushed", "task %s has no receipt here: no loop that is known committed it, or its notes were not fetched", t.ID)
}

// otherVerify is the flag without which a recheck would run another command than a receipt's only check, or "".
func otherVerify(r *receipt.Receipt, look tagFlags, root string) string {
	k := recheckFlags{tagFlags: look}
	mine, _ := k.checksOf(root)
	if len(r.Checks) != 1 || r.Checks[0].Name != receipt.NameOf("") || len(mine) == 1 && mine[0].Run == r.Checks[0].Command {
		return ""
	}
	return " --verify " + terminal.Quote(r.Checks[0].Command)
}
