package slot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"descartes/agent/process"
	"descartes/internal/oneline"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
)

// copies are the ignored files of the user's tree: test credentials, packages, build folders. Each slot gets the first
// of them.
type copies struct {
	root    string
	entries []entry         // folders before what is in them
	all     map[string]bool // their paths
	given   int             // how many of them slots get
	bytes   int64
	large   string // a line about the others
}

// entry is a file or a folder of the user's.
type entry struct {
	path string // with slashes
	info fs.FileInfo
	err  error // it cannot be copied, which is said at every start
}

// planCopies measures what git ignores and takes the smallest first, up to the limit: half a folder would be worse
// than none.
func planCopies(ctx context.Context, root string, list []string, limit int64) (*copies, error) {
	type tree struct { // a file, or a folder that is ignored as a whole
		size    int64
		entries []entry
	}
	var all []tree
	for _, path := range list {
		var x tree
		err := filepath.WalkDir(filepath.Join(root, path), func(p string, d fs.DirEntry, err error) error {
			e := entry{path: filepath.ToSlash(p[len(root)+1:]), err: err}
			if err == nil {
				e.info, e.err = d.Info()
			}
			if e.err == nil && e.info.Mode().IsRegular() {
				x.size += e.info.Size()
			}
			x.entries = append(x.entries, e)
			return context.Cause(ctx)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b tree) int { return cmp.Compare(a.size, b.size) })
	c := &copies{root: root, all: map[string]bool{}}
	var large []string
	for _, x := range all {
		c.entries = append(c.entries, x.entries...)
		for _, e := range x.entries {
			c.all[e.path] = true
		}
		if len(large) > 0 || c.bytes+x.size > limit {
			large = append(large, x.entries[0].path+" ("+process.Size(x.size)+")")
			continue
		}
		c.bytes, c.given = c.bytes+x.size, len(c.entries)
	}
	if len(large) > 0 {
		c.large = fmt.Sprintf("ignored files that are not in the slots, since more than %s would be copied (pool.max_copy): %s", process.Size(limit), oneline.List(large))
	}
	return c, nil
}

// stamp tells whether the user changed a file since it was copied.
type stamp struct {
	Size int64 `json:"size"`
	Time int64 `json:"time"` // nanoseconds
}

// stamp of a folder is zero: what is in it has stamps of its own.
func (e entry) stamp() stamp {
	if e.info == nil || e.info.IsDir() {
		return stamp{}
	}
	return stamp{e.info.Size(), e.info.ModTime().UnixNano()}
}

// copier copies into one slot. It follows no link on either side.
type copier struct {
	root     string
	from, to *os.Root
	folders  []entry // that were made
}

// into brings a slot up to date, and returns what it has now and what could not be copied. was says what was copied
// into it before: only what the user changed or deleted since then is touched, and what attempts made stays. Files
// that are tracked there are left alone. A full disk is an error.
func (c *copies) into(ctx context.Context, tree string, was map[string]stamp,
	tracked map[string]string) (now map[string]stamp, bad []string, err error) {
	w := &copier{root: c.root}
	if w.from, err = os.OpenRoot(c.root); err != nil {
		return nil, nil, err
	}
	defer w.from.Close()
	if w.to, err = os.OpenRoot(tree); err != nil {
		return nil, nil, err
	}
	defer w.to.Close()
	now = map[string]stamp{}
	none := "" // what is tracked there, or cannot be made: nothing goes below it
	for _, e := range c.entries[:c.given] {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		last, before := was[e.path]
		_, is := tracked[e.path]
		switch {
		case none != "" && strings.HasPrefix(e.path, none+"/"):
			continue
		case is:
			none = e.path
			continue
		case e.err != nil:
			err = e.err
		case before && last == e.stamp() && (!e.info.IsDir() || w.free(e.path)):
			err = nil
		default:
			err = w.copy(e)
		}
		switch {
		case err == nil:
			now[e.path] = e.stamp()
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			return nil, nil, err
		case !errors.Is(err, fs.ErrNotExist): // otherwise it was removed meanwhile
			none = e.path
			bad = append(bad, e.path+" ("+reason(err)+")")
		}
	}
	for _, e := range slices.Backward(w.folders) { // when they have their files
		_ = w.to.Chmod(e.path, e.info.Mode().Perm())
	}
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(was))) {
		_, is := tracked[path]
		_, done := now[path]
		_, err := w.from.Lstat(path)
		switch {
		case is || done:
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			now[path] = was[path] // it is too large by now, or unreadable
		default: // of folders those in which nothing else is
			if err := w.to.Remove(path); errors.Is(err, fs.ErrPermission) {
				w.loosen(path)
				_ = w.to.Remove(path)
			}
		}
	}
	return now, bad, nil
}

