package gitops

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// layout says where a repository's parts lie. All paths are absolute and free of symbolic links in root.
type layout struct {
	root      string // the working tree
	gitDir    string // HEAD, index and in-progress state of this working tree
	commonDir string // objects, refs, config and hooks; the same as gitDir but in a linked working tree
}

// locate asks git for the repository that holds dir. GIT_DIR and its relatives are not honoured. What git refuses
// (a repository of somebody else, of a format that it does not know) is a RefusedError.
func locate(ctx context.Context, program string, opt Options) (layout, error) {
	git := &cli{program: program, env: gitEnv(opt.Env), l: layout{root: opt.Dir}}
	b, err := git.run(ctx, gitCall{args: []string{"rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir"}})
	var said *gitError
	if errors.As(err, &said) {
		return layout{}, layoutError(opt.Dir, said)
	}
	if err != nil {
		return layout{}, fmt.Errorf("find repository: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) != 3 {
		return layout{}, &RefusedError{Reason: fmt.Sprintf("the path of the repository at %q holds a line break", opt.Dir)}
	}
	l := layout{root: lines[0], gitDir: lines[1], commonDir: lines[2]}
	if dir, err := filepath.EvalSymlinks(opt.Dir); err == nil && dir != l.root && !strings.HasPrefix(dir, l.root+"/") {
		return layout{}, &RefusedError{Reason: "core.worktree puts the working tree at " + l.root, Hint: "git config --unset core.worktree, or start there"}
	}
	return l, nil
}

// layoutError tells apart what callers have to; the rest is said in git's words.
func layoutError(dir string, e *gitError) error {
	why := fatal(e.said)
	switch {
	case strings.Contains(why, "not a git repository"), strings.Contains(why, "gitfile"):
		return fmt.Errorf("%s: %w", dir, ErrNotRepo)
	case strings.Contains(why, "must be run in a work tree"):
		return fmt.Errorf("%s: %w", dir, ErrBare)
	case strings.Contains(why, "dubious ownership"):
		return &RefusedError{Reason: dir + " belongs to another user, and git refuses to work there",
			Hint: "git config --global --add safe.directory " + dir}
	}
	return &RefusedError{Reason: "git refuses the repository at " + dir + ": " + why}
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}
