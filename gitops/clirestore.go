package gitops

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// treeEntry is one side of a difference; mode 0 is "not there".
type treeEntry struct {
	mode uint32
	id   string
}

// rawChange is a path that differs between two trees, with both its entries.
type rawChange struct {
	path     string
	old, new treeEntry
}

const emptyTreeHex = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// changes lists what differs between two trees, protected paths left out. "" is the empty tree.
func (c *cli) changes(ctx context.Context, from, to string) ([]rawChange, error) {
	if from == "" {
		from = emptyTreeHex
	}
	b, err := c.run(ctx, gitCall{args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", from, to}})
	if err != nil {
		return nil, err
	}
	fields := nulSplit(b)
	var out []rawChange
	for i := 0; i+1 < len(fields); i += 2 {
		ch := rawChange{path: fields[i+1]}
		var op string
		if _, err := fmt.Sscanf(fields[i], ":%o %o %s %s %s", &ch.old.mode, &ch.new.mode, &ch.old.id, &ch.new.id, &op); err != nil {
			return nil, fmt.Errorf("read git diff-tree: %q: %w", fields[i], err)
		}
		if !c.guard.covers(ch.path) {
			out = append(out, ch)
		}
	}
	return out, nil
}

// restore makes the working tree, which holds from, hold to. Only differing paths are touched.
func (c *cli) restore(ctx context.Context, from, to Tree) ([]string, error) {
	changes, err := c.changes(ctx, string(from), string(to))
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	var gone, back []string
	for _, ch := range changes {
		switch {
		case ch.old.mode == modeGitlink || ch.new.mode == modeGitlink:
			// a repository of its own: its files are not in the snapshot, so they are left alone
		case ch.new.mode == 0:
			gone = append(gone, ch.path)
		default:
			back = append(back, ch.path)
		}
	}
	if err := c.remove(gone); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	for _, p := range back {
		if err := c.clearWay(p); err != nil {
			return nil, fmt.Errorf("restore: %w", err)
		}
	}
	if err := c.checkout(ctx, to, back); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	touched := append(gone, back...)
	slices.Sort(touched)
	return touched, nil
}

// remove deletes files and the directories that this empties, never through a symbolic link.
func (c *cli) remove(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	root, err := os.OpenRoot(c.l.root)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, p := range paths {
		if linked(c.l.root, p) {
			continue // the file went when its directory became a link
		}
		if err := root.Remove(filepath.FromSlash(p)); err != nil && !missing(err) {
			return err
		}
	}
	for _, p := range paths {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if linked(c.l.root, dir) || root.Remove(filepath.FromSlash(dir)) != nil {
				break // not empty, or not a directory any more
			}
		}
	}
	return nil
}

// linked reports whether a directory above the path is something else than a directory.
func linked(root, p string) bool {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if fi, err := os.Lstat(filepath.Join(root, dir)); err == nil && !fi.IsDir() {
			return true
		}
	}
	return false
}

// clearWay makes sure that a file can be put at p. What stands there and is in no snapshot is ignored by git,
// and not ours to delete.
func (c *cli) clearWay(p string) error {
	full := filepath.Join(c.l.root, filepath.FromSlash(p))
	if fi, err := os.Lstat(full); err == nil && fi.IsDir() {
		if os.Remove(full) != nil {
			return &RefusedError{Reason: fmt.Sprintf("%s is a directory with ignored files where the snapshot has a file", p), Hint: "move it away"}
		}
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if fi, err := os.Lstat(filepath.Join(c.l.root, filepath.FromSlash(dir))); err == nil && !fi.IsDir() {
			return &RefusedError{Reason: fmt.Sprintf("%s is an ignored file where the snapshot has a directory", dir), Hint: "move it away"}
		}
	}
	return nil
}

// checkout writes paths as the tree has them, filters included. Attribute files come first: git reads them
// from the working tree.
func (c *cli) checkout(ctx context.Context, to Tree, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	index, err := c.indexCopy(filepath.Join(c.l.gitDir, "descartes-none"))
	if err != nil {
		return err
	}
	defer os.Remove(index)
	if _, err := c.run(ctx, gitCall{args: []string{"read-tree", string(to)}, index: index}); err != nil {
		return err
	}
	var first, rest []string
	for _, p := range paths {
		if path.Base(p) == ".gitattributes" {
			first = append(first, p)
		} else {
			rest = append(rest, p)
		}
	}
	for _, part := range [][]string{first, rest} {
		if len(part) == 0 {
			continue
		}
		if _, err := c.run(ctx, gitCall{args: []string{"checkout-index", "-f", "-z", "--stdin"}, index: index, stdin: nulJoin(part)}); err != nil {
			return err
		}
	}
	return nil
}
