package sandbox

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// repository lets git be used and keeps what runs programs in it as it is:
// configuration and hooks. Who may write those runs whatever he likes the next
// time that somebody calls git outside.
func (b *Box) repository() {
	dot := filepath.Join(b.c.Top, ".git")
	info, err := os.Lstat(dot)
	if err != nil {
		return
	}
	dir := dot
	if info.Mode().IsRegular() {
		b.add(dot, readable)
		if dir = pointed(dot, "gitdir: "); dir == "" {
			return
		}
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return
	}
	common := dir
	if to := pointed(filepath.Join(dir, "commondir"), ""); to != "" {
		if real, err := filepath.EvalSymlinks(to); err == nil {
			common = real
		}
	}
	git := writable
	if b.c.Here {
		git = readable
	}
	b.add(common, git)
	for _, name := range []string{"hooks", "info"} {
		if !b.c.Make {
			break
		}
		_ = os.Mkdir(filepath.Join(common, name), 0o777) // a mount needs a place; git makes them too
	}
	b.add(filepath.Join(common, "worktrees"), readable)
	b.add(dir, git)
	b.worktreeConfig(common, filepath.Join(common, "config"))
	b.worktreeConfig(dir, filepath.Join(common, "config"))
	b.guard(common)
	b.guard(dir)
	b.modules(filepath.Join(common, "modules"), 0)
	for _, file := range []string{filepath.Join(common, "config"), filepath.Join(b.home, ".gitconfig"), filepath.Join(b.home, ".config", "git", "config")} {
		b.included(file, 0)
	}
}

var includedPath = regexp.MustCompile(`(?im)^[ \t]*(?:\[[^\]]*\][ \t]*)?path[ \t]*=[ \t]*"?([^"\r\n#;]+)`)

// included guards the files of the working tree that the configuration includes.
func (b *Box) included(file string, depth int) {
	text, err := readSettings(file)
	if err != nil || depth > 5 {
		return
	}
	b.hooksIn(text)
	for _, m := range includedPath.FindAllSubmatch(text, 50) {
		path := strings.TrimSpace(string(m[1]))
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(b.home, rest)
		} else if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), path)
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || filepath.Clean(path) == file {
			continue
		}
		if within(path, b.c.Top) {
			b.add(path, readable)
		}
		b.included(filepath.Clean(path), depth+1)
	}
}

// guard keeps what runs programs in one folder of git's.
func (b *Box) guard(dir string) {
	for _, name := range []string{"config", "config.worktree", "hooks", "info", "commondir", "gitdir"} {
		b.add(filepath.Join(dir, name), readable)
	}
}

var readsWorktreeConfig = regexp.MustCompile(`(?im)^[ \t]*worktreeconfig\b`)

// worktreeConfig makes an empty config.worktree where git would read one: a missing file cannot be protected from
// being made.
func (b *Box) worktreeConfig(dir, config string) {
	if !b.c.Make {
		return
	}
	if text, err := os.ReadFile(config); err != nil || !readsWorktreeConfig.Match(text) {
		return
	}
	if f, err := os.OpenFile(filepath.Join(dir, "config.worktree"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666); err == nil {
		_ = f.Close()
	}
}

// modules guards the repositories of submodules.
func (b *Box) modules(dir string, depth int) {
	entries, err := os.ReadDir(dir)
	if err != nil || depth > 6 {
		return
	}
	for _, e := range entries[:min(len(entries), 500)] {
		if !e.IsDir() {
			continue
		}
		sub := filepath.Join(dir, e.Name())
		if _, err := os.Stat(filepath.Join(sub, "HEAD")); err != nil {
			b.modules(sub, depth+1) // names of submodules hold slashes
			continue
		}
		b.worktreeConfig(sub, filepath.Join(sub, "config"))
		b.guard(sub)
		b.modules(filepath.Join(sub, "modules"), depth+1)
	}
}

var hooksPath = regexp.MustCompile(`(?im)^[ \t]*(?:\[[^\]]*\][ \t]*)?hookspath[ \t]*=[ \t]*"?([^"\r\n#;]+)`)

// hooksIn guards hooks that the configuration has elsewhere, as in .husky. A missing folder cannot be guarded: if it
// appears during an attempt, it is removed afterwards.
func (b *Box) hooksIn(text []byte) {
	for _, m := range hooksPath.FindAllSubmatch(text, -1) {
		path := strings.TrimSpace(string(m[1]))
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(b.home, rest)
		} else if !filepath.IsAbs(path) {
			path = filepath.Join(b.c.Top, path)
		}
		if path = filepath.Clean(path); path != b.c.Top {
			b.add(path, readable)
		}
	}
}

// readSettings reads a file of settings, or says why it is none.
func readSettings(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > 1<<20) {
		err = os.ErrInvalid
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// pointed is the path in a file of git's that holds one, relative to where it
// lies.
func pointed(file, prefix string) string {
	text, err := os.ReadFile(file)
	if err != nil || len(text) > 1<<16 {
		return ""
	}
	path, ok := strings.CutPrefix(strings.TrimSpace(string(text)), prefix)
	if !ok || path == "" {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	return path
}

// Planted removes what an attempt may have put into the repository where a
// mount could not stand because nothing was there, and names it. To be called
// before anything looks at the repository again.
func (b *Box) Planted() (removed []string) {
	if b.c.Mode == Off || b.c.Slot.Tree != "" {
		return nil
	}
	file := filepath.Join(b.c.Top, ".git", "commondir")
	if _, known := b.at(file); known {
		return nil
	}
	if info, err := os.Lstat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return nil
	}
	if _, err := os.Lstat(file); err == nil && os.RemoveAll(file) == nil {
		removed = append(removed, file)
	}
	return removed
}

func (b *Box) at(path string) (mount, bool) {
	for _, m := range b.mounts {
		if m.path == path {
			return m, true
		}
	}
	return mount{}, false
}
