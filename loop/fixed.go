package loop

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

// look is what the file system says of the file at a path: of a link, of the link and of what it leads to.
type look struct {
	path       string
	to         string      // what it is a link to, word for word; "" for no link
	link, file os.FileInfo // nil: there is none
}

func lookAt(path string) look {
	k := look{path: path}
	k.link, _ = os.Lstat(path)
	k.file, _ = os.Stat(path)
	k.to, _ = os.Readlink(path)
	return k
}

// same reports whether path still is what it was.
func (k look) same() bool {
	now := lookAt(k.path)
	return k.to == now.to && unchangedInfo(k.link, now.link) && unchangedInfo(k.file, now.file)
}

func unchangedInfo(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

// fixedFile is a file that no attempt may change as it was before one, and what is needed to put it back.
type fixedFile struct {
	look
	real string // path without links
	data []byte
}

// readFixed remembers the file at a path; one that is not there too.
func readFixed(root, path string) (k fixedFile, err error) {
	k.look, k.real = lookAt(path), path
	if k.link == nil {
		return k, nil
	}
	if k.real, err = filepath.EvalSymlinks(path); err != nil {
		return k, err
	}
	k.data, err = plainfile.Read(root, path, maxKept)
	return k, err
}

// changed says what became of the file since, in a verb and what comes after the path, and returns its text, nil where it has none
// that may be read.
func (k fixedFile) changed(root string) (verb, after string, now []byte) {
	is := lookAt(k.path)
	if is.link == nil {
		return "deleted", "", nil
	}
	now, err := plainfile.Read(root, k.path, maxKept)
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

// restore puts a file back in the place of whatever is there. It follows no link that was not there before.
func (k fixedFile) restore(fsys atomicfile.FS) error {
	if k.link == nil {
		return os.RemoveAll(k.path)
	}
	if err := clearWay(filepath.Dir(k.real)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(k.real), 0o755); err != nil {
		return err
	}
	if fi, err := os.Lstat(k.real); err == nil && !fi.Mode().IsRegular() {
		if err := os.RemoveAll(k.real); err != nil {
			return err
		}
	}
	mode := fs.FileMode(0o644)
	if k.file != nil {
		mode = k.file.Mode().Perm()
	}
	if err := atomicfile.Write(fsys, k.real, k.data, mode); err != nil {
		return err
	}
	if k.to == "" {
		return nil
	}
	if to, err := os.Readlink(k.path); err == nil && to == k.to {
		return nil
	}
	if err := os.RemoveAll(k.path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(k.path), 0o755); err != nil {
		return err
	}
	return os.Symlink(k.to, k.path)
}

// clearWay removes what lies in the place of a folder, or of one above it: a link too, since dir had none in it.
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

// fixedFiles are files that no attempt may change: the settings, which name commands, and lists that would be read in place of the
// loop's own.
type fixedFiles struct {
	root  string
	files []fixedFile
}

// remember takes the files at paths as they are now. What cannot be read is none of ours.
func (g *fixedFiles) remember(paths []string) {
	var now []fixedFile
	for _, path := range paths {
		i := slices.IndexFunc(g.files, func(k fixedFile) bool { return k.path == path })
		if i >= 0 && g.files[i].same() {
			now = append(now, g.files[i])
			continue
		}
		if k, err := readFixed(g.root, path); err == nil {
			now = append(now, k)
		}
	}
	g.files = now
}

// putBack puts back what was changed and says so; what was made of it is kept in the folder aside. who is the part of an attempt
// that did it.
func (g *fixedFiles) putBack(fsys atomicfile.FS, who, aside string) (notes []string, err error) {
	for i, k := range g.files {
		if k.same() {
			continue
		}
		verb, after, now := k.changed(g.root)
		if verb == "changed" && bytes.Equal(now, k.data) {
			g.files[i].look = lookAt(k.path)
			continue
		}
		name := k.path
		if rel, err := filepath.Rel(g.root, k.path); err == nil {
			name = filepath.ToSlash(rel)
		}
		done := "which is put back"
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
			if rel, err := filepath.Rel(g.root, to); err == nil {
				to = rel
			}
			note += "; its text is kept in " + to
		}
		if err := k.restore(fsys); err != nil {
			return notes, fmt.Errorf("put %s back: %w", name, err)
		}
		g.files[i].look = lookAt(k.path)
		notes = append(notes, note)
	}
	return notes, nil
}
