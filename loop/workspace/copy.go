package workspace

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

	"descartes/internal/oneline"
	"descartes/internal/oscall"
)

// copies are the ignored files of the user's tree that each slot gets: test credentials, packages, build folders.
type copies struct {
	root  string
	list  []copied
	bytes int64
	limit int64
	large []copied // over the limit
}

// copied is a path listed by git: a file, or a folder that is ignored as a whole.
type copied struct {
	path    string // with slashes, none at the end
	size    int64
	entries []entry // itself and what is in it, folders first
}

// entry is a file or a folder of the user's.
type entry struct {
	path string
	info fs.FileInfo
	err  error // it cannot be copied, which is said at every start
}

// planCopies measures what git ignores and takes the smallest first, up to the limit: half a folder would be worse than none.
func planCopies(ctx context.Context, root string, list []string, limit int64) (*copies, error) {
	c := &copies{root: root, limit: limit}
	var all []copied
	for _, path := range list {
		x := copied{path: strings.TrimSuffix(path, "/")}
		err := filepath.WalkDir(filepath.Join(root, x.path), func(p string, d fs.DirEntry, err error) error {
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
	slices.SortFunc(all, func(a, b copied) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.path, b.path)) })
	for i, x := range all {
		if c.bytes+x.size > limit {
			c.large = all[i:]
			break
		}
		c.bytes += x.size
		c.list = append(c.list, x)
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
	if e.info.IsDir() {
		return stamp{}
	}
	return stamp{e.info.Size(), e.info.ModTime().UnixNano()}
}

// into brings a slot up to date. was says what was copied into it before: only what the user changed or deleted since then is touched, and what attempts
// made stays. Files that are tracked there are left alone. A full disk is an error.
func (c *copies) into(ctx context.Context, tree string, was map[string]stamp, tracked map[string]string) (*copier, error) {
	from, err := os.OpenRoot(c.root)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := os.OpenRoot(tree)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	w := &copier{copies: c, from: from, to: to, was: was, now: map[string]stamp{}, tracked: tracked}
	for _, x := range c.list {
		if w.has(x) {
			continue
		}
		if err := to.MkdirAll(filepath.Dir(x.path), 0o777); err != nil {
			w.failed(x.path, err)
			continue
		}
		for _, e := range x.entries {
			if err := w.copy(ctx, e); err != nil {
				return nil, err
			}
		}
	}
	for _, e := range slices.Backward(w.folders) { // when they have their files
		_ = to.Chmod(e.path, e.info.Mode().Perm())
		_ = to.Chtimes(e.path, time.Time{}, e.info.ModTime())
	}
	return w, w.deleted(ctx)
}

// copier copies into one slot. It follows no link on either side.
type copier struct {
	*copies
	from, to *os.Root
	was, now map[string]stamp // what was copied by path, before and after
	tracked  map[string]string
	folders  []entry  // that were made, or opened
	none     string   // what is tracked in the slot, or no folder can be: nothing goes below it
	wrote    bool     // it copied something
	bad      []string // what could not be copied, with the reason
	shared   bool     // the file system copies without using space
}

// has reports whether the slot was given all of a path as it is, and takes it over if so: a folder of 50,000 files costs what its measuring did.
func (w *copier) has(x copied) bool {
	for _, e := range x.entries {
		if was, ok := w.was[e.path]; e.err != nil || !ok || was != e.stamp() {
			return false
		}
	}
	for _, e := range x.entries {
		w.now[e.path] = e.stamp()
	}
	return true
}

// deleted removes what the user deleted since it was copied: of folders those in which nothing else is.
func (w *copier) deleted(ctx context.Context) error {
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(w.was))) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if _, done := w.now[path]; done {
			continue
		}
		if _, err := w.from.Lstat(path); !gone(err) {
			w.now[path] = w.was[path] // it is too large by now, or unreadable
			continue
		}
		if _, is := w.tracked[path]; is {
			continue
		}
		w.remove(path)
	}
	return nil
}

func (w *copier) remove(path string) {
	if err := w.to.Remove(path); errors.Is(err, fs.ErrPermission) { // its folder is read-only
		_ = w.to.Chmod(filepath.Dir(path), 0o700)
		_ = w.to.Remove(path)
	}
}

