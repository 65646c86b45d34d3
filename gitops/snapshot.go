package gitops

import (
	"context"
	"fmt"
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
	return r.snapshot(ctx)
}

func (r *Repo) snapshot(ctx context.Context) (Tree, error) {
	if err := context.Cause(ctx); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	return r.cli.snapshot(ctx)
}

// Dirty lists the paths that differ between HEAD, the index and the working tree, untracked ones included and
// protected ones left out, sorted.
func (r *Repo) Dirty(ctx context.Context) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cli.dirty(ctx, func(_, path string) bool { return !r.guard.covers(path) })
}

// Hidden lists the files whose edits skip-worktree or assume-unchanged hide, sorted. What a sparse checkout left out is none.
func (r *Repo) Hidden(ctx context.Context) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.cli.run(ctx, gitCall{args: []string{"ls-files", "-v", "-s", "-z"}})
	if err != nil {
		return nil, fmt.Errorf("look for hidden changes: %w", err)
	}
	var out, there, ids []string
	for _, entry := range nulSplit(b) {
		about, path, _ := strings.Cut(entry, "\t")
		flag, about, _ := strings.Cut(about, " ")
		if assumed := flag == strings.ToLower(flag); !assumed && flag != "S" {
			continue
		} else if fi, err := r.root.Lstat(path); missing(err) && assumed {
			out = append(out, path)
		} else if err == nil && fi.Mode().IsRegular() && !strings.Contains(path, "\n") { // hash-object reads lines
			there, ids = append(there, path), append(ids, about)
		}
	}
	if len(there) > 0 {
		b, err := r.cli.run(ctx, gitCall{args: []string{"hash-object", "--stdin-paths"}, stdin: []byte(strings.Join(there, "\n") + "\n")})
		if err != nil {
			return nil, fmt.Errorf("look for hidden changes: %w", err)
		}
		for i, id := range strings.Fields(string(b)) {
			if !strings.Contains(ids[i], id) {
				out = append(out, there[i])
			}
		}
	}
	slices.Sort(out)
	return out, nil
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
	for _, x := range r.leftOut() {
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
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		fi, err := r.root.Lstat(p)
		return err != nil || fi.IsDir() || !r.olderThan(p, t)
	})
}

func (r *Repo) leftOut() []LeftOut {
	list := slices.Clone(r.cli.out)
	slices.SortFunc(list, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(list, func(a, b LeftOut) bool { return a.Path == b.Path })
}
