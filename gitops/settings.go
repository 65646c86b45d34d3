package gitops

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// settingPaths are the files and folders that an attempt may not change, wherever they lie: they decide what git does
// and runs, here or for whoever works here next. Some need not be there yet.
type settingPaths struct {
	l     layout
	files []string
	hooks []string // folders of hooks
}

// findSettings takes them from the layout and from what git says of its settings.
func findSettings(l layout, cfg *gitConfig, env []string) settingPaths {
	p := settingPaths{l: l, hooks: []string{filepath.Join(l.commonDir, "hooks")}}
	for _, f := range []string{"config", "info/exclude", "info/attributes", "info/grafts", "objects/info/alternates", "hooks"} {
		p.files = append(p.files, filepath.Join(l.commonDir, filepath.FromSlash(f)))
	}
	for _, f := range []string{"config.worktree", "info/sparse-checkout", "commondir", "gitdir"} {
		p.files = append(p.files, filepath.Join(l.gitDir, filepath.FromSlash(f)))
	}
	if dot := filepath.Join(l.root, ".git"); dot != l.gitDir {
		p.files = append(p.files, dot) // the .git file of a linked working tree or a submodule, or a link
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
			p.files = append(p.files, path)
		}
	}
	if dir, ok := cfg.pathname("core.hookspath"); ok && dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(l.root, dir)
		}
		dir = filepath.Clean(dir)
		if dir != "/" && dir != os.DevNull && dir != l.root && !strings.HasPrefix(l.root, dir+"/") {
			p.hooks = append(p.hooks, dir)
			p.files = append(p.files, dir) // it may be, or become, a link
		}
	}
	p.addModules(filepath.Join(l.commonDir, "modules"), 0)
	slices.Sort(p.files)
	p.files = slices.Compact(p.files)
	return p
}

// addModules adds what decides the same in the repositories of submodules: git enters them for the status of this one.
func (p *settingPaths) addModules(dir string, depth int) {
	entries, err := os.ReadDir(dir)
	if err != nil || depth > 6 {
		return
	}
	for _, e := range entries[:min(len(entries), 500)] {
		module := filepath.Join(dir, e.Name())
		if !e.IsDir() {
			continue
		}
		if _, err := os.Lstat(filepath.Join(module, "HEAD")); err != nil {
			p.addModules(module, depth+1) // names of submodules hold slashes
			continue
		}
		for _, f := range []string{"config", "config.worktree", "info/attributes", "objects/info/alternates", "commondir", "hooks"} {
			p.files = append(p.files, filepath.Join(module, filepath.FromSlash(f)))
		}
		p.hooks = append(p.hooks, filepath.Join(module, "hooks"))
		p.addModules(filepath.Join(module, "modules"), depth+1)
	}
}

// holds reports whether a path is in the working tree or in the git directory.
func (l layout) holds(path string) bool {
	return slices.ContainsFunc([]string{l.root, l.gitDir, l.commonDir}, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
}

// mostHooks bounds the files in subfolders of a folder of hooks that are watched. Git itself runs none of them.
const mostHooks = 2000

// listHooks lists the folders of hooks with everything in them, samples left out, and behind them the links on the way there
// and the files that hooks are links to, in the project: git runs those too. What lies elsewhere is not the repository's.
func (l layout) listHooks(tops []string) (files, behind, folders []string, err error) {
	for _, top := range tops {
		links, end := l.follow(top)
		behind = append(behind, links...)
		if fi, err := os.Lstat(top); err == nil && fi.Mode()&fs.ModeSymlink != 0 && l.holds(end) && end != l.gitDir && end != l.commonDir {
			top = end
		}
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
			if e.Type()&fs.ModeSymlink == 0 {
				return nil
			}
			links, end := l.follow(path)
			behind = append(behind, links...)
			if fi, err := os.Stat(end); l.holds(end) && (err != nil || !fi.IsDir()) {
				behind = append(behind, end)
			}
			return nil
		})
		if err != nil {
			return nil, nil, nil, err
		}
	}
	return files, behind, folders, nil
}

