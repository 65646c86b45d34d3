package acp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tree is the working tree: the only place where files are written
// for an agent.
type tree struct{ dir string } // without symbolic links

func newTree(dir string) (tree, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	return tree{dir: real}, err
}

// outsideError says why the agent may not touch a path.
type outsideError struct{ path, why string }

func (e *outsideError) Error() string { return e.path + " is " + e.why }

// find resolves a path as the system would. It returns the path in the tree, "." for the tree
// itself.
func (t tree) find(path string) (string, error) {
	if path == "" || strings.IndexByte(path, 0) >= 0 {
		return "", &outsideError{fmt.Sprintf("%q", path), "no path"}
	}
	full := path
	if !filepath.IsAbs(full) {
		full = t.dir + "/" + full
	}
	real, ok := follow(full)
	if !ok {
		return "", &outsideError{path, "a link to nothing"}
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

// follow resolves the links of an absolute path. What does not exist resolves to itself; a link that leads to nothing
// does not.
func follow(path string) (real string, ok bool) {
	missing := ""
	for {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Join(real, missing), true
		}
		if _, err := os.Lstat(path); err == nil {
			return "", false
		}
		dir, name := filepath.Split(strings.TrimRight(path, "/")) // which cleans no ".." away
		path, missing = dir, filepath.Join(name, missing)
	}
}

// fileLimit is the largest file that is written for an agent.
const fileLimit = 8 << 20

// write writes a file, with its directories. The permissions of one that is there stay.
func (t tree) write(path, text string) (err error) {
	rel, err := t.findWritable(path)
	if err != nil {
		return err
	}
	if len(text) > fileLimit {
		return fmt.Errorf("%s: a text of %d bytes is too long: the limit is %d", path, len(text), fileLimit)
	}
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if info, err := root.Lstat(rel); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", path)
	}
	err = root.MkdirAll(filepath.Dir(rel), 0o777)
	if err == nil {
		err = root.WriteFile(rel, []byte(text), 0o666)
	}
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", path, inner.Err)
	}
	return err
}
