package gitops

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// watched are the files and folders that an attempt may not change, wherever they lie: they decide what git does and
// runs, here or for whoever works here next. Some need not be there yet.
type watched struct {
	files []string
	hooks []string // folders of hooks
}

// watch finds them from the layout and from what git says of its settings.
func watch(l layout, cfg *gitConfig, env []string) watched {
	w := watched{hooks: []string{filepath.Join(l.commonDir, "hooks")}}
	for _, f := range []string{"config", "info/exclude", "info/attributes", "info/grafts", "objects/info/alternates", "hooks"} {
		w.files = append(w.files, filepath.Join(l.commonDir, filepath.FromSlash(f)))
	}
	for _, f := range []string{"config.worktree", "info/sparse-checkout", "commondir", "gitdir"} {
		w.files = append(w.files, filepath.Join(l.gitDir, filepath.FromSlash(f)))
	}
	if dot := filepath.Join(l.root, ".git"); dot != l.gitDir {
		w.files = append(w.files, dot) // the .git file of a linked working tree or a submodule, or a link
	}
	for _, inc := range cfg.includes {
		path, home := inc.path, envValue(env, "HOME")
		if rest, ok := strings.CutPrefix(path, "~/"); ok && home != "" {
			path = filepath.Join(home, rest)
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(inc.from), path)
		}
		if path = filepath.Clean(path); inc.ours || l.holds(path) { // a person's own settings elsewhere are his to change
			w.files = append(w.files, path)
		}
	}
	if dir, ok := cfg.pathname("core.hookspath"); ok && dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(l.root, dir)
		}
		dir = filepath.Clean(dir)
		if dir != "/" && dir != os.DevNull && dir != l.root && !strings.HasPrefix(l.root, dir+"/") {
			w.hooks = append(w.hooks, dir)
			w.files = append(w.files, dir) // it may be, or become, a link
		}
	}
	slices.Sort(w.files)
	w.files = slices.Compact(w.files)
	return w
}

// holds reports whether a path lies in the working tree or in the git directory.
func (l layout) holds(path string) bool {
	return slices.ContainsFunc([]string{l.root, l.gitDir, l.commonDir}, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
}

// mostHooks bounds the files in subfolders of a folder of hooks that are watched. Git itself runs none of them.
const mostHooks = 2000

// hookFiles lists the folders of hooks with everything in them, samples left out. Where one is a link to elsewhere, what
// is there is not the repository's: only the link is watched.
func (w watched) hookFiles() (files, folders []string, err error) {
	for _, top := range w.hooks {
		if fi, err := os.Lstat(top); err != nil || !fi.IsDir() {
			continue
		}
		folders = append(folders, top)
		deep := 0
		err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil && missing(err), path == top:
				return nil
			case err != nil:
				return err
			}
			if filepath.Dir(path) != top {
				if deep++; deep > mostHooks {
					return fs.SkipDir
				}
			}
			if e.IsDir() {
				folders = append(folders, path)
			} else if !strings.HasSuffix(path, ".sample") {
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return files, folders, nil
}
