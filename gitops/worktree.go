package gitops

import (
	"slices"
	"sort"
	"strings"
	"time"
)

// folder is a directory of the working tree as a scan found it, with the git tree that it makes: tracked files, and
// untracked ones that are not ignored. A scan makes new folders and never changes old ones; what an old one says of a
// file that did not change since is taken from there.
type folder struct {
	path   string    // "" or "a/b/"
	files  []file    // sorted by name
	dirs   []*folder // sorted as trees are, by name with a slash; none is empty
	id     objectID  // of its tree
	data   []byte    // its tree, until that is stored
	stored bool      // the tree and all below it are in the store
}

// file is a file or symbolic link of the working tree.
type file struct {
	name    string
	id      objectID // zero where it was not read
	mode    uint32
	st      fileStat
	fixed   bool // taken as the index has it: protected, assume-unchanged or skip-worktree
	unsure  bool // it may have changed, or change yet, without a change of st
	unsaved bool // its content is not in the store
}

func (d *folder) name() string {
	return d.path[strings.LastIndexByte(d.path[:len(d.path)-1], '/')+1 : len(d.path)-1]
}

// file finds a file directly in the folder, nil where it has none; so does dir.
func (d *folder) file(name string) *file {
	if d == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(d.files, name, func(f file, name string) int { return strings.Compare(f.name, name) })
	if !ok {
		return nil
	}
	return &d.files[i]
}

func (d *folder) dir(name string) *folder {
	if d == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(d.dirs, name, func(c *folder, name string) int { return compareEntries(c.name(), true, name, true) })
	if !ok {
		return nil
	}
	return d.dirs[i]
}

// each calls do for every file.
func (d *folder) each(do func(path string, f *file)) {
	for i := range d.files {
		do(d.path+d.files[i].name, &d.files[i])
	}
	for _, c := range d.dirs {
		c.each(do)
	}
}

