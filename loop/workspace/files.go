package workspace

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
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
)

// maxFile limits, in bytes, a remembered file.
const maxFile = 64 << 20

// Look is what the file system says about a path: about a link, both the link and its target.
type Look struct {
	Path       string
	to         string      // the link's text; "" if it is no link
	link, file os.FileInfo // nil: it does not exist
}

// LookAt looks at a path.
func LookAt(path string) Look {
	k := Look{Path: path}
	k.link, _ = os.Lstat(path)
	k.file, _ = os.Stat(path)
	k.to, _ = os.Readlink(path)
	return k
}

// Same reports whether the path is unchanged.
func (k Look) Same() bool {
	now := LookAt(k.Path)
	return k.to == now.to && unchangedInfo(k.link, now.link) && unchangedInfo(k.file, now.file)
}

func unchangedInfo(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

// File is a file that attempts must not change, as it was before one, with what is needed to restore it.
type File struct {
	Look
	Real string // path without links
	Data []byte
}

// readFile remembers the file at a path, or that it does not exist.
func readFile(root, path string) (k File, err error) {
	k.Look, k.Real = LookAt(path), path
	if k.link == nil {
		dir, rest := filepath.Dir(path), filepath.Base(path)
		for ; dir != filepath.Dir(dir); dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				k.Real = filepath.Join(real, rest)
				break
			}
		}
		return k, nil
	}
	if k.Real, err = filepath.EvalSymlinks(path); err != nil {
		return k, err
	}
	k.Data, err = plainfile.Read(root, path, maxFile)
	return k, err
}

// changed says what happened to the file since, as a verb and words after the path, and returns its text, nil if it is gone or unreadable.
func (k File) changed(root string) (verb, after string, now []byte) {
	is := LookAt(k.Path)
	if is.link == nil {
		return "deleted", "", nil
	}
	now, err := plainfile.Read(root, k.Path, maxFile)
	var refused *plainfile.Error
	switch {
	case is.to != k.to && is.to != "":
		return "replaced", " by a link to " + oneline.Text(is.to), nil
	case errors.As(err, &refused):
		return "replaced", " (it now " + refused.Reason + ")", nil
	case k.link == nil:
		return "made", "", now
	}
	return "changed", "", now
}

// restore replaces whatever is there with the file. It follows no link that did not exist before.
func (k File) restore(fsys atomicfile.FS) error {
	if err := clearWay(filepath.Dir(k.Real)); err != nil {
		return err
	}
	if k.link == nil {
		return os.RemoveAll(k.Real)
	}
	if err := os.MkdirAll(filepath.Dir(k.Real), 0o755); err != nil {
		return err
	}
	if fi, err := os.Lstat(k.Real); err == nil && !fi.Mode().IsRegular() {
		if err := os.RemoveAll(k.Real); err != nil {
			return err
		}
	}
	mode := fs.FileMode(0o644)
	if k.file != nil {
		mode = k.file.Mode().Perm()
	}
	if err := atomicfile.Write(fsys, k.Real, k.Data, mode); err != nil {
		return err
	}
	if k.to == "" {
		return nil
	}
	if to, err := os.Readlink(k.Path); err == nil && to == k.to {
		return nil
	}
	if err := os.RemoveAll(k.Path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(k.Path), 0o755); err != nil {
		return err
	}
	return os.Symlink(k.to, k.Path)
}

// clearWay removes what is in place of a folder, or of one above it: links too, since dir had none.
func clearWay(dir string) error {
	for at, rest := "", dir; rest != ""; {
		name, more, _ := strings.Cut(strings.TrimPrefix(rest, string(filepath.Separator)), string(filepath.Separator))
		at, rest = at+string(filepath.Separator)+name, more
		fi, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !fi.IsDir() {
			return os.Remove(at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Files are files that attempts must not change: the settings, which name commands, and lists that would be read instead of the loop's own.
type Files struct {
	root  string // the project's folder
	at    string // where the files are: in root, or in its copy in a slot
	files []File
}

// NewFiles returns the given files of the project at root.
func NewFiles(root string, files ...File) *Files { return &Files{root: root, at: root, files: files} }

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

// PutBack restores changed files and reports them; changed versions are kept in the folder aside. who is the part of an attempt that changed them.
func (g *Files) PutBack(fsys atomicfile.FS, who, aside string) (notes []string, err error) {
	for i, k := range g.files {
		if k.Same() {
			continue
		}
		verb, after, now := k.changed(g.at)
		if verb == "changed" && bytes.Equal(now, k.Data) {
			g.files[i].Look = LookAt(k.Path)
			continue
		}
		if verb == "made" && now != nil && len(now) == 0 { // a mount of the sandbox leaves an empty file where it needs a place
			if err := k.restore(fsys); err != nil {
				return notes, fmt.Errorf("remove %s: %w", k.Path, err)
			}
			continue
		}
		name := filepath.ToSlash(relative(g.at, k.Path))
		done := "which was put back"
		if k.link == nil {
			done = "which is removed"
		}
		note := fmt.Sprintf("the %s %s %s%s, %s", who, verb, name, after, done)
		if now != nil {
			if err := os.MkdirAll(aside, 0o755); err != nil {
				return notes, fmt.Errorf("keep the changed %s: %w", name, err)
			}
			to := filepath.Join(aside, strings.ReplaceAll(name, "/", "-"))
			if err := os.WriteFile(to, now, 0o600); err != nil {
				return notes, fmt.Errorf("keep the changed %s: %w", name, err)
			}
			note += "; its text is kept in " + relative(g.root, to)
		}
		if err := k.restore(fsys); err != nil {
			return notes, fmt.Errorf("put %s back: %w", name, err)
		}
		g.files[i].Look = LookAt(k.Path)
		notes = append(notes, note)
	}
	return notes, nil
}