func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return err.Error()
}

// copy copies a file, or makes a folder. What attempts left in its place goes.
func (w *copier) copy(e entry) error {
	make := w.file
	switch mode := e.info.Mode(); {
	case mode.IsDir():
		make = w.folder
	case mode&fs.ModeSymlink != 0:
		make = w.link
	case mode&fs.ModeNamedPipe != 0:
		make = w.pipe
	case !mode.IsRegular():
		return errors.New("it is not a file")
	}
	err := make(e)
	if err != nil {
		_ = w.to.MkdirAll(filepath.Dir(e.path), 0o777)
		w.loosen(e.path)
		_ = plainfile.RemoveIn(w.to, e.path)
		err = make(e)
	}
	return err
}

// loosen lets the folder of a path be written.
func (w *copier) loosen(path string) {
	dir := filepath.Dir(path)
	if fi, err := w.to.Lstat(dir); err == nil && fi.IsDir() {
		_ = w.to.Chmod(dir, fi.Mode().Perm()|0o700)
	}
}

// free reports whether nothing keeps a folder from being at a path.
func (w *copier) free(path string) bool {
	is, err := w.to.Lstat(path)
	return err != nil || is.IsDir()
}

func (w *copier) folder(e entry) error {
	w.folders = append(w.folders, e)
	err := w.to.Mkdir(e.path, 0o700)
	if errors.Is(err, fs.ErrExist) && w.free(e.path) {
		return nil
	}
	return err
}

func (w *copier) file(e entry) (err error) {
	src, err := w.from.OpenFile(e.path, os.O_RDONLY|oscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := w.to.OpenFile(e.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src) // the kernel lets them share their bytes where the file system can
	err = errors.Join(err, dst.Chmod(e.info.Mode().Perm()), dst.Close())
	if err != nil {
		_ = w.to.Remove(e.path)
		return err
	}
	return w.to.Chtimes(e.path, time.Time{}, e.info.ModTime()) // build tools compare times
}

// pipe makes a FIFO.
func (w *copier) pipe(e entry) error {
	dir, err := w.to.Open(filepath.Dir(e.path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := oscall.Mkfifoat(int(dir.Fd()), filepath.Base(e.path), uint32(e.info.Mode().Perm())); err != nil {
		return fmt.Errorf("it is a pipe: %w", err)
	}
	return nil
}

// link copies a link. A link within the project points to the same place in the slot, any other keeps its target.
func (w *copier) link(e entry) error {
	to, err := w.from.Readlink(e.path)
	if err != nil {
		return err
	}
	dir, target := filepath.Join(w.root, filepath.Dir(e.path)), to
	if !filepath.IsAbs(to) {
		target = filepath.Join(dir, to)
	}
	if rel, err := filepath.Rel(w.root, target); err != nil || !filepath.IsLocal(rel) {
		to = target
	} else if filepath.IsAbs(to) {
		if to, err = filepath.Rel(dir, target); err != nil {
			return err
		}
	}
	return w.to.Symlink(to, e.path)
}
