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
	if err := r.scan(ctx, true); err != nil {
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
func (r *Repo) scan(ctx context.Context, keep bool) error {
	if r.tree == nil {
		if err := r.load(); err != nil {
			return err
		}
	}
	r.reconcile()
	err := r.scanner.scan(ctx, r.tree, keep)
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
	work, err := r.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if r.viaGit { // the scan met something
		return r.cli.dirty(ctx)
	}
	staged, err := r.indexTree()
	if err != nil {
		return nil, err
	}
	head, err := r.headTree()
	if err != nil {
		return nil, err
	}
	now, err := parseID(string(work))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, pair := range [][2]objectID{{head, staged}, {staged, now}} {
		err := r.diff(pair[0], pair[1], func(path string, _, _ treeItem) { out = append(out, path) })
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// indexTree is the tree that the index file would make.
func (r *Repo) indexTree() (objectID, error) {
	ix, err := readIndex(filepath.Join(r.l.gitDir, "index"))
	if err != nil {
		return objectID{}, err
	}
	w, err := newWorktree(ix, r.guard)
	if err != nil {
		return objectID{}, err
	}
	return r.storeTree(w)
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
