package gitops

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"descartes/internal/proc"
)

// Repaired is what Repair found and undid.
type Repaired struct {
	Notes   []string // one line each, for people
	Commits string   // the newest commit of the agent's own, "" if it made none
	Back    bool     // HEAD or the branch was led to a commit that lacks the one where the attempt began, or a stash was left
}

func (s *Repaired) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// noteOnce is for what is found and left: it is there still when Repair is called again.
func (s *Repaired) noteOnce(g *Guard, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if g.told[line] {
		return
	}
	if g.told != nil {
		g.told[line] = true
	}
	s.Notes = append(s.Notes, line)
}

// Repair undoes what an agent did to the git directory since g, once all its processes are dead: the branch and
// the index are put back, so are configuration and hooks, and refs that git cannot read; unfinished operations and lock files go. Commits,
// stashes and new branches stay in the store, and the working tree stays as it is.
//
// It may be called again, for what was done since: nothing is told twice.
func (g *Guard) Repair(ctx context.Context) (Repaired, error) {
	r := g.r
	var s Repaired
	if err := r.settleLogs(ctx, g, &s); err != nil {
		return s, fmt.Errorf("settle the repository: %w", err)
	}
	if r.marked.is(g) && r.marked.holds() && r.kept.stand(r) {
		return s, nil
	}
	err := s.take(ctx, g, r.settleLocks, r.settleFiles, r.settleHooks, r.settleStates, r.settlePacked, r.settleLoose, r.settleShallow, r.settleKept, r.settleHead, r.settleRefs, r.settleStash, r.settleIndex)
	return s, err
}

// RepairSettings undoes what an agent did to the configuration and the hooks, and leaves everything else: for where
// commits are the agent's business, and where others commit in the same repository meanwhile.
func (g *Guard) RepairSettings(ctx context.Context) (Repaired, error) {
	r := g.r
	var s Repaired
	err := s.take(ctx, g, r.settleLogs, r.settleFiles, r.settleHooks, r.settleStash)
	return s, err
}

