package tagrun

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"descartes/internal/crash"
	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/loop/source"
)

// verifiedBy are the attempts whose work a commit brings, by task, as the journal has them now: values that an action
// may read.
func (r *Run) verifiedBy(tasks []string) map[string]journal.Attempt {
	by := map[string]journal.Attempt{}
	for _, id := range tasks {
		if a := r.book.History.VerifiedBy(id, r.ground.tools.Now()); a != nil {
			by[id] = *a
		}
	}
	return by
}

// writeReceipts writes those of commits that lack them: of the one just made, and of those that a killed run left
// without. If they cannot be written the work still counts: a warning says so, and the end of the run tries again.
func writeReceipts(ctx context.Context, g *ground, commits []journal.WaveCommit, by map[string]journal.Attempt,
	v voice) error {
	if !g.config.Receipts.Write {
		return nil
	}
	err := addReceipts(ctx, g, commits, by)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return v.note(fmt.Sprintf("receipts are missing: %v", err))
}

func addReceipts(ctx context.Context, g *ground, commits []journal.WaveCommit, by map[string]journal.Attempt) error {
	add, known := map[string][]byte{}, map[string][]byte{}
	for _, c := range commits {
		old, err := g.repo.ReadNote(receipt.NotesRef, c.Commit)
		if err != nil {
			return err
		}
		known[c.Commit] = old
		text, err := receiptsOf(ctx, g, c, by, receipt.Held(old))
		if err != nil {
			return err
		}
		if len(text) > 0 {
			add[c.Commit] = text
		} else if len(old) > 0 && !receipt.IsSaved(g.home.Receipts(), c.Commit) { // a run was killed before it copied it
			if err := receipt.Save(g.tools.FS, g.home.Receipts(), c.Commit, old); err != nil {
				return err
			}
		}
	}
	if len(add) == 0 {
		return nil
	}
	if err := g.repo.AddNotes(ctx, receipt.NotesRef, add, receipt.Join); err != nil {
		return err
	}
	crash.Point("receipts-noted")
	for commit, text := range add {
		if err := receipt.Save(g.tools.FS, g.home.Receipts(), commit, receipt.Join(known[commit], text)); err != nil {
			return err
		}
	}
	return nil
}

// receiptsOf is the text of a commit's note: a receipt for each of its tasks that the note lacks.
func receiptsOf(ctx context.Context, g *ground, c journal.WaveCommit, by map[string]journal.Attempt,
	have []receipt.Receipt) ([]byte, error) {
	var lines [][]byte
	for _, id := range c.Tasks {
		a, ok := by[id]
		if !ok || slices.ContainsFunc(have, func(r receipt.Receipt) bool { return r.Loop == g.id && r.Task == id }) {
			continue
		}
		made, err := g.repo.ReadCommit(c.Commit)
		if err != nil {
			return nil, err
		}
		before, err := g.repo.CommitTree(made.Parent())
		if err != nil {
			return nil, err
		}
		about := receipt.Commit{Hash: c.Commit, Tree: string(made.Tree)}
		if about.PatchID, err = g.repo.PatchID(ctx, before, made.Tree); err != nil {
			return nil, err
		}
		f := receipt.Facts{Tag: g.tag, Loop: g.id, Wave: c.Wave, Commit: about, Attempt: &a,
			Policy: source.PolicyLines(g.config), Sandbox: cmp.Or(g.config.SandboxInForce, "off"),
			Program: g.tools.Program}
		of, err := f.Statements()
		if err != nil {
			return nil, err
		}
		lines = append(lines, of...)
	}
	if len(lines) == 0 {
		return nil, nil
	}
	if !g.config.Receipts.Sign {
		return receipt.Text(lines), nil
	}
	key := receipt.Key(g.repo.SigningKey())
	for i := range lines {
		var err error
		if lines[i], err = key.Sign(ctx, lines[i]); err != nil {
			return nil, err
		}
	}
	return receipt.Text(lines), nil
}
