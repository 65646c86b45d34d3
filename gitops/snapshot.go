package gitops

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// manyTrees is the number of new trees from which on a look at HEAD's saves more than it costs.
const manyTrees = 16

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
	id, err := r.storeTree(r.tree)
	if err != nil {
		return "", err
	}
	if r.shown.id != id || r.shown.text == "" {
		r.shown = shownTree{id, Tree(id.String())}
	}
	return r.shown.text, nil
}

// scan brings the in-memory index up to date.
func (r *Repo) scan(ctx context.Context, how reading) error {
	if r.tree == nil {
		if err := r.load(); err != nil {
			return err
		}
	}
	r.reconcile()
	err := r.scanner.scan(ctx, r.tree, how)
	if err != nil {
		r.tree = nil // entries may be half updated
	}
	return err
}

// load starts again from the index file.
func (r *Repo) load() error {
	ix, err := readIndex(filepath.Join(r.l.gitDir, "index"))
	if err != nil {
		return err
	}
	if r.tree, err = newWorktree(ix, r.guard); err != nil {
		return err
	}
	for p := range r.forced {
		r.tree.track(p, r.guard)
	}
	return nil
}

// storeTree writes the trees that are not in the store yet.
func (r *Repo) storeTree(w *worktree) (objectID, error) {
	w.root.hashTrees()
	if w.root.stored {
		return w.root.id, nil
	}
	var known *objectID
	if w.root.unstored() > manyTrees {
		if id, err := r.headTree(); err == nil {
			known = &id
		}
	}
	return w.root.id, w.root.storeTrees(r.store, known)
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
	ix, err := readIndex(filepath.Join(r.l.gitDir, "index"))
	if err != nil {
		return nil, err
	}
	staged, err := newWorktree(ix, r.guard)
	if err != nil {
		return nil, err
	}
	head, err := r.headTree()
	if err != nil {
		return nil, err
	}
	staged.each(func(path string, f *file) {
		if !r.guard.covers(path) {
			f.flags &^= fileFixed // only the working tree of such a file is not looked at
		}
	})
	var p restorePlan
	if err := p.compare(r, staged.root, &head, "", 0); err != nil {
		return nil, err
	}
	out := p.paths()
	r.tree.each(func(path string, f *file) {
		if differsFrom(ix, path, f) {
			out = append(out, path)
		}
	})
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
			err = p.compare(r, r.tree.root, &id, "", 0)
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

// each calls do for every file, tracked ones that are absent included.
func (w *worktree) each(do func(path string, f *file)) { w.root.each(do) }

func (d *folder) each(do func(path string, f *file)) {
	for i := range d.files {
		do(d.path+d.files[i].name, &d.files[i])
	}
	for _, c := range d.dirs {
		c.each(do)
	}
}

// track makes a path belong to snapshots even where an ignore rule covers it.
func (w *worktree) track(path string, guard protection) {
	d := w.folderFor(path, guard)
	name := path[len(d.path):]
	if i, ok := d.findFile(name); ok {
		d.files[i].flags |= fileTracked
		return
	}
	d.files = append(d.files, file{name: name, mode: modeRegular, flags: fileTracked | fileAbsent | fileStale})
	d.tidy()
}

// folderFor finds or makes the folder that a path lies in.
func (w *worktree) folderFor(path string, guard protection) *folder {
	d := w.root
	for {
		name, _, below := strings.Cut(path[len(d.path):], "/")
		if !below {
			return d
		}
		i, ok := d.findDir(name)
		if !ok {
			d.dirs = append(d.dirs, d.newEmpty(path[:len(d.path)+len(name)+1], guard))
			d.tidy()
			i, _ = d.findDir(name)
		}
		d = d.dirs[i]
	}
}
