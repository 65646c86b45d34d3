package gitops

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// layout says where a repository's parts lie. All paths are absolute and free of symbolic links in root.
type layout struct {
	root      string // the working tree
	gitDir    string // HEAD, index and in-progress state of this working tree
	commonDir string // objects, refs, config and hooks; the same as gitDir but in a linked working tree
}

// locate finds the repository that holds dir, as git does from that directory: upwards, to the first
// working tree, never across a file system. GIT_DIR and its relatives are not honoured.
func locate(dir string) (layout, error) {
	p, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, err
	}
	// git starts from the physical directory, so a symbolic link into a repository belongs to its target's.
	p, err = filepath.EvalSymlinks(p)
	if err != nil {
		return layout{}, fmt.Errorf("find repository of %s: %w", dir, err)
	}
	dev, err := device(p)
	if err != nil {
		return layout{}, fmt.Errorf("find repository of %s: %w", dir, err)
	}
	for {
		l, found, err := layoutAt(p)
		if err != nil || found {
			return l, err
		}
		if isGitDir(p, p) {
			return layout{}, fmt.Errorf("%s: %w", p, ErrBare)
		}
		up := filepath.Dir(p)
		if up == p {
			break
		}
		if d, err := device(up); err != nil || d != dev {
			break
		}
		p = up
	}
	return layout{}, fmt.Errorf("%s: %w", dir, ErrNotRepo)
}

// layoutAt looks for a repository whose working tree is p.
func layoutAt(p string) (layout, bool, error) {
	dot := filepath.Join(p, ".git")
	fi, err := os.Stat(dot)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP):
		return layout{}, false, nil
	case err != nil:
		return layout{}, false, fmt.Errorf("find repository: %w", err)
	}
	l := layout{root: p, gitDir: dot}
	if !fi.IsDir() {
		if l.gitDir, err = readGitFile(dot); err != nil {
			return layout{}, false, err
		}
	}
	if l.commonDir, err = commonOf(l.gitDir); err != nil {
		return layout{}, false, err
	}
	if !isGitDir(l.gitDir, l.commonDir) {
		if fi.IsDir() {
			return layout{}, false, nil // git walks past an empty .git directory
		}
		return layout{}, false, fmt.Errorf("%s names %s, which is no git directory: %w", dot, l.gitDir, ErrNotRepo)
	}
	if l.gitDir == l.commonDir && configuredBare(l.commonDir) {
		return layout{}, false, fmt.Errorf("%s: core.bare is set: %w", p, ErrBare)
	}
	return l, true, nil
}

// readGitFile follows the one-line .git file of a linked working tree or a submodule.
func readGitFile(path string) (string, error) {
	b, err := os.ReadFile(path)
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
	b, err := os.ReadFile(filepath.Join(gitDir, "commondir"))
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
	b, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	if to, ok := strings.CutPrefix(string(b), "ref:"); ok {
		return strings.HasPrefix(strings.TrimLeft(to, " \t"), "refs/")
	}
	s := strings.TrimRight(string(b), "\r\n")
	return (len(s) == 40 || len(s) == 64) && isHex(s)
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// configuredBare reads core.bare from the repository's own file: the whole configuration needs a layout first.
func configuredBare(commonDir string) bool {
	b, err := os.ReadFile(filepath.Join(commonDir, "config"))
	if err != nil {
		return false
	}
	bare := false
	_ = parseConfig(b, func(key, value string, given bool) {
		if key == "core.bare" {
			bare = truth(value, given, bare)
		}
	})
	return bare
}

func device(path string) (uint64, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return uint64(st.Dev), nil
}
