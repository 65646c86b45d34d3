package slot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/atomicfile"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
)

// maxFile limits, in bytes, a remembered file.
const maxFile = 64 << 20

// Look is what the file system says about a path: only the clock sets the time of a change.
type Look struct {
	Path         string
	to           string // the link's text; "" if it is no link
	there        bool   // the file, or the link's target
	ino          uint64
	size         int64
	mtime, ctime oscall.Timespec
	mode         fs.FileMode
}

// LookAt looks at a path.
func LookAt(path string) Look {
	k := Look{Path: path}
	k.to, _ = os.Readlink(path)
	var st oscall.Stat_t
	if real, err := filepath.EvalSymlinks(path); err == nil && oscall.Lstat(real, &st) == nil {
		k.there, k.ino, k.size, k.mtime, k.ctime, k.mode = true, st.Ino, st.Size, st.Mtim, st.Ctim,
			fs.FileMode(st.Mode)&fs.ModePerm
	}
	return k
}

// Same reports whether the path is unchanged.
func (k Look) Same() bool { return k == LookAt(k.Path) }

// File is a file that attempts must not change, as it was before one, with what is needed to restore it.
type File struct {
	Look
	Real string // path without links
	Data []byte
}

// readFile remembers the file at a path, or that it does not exist.
func readFile(root, path string) (k File, err error) {
	k.Look, k.Real = LookAt(path), real(path)
	if k.there || k.to != "" {
		k.Data, err = plainfile.Read(root, path, maxFile)
	}
	return k, err
}

// real is a path without links, also of what does not exist.
func real(path string) string {
	to, err := filepath.EvalSymlinks(path)
	if err == nil || path == filepath.Dir(path) {
		return to
	}
	return filepath.Join(real(filepath.Dir(path)), filepath.Base(path))
}

// restore replaces whatever is there with the file. It follows no link that did not exist before.
func (k File) restore(fsys atomicfile.FS) error {
	if err := clearWay(filepath.Dir(k.Real)); err != nil {
		return err
	}
	if fi, err := os.Lstat(k.Real); err == nil && (!k.there || !fi.Mode().IsRegular()) {
		if err := plainfile.RemoveAll(k.Real); err != nil {
			return err
		}
	}
	if !k.there {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(k.Real), 0o755)
	if err == nil {
		err = atomicfile.Write(fsys, k.Real, k.Data, k.mode)
	}
	if err != nil || k.to == "" {
		return err
	}
	if err := plainfile.RemoveAll(k.Path); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(k.Path), 0o755), os.Symlink(k.to, k.Path))
}

// clearWay removes what is in place of a folder, or of one above it: links too, since dir had none.
func clearWay(dir string) error {
	if dir == filepath.Dir(dir) {
		return nil
	}
	if err := clearWay(filepath.Dir(dir)); err != nil {
		return err
	}
	if fi, err := os.Lstat(dir); err == nil && !fi.IsDir() {
		return os.Remove(dir)
	}
	return nil
}

// Files are files that attempts must not change: the settings, which name commands, and lists that would be read
// instead of the loop's own.
type Files struct {
	root  string // the project's folder
	at    string // where the files are: in root, or in its copy in a slot
	files []File
}

// NewFiles remembers no file yet of the project at root.
func NewFiles(root string) *Files { return &Files{root: root, at: root} }

// remember reads the files at paths. It skips unreadable ones.
func (g *Files) remember(paths []string) {
	var now []File
	for _, path := range paths {
		i := slices.IndexFunc(g.files, func(k File) bool { return k.Path == path })
		if i >= 0 && g.files[i].Same() {
			now = append(now, g.files[i])
			continue
		}
		if k, err := readFile(g.at, path); err == nil {
			now = append(now, k)
		}
	}
	g.files = now
}

// PutBack restores changed files and reports them; changed versions are kept in the folder aside. who is the part of
// an attempt that changed them.
func (g *Files) PutBack(fsys atomicfile.FS, who, aside string) (notes []string, err error) {
	for i, k := range g.files {
		if k.Same() {
			continue
		}
		is := LookAt(k.Path)
		now, _ := plainfile.Read(g.at, k.Path, maxFile) // nil: it is gone, or no plain file
		if k.there && is.to == k.to && now != nil && bytes.Equal(now, k.Data) {
			g.files[i].Look = is
			continue
		}
		name := filepath.ToSlash(relative(g.at, k.Path))
		if err := k.restore(fsys); err != nil {
			return notes, fmt.Errorf("put %s back: %w", name, err)
		}
		g.files[i].Look = LookAt(k.Path)
		verb, done := "changed", "put back"
		switch {
		// a mount of the sandbox leaves an empty file where it needs a place
		case !k.there && now != nil && len(now) == 0:
			continue
		case !k.there:
			verb, done = "made", "removed"
		case !is.there:
			verb = "deleted"
		}
		note := fmt.Sprintf("the %s %s %s, which was %s", who, verb, name, done)
		if now != nil {
			to := filepath.Join(aside, strings.ReplaceAll(name, "/", "-"))
			if err := errors.Join(os.MkdirAll(aside, 0o755), os.WriteFile(to, now, 0o600)); err != nil {
				return notes, fmt.Errorf("keep the changed %s: %w", name, err)
			}
			note += "; its text is kept in " + relative(g.root, to)
		}
		notes = append(notes, note)
	}
	return notes, nil
}
