package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"descartes/internal/report"
)

// findRoot is the project's folder: the nearest one at or above dir that has .scud, looked for up
// to the top of the git working tree; without any, that top; without git, dir itself.
func findRoot(dir string) (string, error) {
	dir, err := realDir(dir)
	if err != nil {
		return "", err
	}
	fi, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", err
	case !fi.IsDir():
		return "", badInput("", "working directory %s is not a directory", dir)
	}
	top := ""
	for d := dir; ; d = filepath.Dir(d) {
		if fi, err := os.Stat(filepath.Join(d, ".scud")); err == nil && fi.IsDir() {
			return d, hasRoom(d)
		}
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			top = d
			break
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	top = cmp.Or(top, dir)
	return top, hasRoom(top)
}

// hasRoom refuses a project in which something else has the place of .descartes.
func hasRoom(root string) error {
	path := filepath.Join(root, ".descartes")
	if fi, err := os.Stat(path); err == nil && !fi.IsDir() {
		return badInput("move it away: descartes keeps its files in a directory of that name", "%s is not a directory", path)
	}
	return nil
}

// realDir is dir without symbolic links, as git sees it: paths are compared with those that git knows.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	dir, err = filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return "", badInput("", "working directory %s: no such directory", abs)
	}
	return dir, err
}

// inProject makes a path that was typed in dir one that is relative to root, where it lies below it.
func inProject(root, dir, path string) string {
	if path == "" {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return report.Relative(root, path)
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
