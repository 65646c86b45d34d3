package launch

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"descartes/agent"
	"descartes/agent/quota"
	"descartes/agent/stream"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/tasks"
)

// StateDir is our folder in the user's state directory, "" without one.
func StateDir() string {
	dir, home := os.Getenv("XDG_STATE_HOME"), os.Getenv("HOME")
	switch {
	case filepath.IsAbs(dir):
	case !filepath.IsAbs(home):
		return ""
	default:
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "descartes")
}

// PoolOf is the folder with the slots of a project, "" without a state directory.
func PoolOf(root string) string {
	if state := StateDir(); state != "" {
		return slot.PlaceOf(state, root)
	}
	return ""
}

// CheckPool refuses to make slots where the user's tools would find them.
func CheckPool(root string) error {
	pool := PoolOf(root)
	if _, inside := Below(root, pool); inside || pool == "" {
		return config.Wrong("set XDG_STATE_HOME to a folder outside the project",
			"there is no folder outside the project for the copies that agents work in: HOME and XDG_STATE_HOME give %q", pool)
	}
	return nil
}

// Accounts is what is recorded, under the user's state directory, about the quotas of a run's backends; root is its
// project.
func Accounts(backends []agent.Backend, root string) *quota.Accounts {
	dir := StateDir()
	if dir == "" {
		return nil
	}
	ids := map[string]string{}
	for _, b := range backends {
		if b.Format != stream.FormatText { // whose limits nobody can tell
			ids[b.Name] = b.Account(os.Getenv("HOME"), os.Environ())
		}
	}
	return &quota.Accounts{Dir: filepath.Join(dir, "limits"), For: root, IDs: ids}
}

// OpenRepo opens the repository that holds root. What source.Protected names is no part of an attempt's work; list may
// be nil.
func OpenRepo(ctx context.Context, root string, c *config.Config, list *tasks.File) (*gitops.Repo, error) {
	opt := gitops.Options{Dir: root, Env: os.Environ(), Hooks: cmp.Or(c.Git.Hooks, "run"),
		HookTimeout: time.Duration(c.Git.HookTimeout) * time.Second}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find our own program: %w", err)
	}
	opt.Shim = []string{self, proc.ShimCommand}
	top := GitTop(root)
	opt.Box = gitBox(ctx, top, c)
	fixed, others := source.Protected(c, root, list)
	for _, path := range append(fixed, others...) {
		slash := path[len(strings.TrimRight(path, "/")):]
		if rel, ok := Below(top, path); ok {
			opt.Protect = append(opt.Protect, rel+slash)
		}
		// what a link names is what is written
		if real, err := filepath.EvalSymlinks(path); err == nil && real != filepath.Clean(path) {
			if rel, ok := Below(top, real); ok && rel != "." {
				opt.Protect = append(opt.Protect, rel+slash)
			}
		}
	}
	return gitops.Open(ctx, opt)
}

// GitTop is the folder at or above dir that has .git, or dir.
func GitTop(dir string) string {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return dir
		}
	}
}

// Below is path as a slash path relative to top, where it lies below it.
func Below(top, path string) (string, bool) {
	rel, err := filepath.Rel(top, path)
	return filepath.ToSlash(rel), err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// Absolute is a path that begins in dir.
func Absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// beginning returns the first bytes of a regular file: a client's settings are shorter.
func beginning(path string) []byte {
	b, err := plainfile.Read("", path, 4<<20)
	if err != nil {
		return nil
	}
	return b
}
