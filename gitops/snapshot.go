package gitops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Snapshot stores the working tree as it is, tracked files and untracked ones that are not ignored, and
// returns its tree. Protected paths are in it as the index has them.
func (r *Repo) Snapshot(ctx context.Context) (Tree, error) {
	r.AwaitGC(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.objects.read(string(r.cli.tree), 0); err != nil { // git gc removed it
		r.cli.tree = ""
	}
	return r.cli.snapshot(ctx)
}

// Dirty lists the paths that differ between HEAD, the index and the working tree, untracked ones included and
// protected ones left out, sorted.
func (r *Repo) Dirty(ctx context.Context) ([]string, error) {
	return r.cli.dirty(ctx, func(_, path string) bool { return !r.guard.covers(path) })
}

// Hidden lists the files for which skip-worktree or assume-unchanged hides edits, sorted. What a sparse checkout left out is none.
func (r *Repo) Hidden(ctx context.Context) (out []string, err error) {
	b, err := r.cli.run(ctx, gitCall{args: []string{"ls-files", "-v", "-z"}})
	if err != nil {
		return nil, fmt.Errorf("look for hidden changes: %w", err)
	}
	index, err := r.cli.indexCopy(filepath.Join(r.l.gitDir, "index"))
	defer os.Remove(index)
	var flagged []string
	for _, entry := range nulSplit(b) {
		flag, path, _ := strings.Cut(entry, " ")
		if flag == strings.ToLower(flag) || flag == "S" && exists(filepath.Join(r.l.root, path)) {
			flagged = append(flagged, path)
		}
	}
	for _, as := range []string{"--no-assume-unchanged", "--no-skip-worktree"} {
		if err == nil && len(flagged) > 0 {
			_, err = r.cli.run(ctx, gitCall{args: []string{"update-index", as, "-z", "--stdin"}, index: index, stdin: nulJoin(flagged)})
		}
	}
	if err == nil && len(flagged) > 0 {
		b, err = r.cli.run(ctx, gitCall{args: []string{"diff", "--name-only", "--no-renames", "--ignore-submodules", "-z"}, index: index})
		for _, path := range nulSplit(b) {
			if slices.Contains(flagged, path) {
				out = append(out, path)
			}
		}
	}
	return out, err
}

// LeftOut is a path that could not be dealt with, and why.
type LeftOut struct{ Path, Why string }

func (l LeftOut) String() string { return l.Path + " (" + l.Why + ")" }

const (
	whyName = "git refuses such a name"

	// whyRules: the file is as it was before the attempt again, since git would read the whole of it.
	whyRules = "an ignore or attributes file of more than 16 MiB"
)

// LeftOut lists what the last snapshot could not contain, sorted by path: what changed since a time apart from what
// is older.
func (r *Repo) LeftOut(since time.Time) (recent, old []LeftOut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.cli.out, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
	for _, x := range slices.Compact(r.cli.out) {
		if x.Why != whyRules && r.olderThan(strings.TrimSuffix(x.Path, "/"), since) {
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
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		fi, err := r.root.Lstat(p)
		return err != nil || fi.IsDir() || !r.olderThan(p, t)
	})
}
