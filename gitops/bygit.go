package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// snapshot stages the whole working tree in a private index, which stays until the next one, and writes its tree.
// Protected paths stay as the repository's index has them.
func (c *cli) snapshot(ctx context.Context) (Tree, error) {
	from, was := filepath.Join(c.l.gitDir, "index"), Tree("")
	if c.unites && c.tree != "" && exists(c.last) { // of the same attempt
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

// addAll is `git add -A` but for protected paths. A repository that the index does not know becomes files in a slot;
// elsewhere it stays one, and git cannot record it without a commit. same says that the index had it all.
func (c *cli) addAll(ctx context.Context, index string, guard protection) (same bool, err error) {
	inner, gone, err := c.nested(ctx, index)
	if err == nil {
		err = c.forget(ctx, index, gone)
	}
	if err != nil {
		return false, err
	}
	var skip []string
	var bare []LeftOut
	for _, n := range inner {
		skip = append(skip, n.path)
	}
	for tries := 0; ; tries++ {
		args := []string{"add", "-A", "-v", "--ignore-errors", "--", "."}
		for _, p := range append(skip, guard...) {
			args = append(args, ":(top,exclude,literal)"+strings.TrimSuffix(p, "/"))
		}
		said := ""
		added, err := c.run(ctx, gitCall{options: []string{"-c", "core.safecrlf=false", "-c",
			"core.sparseCheckout=false"}, args: args, index: index, warned: &said})
		again, uerr := c.unite(ctx, index, said)
		if uerr != nil {
			return false, uerr
		}
		if again || c.unites && tries == 0 && strings.Contains(said, "Permission denied") && loosen(c.l.root) {
			continue
		}
		if c.out = append(leftByGit(err), bare...); err == nil || onlyIgnored(err) {
			return len(added) == 0 && c.whole, c.setNested(ctx, index, inner)
		}
		// a file that grows
		if said, ok := errors.AsType[*gitError](err); ok && tries < 5 &&
			strings.Contains(said.said, "unstable object source") {
			continue
		}
		empty := named(said, "error: '", "' does not have a commit checked out")
		if len(empty) == 0 && len(c.out) > len(bare) {
			return false, c.setNested(ctx, index, inner)
		}
		if len(empty) == 0 || slices.Contains(skip, empty[0]) {
			return false, err
		}
		for _, path := range empty {
			skip = append(skip, path)
			bare = append(bare, LeftOut{path, "a git repository without a commit"})
		}
	}
}

// unite makes files of repositories that git add met in a slot for the first time: a commit could at most name theirs.
// Those that .gitmodules names stay. It reports whether there is more to add.
func (c *cli) unite(ctx context.Context, index, said string) (again bool, err error) {
	if !c.unites {
		return false, nil
	}
	found := named(said, "warning: adding embedded git repository: ", "")
	if len(found) > 0 {
		c.whole = false
		names := c.moduleNames(ctx, "--file", ".gitmodules")
		found = slices.DeleteFunc(found, func(path string) bool { return names[strings.TrimSuffix(path, "/")] != "" })
		if err := c.forget(ctx, index, found); err != nil {
			return false, err
		}
	}
	for _, path := range append(found, named(said, "error: '", "' does not have a commit checked out")...) {
		path = strings.TrimSuffix(path, "/")
		dot := filepath.Join(c.l.root, path, ".git")
		loosen(dot)
		if err := os.RemoveAll(dot); err != nil {
			return false, err
		}
		c.united, again = append(c.united, path), true
	}
	return again, nil
}

// named finds what lines of git's have between two texts.
func named(said, before, after string) (names []string) {
	for line := range strings.Lines(said) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), before); ok {
			if name, ok := strings.CutSuffix(rest, after); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// onlyIgnored reports whether git add did everything and only complains that a path it had to leave out is ignored.
func onlyIgnored(err error) bool {
	var ge *gitError
	return errors.As(err, &ge) && ge.code == 1 && strings.HasPrefix(ge.said,
		"The following paths are ignored by one of your .gitignore files:") &&
		!strings.Contains(ge.said, "error: ") && !strings.Contains(ge.said, "fatal: ")
}

// leftByGit reads from the words of `git add --ignore-errors` what it could not add.
func leftByGit(err error) []LeftOut {
	var ge *gitError
	if !errors.As(err, &ge) || ge.code != 1 {
		return nil
	}
	var out []LeftOut
	why := ""
	for line := range strings.Lines(ge.said) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "error: ")
		if !ok {
			continue
		}
		if path, ok := strings.CutSuffix(text, ": can only add regular files, symbolic links or git-directories"); ok {
			out = append(out, LeftOut{path, "it is not a file"})
			continue
		}
		path, named := strings.CutPrefix(text, "unable to index file '")
		if !named {
			if path, named = strings.CutPrefix(text, "unable to add '"); named {
				path = strings.TrimSuffix(path, " to index")
			}
		}
		switch {
		case !named:
			why = text
		case strings.HasPrefix(why, "invalid path"):
			out = append(out, LeftOut{strings.TrimSuffix(path, "'"), whyName})
		default:
			out = append(out, LeftOut{strings.TrimSuffix(path, "'"), "git cannot add it: " + why})
		}
	}
	return out
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
	var removed, set bytes.Buffer
	for _, p := range slices.Sorted(maps.Keys(entries)) {
		if e := entries[p]; e.mode == 0 {
			fmt.Fprintf(&removed, "0 %s\t%s\x00", c.zero, p)
		} else {
			fmt.Fprintf(&set, "%06o %s\t%s\x00", e.mode, e.id, p)
		}
	}
	removed.Write(set.Bytes())
	said := ""
	_, err := c.run(ctx, gitCall{args: []string{"update-index", "-z", "--index-info"}, index: index,
		stdin: removed.Bytes(), warned: &said})
	if bad := named(said, "Ignoring path ", ""); err == nil && len(bad) > 0 {
		return &RefusedError{Reason: "a tree holds the unsafe name " + strconv.Quote(bad[0])}
	}
	return err
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
