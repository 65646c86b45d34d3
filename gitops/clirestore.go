package gitops

import (
	"context"
	"os"
	"path"
	"path/filepath"
)

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