// gone reports whether an error says that there is no such file.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// notes say what slots lack, in lines.
func (w *copier) notes() (lines []string) {
	var large []string
	for _, x := range w.large {
		large = append(large, x.path+" ("+size(x.size)+")")
	}
	add := func(what string, list []string) {
		if len(list) > 0 {
			lines = append(lines, what+oneline.List(list))
		}
	}
	add(fmt.Sprintf("ignored files that are not in the slots, since more than %s would be copied (pool.max_copy): ", size(w.limit)), large)
	add("ignored files that could not be copied into the slots: ", w.bad)
	return lines
}

// copy copies a file, or makes a folder, unless the slot has it as it is.
func (w *copier) copy(ctx context.Context, e entry) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	path, err := e.path, e.err
	if w.none != "" && strings.HasPrefix(path, w.none+"/") {
		return nil
	}
	if _, is := w.tracked[path]; is {
		w.none = path
		return nil
	}
	if err != nil {
		return w.failed(path, err)
	}
	at := e.stamp()
	if was, before := w.was[path]; before && was == at && !e.info.IsDir() {
		w.now[path] = at
		return nil
	}
	if !e.info.IsDir() {
		err = w.to.RemoveAll(path)
	}
	if err == nil {
		switch mode := e.info.Mode(); {
		case mode.IsDir():
			err = w.folder(e)
		case mode.IsRegular():
			err = w.file(path, e.info)
		case mode&fs.ModeSymlink != 0:
			err = w.link(path)
		case mode&fs.ModeNamedPipe != 0:
			err = w.pipe(path, mode)
		default:
			err = errors.New("it is not a file")
		}
	}
	if err != nil {
		return w.failed(path, err)
	}
	w.now[path], w.wrote = at, w.wrote || !e.info.IsDir()
	return nil
}

// failed records why something was not copied. A full disk is an error.
func (w *copier) failed(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return err
	case !errors.Is(err, fs.ErrNotExist): // otherwise it was removed meanwhile
		w.bad = append(w.bad, path+" ("+reason(err)+")")
	}
	return nil
}

func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return err.Error()
}

// folder makes a folder, or opens the one that is there.
func (w *copier) folder(e entry) error {
	err := w.to.Mkdir(e.path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		is, serr := w.to.Lstat(e.path)
		switch {
		case serr != nil:
		case !is.IsDir():
			if err = w.to.Remove(e.path); err == nil {
				err = w.to.Mkdir(e.path, 0o700)
			}
		case is.Mode().Perm()&0o700 == 0o700:
			return nil
		default:
			err = w.to.Chmod(e.path, 0o700)
		}
	}
	if err != nil {
		w.none = e.path
		return err
	}
	w.folders = append(w.folders, e)
	return nil
}

func (w *copier) file(path string, fi fs.FileInfo) (err error) {
	src, err := w.from.OpenFile(path, os.O_RDONLY|oscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := w.to.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, dst.Close()); err != nil {
			w.remove(path)
		}
	}()
	if oscall.Share(dst, src) == nil {
		w.shared = true
	} else if _, err = io.Copy(dst, src); err != nil {
		return err
	}
	if err = dst.Chmod(fi.Mode().Perm()); err != nil {
		return err
	}
	return w.to.Chtimes(path, time.Time{}, fi.ModTime()) // build tools compare times
}

// pipe makes a FIFO.
func (w *copier) pipe(path string, mode fs.FileMode) error {
	dir, err := w.to.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := oscall.Mkfifoat(int(dir.Fd()), filepath.Base(path), uint32(mode.Perm())); err != nil {
		return fmt.Errorf("it is a pipe: %w", err)
	}
	return nil
}

// link copies a link. A link within the project points to the same place in the slot, any other keeps its target.
func (w *copier) link(path string) error {
	to, err := w.from.Readlink(path)
	if err != nil {
		return err
	}
	dir, target := filepath.Join(w.root, filepath.Dir(path)), to
	if !filepath.IsAbs(to) {
		target = filepath.Join(dir, to)
	}
	if inside := target == w.root || strings.HasPrefix(target, w.root+"/"); !inside {
		to = target
	} else if filepath.IsAbs(to) {
		if to, err = filepath.Rel(dir, target); err != nil {
			return err
		}
	}
	return w.to.Symlink(to, path)
}
