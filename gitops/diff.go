package gitops

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Changed lists what differs between two trees, protected paths left out, sorted by path.
func (r *Repo) Changed(ctx context.Context, from, to Tree) ([]Change, error) {
	var out []Change
	err := r.diffTrees(from, to, func(path string, a, b treeItem) {
		out = append(out, Change{Path: path, Op: opOf(a, b)})
	})
	if err != nil {
		return nil, fmt.Errorf("compare snapshots: %w", err)
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

func opOf(a, b treeItem) byte {
	switch {
	case a.mode == 0:
		return 'A'
	case b.mode == 0:
		return 'D'
	case a.mode&modeType != b.mode&modeType:
		return 'T'
	}
	return 'M'
}

func (r *Repo) diffTrees(from, to Tree, each func(path string, a, b treeItem)) error {
	a, err := parseID(string(from))
	if err != nil {
		return err
	}
	b, err := parseID(string(to))
	if err != nil {
		return err
	}
	return r.diff(a, b, each)
}

// diff calls each for every file that differs and is not protected; mode 0 stands for no file.
func (r *Repo) diff(a, b objectID, each func(path string, a, b treeItem)) error {
	d := differ{reader: &r.store.reader, guard: r.guard, each: each}
	return d.dirs("", &a, &b, 0)
}

type differ struct {
	reader *objectReader
	guard  protection
	each   func(path string, a, b treeItem)
}

// dirs compares two directories; nil is one that is not there.
func (d *differ) dirs(prefix string, a, b *objectID, depth int) error {
	if a != nil && b != nil && *a == *b || prefix != "" && d.guard.covers(prefix) {
		return nil
	}
	if depth > maxTreeDepth {
		return errTreeFormat
	}
	as, err := d.items(a)
	if err != nil {
		return err
	}
	bs, err := d.items(b)
	if err != nil {
		return err
	}
	for len(as) > 0 || len(bs) > 0 {
		c := 0
		switch {
		case len(bs) == 0:
			c = -1
		case len(as) == 0:
			c = 1
		default:
			c = compareEntries(as[0].name, as[0].isDir(), bs[0].name, bs[0].isDir())
		}
		var x, y treeItem
		if c <= 0 {
			x, as = as[0], as[1:]
		}
		if c >= 0 {
			y, bs = bs[0], bs[1:]
		}
		if err := d.pair(prefix, x, y, depth); err != nil {
			return err
		}
	}
	return nil
}

func (d *differ) items(id *objectID) ([]treeItem, error) {
	if id == nil {
		return nil, nil
	}
	b, err := d.reader.tree(*id)
	if err != nil {
		return nil, err
	}
	return parseTree(b)
}

// pair compares two entries of one name and sort, of which one may be missing.
func (d *differ) pair(prefix string, x, y treeItem, depth int) error {
	if x.id == y.id && x.mode == y.mode {
		return nil
	}
	name := x.name
	if name == "" {
		name = y.name
	}
	path := prefix + name
	if x.isDir() || y.isDir() {
		var a, b *objectID
		if x.mode != 0 {
			a = &x.id
		}
		if y.mode != 0 {
			b = &y.id
		}
		return d.dirs(path+"/", a, b, depth+1)
	}
	if !d.guard.covers(path) {
		d.each(path, x, y)
	}
	return nil
}

// statLines is how long a diff stat may be, its summary included.
const statLines = 40

// DiffStat tells people how two trees differ, as `git diff --stat` does: one line for each file, at most 40 in all, and
// a summary. It is "" where nothing differs.
func (r *Repo) DiffStat(ctx context.Context, from, to Tree) (string, error) {
	return r.diffText(ctx, from, to, "--no-renames", fmt.Sprintf("--stat=100,80,%d", statLines-2))
}

// Patch is the difference of two trees as a unified diff, for people and agents to read; at most limit bytes of it, cut
// at a line's end with a word that it is.
func (r *Repo) Patch(ctx context.Context, from, to Tree, limit int) (string, error) {
	text, err := r.diffText(ctx, from, to, "-p", "-M")
	if err != nil && ctx.Err() == nil { // it is enormous
		return r.DiffStat(ctx, from, to)
	}
	whole := len(text)
	if err != nil || whole <= limit {
		return text, err
	}
	text = strings.ToValidUTF8(text[:limit], "")
	text = text[:strings.LastIndexByte(text, '\n')+1]
	return text + fmt.Sprintf("[%d bytes of the diff left out]\n", whole-len(text)), nil
}

func (r *Repo) diffText(ctx context.Context, from, to Tree, form ...string) (string, error) {
	if from == to {
		return "", nil
	}
	args := append([]string{"diff-tree", "-r", "--no-color", "--no-ext-diff", "--no-textconv"}, form...)
	b, err := r.cli.run(ctx, gitCall{args: append(args, string(from), string(to))})
	if err != nil {
		return "", fmt.Errorf("compare snapshots: %w", err)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), nil
}
