package gitops

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// settleIndex puts the index back byte for byte, unless only its stat data changed. What the agent added to it
// counts as tracked from now on, ignored or not.
func (r *Repo) settleIndex(ctx context.Context, g *Guard, s *Repaired) error {
	changed, err := g.index.changed()
	if err != nil || !changed {
		return err
	}
	old, err := indexOf(&g.index)
	if err != nil {
		return r.rewriteIndex(ctx, g, s, "the index was changed during the attempt and put back")
	}
	file, err := saveFile(g.index.path)
	if err != nil {
		return err
	}
	now, err := indexOf(&file)
	if err != nil {
		var unsup *unsupportedError
		if errors.As(err, &unsup) {
			return r.rewriteIndex(ctx, g, s, "the index was rewritten in another format during the attempt and put back")
		}
		return r.rewriteIndex(ctx, g, s, "the index was damaged during the attempt and put back")
	}
	if sameEntries(old, now) {
		return nil
	}
	if added := addedPaths(old, now); len(added) > 0 {
		r.track(added)
	}
	return r.rewriteIndex(ctx, g, s, "the index was changed during the attempt and put back (the files stay as they are)")
}

func (r *Repo) rewriteIndex(ctx context.Context, g *Guard, s *Repaired, note string) error {
	if err := g.index.putBack(ctx); err != nil {
		return err
	}
	r.keepIndex()
	s.note("%s", note)
	return nil
}

func indexOf(f *savedFile) (*index, error) {
	if !f.present() {
		return &index{version: 2}, nil
	}
	return parseIndex(f.data)
}

// sameEntries compares what two indexes say, leaving out what they remember of files.
func sameEntries(a, b *index) bool {
	return slices.EqualFunc(a.entries, b.entries, func(x, y indexEntry) bool {
		return x.name == y.name && x.id == y.id && x.mode == y.mode && x.flags == y.flags && x.ext == y.ext
	})
}

func addedPaths(old, now *index) []string {
	var out []string
	for i := range now.entries {
		e := &now.entries[i]
		if _, there := old.find(e.name); !there && e.mode != modeGitlink {
			out = append(out, strings.Clone(e.name)) // the name aliases the whole file
		}
	}
	return slices.Compact(out)
}

// track makes snapshots hold paths from now on, ignored or not.
func (r *Repo) track(paths []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range paths {
		if !safePath(p) || r.guard.covers(p) {
			continue
		}
		r.forced[p] = true
	}
	r.cli.track(paths)
}
