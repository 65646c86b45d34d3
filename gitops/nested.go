package gitops

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// nestedRepo is a repository of its own in the working tree, such as a submodule, that an index knows.
type nestedRepo struct {
	path string
	was  string // the commit that the index has
	now  string // the one checked out; "" where unknown
}

// nested finds the repositories that git add would ask for their status. It does so by a git that obeys what
// their configuration says, filters among it, and an agent may have written that. So they are kept from it: only
// their HEAD is read, by us.
func (c *cli) nested(ctx context.Context, index string) (found []nestedRepo, gone []string, err error) {
	if c.whole {
		return nil, nil, nil
	}
	links, err := c.links(ctx, index)
	for _, n := range links {
		switch c.kindOf(n.path) {
		case nestedHere:
			n.now = c.checkedOut(ctx, filepath.Join(c.l.root, n.path))
			found = append(found, n)
		case nestedReplaced:
			gone = append(gone, n.path)
		}
	}
	return found, gone, err
}

// links lists the repositories that an index knows, checked out or not.
func (c *cli) links(ctx context.Context, index string, options ...string) (links []nestedRepo, err error) {
	b, err := c.run(ctx, gitCall{options: options, args: []string{"ls-files", "-s", "-z"}, index: index})
	for _, entry := range nulSplit(b) {
		info, path, _ := strings.Cut(entry, "\t")
		if rest, is := strings.CutPrefix(info, "160000 "); is {
			was, _, _ := strings.Cut(rest, " ")
			links = append(links, nestedRepo{path: path, was: was})
		}
	}
	return links, err
}

type nestedKind int

const (
	nestedNone     nestedKind = iota // it is not checked out, or gone: git has nothing to ask
	nestedHere                       // it is there
	nestedReplaced                   // something else has its place, which may lead to another repository
)

func (c *cli) kindOf(path string) nestedKind {
	at := c.l.root
	for _, part := range strings.Split(filepath.Dir(path), "/") {
		at = filepath.Join(at, part)
		if fi, err := os.Lstat(at); err != nil || !fi.IsDir() {
			return nestedNone // for git the path is gone
		}
	}
	at = filepath.Join(c.l.root, path)
	fi, err := os.Lstat(at)
	if err != nil {
		return nestedNone
	}
	if !fi.IsDir() {
		return nestedReplaced
	}
	if _, err := os.Lstat(filepath.Join(at, ".git")); err != nil {
		return nestedNone
	}
	return nestedHere
}

// checkedOut is the commit that is checked out in another repository, "" where unknown. It runs nothing that the
// repository's configuration names, and does not hang where a pipe replaces one of its files.
func (c *cli) checkedOut(ctx context.Context, dir string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*c.patience)
	defer cancel()
	hash, err := c.run(ctx, gitCall{options: []string{"--git-dir=" + filepath.Join(dir, ".git")}, args: []string{"rev-parse", "--verify", "--quiet", "HEAD"}})
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(hash))
}

// setNested gives the nested repositories of an index the commits that are checked out.
func (c *cli) setNested(ctx context.Context, index string, found []nestedRepo) error {
	var moved bytes.Buffer
	for _, n := range found {
		if n.now != "" && n.now != n.was {
			fmt.Fprintf(&moved, "160000 %s\t%s\x00", n.now, n.path)
		}
	}
	if moved.Len() == 0 {
		return nil
	}
	_, err := c.run(ctx, gitCall{args: []string{"update-index", "-z", "--index-info"}, index: index, stdin: moved.Bytes()})
	return err
}

// NestedEdits lists, sorted, files inside submodules and other nested repositories that were written since a time: no
// snapshot contains them. Submodules that Modules looks into are left out, and those in which something was committed.
// git is not asked, which would obey a configuration that an agent may have written.
func (r *Slot) NestedEdits(ctx context.Context, since time.Time) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cli.whole {
		return nil, nil
	}
	links, err := r.cli.links(ctx, "")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range links {
		kind := r.cli.kindOf(n.path)
		moved := kind == nestedHere && r.cli.checkedOut(ctx, filepath.Join(r.l.root, n.path)) != n.was
		if kind == nestedReplaced || moved || r.modules[n.path] != nil {
			continue
		}
		_ = filepath.WalkDir(filepath.Join(r.l.root, filepath.FromSlash(n.path)), func(path string, e fs.DirEntry, err error) error {
			rel, rerr := filepath.Rel(r.l.root, path)
			switch {
			case err != nil || rerr != nil || len(out) == mostEdits:
				return filepath.SkipDir
			case e.Name() == ".git" && e.IsDir():
				return filepath.SkipDir
			case e.IsDir() || e.Name() == ".git" || kind == nestedHere && r.olderThan(rel, since):
				return nil
			}
			out = append(out, filepath.ToSlash(rel))
			return nil
		})
	}
	slices.Sort(out)
	return out, nil
}

// mostEdits bounds what NestedEdits lists.
const mostEdits = 1000
