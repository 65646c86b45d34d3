// Package plainfile owns opening and removing files in places where an agent may have left something else: a link that
// leads out of the project, a FIFO, a device, a file without end.
package plainfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Error says why the file at a path is not read or written.
type Error struct{ Path, Reason string }

func (e *Error) Error() string { return e.Path + " " + e.Reason }

// Open opens the regular file at path for reading. A relative path is one below root. In a project, which is a
// repository or the folder root, links that lead out of it are not followed; elsewhere, where no agent writes, links
// are followed. Anything but a regular file is an *Error, and opening it never hangs; a missing file is
// fs.ErrNotExist.
func Open(root, path string) (*os.File, error) {
	const flags = os.O_RDONLY | syscall.O_NONBLOCK // a FIFO would else wait for its writer
	project, full, rel, err := locate(root, path)
	if err != nil {
		return nil, err
	}
	var f *os.File
	if rel == "" {
		f, err = os.OpenFile(full, flags, 0)
	} else {
		f, err = openBeneath(project, rel, flags)
	}
	if err != nil {
		return nil, explain(path, err)
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &Error{path, notRegular(fi.Mode())}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Read returns the bytes of the file that Open opens. More than limit bytes are an *Error.
func Read(root, path string, limit int64) ([]byte, error) {
	f, err := Open(root, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readUpTo(f, path, limit)
}

// Writable says whether a file of ours may be written at path: no link is on the way to it in the project, and it is
// a regular file or does not exist. Otherwise it returns an *Error: an agent could have aimed the write at another
// file. Outside projects every path is allowed.
func Writable(root, path string) error {
	project, _, rel, err := locate(root, path)
	if err != nil {
		return err
	}
	if rel == "" {
		return nil
	}
	at := project
	for rest := rel; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, string(filepath.Separator))
		at = filepath.Join(at, name)
		fi, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case fi.Mode()&fs.ModeSymlink != 0:
			return &Error{path, "is not written: " + at + " is a link"}
		case rest != "" && !fi.IsDir(), rest == "" && !fi.Mode().IsRegular():
			return &Error{path, "is not written: " + at + " is " + kind(fi.Mode())}
		}
	}
	return nil
}

// locate finds the project that a path is in, and the path below it; rel is "" where it is in none. The project is a
// repository, or the folder root where that is none. For a path with links, the project of the first link counts:
// wherever the link leads is elsewhere.
func locate(root, path string) (project, full, rel string, err error) {
	full = path
	if !filepath.IsAbs(full) {
		full = filepath.Join(root, path)
	}
	if full, err = filepath.Abs(full); err != nil {
		return "", "", "", err
	}
	var top os.FileInfo
	if root != "" {
		top, _ = os.Stat(root) // a missing root contains nothing
	}
	for end := 1; end <= len(full); end++ {
		if end < len(full) && full[end] != filepath.Separator {
			continue
		}
		fi, err := os.Lstat(full[:end])
		missing := err != nil || end == len(full)
		if !missing && fi.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if to, err := os.Stat(full[:end]); !missing && top != nil && err == nil && os.SameFile(to, top) {
			continue // the link by which root itself is reached
		}
		if dir := around(filepath.Dir(full[:end]), top); dir != "" {
			return dir, full, strings.TrimPrefix(full[len(dir):], string(filepath.Separator)), nil
		}
		if missing {
			break
		}
	}
	return "", full, "", nil
}

// around is the nearest folder, dir or one above it, that is a repository or top; "" for none.
func around(dir string, top os.FileInfo) string {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if fi, err := os.Stat(dir); err == nil && top != nil && os.SameFile(fi, top) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

func openBeneath(dir, name string, flags int) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f, err := root.OpenFile(name, flags, 0)
	return f, errors.Join(err, root.Close())
}

// explain says in words what the system refused.
func explain(path string, err error) error {
	var p *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
	case errors.As(err, &p) && strings.Contains(p.Err.Error(), "escapes"):
		return &Error{path, "is a link, or is behind one, that leads out of the project; it is not followed"}
	case errors.Is(err, syscall.ELOOP):
		return &Error{path, "is a circle of links, or a chain of too many"}
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		return &Error{path, "is not a regular file"}
	}
	return err
}

func notRegular(m fs.FileMode) string {
	if m.IsDir() {
		return "is a directory"
	}
	return "is not a regular file but " + kind(m)
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a link"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m.IsRegular():
		return "a file"
	}
	return "something else"
}

// ReadIn returns the bytes of a regular file below an open folder. Links that lead out of it are not followed, and
// nothing waits; more than limit bytes are an *Error.
func ReadIn(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, explain(name, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, &Error{name, notRegular(fi.Mode())}
	}
	return readUpTo(f, name, limit)
}

func readUpTo(f *os.File, path string, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = &Error{path, fmt.Sprintf("has more than %d bytes", limit)}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}
