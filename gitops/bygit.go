package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/internal/proc"
)

// snapshot stages the whole working tree in a private index, which stays until the next one, and writes its tree.
// Protected paths stay as the repository's index has them.
func (c *cli) snapshot(ctx context.Context) (Tree, error) {
	from, was := filepath.Join(c.l.gitDir, "index"), Tree("")
	if c.slot && c.tree != "" && exists(c.last) { // of the same attempt
		from, was = c.last, c.tree
	}
	index, err := c.indexCopy(from)
	_ = os.Remove(c.last)
	c.last, c.tree = index, ""
	var same bool
	if err == nil {
		same, err = c.addAll(ctx, index, c.guard)
	}
	tree := string(was)
	if err == nil && (was == "" || !same) {
		tree, err = c.word(ctx, index, "write-tree")
	}
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	c.tree = Tree(tree)
	return c.tree, nil
}

// addAll is `git add -A` but for protected paths, and for repositories in the working tree: those that an index or
// .gitmodules knows have the commit that is checked out there, any other is left out. same says that the index had it
// all.
func (c *cli) addAll(ctx context.Context, index string, guard protection) (same bool, err error) {
	inner, gone, err := c.nested(ctx, index)
	if err == nil {
		err = c.forget(ctx, index, gone)
	}
	if err != nil {
		return false, err
	}
	odd, err := c.survey(ctx)
	if err != nil {
		return false, err
	}
	if err := odd.unreadable(inner); err != nil {
		return false, err
	}
	new, bare, err := c.newRepos(ctx, index, odd.repos, inner)
	if err != nil {
		return false, err
	}
	c.whole = c.whole && len(new) == 0
	inner, bare = append(inner, new...), append(bare, odd.large...)
	skip := slices.Clone(guard)
	for _, n := range inner {
		skip = append(skip, n.path)
	}
	for _, x := range bare {
		skip = append(skip, x.Path)
	}
	args := []string{"add", "-A", "-v", "--ignore-errors", "--", "."}
	for _, p := range skip {
		args = append(args, ":(top,exclude,literal)"+strings.TrimSuffix(p, "/"))
	}
	for tries := 0; ; tries++ {
		said := ""
		added, err := c.run(ctx, gitCall{options: []string{"-c", "core.safecrlf=false", "-c",
			"core.sparseCheckout=false"}, args: args, index: index, warned: &said})
		if c.slot && tries == 0 && strings.Contains(said, "Permission denied") && loosen(c.l.root) {
			continue
		}
		failed, _ := errors.AsType[*gitError](err)
		switch {
		case err == nil || onlyIgnored(err):
			c.out = bare
			return len(added) == 0 && c.whole, c.setNested(ctx, index, inner)
		case failed != nil && tries < 5 && strings.Contains(failed.said, "unstable object source"): // a file that grows
		case failed != nil && failed.code == 1:
			left, err := c.notAdded(ctx, index, skip, failed)
			if c.out = append(left, bare...); err == nil && len(left) == 0 {
				err = failed
			}
			return false, errors.Join(err, c.setNested(ctx, index, inner))
		default:
			return false, c.blame(ctx, err)
		}
	}
}

// blame says whether it is the working tree's own fault that git cannot store it.
func (c *cli) blame(ctx context.Context, err error) error {
	if errors.Is(err, ErrTooLong) {
		return &UnstorableError{err.Error()}
	}
	if _, much := errors.AsType[*proc.TooMuchError](err); much && c.slot {
		return &UnstorableError{"the names of its files are too long in all"}
	}
	if failed, ok := errors.AsType[*gitError](err); ok && c.slot && c.full() == nil {
		if _, perr := c.feed(ctx, []byte(c.scratch), "hash-object", "-w", "--stdin"); perr == nil {
			return &UnstorableError{failed.Error()}
		}
	}
	return err
}

// notAdded lists what `git add --ignore-errors` left in the working tree, and why.
func (c *cli) notAdded(ctx context.Context, index string, skip protection, failed *gitError) (out []LeftOut, err error) {
	b, err := c.run(ctx, gitCall{args: []string{"ls-files", "-z", "-o", "-m", "--exclude-standard"}, index: index})
	if err != nil {
		return nil, err
	}
	paths := slices.DeleteFunc(nulSplit(b), skip.covers)
	slices.Sort(paths)
	paths = slices.Compact(paths)
	entries := map[string]treeItem{}
	for _, path := range paths {
		entries[path] = treeItem{modeRegular, strings.Repeat("1", len(c.zero))}
	}
	names := c.scratchIndex()
	defer os.Remove(names)
	refused, err := c.refusedNames(ctx, names, entries)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		fi, serr := os.Lstat(filepath.Join(c.l.root, path))
		switch {
		case serr != nil: // deleted
		case slices.Contains(refused, path):
			out = append(out, LeftOut{path, whyName})
		case !fi.Mode().IsRegular() && fi.Mode()&os.ModeSymlink == 0 && !fi.IsDir():
			out = append(out, LeftOut{path, "it is not a file"})
		default:
			first, _, _ := strings.Cut(failed.said, "\n")
			out = append(out, LeftOut{path, "git cannot add it: " + strings.TrimPrefix(first, "error: ")})
		}
	}
	return out, nil
}

