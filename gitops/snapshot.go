package gitops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Snapshot stores the working tree as it is, tracked files and untracked ones that are not ignored, and
// returns its tree. Protected paths are in it as the index has them.
func (r *Repo) Snapshot(ctx context.Context) (Tree, error) {
	r.AwaitGC(ctx)
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
	tree, err := r.cli.snapshot(ctx, r.opt.Protect)
	if err != nil {
		return "", err
	}
	if err := r.noteRaw(ctx, tree); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	return tree, nil
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

// LeftOut is a path that could not be dealt with, and why.
type LeftOut struct{ Path, Why string }

func (l LeftOut) String() string { return l.Path + " (" + l.Why + ")" }

const (
	whyName = "git refuses such a name"
	whyLong = "its path is too long"

	// whyRules: the file is as it was before the attempt again, since git would read the whole of it.
	whyRules = "an ignore or attributes file of more than 16 MiB"
)

// maxFile bounds what is read of one file: beyond it a snapshot would take minutes, and no host takes the commit.
const maxFile = 4 << 30

var errTooLarge = errors.New("too large")

// LeftOut lists what the last snapshot could not contain, sorted by path: what changed since a time apart from what
// is older or has too long a path, which git skips too.
func (r *Repo) LeftOut(since time.Time) (recent, old []LeftOut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.leftOut() {
		info, err := r.statBelow(strings.TrimSuffix(x.Path, "/"))
		if x.Why != whyRules && (err != nil || x.Why == whyLong || olderThan(info, since)) {
			old = append(old, x)
		} else {
			recent = append(recent, x)
		}
	}
	return recent, old
}

// OlderThan picks the paths whose files last changed before a time. A path that is new in a snapshot but older than
// the attempt was ignored before.
func (r *Repo) OlderThan(paths []string, t time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, p := range paths {
		if info, err := r.statBelow(p); err == nil && info.mode != modeDir && olderThan(info, t) {
			out = append(out, p)
		}
	}
	return out
}

func (r *Repo) leftOut() []LeftOut {
	list := r.scanner.out
	if r.viaGit {
		list = r.cli.out
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(list, func(a, b LeftOut) bool { return a.Path == b.Path })
}

// leave notes a path that the scan passes over.
func (s *scanner) leave(path, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = append(s.out, LeftOut{strings.Clone(path), why}) // a name aliases the buffer that it was read into
}

// passesOver says why a path that cannot be read is left out rather than ending the scan, "" where it is not.
func passesOver(err error) string {
	switch {
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return "it cannot be read: permission denied"
	case errors.Is(err, syscall.ENAMETOOLONG):
		return whyLong
	case errors.Is(err, errTooLarge):
		return fmt.Sprintf("files of more than %d GiB are not committed", maxFile>>30)
	case errors.Is(err, errChanged):
		return "it keeps changing while it is read"
	}
	return ""
}

// packNames is what shows that objects were packed anew, and perhaps pruned: an agent may run `git gc`. go-git makes each
// object's temporary file beside the packs, so that the folder's time says nothing.
func (o *objectStore) packNames() string {
	entries, _ := os.ReadDir(o.dir + "/pack")
	var names strings.Builder
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".pack") {
			names.WriteString(e.Name() + "\n")
		}
	}
	return names.String()
}

// doubt makes the next snapshot store again what was pruned. What no ref leads to may be gone when an agent or the
// verification ran `git gc` or `git prune`: then only what the index has is taken for stored.
func (r *Repo) doubt() {
	old := r.packs
	r.packs = r.store.packNames()
	if r.last != nil && (r.store.lost() || old != r.packs) {
		r.store.forgetRecent() // what is missing is stored again, and noted again
		r.last = nil
	}
}

// whole makes sure that everything that a wave commits is in the store, and stores what is missing again from the
// working tree.
func (r *Repo) whole(ctx context.Context, edits map[string]treeItem) error {
	if r.absent(edits) == nil {
		return nil
	}
	if err := r.storeAgain(ctx); err != nil {
		return err
	}
	missing := r.absent(edits)
	if missing == nil {
		return nil
	}
	return &RefusedError{
		Reason: fmt.Sprintf("the repository lost the content of %d files that the wave commits, %s among them: somebody pruned it (git gc --prune=now, git prune)", len(missing), missing[0]),
		Hint:   "what is left of them is in the working tree: look at it, and commit it yourself",
	}
}

// storeAgain makes a snapshot that takes nothing for stored.
func (r *Repo) storeAgain(ctx context.Context) error {
	r.last = nil
	r.cli.based = fileInfo{}
	_, err := r.snapshot(ctx)
	return err
}

// wholeTrees stores the wave's last tree again where it was pruned and is what the working tree holds.
func (r *Repo) wholeTrees(ctx context.Context, w Wave) error {
	for _, p := range w.Results {
		if id, err := parseID(string(p.Result)); err == nil && !r.store.has(id) {
			return r.storeAgain(ctx)
		}
	}
	return nil
}

// absent lists the paths whose content is not in the store, sorted.
func (r *Repo) absent(edits map[string]treeItem) []string {
	var out []string
	for _, name := range sortedKeys(edits) {
		if e := edits[name]; e.mode != 0 && e.mode != modeGitlink && !r.store.has(e.id) {
			out = append(out, name)
		}
	}
	return out
}
