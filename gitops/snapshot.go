package gitops

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
)

// Snapshot stores the working tree as it is, tracked files and untracked ones that are not ignored, and
// returns its tree. Protected paths are in it as the index has them.
func (r *Repo) Snapshot(ctx context.Context) (Tree, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot(ctx)
}

func (r *Repo) snapshot(ctx context.Context) (Tree, error) {
	if err := context.Cause(ctx); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if !r.viaGit {
		tree, err := r.nativeSnapshot(ctx)
		if err == nil {
			return tree, nil
		}
		if !r.fallBack(&err) {
			return "", fmt.Errorf("snapshot: %w", err)
		}
	}
	return r.cli.snapshot(ctx, r.opt.Protect)
}

func (r *Repo) nativeSnapshot(ctx context.Context) (Tree, error) {
	if err := r.scan(ctx, readAndStore); err != nil {
		return "", err
	}
	if !r.last.stored {
		var known *objectID
		if id, err := r.headTree(); err == nil {
			known = &id
		}
		if err := r.last.store(r.store, known); err != nil {
			return "", err
		}
	}
	return Tree(r.last.id.String()), nil
}

// scan reads the index and the working tree.
func (r *Repo) scan(ctx context.Context, how reading) error {
	r.doubt()
	ix, err := readIndex(filepath.Join(r.l.gitDir, "index"))
	if err == nil {
		err = ix.plain()
	}
	if err != nil {
		return err
	}
	now, err := r.scanner.scan(ctx, ix, r.last, sortedKeys(r.forced), how)
	if err != nil {
		return err
	}
	r.ix, r.last = ix, now
	return nil
}

// Dirty lists the paths that differ between HEAD, the index and the working tree, untracked ones included and
// protected ones left out, sorted.
func (r *Repo) Dirty(ctx context.Context) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.viaGit {
		return r.cli.dirty(ctx)
	}
	out, err := r.nativeDirty(ctx)
	if err != nil && r.fallBack(&err) {
		return r.cli.dirty(ctx)
	}
	return out, err
}

// nativeDirty stores nothing: what is looked at may be large, or secret, and no run may come of it.
func (r *Repo) nativeDirty(ctx context.Context) ([]string, error) {
	if err := r.scan(ctx, readKnown); err != nil {
		return nil, err
	}
	head, err := r.headTree()
	if err != nil {
		return nil, err
	}
	staged := r.ix.folder("", 0, len(r.ix.entries), func(e *indexEntry) bool { return e.ext&extIntent == 0 })
	staged.each(func(_ string, f *file) { f.fixed = false })
	var p restorePlan
	if err := p.compare(r, staged, &head, "", 0); err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(append(p.paths(), r.ix.differs(r.last, r.guard)...), r.guard.covers)
	slices.Sort(out)
	return slices.Compact(out), nil
}

// ChangedSince lists the paths at which the working tree differs from a snapshot, sorted. Like Dirty it stores nothing.
func (r *Repo) ChangedSince(ctx context.Context, tree Tree) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, err := parseID(string(tree))
	if err != nil {
		return nil, err
	}
	if !r.viaGit {
		var p restorePlan
		if err = r.scan(ctx, readAll); err == nil {
			err = p.compare(r, r.last, &id, "", 0)
		}
		if err == nil {
			return slices.Sorted(slices.Values(p.paths())), nil
		}
		if !r.fallBack(&err) {
			return nil, err
		}
	}
	return r.cli.changedSince(ctx, tree, r.opt.Protect)
}
