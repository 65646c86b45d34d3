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
	"time"
)

// dirty lists the paths that differ between HEAD, index and working tree, untracked ones included.
func (c *cli) dirty(ctx context.Context) ([]string, error) {
	b, err := c.run(ctx, gitCall{args: []string{"status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty"}})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, entry := range nulSplit(b) {
		if len(entry) > 3 && !c.guard.covers(entry[3:]) {
			out = append(out, entry[3:])
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// snapshot stages the whole working tree in a private index and writes its tree. Protected paths stay as the
// repository's index has them.
func (c *cli) snapshot(ctx context.Context, protect []string) (Tree, error) {
	index, from, now, err := c.privateIndex()
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	defer os.Remove(index)
	if err := c.addAll(ctx, index, newProtection(protect)); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if err := c.dropIgnored(ctx, index); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if err := c.addTracked(ctx, index); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	tree, err := c.word(ctx, index, "write-tree")
	if err != nil && from == c.cache && exitCode(err) != 0 { // what that index knows may have been pruned
		c.based = fileInfo{}
		return c.snapshot(ctx, protect)
	}
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if err := os.Rename(index, c.cache); err == nil {
		c.based = now
	}
	return Tree(tree), nil
}

// changedSince compares the working tree with a snapshot. What git stores on the way goes into a folder that is removed.
func (c *cli) changedSince(ctx context.Context, tree Tree, protect []string) ([]string, error) {
	dir, err := os.MkdirTemp(c.l.gitDir, "descartes-look-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	look := *c
	look.cache, look.based = filepath.Join(dir, "index"), fileInfo{}
	look.cookie, look.shim = "", nil // a shim has an environment of its own
	look.env = append(slices.Clip(c.env), "GIT_OBJECT_DIRECTORY="+dir, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(c.l.commonDir, "objects"))
	now, err := look.snapshot(ctx, protect)
	if err != nil {
		return nil, err
	}
	b, err := look.run(ctx, gitCall{args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", string(tree), string(now)}})
	if err != nil {
		return nil, err
	}
	return slices.Sorted(slices.Values(slices.DeleteFunc(nulSplit(b), c.guard.covers))), nil
}

// addAll is `git add -A` but for protected paths and for nested repositories without a commit, which git
// cannot record.
func (c *cli) addAll(ctx context.Context, index string, guard protection) error {
	inner, gone, err := c.nested(ctx, index)
	if err == nil {
		err = c.forget(ctx, index, gone)
	}
	if err != nil {
		return err
	}
	var skip []string
	for _, n := range inner {
		skip = append(skip, n.path)
	}
	for {
		args := append([]string{"add", "-A", "--ignore-errors"}, append(c.sparse(), "--", ".")...)
		for _, p := range append(skip, guard...) {
			args = append(args, ":(top,exclude,literal)"+p)
		}
		_, err := c.run(ctx, gitCall{options: []string{"-c", "core.safecrlf=false"}, args: args, index: index})
		if c.out = leftByGit(err); err == nil {
			return c.setNested(ctx, index, inner)
		}
		bare, ok := uncommittedRepository(err)
		if !ok && len(c.out) > 0 {
			return c.setNested(ctx, index, inner)
		}
		if !ok || slices.Contains(skip, bare) {
			return err
		}
		skip = append(skip, bare)
	}
}

// dropIgnored takes out what an earlier snapshot added and a rule covers since: for git, what is in an index is
// tracked, but only the repository's own index has a say here.
func (c *cli) dropIgnored(ctx context.Context, index string) error {
	b, err := c.run(ctx, gitCall{args: []string{"ls-files", "-z", "-i", "-c", "--exclude-standard"}, index: index})
	covered := nulSplit(b)
	if err != nil || len(covered) == 0 {
		return err
	}
	if b, err = c.run(ctx, gitCall{args: []string{"ls-files", "-z"}}); err != nil {
		return err
	}
	own := map[string]bool{}
	for _, p := range nulSplit(b) {
		own[p] = true
	}
	covered = slices.DeleteFunc(covered, func(p string) bool { return own[p] || slices.Contains(c.tracked, p) })
	if len(covered) == 0 {
		return nil
	}
	return c.forget(ctx, index, covered)
}

// sparse is the option without which git add leaves out what lies outside a sparse checkout. Older versions of
// git do not know it, nor do they need it.
func (c *cli) sparse() []string {
	if _, err := os.Stat(filepath.Join(c.l.gitDir, "info", "sparse-checkout")); err != nil {
		return nil
	}
	return []string{"--sparse"}
}

// uncommittedRepository finds the nested repository that git add stumbled over.
func uncommittedRepository(err error) (string, bool) {
	var ge *gitError
	if !errors.As(err, &ge) {
		return "", false
	}
	for line := range strings.Lines(ge.said) {
		rest, found := strings.CutPrefix(line, "error: '")
		path, _, here := strings.Cut(rest, "' does not have a commit checked out")
		if found && here {
			return path, true
		}
	}
	return "", false
}

func (c *cli) addTracked(ctx context.Context, index string) error {
	var there []string
	for _, p := range c.tracked {
		if _, err := os.Lstat(filepath.Join(c.l.root, p)); err == nil && !c.guard.covers(p) {
			there = append(there, p)
		}
	}
	if len(there) == 0 {
		return nil
	}
	_, err := c.run(ctx, gitCall{options: literally, index: index, stdin: nulJoin(there),
		args: append([]string{"add", "-f", "--pathspec-from-file=-", "--pathspec-file-nul"}, c.sparse()...)})
	return err
}

// track makes snapshots hold paths although an ignore rule covers them.
func (c *cli) track(paths []string) {
	c.tracked = append(c.tracked, paths...)
	slices.Sort(c.tracked)
	c.tracked = slices.Compact(c.tracked)
}

// leftByGit reads from the words of `git add --ignore-errors` what it could not add.
func leftByGit(err error) []LeftOut {
	var ge *gitError
	if !errors.As(err, &ge) || ge.code != 1 {
		return nil
	}
	var out []LeftOut
	why := ""
	for line := range strings.Lines(ge.said) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "error: ")
		if !ok {
			continue
		}
		path, named := strings.CutPrefix(text, "unable to index file '")
		if !named {
			if path, named = strings.CutPrefix(text, "unable to add '"); named {
				path = strings.TrimSuffix(path, " to index")
			}
		}
		switch {
		case !named:
			why = text
		case strings.HasPrefix(why, "invalid path"):
			out = append(out, LeftOut{strings.TrimSuffix(path, "'"), whyName})
		default:
			out = append(out, LeftOut{strings.TrimSuffix(path, "'"), "git cannot add it: " + why})
		}
	}
	return out
}

// privateIndex is a copy to work in: of the last snapshot's, which knows the files since hashed, unless the
// repository's index changed since then. from is what was copied, now the state of the repository's index.
func (c *cli) privateIndex() (path, from string, now fileInfo, err error) {
	own := filepath.Join(c.l.gitDir, "index")
	now, err = statPath(own)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", "", now, err
	}
	from = own
	if c.based != (fileInfo{}) && now == c.based {
		if _, err := os.Stat(c.cache); err == nil {
			from = c.cache
		}
	}
	path, err = c.indexCopy(from)
	return path, from, now, err
}

// indexCopy gives from another name; git replaces index files by renaming, so the original stays. A missing
// one is copied as a missing one.
func (c *cli) indexCopy(from string) (string, error) {
	to := fmt.Sprintf("%s.%d.%d", c.cache, os.Getpid(), time.Now().UnixNano())
	err := os.Link(from, to)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return to, nil
	}
	b, err := readPlain(from, mostCopied)
	if err != nil {
		return "", err
	}
	fi, err := os.Stat(from)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		return "", err
	}
	// The time tells git which entries may have changed unnoticed; a newer one would hide changes.
	return to, os.Chtimes(to, fi.ModTime(), fi.ModTime())
}

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