// seal sorts what was found and makes the tree of it. prev is the folder as it was before, or nil.
func (d *folder) seal(prev *folder) {
	slices.SortFunc(d.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	slices.SortFunc(d.dirs, func(a, b *folder) int { return compareEntries(a.name(), true, b.name(), true) })
	b := make([]byte, 0, 64+40*(len(d.files)+len(d.dirs)))
	i := 0
	for _, c := range d.dirs {
		name := c.name()
		for ; i < len(d.files) && compareEntries(d.files[i].name, false, name, true) < 0; i++ {
			b = appendEntry(b, d.files[i].mode, d.files[i].name, d.files[i].id)
		}
		b = appendEntry(b, modeDir, name, c.id)
	}
	for ; i < len(d.files); i++ {
		b = appendEntry(b, d.files[i].mode, d.files[i].name, d.files[i].id)
	}
	d.id = hashObject(kindTree, b)
	if d.stored = prev != nil && prev.stored && prev.id == d.id; !d.stored {
		d.data = b
	}
}

// store writes the trees that are not in the store. known is a tree that is there, HEAD's at the same place, or nil:
// what is the same need not be written.
func (d *folder) store(o *objectStore, known *objectID) error {
	if d.stored {
		return nil
	}
	if known != nil && *known == d.id {
		d.markStored()
		return nil
	}
	var items []treeItem
	if known != nil {
		b, err := o.tree(*known)
		if err == nil {
			items, err = parseTree(b)
		}
		if err != nil {
			return err
		}
	}
	for _, c := range d.dirs {
		var k *objectID
		if e := findItem(items, c.name(), true); e.mode != 0 {
			k = &e.id
		}
		if err := c.store(o, k); err != nil {
			return err
		}
	}
	if err := o.write(d.id, kindTree, d.data); err != nil {
		return err
	}
	d.stored, d.data = true, nil
	return nil
}

func (d *folder) markStored() {
	d.stored, d.data = true, nil
	for _, c := range d.dirs {
		c.markStored()
	}
}

// folder is what the index has at a path ("" or "a/b/"): its entries lo to hi, but for those that keep does not want;
// nil where that is nothing.
func (ix *index) folder(path string, lo, hi int, keep func(e *indexEntry) bool) *folder {
	d := &folder{path: path}
	for i := lo; i < hi; {
		e := &ix.entries[i]
		name, _, below := strings.Cut(e.name[len(path):], "/")
		if below {
			dir := e.name[:len(path)+len(name)+1]
			end := prefixEnd(ix.entries, i, hi, dir)
			if c := ix.folder(dir, i, end, keep); c != nil {
				d.dirs = append(d.dirs, c)
			}
			i = end
			continue
		}
		if keep(e) {
			d.files = append(d.files, file{name: name, id: e.id, mode: e.mode, st: e.st, fixed: true})
		}
		i++
	}
	if len(d.files)+len(d.dirs) == 0 && path != "" {
		return nil
	}
	d.seal(nil)
	return d
}

// plain says that the index holds nothing that only git treats rightly.
func (ix *index) plain() error {
	for i := range ix.entries {
		e := &ix.entries[i]
		if e.stage() != 0 {
			return unsupported("unmerged index")
		}
		if !safePath(e.name) {
			return unsupported("path %q", e.name)
		}
	}
	return nil
}

// within finds the entry of a file in a folder, nil where there is none; lo and hi are the entries of that folder, whose
// path is n bytes long.
func (ix *index) within(n, lo, hi int, name string) *indexEntry {
	i := lo + sort.Search(hi-lo, func(k int) bool { return ix.entries[lo+k].name[n:] >= name })
	if i < hi && ix.entries[i].name[n:] == name {
		return &ix.entries[i]
	}
	return nil
}

// below finds the entries of a folder in that folder.
func (ix *index) below(n, lo, hi int, name string) (from, to int) {
	from = lo + sort.Search(hi-lo, func(k int) bool {
		rest := ix.entries[lo+k].name[n:]
		return rest > name && !(strings.HasPrefix(rest, name) && rest[len(name)] < '/')
	})
	if from == hi || !strings.HasPrefix(ix.entries[from].name[n:], name) || ix.entries[from].name[n+len(name)] != '/' {
		return from, from
	}
	return from, prefixEnd(ix.entries, from, hi, ix.entries[from].name[:n+len(name)+1])
}

// prefixEnd is the end of the run of entries from i on whose names start with prefix.
func prefixEnd(entries []indexEntry, i, hi int, prefix string) int {
	step := 1
	for i+step < hi && strings.HasPrefix(entries[i+step].name, prefix) {
		i += step
		step *= 2
	}
	n := min(step, hi-i)
	return i + sort.Search(n, func(k int) bool { return !strings.HasPrefix(entries[i+k].name, prefix) })
}

// differs lists the paths at which the working tree is not as the index has it, in no order.
func (ix *index) differs(top *folder, guard protection) []string {
	var out []string
	there := map[string]bool{}
	top.each(func(path string, f *file) {
		there[path] = true
		i, known := ix.find(path)
		known = known && ix.entries[i].ext&extIntent == 0
		if !f.fixed && (!known || f.id != ix.entries[i].id || f.mode != ix.entries[i].mode) {
			out = append(out, path)
		}
	})
	for i := range ix.entries {
		if e := &ix.entries[i]; e.ext&extIntent == 0 && !there[e.name] && !guard.covers(e.name) {
			out = append(out, strings.Clone(e.name))
		}
	}
	return out
}

// stampBefore compares the seconds and nanoseconds of a stat with a time.
func stampBefore(s, ns uint32, t time.Time) bool {
	sec := uint32(t.Unix())
	if ns == 0 { // a file system with coarse stamps
		return int64(s)+2 < t.Unix()
	}
	return s < sec || s == sec && ns < uint32(t.Nanosecond())
}