// onlyIgnored reports whether git add did everything and only complains that a path it had to leave out is ignored.
func onlyIgnored(err error) bool {
	var ge *gitError
	return errors.As(err, &ge) && ge.code == 1 && strings.HasPrefix(ge.said,
		"The following paths are ignored by one of your .gitignore files:") &&
		!strings.Contains(ge.said, "error: ") && !strings.Contains(ge.said, "fatal: ")
}

// scratchIndex names a file that is nobody's yet.
func (c *cli) scratchIndex() string { return fmt.Sprintf("%s.%x", c.scratch, rand.Uint64()) }

// indexOf is an index of a tree, or a commit's.
func (c *cli) indexOf(ctx context.Context, tree string) (index string, err error) {
	index = c.scratchIndex()
	_, err = c.run(ctx, gitCall{args: []string{"read-tree", tree}, index: index})
	return index, err
}

// indexCopy gives from another name; git replaces index files by renaming, so the original stays. A missing
// one is copied as a missing one.
func (c *cli) indexCopy(from string) (string, error) {
	to := c.scratchIndex()
	err := os.Link(from, to)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return to, nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	fi, err := os.Stat(from)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		return "", err
	}
	// The time tells git which entries may have changed unnoticed; a newer one would hide changes.
	return to, os.Chtimes(to, fi.ModTime(), fi.ModTime())
}

// forget takes paths out of an index.
func (c *cli) forget(ctx context.Context, index string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	_, err := c.run(ctx, gitCall{args: []string{"update-index", "--force-remove", "-z", "--stdin"}, index: index,
		stdin: nulJoin(slices.Sorted(slices.Values(paths)))})
	return err
}

const lockPatience = 2 * time.Second

// commitIndex is an index of a tree; it keeps what the slot's knows of unchanged files.
func (c *cli) commitIndex(ctx context.Context, tree Tree) (string, error) {
	index, err := c.indexCopy(filepath.Join(c.l.gitDir, "index"))
	if err != nil {
		return "", err
	}
	// whatever the files are
	if _, err := c.run(ctx, gitCall{args: []string{"read-tree", "-m", "-i", string(tree)}, index: index}); err != nil {
		return index, err
	}
	// For hooks that ask git's plumbing. Exit status 1: some files differ, which is none of our business.
	if _, err := c.run(ctx, gitCall{args: []string{"update-index", "-q", "--refresh"}, index: index}); err != nil &&
		exitCode(err) != 1 {
		return index, err
	}
	return index, nil
}

// setEntries puts entries into an index, removals first, so that a file may take a directory's place.
func (c *cli) setEntries(ctx context.Context, index string, entries map[string]treeItem) error {
	refused, err := c.refusedNames(ctx, index, entries)
	if err == nil && len(refused) > 0 {
		return &RefusedError{Reason: "a tree holds the unsafe name " + strconv.Quote(refused[0])}
	}
	return err
}

// indexInfo is what git update-index --index-info reads to have entries set; mode 0 removes one. What makes room comes
// first.
func (c *cli) indexInfo(entries map[string]treeItem) []byte {
	var removed, set bytes.Buffer
	for _, p := range sortedKeys(entries) {
		if e := entries[p]; e.mode == 0 {
			fmt.Fprintf(&removed, "0 %s\t%s\x00", c.zero, p)
		} else {
			fmt.Fprintf(&set, "%06o %s\t%s\x00", e.mode, e.id, p)
		}
	}
	removed.Write(set.Bytes())
	return removed.Bytes()
}

// refusedNames is setEntries that lists the names that git did not take.
func (c *cli) refusedNames(ctx context.Context, index string, entries map[string]treeItem) (refused []string, err error) {
	said := ""
	_, err = c.run(ctx, gitCall{args: []string{"update-index", "-z", "--index-info"}, index: index,
		stdin: c.indexInfo(entries), warned: &said})
	if err != nil || said == "" {
		return nil, err
	}
	b, err := c.run(ctx, gitCall{args: []string{"ls-files", "-z"}, index: index})
	taken := map[string]bool{}
	for _, p := range nulSplit(b) {
		taken[p] = true
	}
	return slices.DeleteFunc(sortedKeys(entries), func(p string) bool { return taken[p] || entries[p].mode == 0 }), err
}

// lockedBy explains a lock file that did not go away.
func lockedBy(path string, err error) error {
	if fi, lerr := os.Lstat(path + ".lock"); lerr == nil {
		return &RefusedError{
			Reason: fmt.Sprintf("%s.lock is held, since %s: another git command is running here, or one was killed",
				path, fi.ModTime().Format(time.RFC3339)),
			Hint: "wait for it, or delete the file if no git command is running",
		}
	}
	return err
}
