package gitops

import (
	"slices"
	"sort"
	"strings"
	"time"
)

// worktree is what the last scan found: every tracked file and every untracked one that is not ignored,
// as a tree of directories, each with the git tree object that it makes.
type worktree struct {
	root    *folder
	scanned bool
}

// folder is a directory of the working tree.
type folder struct {
	path   string // "" or "a/b/"
	parent *folder
	files  []file    // sorted by name
	dirs   []*folder // sorted as trees are: by name with a slash

	id     objectID // the tree of this folder, while valid
	valid  bool
	empty  bool   // while valid: nothing to store below
	stored bool   // while valid: the object and all below it are in the store
	data   []byte // the encoded tree between hashing and storing

	frozen    bool         // protected: never looked into
	guarded   bool         // protected files lie directly in it
	excluded  bool         // new names in it are ignored, whatever the rules say of them
	away      bool         // it was not there at the last scan, so that excluded may be out of date
	rules     *ignoreRules // its own .gitignore
	rulesStat fileStat     // of that file; zero when there is none
	rulesOld  bool         // the rules cannot have changed unnoticed since rulesStat was taken

	listed  bool     // nothing was added or removed unless the stat data below changed
	listing fileStat // of the folder itself, when its names were read

	fresh  []*folder // found by the scan that is running
	untidy bool      // files or dirs are to be sorted or cleared of what is gone
}

// file is a file or symbolic link of the working tree.
type file struct {
	name  string
	id    objectID
	mode  uint32 // 0 marks a file that is to be cleared away
	flags uint32
	st    fileStat
}

const (
	fileTracked = 1 << iota // in the index of the repository
	fileAbsent              // tracked, but not in the working tree or without content yet
	fileFixed               // taken as the index has it: protected, assume-unchanged or skip-worktree
	fileStale               // to be hashed again, whatever its stat data say
	fileUnsaved             // its content was named but not stored
	fileStored              // its content was stored by us, and perhaps nothing leads to it yet
)

// holds says whether the file is known to have this content, and the store too.
func (f *file) holds(id objectID) bool { return f != nil && f.id == id && f.flags&fileUnsaved == 0 }

func (f *file) present() bool { return f.mode != 0 && f.flags&fileAbsent == 0 }

// newWorktree is the working tree as the index describes it.
func newWorktree(ix *index, guard protection) (*worktree, error) {
	w := &worktree{root: &folder{}}
	w.root.protect(guard)
	if err := w.root.fill(ix, 0, len(ix.entries), ix.tree, guard); err != nil {
		return nil, err
	}
	return w, nil
}

// fill makes the folder from the index entries lo to hi, which are those below it.
func (d *folder) fill(ix *index, lo, hi int, known *cacheTree, guard protection) error {
	plain := true
	for i := lo; i < hi; {
		e := &ix.entries[i]
		name, _, below := strings.Cut(e.name[len(d.path):], "/")
		if !safeName(name) {
			return unsupported("path %q", e.name)
		}
		if below {
			end := prefixEnd(ix.entries, i, hi, e.name[:len(d.path)+len(name)+1])
			c := d.newChild(e.name[:len(d.path)+len(name)+1], guard)
			d.dirs = append(d.dirs, c)
			if err := c.fill(ix, i, end, known.child(name), guard); err != nil {
				return err
			}
			plain = plain && c.valid
			i = end
			continue
		}
		if e.stage() != 0 {
			return unsupported("unmerged index")
		}
		f := fileOf(e, name, ix.mtime)
		if d.frozen || d.guarded && guard.covers(e.name) {
			f.flags |= fileFixed
		}
		plain = plain && f.flags&fileAbsent == 0
		d.files = append(d.files, f)
		i++
	}
	// The count tells a tree that was known for other entries, which a foreign index may hold.
	if known != nil && plain && known.entries == hi-lo {
		d.id, d.valid, d.stored, d.empty = known.id, true, true, lo == hi
	}
	return nil
}

func fileOf(e *indexEntry, name string, indexTime time.Time) file {
	f := file{name: name, id: e.id, mode: e.mode, st: e.st, flags: fileTracked}
	switch {
	case e.ext&extIntent != 0:
		f.flags |= fileAbsent | fileStale
	case e.flags&flagAssume != 0 || e.ext&extSkip != 0:
		f.flags |= fileFixed
	case !stampBefore(e.st.mtimeS, e.st.mtimeN, indexTime):
		f.flags |= fileStale // racily clean: it may have changed after the index was written
	}
	return f
}

