package gitops

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// Head is where HEAD and the branch stood. A nil Guard knows of none.
func (g *Guard) Head() Head {
	if g == nil {
		return Head{}
	}
	return g.at
}

// keptIndex is the index as it was before the running attempt: a second name of its file, which git replaces
// and never writes to. It is there for the run that follows on one that was killed.
func (r *Repo) keptIndex() string { return filepath.Join(r.l.gitDir, "descartes-index") }

// keepIndex gives the index its second name. Where there are no hard links, a killed attempt's changes of the
// index stay.
func (r *Repo) keepIndex() {
	index, kept := filepath.Join(r.l.gitDir, "index"), r.keptIndex()
	now, err := os.Lstat(index)
	if err != nil {
		_ = os.Remove(kept)
		return
	}
	if old, err := os.Lstat(kept); err == nil {
		if os.SameFile(old, now) {
			return
		}
		_ = os.Remove(kept)
	}
	_ = os.Link(index, kept)
}

// DropGuard removes what Guard kept for the run after one that was cut off: to be called when no attempt is open,
// at the start of a run that finds none to repair and at the end of one.
func (r *Repo) DropGuard() error {
	for _, kept := range []string{r.keptIndex(), r.keptPacked()} {
		if err := os.Remove(kept); err != nil && !missing(err) {
			return fmt.Errorf("drop what a killed run left: %w", err)
		}
	}
	return nil
}

// GuardSince is the guard of an attempt whose run died. HEAD and the branch are as they are known to have stood.
// The index is as it was before, and lock files and unfinished operations are the attempt's, where they date from
// between its beginning and its end; so are refs that git cannot read. Configuration and hooks that changed in that time
// are put back at once, to what the Settings of its guard say, and the next Repair tells of it. Everything else is as
// it stands now.
func (r *Repo) GuardSince(ctx context.Context, h Head, settings []byte, began, ended time.Time) (*Guard, error) {
	during := func(t time.Time) bool { return t.After(began.Add(-markSlack)) && t.Before(ended.Add(markSlack)) }
	undone, err := r.settingsBack(ctx, settings, during)
	if err != nil {
		return nil, fmt.Errorf("put the settings back: %w", err)
	}
	g, err := r.files()
	if err != nil {
		return nil, fmt.Errorf("look at the repository: %w", err)
	}
	g.undone = undone
	if g.at, err = r.Head(ctx); err != nil { // damaged: h is what it was
		g.at = Head{}
	}
	maps.DeleteFunc(g.extra, func(p string, _ bool) bool {
		fi, err := os.Lstat(p)
		return err == nil && during(fi.ModTime())
	})
	if kept, err := saveFile(r.keptIndex()); err == nil && kept.kind == 0 && during(g.index.mtime) {
		kept.path, kept.stamp = g.index.path, fileStamp{}
		g.index = kept
	}
	r.groundRefs(g, during)
	if g.at == h || h == (Head{}) { // nothing is known of a HEAD that has neither
		return g, nil
	}
	if g.at.Branch != h.Branch || h.Branch == "" {
		text := h.Hash + "\n"
		if h.Branch != "" {
			text = "ref: " + h.Branch + "\n"
		}
		g.head.kind, g.head.data, g.head.stamp = 0, []byte(text), fileStamp{}
	}
	if h.Branch != "" {
		g.loose = maps.Clone(g.loose)
		g.loose[h.Branch] = h.Hash
	}
	g.at = h
	return g, nil
}