// follow lists the links in the project that a path goes through, and where it ends.
func (l layout) follow(path string) (links []string, end string) {
	end = "/"
	followed := 0
	for rest := strings.Split(path, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		dir := end
		end = filepath.Join(dir, name) // "" and "." stay, ".." goes up
		to, err := os.Readlink(end)
		if err != nil {
			continue
		}
		if l.holds(end) {
			links = append(links, end)
		}
		if followed++; followed > 40 { // git cannot follow them either
			return links, ""
		}
		if end = dir; filepath.IsAbs(to) {
			end = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return links, end
}

// settings are the configuration and the hooks as they were, in a form that outlives the run, and the refs' values,
// for people to read.
type settings struct {
	Files   []fileCopy
	Hooks   []fileCopy
	Folders []string // of hooks, and those in them
	Tops    []string // of these, those where git or the configuration looks
	Refs    refValues
	Broken  []string          // refs that git could not read
	Links   map[string]string // see Repo.ownLinks
}

func (p settingPaths) read() (now settings, err error) {
	now.Tops = p.hooks
	hooks, behind, folders, err := p.l.listHooks(p.hooks)
	if err != nil {
		return now, err
	}
	hooks, now.Folders = append(hooks, behind...), folders
	slices.Sort(hooks)
	hooks = slices.DeleteFunc(slices.Compact(hooks), func(path string) bool { return slices.Contains(p.files, path) })
	if now.Files, err = copyFiles(p.files); err != nil {
		return now, err
	}
	now.Hooks, err = copyFiles(hooks)
	return now, err
}

func copyFiles(paths []string) ([]fileCopy, error) {
	out := make([]fileCopy, len(paths))
	for i, p := range paths {
		var err error
		if out[i], err = copyFile(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mostSettings bounds the text of the files in Settings, all together. A file that does not fit is recorded later, as
// it is then.
const mostSettings = 8 << 20

// Settings is what GuardSince needs to restore the configuration and the hooks after a killed run. Keep it in a file
// that no attempt can write: its content decides what git runs.
func (g *Guard) Settings() []byte {
	s, room := g.settings, mostSettings
	trim := func(from []fileCopy) []fileCopy {
		to := slices.Clone(from)
		for i := range to {
			if f := &to[i]; len(f.Text) > room || f.Kind == fs.ModeDevice {
				f.Omitted, f.Text = true, nil
			}
			room -= len(to[i].Text)
		}
		return to
	}
	s.Files, s.Hooks = trim(s.Files), trim(s.Hooks)
	b, err := json.Marshal(s)
	if err != nil {
		return nil // a path that is no text: nothing is kept
	}
	return b
}

// parseSettings reads what Settings wrote.
func parseSettings(b []byte) (was settings, ok bool) {
	ok = json.Unmarshal(b, &was) == nil && len(was.Files) > 0
	for _, f := range was.all() {
		f.stamp = fileStamp{ino: 1, size: -1} // of no file: it is read
	}
	return was, ok
}

func (s *settings) all() (files []*fileCopy) {
	for _, list := range [][]fileCopy{s.Files, s.Hooks} {
		for i := range list {
			files = append(files, &list[i])
		}
	}
	return files
}

// restoreSettings undoes what was done to the configuration and the hooks, and keeps the texts that it replaces. Of files
// that a stamp says were changed later than by the attempt it only tells: they may be somebody else's.
func (r *Repo) restoreSettings(ctx context.Context, was *settings, later func(fileStamp) bool, s *Repaired) error {
	known := map[string]bool{}
	for i, f := range was.all() {
		known[f.Path] = true
		name := r.inGit(f.Path)
		if i >= len(was.Files) {
			name = "the hook " + r.hookName(f.Path)
		}
		now, err := stampOf(f.Path)
		if err != nil {
			return err
		}
		if changed, err := f.changed(); err != nil {
			return err
		} else if !changed || f.Omitted {
			continue
		}
		if later(now) {
			s.note("%s was changed since the attempt began, the last time after its end, and stays%s", name, r.keepWithNote("; its previous text is kept in ", f.Path, f.Text))
			continue
		}
		kept := r.keepText(f.Path)
		if err := f.restore(ctx); err != nil {
			return err
		}
		s.note("%s was changed during the attempt and put back%s", name, kept)
	}
	names, _, folders, err := r.l.listHooks(was.Tops)
	if err != nil {
		return err
	}
	for _, n := range names {
		now, err := stampOf(n)
		if err != nil {
			return err
		}
		if known[n] || later(now) {
			continue
		}
		kept := r.keepText(n)
		if err := os.RemoveAll(n); err != nil {
			return err
		}
		s.note("the hook %s was added during the attempt and removed%s", r.hookName(n), kept)
	}
	slices.Reverse(folders) // the inner ones first
	for _, f := range folders {
		if !slices.Contains(was.Folders, f) {
			_ = os.Remove(f) // if it is empty
		}
	}
	return nil
}

// keepText keeps what an attempt, or a person meanwhile, made of a file that is put back, and says where.
func (r *Repo) keepText(path string) (said string) {
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() {
		return "" // what a link leads to is for nobody to copy who reads the repository
	}
	b, err := readPlain(path, 1<<20)
	if err != nil || len(b) == 0 {
		return ""
	}
	return r.keepWithNote("; its text is kept in ", path, b)
}

// keepWithNote keeps a file's text, and says where.
func (r *Repo) keepWithNote(words, path string, text []byte) string {
	if file := r.keepAside(filepath.Base(path), text); file != "" {
		return words + r.inGit(file)
	}
	return ""
}

// keepAside writes a text to a file of the git directory that nothing reads; "" if that cannot be.
func (r *Repo) keepAside(name string, b []byte) (file string) {
	root, err := os.OpenRoot(r.l.gitDir)
	if err != nil {
		return ""
	}
	defer root.Close()
	sum := sha256.Sum256(b)
	name = "descartes-changed/" + name + "-" + hex.EncodeToString(sum[:4])
	_ = root.Mkdir("descartes-changed", 0o700)
	if err := root.WriteFile(name, b, 0o600); err != nil {
		return ""
	}
	return filepath.Join(r.l.gitDir, name)
}

// inGit names a file of the git directory for people.
func (r *Repo) inGit(path string) string {
	for _, dir := range []string{r.l.gitDir, r.l.commonDir} {
		if rel, err := filepath.Rel(dir, path); err == nil && !strings.HasPrefix(rel, "..") {
			return ".git/" + filepath.ToSlash(rel)
		}
	}
	if rel, ok := strings.CutPrefix(path, r.l.root+"/"); ok {
		return rel
	}
	return path
}

// hookName is a hook's path in git's own folder of hooks, or in the project.
func (r *Repo) hookName(path string) string {
	for _, dir := range []string{filepath.Join(r.l.commonDir, "hooks"), r.l.root} {
		if rel, ok := strings.CutPrefix(path, dir+"/"); ok {
			return rel
		}
	}
	return path
}

// readSettings reads the configuration again, and decides anew who makes snapshots and commits.
func (r *Repo) readSettings(ctx context.Context) error {
	cfg, err := readConfig(ctx, r.cli)
	if err != nil {
		return err
	}
	ix, err := readIndex(filepath.Join(r.l.gitDir, "index"))
	if err != nil {
		ix = nil // Open and GuardSince see to it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cfg, r.settings, r.people.cfg = cfg, findSettings(r.l, cfg, r.opt.Env), cfg
	if err := r.decide(inspect(r.l, cfg, ix, r.opt)); err != nil {
		return fmt.Errorf("read the configuration again: %w", err)
	}
	if r.viaGit {
		r.last = nil
	}
	r.scanner = r.newScanner()
	return nil
}