func (s *Repaired) take(ctx context.Context, g *Guard, steps ...func(context.Context, *Guard, *Repaired) error) error {
	for _, line := range g.undone {
		s.noteOnce(g, "%s", line)
	}
	for _, step := range steps {
		if err := step(ctx, g, s); err != nil {
			return fmt.Errorf("settle the repository: %w", err)
		}
	}
	return nil
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

// settleLogs removes links on the way to the logs of HEAD and its branch: git would write the next commit's line into what they
// lead to.
func (r *Repo) settleLogs(_ context.Context, g *Guard, s *Repaired) error {
	for _, log := range []string{filepath.Join(r.l.gitDir, "logs", "HEAD"), filepath.Join(r.l.commonDir, "logs", filepath.FromSlash(g.at.Branch))} {
		dir := r.l.commonDir
		if strings.HasPrefix(log, r.l.gitDir+"/") {
			dir = r.l.gitDir
		}
		for _, name := range strings.Split(strings.TrimPrefix(log, dir+"/"), "/") {
			dir = filepath.Join(dir, name)
			fi, err := os.Lstat(dir)
			if err != nil {
				break
			}
			if fi.Mode()&os.ModeSymlink == 0 {
				continue
			}
			if err := os.Remove(dir); err != nil {
				return err
			}
			s.note("removed %s, which was a link: the log of a commit would be written to what it leads to", r.inGit(dir))
			break
		}
	}
	return nil
}

func (r *Repo) settleLocks(_ context.Context, g *Guard, s *Repaired) error {
	if _, err := os.Stat(r.l.gitDir); err != nil {
		return &RefusedError{Reason: "the repository is gone: " + r.l.gitDir}
	}
	now, err := passing(r.l)
	if err != nil {
		return err
	}
	alive := sync.OnceValue(r.othersAtWork) // asked after the locks were seen: who holds one of them lives
	for _, p := range sortedKeys(now) {
		if g.extra[p] {
			continue
		}
		if fi, err := os.Lstat(p); err == nil && fi.Mode()&(os.ModeNamedPipe|os.ModeDevice) != 0 {
			if err := os.Remove(p); err != nil {
				return err
			}
			s.note("removed %s, which the attempt had replaced by a FIFO or a device", r.inGit(p))
			continue
		}
		if !strings.HasSuffix(p, ".lock") {
			continue
		}
		if who := alive(); who != "" {
			s.noteOnce(g, "left %s: %s works here", r.inGit(p), who)
			continue
		}
		if err := os.RemoveAll(p); err != nil {
			return err
		}
		s.note("removed %s, which a dead git command of the attempt left", r.inGit(p))
	}
	return nil
}

// readers are git's commands that may run for long and hold no lock.
var readers = []string{"log", "show", "diff", "blame", "grep", "help", "reflog", "shortlog", "cat-file", "ls-files", "fsmonitor--daemon"}

// othersAtWork names a git command that runs in a working tree of the repository, "" for none. Every process of the
// attempt is dead by now, so it is somebody else's.
func (r *Repo) othersAtWork() string {
	dirs := []string{r.l.root, r.l.gitDir, r.l.commonDir}
	if main, ok := strings.CutSuffix(r.l.commonDir, "/.git"); ok {
		dirs = append(dirs, main)
	}
	links, _ := filepath.Glob(filepath.Join(quotePattern(r.l.commonDir), "worktrees", "*", "gitdir"))
	for _, link := range links {
		if b, err := readPlain(link, mostLoose); err == nil {
			dirs = append(dirs, filepath.Dir(strings.TrimSpace(string(b))))
		}
	}
	found := proc.Within(dirs...)
	for _, pid := range sortedKeys(found) {
		argv := found[pid]
		if name := filepath.Base(argv[0]); name != "git" && !strings.HasPrefix(name, "git-") {
			continue
		}
		if !slices.ContainsFunc(argv[1:], func(arg string) bool { return slices.Contains(readers, arg) }) {
			return fmt.Sprintf("%s (process %d)", strings.Join(argv[:min(3, len(argv))], " "), pid)
		}
	}
	return ""
}

func (r *Repo) settleFiles(ctx context.Context, g *Guard, s *Repaired) error {
	for i := range g.files {
		f := &g.files[i]
		changed, err := f.changed()
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		kept := r.keepText(f.path)
		if err := f.putBack(ctx); err != nil {
			return err
		}
		s.note("%s was changed during the attempt and put back%s", r.inGit(f.path), kept)
	}
	return nil
}

func (r *Repo) settleHooks(ctx context.Context, g *Guard, s *Repaired) error {
	names, folders, err := r.watched.hookFiles()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range g.hooks {
		f := &g.hooks[i]
		known[f.path] = true
		changed, err := f.changed()
		if err != nil {
			return err
		}
		if changed {
			kept := r.keepText(f.path)
			if err := f.putBack(ctx); err != nil {
				return err
			}
			s.note("the hook %s was changed during the attempt and put back%s", r.hookName(f.path), kept)
		}
	}
	for _, n := range names {
		if known[n] {
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
		if !slices.Contains(g.folders, f) {
			_ = os.Remove(f) // if it is empty
		}
	}
	return nil
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

// keepText keeps what an attempt, or a person meanwhile, made of a file that is put back, and says where.
func (r *Repo) keepText(path string) (said string) {
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() {
		return "" // what a link leads to is for nobody to copy who reads the repository
	}
	b, err := readPlain(path, 1<<20)
	if err != nil || len(b) == 0 {
		return ""
	}
	return r.keepAside("its text", path, b)
}

func (r *Repo) keepAside(what, path string, b []byte) (said string) {
	root, err := os.OpenRoot(r.l.gitDir)
	if err != nil {
		return ""
	}
	defer root.Close()
	sum := sha256.Sum256(b)
	name := "descartes-changed/" + filepath.Base(path) + "-" + hex.EncodeToString(sum[:4])
	_ = root.Mkdir("descartes-changed", 0o700)
	if err := root.WriteFile(name, b, 0o600); err != nil {
		return ""
	}
	return "; " + what + " is kept in " + r.inGit(filepath.Join(r.l.gitDir, name))
}

// settleStates ends merges, rebases and the like that an agent left unfinished. Their commits are in the store.
func (r *Repo) settleStates(_ context.Context, g *Guard, s *Repaired) error {
	now, err := passing(r.l)
	if err != nil {
		return err
	}
	var names, commits []string
	for _, p := range sortedKeys(now) {
		if g.extra[p] || strings.HasSuffix(p, ".lock") {
			continue
		}
		for _, holder := range []string{p, filepath.Join(p, "autostash")} {
			if b, err := readPlain(holder, mostLoose); err == nil && len(b) >= 40 && isHex(string(b[:40])) && filepath.Base(p) != "AUTO_MERGE" {
				commits = append(commits, string(b[:12]))
			}
		}
		if err := os.RemoveAll(p); err != nil {
			return err
		}
		if filepath.Base(p) != "AUTO_MERGE" { // git leaves this one behind itself
			names = append(names, r.inGit(p))
		}
	}
	if len(names) == 0 {
		return nil
	}
	kept := ""
	if len(commits) > 0 {
		kept = "; kept: commit " + strings.Join(commits, ", ")
	}
	s.note("removed what an operation left unfinished by the attempt: %s%s", strings.Join(names, " "), kept)
	return nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
