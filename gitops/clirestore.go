package gitops

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
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
