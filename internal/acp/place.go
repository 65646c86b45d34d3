package acp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
