package loop

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

// receipts writes those of the run's commits.
type receipts struct {
	run   *Loop
	tag   *tagWork
	noted map[string]bool // commits with written receipts
}

// write writes the missing receipts: those of the wave just committed, and those a killed run left out. If they cannot
// be written the work still counts: a warning says so, and the end of the run tries again.
func (w *receipts) write(ctx context.Context) error {
	if !w.run.config.Receipts.Write {
		return nil
	}
	err := w.add(ctx)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return w.run.Warn(fmt.Sprintf("receipts are missing: %v", err))
}

func (w *receipts) add(ctx context.Context) error {
	add, known := map[string][]byte{}, map[string][]byte{}
	for _, c := range w.run.trunk.waveCommits() {
		if w.noted[c.Commit] || len(c.Tasks) == 0 {
			continue
		}
		old, err := w.run.tools.Repo.ReadNote(receipt.NotesRef, c.Commit)
		if err != nil {
			return err
		}
		known[c.Commit] = old
		text, err := w.of(ctx, c, receipt.Held(old))
		if err != nil {
			return err
		}
		if len(text) > 0 {
			add[c.Commit] = text
		}
	}
	if len(add) > 0 {
		if err := w.run.tools.Repo.AddNotes(ctx, receipt.NotesRef, add, receipt.Join); err != nil {
			return err
		}
		crash.Point("receipts-noted")
	}
	for _, c := range w.run.trunk.waveCommits() {
		if w.noted[c.Commit] || len(c.Tasks) == 0 {
			continue
		}
		if err := receipt.Save(w.run.tools.FS, w.run.home.Receipts(), c.Commit,
			receipt.Join(known[c.Commit], add[c.Commit])); err != nil {
			return err
		}
		w.noted[c.Commit] = true
	}
	return nil
}

// of returns the text of a commit's note: a receipt for each of its tasks that the note lacks.
func (w *receipts) of(ctx context.Context, c journal.WaveCommit, have []receipt.Receipt) ([]byte, error) {
	about, err := w.about(ctx, c.Commit)
	if err != nil {
		return nil, err
	}
	var lines [][]byte
	for _, id := range c.Tasks {
		var a *journal.Attempt
		if w.run.say(func() { a = w.run.history.VerifiedBy(id, c.At) }); a == nil ||
			slices.ContainsFunc(have, func(r receipt.Receipt) bool {
				return r.Loop == w.run.state.ID && r.Task == id
			}) {
			continue
		}
		f := receipt.Facts{Tag: w.run.state.Tag, Loop: w.run.state.ID, Wave: c.Wave, Commit: about, Attempt: a,
			Policy: source.PolicyLines(w.run.config), Sandbox: cmp.Or(w.run.config.SandboxInForce, "off"),
			Program: w.run.tools.Program}
		of, err := f.Statements()
		if err != nil {
			return nil, err
		}
		lines = append(lines, of...)
	}
	return w.signed(ctx, lines)
}

// about is what a receipt says about a commit.
func (w *receipts) about(ctx context.Context, hash string) (c receipt.Commit, err error) {
	at, err := w.run.tools.Repo.ReadCommit(hash)
	if err != nil {
		return c, err
	}
	before, err := w.run.tools.Repo.CommitTree(at.Parent())
	if err != nil {
		return c, err
	}
	c = receipt.Commit{Hash: hash, Tree: string(at.Tree)}
	c.PatchID, err = w.run.tools.Repo.PatchID(ctx, before, at.Tree)
	return c, err
}

// signed returns the text of a note with these statements, each in a signed envelope if the settings ask for that.
func (w *receipts) signed(ctx context.Context, lines [][]byte) ([]byte, error) {
	if len(lines) == 0 || !w.run.config.Receipts.Sign {
		return receipt.Text(lines), nil
	}
	key := receipt.Key(w.run.tools.Repo.SigningKey())
	for i := range lines {
		var err error
		if lines[i], err = key.Sign(ctx, lines[i]); err != nil {
			return nil, err
		}
	}
	return receipt.Text(lines), nil
}
