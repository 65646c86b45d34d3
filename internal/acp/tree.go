package acp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// tree is the working tree: the only place where files are read and written
// for an agent.
type tree struct{ dir string } // without symbolic links

func newTree(dir string) (tree, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	return tree{dir: real}, err
}

// outsideError says why a path is not for the agent.
type outsideError struct{ path, why string }

func (e *outsideError) Error() string { return e.path + " is " + e.why }

// find resolves a path as the system would: symbolic links, also those that lead
// to nothing yet, and "..". It returns the path in the tree, "." for the tree
// itself.
func (t tree) find(path string) (string, error) {
	if path == "" || strings.IndexByte(path, 0) >= 0 {
		return "", &outsideError{fmt.Sprintf("%q", path), "no path"}
	}
	full := path
	if !filepath.IsAbs(full) {
		full = t.dir + "/" + full
	}
	real, err := follow(full)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	rel, err := filepath.Rel(t.dir, real)
	if err != nil || !filepath.IsLocal(rel) {
		return "", &outsideError{path, "outside the working tree"}
	}
	return rel, nil
}

// findWritable is find for what is to be changed.
func (t tree) findWritable(path string) (string, error) {
	rel, err := t.find(path)
	if err != nil {
		return "", err
	}
	for n, part := range strings.Split(rel, string(filepath.Separator)) {
		switch name := strings.ToLower(part); {
		case name == ".git", n == 0 && (name == ".scud" || name == ".descartes"):
			return "", &outsideError{path, "not the agent's to change"}
		}
	}
	return rel, nil
}

// follow resolves an absolute path. What does not exist resolves to itself.
func follow(path string) (string, error) {
	const maxLinks = 40
	real, rest, links := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, part)
		target, err := os.Readlink(next)
		switch {
		case err == nil:
			if links++; links > maxLinks {
				return "", syscall.ELOOP
			}
			if filepath.IsAbs(target) {
				real = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // no link
			real = next
		default:
			return "", err
		}
	}
	return real, nil
}

// fileLimit is the largest file that is read or written for an agent: as much
// as a message may hold.
const fileLimit = messageLimit

// read returns a text file, or limit lines of it from line first (from 1) on
// where these are given.
func (t tree) read(path string, first, limit int) (string, error) {
	rel, err := t.find(path)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(t.dir) // holds what find found against links made meanwhile
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO does not hang us
	if err != nil {
		return "", withPath(path, err)
	}
	defer f.Close()
	if err := regular(f.Stat()); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, fileLimit+1))
	switch {
	case err != nil:
		return "", withPath(path, err)
	case len(data) > fileLimit:
		return "", fmt.Errorf("%s: the file has more than %d bytes", path, fileLimit)
	case !utf8.Valid(data):
		return "", fmt.Errorf("%s: the file is no UTF-8 text", path)
	}
	return someLines(string(data), first, limit), nil
}

func someLines(text string, first, limit int) string {
	for ; first > 1 && text != ""; first-- {
		_, text, _ = strings.Cut(text, "\n")
	}
	if limit <= 0 {
		return text
	}
	end := 0
	for ; limit > 0 && end < len(text); limit-- {
		at := strings.IndexByte(text[end:], '\n')
		if at < 0 {
			return text
		}
		end += at + 1
	}
	return text[:end]
}

// write replaces a file, or makes it and the directories it lies in. Readers see
// the old text or the new one; its permissions stay.
func (t tree) write(path, text string) (err error) {
	rel, err := t.findWritable(path)
	if err != nil {
		return err
	}
	if len(text) > fileLimit {
		return fmt.Errorf("%s: a text of %d bytes is too long: at most %d are taken", path, len(text), fileLimit)
	}
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	mode := fs.FileMode(0o666)
	info, err := root.Lstat(rel)
	switch {
	case err == nil:
		if err := regular(info, nil); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return withPath(path, err)
	}
	if dir := filepath.Dir(rel); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return withPath(path, err)
		}
	}
	temp := filepath.Join(filepath.Dir(rel), ".descartes-"+rand.Text())
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return withPath(path, err)
	}
	_, err = f.WriteString(text)
	if err == nil && info != nil {
		err = f.Chmod(mode)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(temp, rel)
	}
	if err != nil {
		return errors.Join(withPath(path, err), root.Remove(temp))
	}
	return nil
}

func regular(info fs.FileInfo, err error) error {
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return syscall.EISDIR
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	}
	return nil
}

// withPath is a file's error with the path that the agent gave.
func withPath(path string, err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}
