package main

import (
	"bytes"
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
	"descartes/view/print"
)

func newReceiptCmd() *cobra.Command {
	var a app
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
		RunE: a.does(func(args []string) error { return a.receipt(args[0], bundle) }),
	}
	a.register(cmd, "print the receipt as JSON")
	cmd.Flags().BoolVar(&bundle, "bundle", false, "print the in-toto statements as JSON lines")
	oneOf(cmd, "json", "bundle")
	return cmd
}

func (a *app) receipt(id string, bundle bool) error {
	b, t, err := a.task(id)
	if err != nil {
		return err
	}
	repo, err := a.repo()
	if err != nil {
		return err
	}
	notes, err := readReceipts(a.ctx(), a.root, repo)
	if err != nil {
		return err
	}
	on := latest(a.ctx(), repo, notes, b.File.Tag(), t.ID)
	if on == "" {
		return badInput("git fetch origin "+receipt.NotesRef+":"+receipt.NotesRef+" brings those that were pushed; descartes why "+terminal.Quote(t.ID)+b.Named(),
			"task %s has no receipt here: its status is %s", t.ID, b.Graph.Status(t.ID))
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
	r := print.Receipt{Claim: claims[at], On: on, Next: "descartes recheck --commit " + on[:12] + b.Named()}
	if err != nil {
		r.Problems = append(r.Problems, "of its note: "+err.Error())
	}
	if path := a.Receipts.Signers; path != "" {
		signers, err := readSigners(a.root, path)
		if err != nil {
			return err
		}
		if r.Signer, err = r.SignedBy(a.ctx(), signers); err != nil {
			return err
		}
	}
	text := r.Text()
	if bundle {
		var lines bytes.Buffer
		for _, l := range r.Lines {
			fmt.Fprintf(&lines, "%s\n", l.Text)
		}
		text = lines.String()
	}
	if err = a.show(r.Claim.Receipt, text); err == nil && len(r.Problems) > 0 {
		err = quiet(exitBlocked)
	}
	return err
}

// readSigners reads whose signatures count.
func readSigners(root, path string) (s *receipt.Signers, err error) {
	text, err := plainfile.Read("", absolute(root, path), config.MaxFile)
	if err == nil {
		s, err = receipt.ReadSigners(text)
	}
	if err != nil {
		return nil, badInput("ssh-keygen's manual has the format of ALLOWED SIGNERS; for gpg a line is: NAME openpgp FINGERPRINT", "allowed signers %s: %w", path, err)
	}
	return s, nil
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
