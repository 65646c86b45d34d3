package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// nestedRepo is a repository of its own in the working tree, such as a submodule, that an index knows.
type nestedRepo struct {
	path string
	was  string // the commit that the index has
	now  string // the one that is checked out; "" where that cannot be told
}

// nested finds the repositories that git add would ask for their status. It does so by a git that obeys what
// their configuration says, filters among it, and an agent may have written that. So they are kept from it: only
// their HEAD is read, by us.
func (c *cli) nested(ctx context.Context, index string) (found []nestedRepo, gone []string, err error) {
	b, err := c.run(ctx, gitCall{args: []string{"ls-files", "-s", "-z"}, index: index})
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range nulSplit(b) {
		info, path, _ := strings.Cut(entry, "\t")
		rest, is := strings.CutPrefix(info, "160000 ")
		if !is {
			continue
		}
		was, _, _ := strings.Cut(rest, " ")
		switch c.kindOf(path) {
		case nestedHere:
			found = append(found, nestedRepo{path, was, checkedOut(filepath.Join(c.l.root, path))})
		case nestedReplaced:
			gone = append(gone, path)
		}
	}
	return found, gone, nil
}

type nestedKind int

const (
	nestedNone     nestedKind = iota // it is not checked out, or gone: git has nothing to ask
	nestedHere                       // it is there
	nestedReplaced                   // something else has its place, which may lead to another repository
)

func (c *cli) kindOf(path string) nestedKind {
	at := c.l.root
	for _, part := range strings.Split(filepath.Dir(path), "/") {
		at = filepath.Join(at, part)
		if fi, err := os.Lstat(at); err != nil || !fi.IsDir() {
			return nestedNone // for git the path is gone
		}
	}
	at = filepath.Join(c.l.root, path)
	fi, err := os.Lstat(at)
	if err != nil {
		return nestedNone
	}
	if !fi.IsDir() {
		return nestedReplaced
	}
	if _, err := os.Lstat(filepath.Join(at, ".git")); err != nil {
		return nestedNone
	}
	return nestedHere
}

// checkedOut reads HEAD of a nested repository. What is there may be anything, such as a pipe that nobody writes to.
func checkedOut(dir string) string {
	dot := filepath.Join(dir, ".git")
	gitDir := dot
	if fi, err := os.Stat(dot); err != nil || !fi.IsDir() && !onlyFiles(dot) {
		return ""
	} else if !fi.IsDir() {
		if gitDir, err = readGitFile(dot); err != nil {
			return ""
		}
	}
	if !onlyFiles(filepath.Join(gitDir, "HEAD"), filepath.Join(gitDir, "commondir")) {
		return ""
	}
	common, err := commonOf(gitDir)
	if err != nil || !isGitDir(gitDir, common) || !onlyFiles(filepath.Join(common, "packed-refs")) {
		return ""
	}
	refs := &refStore{l: layout{root: dir, gitDir: gitDir, commonDir: common}}
	name := "HEAD"
	for range 5 {
		if !onlyFiles(refs.file(name)) {
			return ""
		}
		value, err := refs.readLoose(name)
		if err != nil {
			return ""
		}
		if value == "" && name != "HEAD" {
			value, err = refs.hash(name) // it is packed
		}
		to, symbolic := strings.CutPrefix(value, "ref:")
		if !symbolic {
			if _, bad := parseID(value); err != nil || bad != nil {
				return ""
			}
			return value
		}
		if name = strings.TrimSpace(to); !validRef(name) {
			return ""
		}
	}
	return ""
}

// readGitFile follows the one-line .git file of a linked working tree or a submodule.
func readGitFile(path string) (string, error) {
	b, err := readPlain(path, mostLoose)
	if err != nil {
		return "", fmt.Errorf("find repository: %w", err)
	}
	to, ok := strings.CutPrefix(string(b), "gitdir: ")
	to = strings.TrimRight(to, "\r\n")
	if !ok || to == "" {
		return "", fmt.Errorf("%s is no git file: %w", path, ErrNotRepo)
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	return filepath.Clean(to), nil
}

// commonOf is the directory that a linked working tree shares with the others.
func commonOf(gitDir string) (string, error) {
	b, err := readPlain(filepath.Join(gitDir, "commondir"), mostLoose)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return gitDir, nil
	}
	if err != nil {
		return "", fmt.Errorf("find repository: %w", err)
	}
	c := strings.TrimRight(string(b), "\r\n")
	if !filepath.IsAbs(c) {
		c = filepath.Join(gitDir, c)
	}
	return filepath.Clean(c), nil
}

// isGitDir is git's own test: a HEAD that reads like one, objects and refs.
func isGitDir(gitDir, commonDir string) bool {
	if !isHead(filepath.Join(gitDir, "HEAD")) {
		return false
	}
	for _, d := range []string{"objects", "refs"} {
		if fi, err := os.Stat(filepath.Join(commonDir, d)); err != nil || !fi.IsDir() {
			return false
		}
	}
	return true
}

func isHead(path string) bool {
	if to, err := os.Readlink(path); err == nil { // the form of git's first years
		return strings.HasPrefix(to, "refs/")
	}
	b, err := readPlain(path, mostLoose)
	if err != nil {
		return false
	}
	if to, ok := strings.CutPrefix(string(b), "ref:"); ok {
		return strings.HasPrefix(strings.TrimLeft(to, " \t"), "refs/")
	}
	s := strings.TrimRight(string(b), "\r\n")
	return (len(s) == 40 || len(s) == 64) && isHex(s)
}

// onlyFiles reports whether all of these can be read without waiting, or are not there.
func onlyFiles(paths ...string) bool {
	for _, p := range paths {
		if fi, err := os.Stat(p); err == nil && !fi.Mode().IsRegular() && !fi.IsDir() {
			return false
		}
	}
	return true
}

// setNested gives the nested repositories of an index the commits that are checked out.
func (c *cli) setNested(ctx context.Context, index string, found []nestedRepo) error {
	var moved bytes.Buffer
	for _, n := range found {
		if n.now != "" && n.now != n.was {
			fmt.Fprintf(&moved, "160000 %s\t%s\x00", n.now, n.path)
		}
	}
	if moved.Len() == 0 {
		return nil
	}
	_, err := c.run(ctx, gitCall{args: []string{"update-index", "-z", "--index-info"}, index: index, stdin: moved.Bytes()})
	return err
}

// forget takes paths out of an index.
func (c *cli) forget(ctx context.Context, index string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	_, err := c.run(ctx, gitCall{args: []string{"update-index", "--force-remove", "-z", "--stdin"}, index: index, stdin: nulJoin(slices.Sorted(slices.Values(paths)))})
	return err
}
