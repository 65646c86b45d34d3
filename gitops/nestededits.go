package gitops

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// NestedEdits lists files inside submodules and other nested repositories that were edited since a time and are not
// committed there, sorted. No snapshot holds them: neither a commit nor a restore touches them.
func (r *Repo) NestedEdits(ctx context.Context, since time.Time) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.viaGit { // what is nested is not for the native path
		return nil, nil
	}
	found, _, err := r.cli.nested(ctx, "")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range found {
		for _, name := range editsIn(ctx, filepath.Join(r.l.root, filepath.FromSlash(n.path)), since) {
			out = append(out, path.Join(n.path, name))
		}
	}
	slices.Sort(out)
	return out, nil
}

// editsIn compares a repository's working tree with its index without asking git, which would obey a configuration that
// an agent may have written. Where that cannot be read, nothing is found.
func editsIn(ctx context.Context, dir string, since time.Time) []string {
	gitDir := filepath.Join(dir, ".git")
	fi, err := os.Stat(gitDir)
	if err != nil || !fi.IsDir() && !onlyFiles(gitDir) {
		return nil
	}
	if !fi.IsDir() {
		if gitDir, err = readGitFile(gitDir); err != nil {
			return nil
		}
	}
	exclude := filepath.Join(gitDir, "info", "exclude")
	if !onlyFiles(filepath.Join(gitDir, "index"), exclude) {
		return nil
	}
	ix, err := readIndex(filepath.Join(gitDir, "index"))
	if err != nil {
		return nil
	}
	root, err := openRoot(dir)
	if err != nil {
		return nil
	}
	defer root.close()
	s := &scanner{root: root, strict: true, global: []*ruleFile{{path: exclude}}, attrs: func([]byte) string { return "" }}
	top, err := s.scan(ctx, ix, nil, nil, readKnown)
	if err != nil {
		return nil
	}
	at := &Repo{root: root}
	return slices.DeleteFunc(ix.differs(top, nil), func(name string) bool {
		info, err := at.statBelow(name)
		if err != nil {
			info, err = at.statBelow(path.Dir(name))
		}
		return err == nil && olderThan(info, since)
	})
}
