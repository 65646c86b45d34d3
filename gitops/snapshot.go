package gitops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/internal/oneline"
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
// protected ones left out, sorted. Edits that skip-worktree or assume-unchanged hides from git are among them.
func (r *Repo) Dirty(ctx context.Context) (out []string, err error) {
	index, err := r.bareIndex(ctx)
	defer os.Remove(index)
	var b []byte
	if err == nil {
		b, err = r.cli.run(ctx, gitCall{args: []string{"status", "--porcelain=v1", "-z", "--untracked-files=all",
			"--no-renames", "--ignore-submodules=dirty"}, index: index})
	}
	if err != nil {
		return nil, fmt.Errorf("look for uncommitted changes: %w", err)
	}
	for _, entry := range nulSplit(b) {
		if len(entry) > 3 && !r.guard.covers(entry[3:]) {
			out = append(out, entry[3:])
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// bareIndex is a copy of the index without the flags that hide files, "" where it has none. What a sparse checkout
// left out is not hidden.
func (r *Repo) bareIndex(ctx context.Context) (index string, err error) {
	b, err := r.cli.run(ctx, gitCall{args: []string{"ls-files", "-v", "-z"}})
	var flagged []string
	for _, entry := range nulSplit(b) {
		flag, path, _ := strings.Cut(entry, " ")
		if flag == strings.ToLower(flag) || flag == "S" && exists(filepath.Join(r.l.root, path)) {
			flagged = append(flagged, path)
		}
	}
	if err != nil || len(flagged) == 0 {
		return "", err
	}
	if index, err = r.cli.indexCopy(filepath.Join(r.l.gitDir, "index")); err == nil {
		err = r.cli.unhide(ctx, index, flagged)
	}
	return index, err
}

// unhide takes the flags from files in an index that make git look away from them.
func (c *cli) unhide(ctx context.Context, index string, paths []string) error {
	for _, as := range []string{"--no-assume-unchanged", "--no-skip-worktree"} {
		if len(paths) == 0 {
			break
		}
		if _, err := c.run(ctx, gitCall{args: []string{"update-index", as, "-z", "--stdin"}, index: index,
			stdin: nulJoin(paths)}); err != nil {
			return err
		}
	}
	return nil
}

// LeftOut is a path that could not be dealt with, and why.
type LeftOut struct{ Path, Why string }

func (l LeftOut) String() string { return l.Path + " (" + l.Why + ")" }

// Reasons names the first of what was left out, with the reasons.
func Reasons(left []LeftOut) string {
	list := make([]string, len(left))
	for i, x := range left {
		list[i] = x.String()
	}
	return oneline.List(list)
}

const whyName = "git refuses such a name"

// LeftOut lists what the last snapshot could not contain, sorted by path: what changed since a time apart from what
// is older.
func (r *Repo) LeftOut(since time.Time) (recent, old []LeftOut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.cli.out, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
	for _, x := range slices.Compact(r.cli.out) {
		if r.olderThan(strings.TrimSuffix(x.Path, "/"), since) {
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