// stampBefore compares the seconds and nanoseconds of a stat with a time.
func stampBefore(s, ns uint32, t time.Time) bool {
	sec := uint32(t.Unix())
	if ns == 0 { // a file system with coarse stamps
		return int64(s)+2 < t.Unix()
	}
	return s < sec || s == sec && ns < uint32(t.Nanosecond())
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

// newEmpty is a folder of which nothing is known yet, and which therefore makes the empty tree.
func (d *folder) newEmpty(path string, guard protection) *folder {
	c := d.newChild(path, guard)
	c.id, c.valid, c.empty, c.stored = emptyTreeID, true, true, true
	return c
}

func (d *folder) newChild(path string, guard protection) *folder {
	c := &folder{path: path, parent: d, frozen: d.frozen}
	c.protect(guard)
	return c
}

func (d *folder) protect(guard protection) {
	d.frozen = d.frozen || d.path != "" && guard.covers(d.path)
	d.guarded = guard.within(d.path)
}

// name is the last component, "" for the root.
func (d *folder) name() string {
	if d.parent == nil {
		return ""
	}
	return d.path[len(d.parent.path) : len(d.path)-1]
}

// spoil says that the tree of the folder, and so of all above it, is not known any more. Above a folder whose
// tree is not known there is none that is.
func (d *folder) spoil() {
	for ; d != nil && d.valid; d = d.parent {
		d.valid, d.stored, d.data = false, false, nil
	}
}

func (d *folder) findFile(name string) (int, bool) {
	return slices.BinarySearchFunc(d.files, name, func(f file, name string) int { return strings.Compare(f.name, name) })
}

func (d *folder) findDir(name string) (int, bool) {
	return slices.BinarySearchFunc(d.dirs, name, func(c *folder, name string) int { return compareAsDirs(c.name(), name) })
}

// compareAsDirs compares as if both names ended in a slash, which is the order of trees and of the index.
func compareAsDirs(a, b string) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 || len(a) == len(b) {
		return c
	}
	if len(a) == n {
		return int('/') - int(b[n])
	}
	return int(a[n]) - int('/')
}

// lookup finds a file by its path.
func (w *worktree) lookup(path string) (*folder, *file) {
	d := w.root
	for {
		name, rest, below := strings.Cut(path, "/")
		if !below {
			if i, ok := d.findFile(name); ok {
				return d, &d.files[i]
			}
			return d, nil
		}
		i, ok := d.findDir(name)
		if !ok {
			return nil, nil
		}
		d, path = d.dirs[i], rest
	}
}

// hasTracked says whether the index has anything below the folder.
func (d *folder) hasTracked() bool {
	for i := range d.files {
		if d.files[i].flags&fileTracked != 0 {
			return true
		}
	}
	return slices.ContainsFunc(d.dirs, (*folder).hasTracked)
}

// tidy brings the folder back in order after a scan or a restore.
func (d *folder) tidy() {
	d.files = slices.DeleteFunc(d.files, func(f file) bool { return f.mode == 0 })
	slices.SortFunc(d.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	d.dirs = append(d.dirs, d.fresh...)
	d.fresh = nil
	d.dirs = slices.DeleteFunc(d.dirs, func(c *folder) bool { return c.parent == nil })
	slices.SortFunc(d.dirs, func(a, b *folder) int { return compareAsDirs(a.name(), b.name()) })
	d.untidy = false
}

// settle makes the in-memory index agree with what was committed for a path.
func (w *worktree) settle(path string, item treeItem, guard protection) {
	if item.mode == 0 {
		if d, f := w.lookup(path); f != nil {
			f.flags &^= fileTracked
			if f.flags&fileFixed != 0 || !f.present() {
				if f.present() {
					d.spoil()
				}
				f.mode = 0
				d.tidy()
			}
		}
		return
	}
	protected := guard.covers(path)
	if d, f := w.lookup(path); f != nil {
		f.flags |= fileTracked
		if protected && (f.id != item.id || f.mode != item.mode || !f.present()) {
			f.id, f.mode = item.id, item.mode
			f.flags &^= fileAbsent
			d.spoil()
		}
		return
	}
	d := w.folderFor(path, guard)
	f := file{name: path[len(d.path):], id: item.id, mode: item.mode, flags: fileTracked}
	if protected {
		f.flags |= fileFixed
		d.spoil()
	} else {
		f.flags |= fileAbsent | fileStale
	}
	d.files = append(d.files, f)
	d.tidy()
}
