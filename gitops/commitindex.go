package gitops

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// updateIndex gives the index the edited entries; whatever stands in their way goes.
func (c *waveCommit) updateIndex(ctx context.Context, ix *index) error {
	out := make([]indexEntry, 0, len(ix.entries)+len(c.paths))
	rest := ix.entries
	above := map[string]bool{} // directories that edits need
	for _, p := range c.paths {
		if c.edits[p].mode != 0 {
			for i := range len(p) {
				if p[i] == '/' {
					above[p[:i]] = true
				}
			}
		}
	}
	keep := func(es []indexEntry) {
		if len(above) == 0 {
			out = append(out, es...)
			return
		}
		for i := range es {
			if !above[es[i].name] {
				out = append(out, es[i])
			}
		}
	}
	var below []string // prefixes that edited files replace
	for _, p := range c.paths {
		i, _ := (&index{entries: rest}).find(p)
		keep(rest[:i])
		for i < len(rest) && rest[i].name == p {
			i++
		}
		rest = rest[i:]
		if item := c.edits[p]; item.mode != 0 {
			st, err := c.r.statFor(ctx, p, item)
			if err != nil {
				return err
			}
			out = append(out, indexEntry{name: p, id: item.id, mode: item.mode, st: st})
			below = append(below, p+"/")
		}
	}
	keep(rest)
	ix.entries = dropBelow(out, below)
	return nil
}

// dropBelow removes the entries below a path that is a file now.
func dropBelow(entries []indexEntry, prefixes []string) []indexEntry {
	for _, p := range prefixes {
		i, _ := (&index{entries: entries}).find(p)
		end := i
		for end < len(entries) && strings.HasPrefix(entries[end].name, p) {
			end++
		}
		entries = slices.Delete(entries, i, end)
	}
	return entries
}

// statFor is the stat data that the index may remember for a path: those of the file that is there, if it holds
// what is committed. Otherwise none, so that git compares the content.
func (r *Repo) statFor(ctx context.Context, path string, item treeItem) (fileStat, error) {
	dir, name := filepath.Split(path)
	dirfd, err := r.root.open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fileStat{}, nil
	}
	defer unix.Close(dirfd)
	info, err := statAt(dirfd, name)
	if err != nil || info.mode != item.mode {
		return fileStat{}, nil
	}
	_, f := r.tree.lookup(path)
	if f != nil && f.present() && f.flags&(fileStale|fileFixed) == 0 && f.id == item.id && f.st.same(&info.st) {
		return info.st, nil
	}
	now, err := scanClock()
	if err != nil {
		return fileStat{}, err
	}
	wk := work{d: &folder{path: dir}, at: -1, name: name}
	var buf []byte
	if done, err := r.scanner.hashAt(ctx, &wk, dirfd, name, &file{id: item.id}, &buf, readKnown); err != nil || !done || wk.id != item.id {
		return fileStat{}, nil
	}
	st := wk.info.st
	if !stampBefore(st.ctimeS, st.ctimeN, now) {
		st.size = 0 // it may change again within the same tick of the clock: git compares the content then
	}
	return st, nil
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
