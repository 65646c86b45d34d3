package gitops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"descartes/internal/proc"
)

// Guard knows the git directory as it stood before an attempt, so that Repair can put it back: configuration and hooks,
// HEAD, the branch and the other refs, and the index. It is valid until the next commit of its Repo.
type Guard struct {
	r        *Repo
	at       Head
	head     fileCopy
	index    fileCopy
	shallow  fileCopy // the commits whose parents are not here
	stash    fileCopy // the stash's log: its entries, one a line
	settings settings
	refs     refValues
	broken   []string        // refs that git cannot read
	passing  map[string]bool // lock files and unfinished operations
	notes    []string        // of what GuardSince found
}

// Repaired is what Repair found and undid.
type Repaired struct {
	Notes   []string // one line each, for people
	Commits string   // the newest commit of the agent's own, "" if it made none
	Back    bool     // HEAD or the branch was led to a commit that lacks the one where the attempt began, or a stash was left
}

func (s *Repaired) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// Guard reads the state of the git directory before an attempt. What it needs of the index for a run that follows on a
// killed one stays in the git directory until DropGuard.
func (r *Repo) Guard(ctx context.Context) (*Guard, error) {
	r.keepIndex()
	g, err := r.look(ctx)
	if err == nil {
		g.at, err = r.Head(ctx)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// look reads everything but where HEAD leads to.
func (r *Repo) look(ctx context.Context) (g *Guard, err error) {
	g = &Guard{r: r}
	for _, f := range []struct {
		to   *fileCopy
		path string
	}{
		{&g.head, filepath.Join(r.l.gitDir, "HEAD")},
		{&g.shallow, filepath.Join(r.l.commonDir, "shallow")},
		{&g.stash, filepath.Join(r.l.commonDir, "logs", "refs", "stash")},
	} {
		if *f.to, err = copyFile(f.path); err != nil {
			return nil, err
		}
	}
	index := filepath.Join(r.l.gitDir, "index")
	if stamp, err := stampOf(index); err != nil || stamp != r.index.stamp || r.index.Path == "" {
		if r.index, err = copyFile(index); err != nil {
			return nil, err
		}
	}
	g.index = r.index
	if g.settings, err = r.settings.read(); err != nil {
		return nil, err
	}
	if g.passing, err = passing(r.l); err != nil {
		return nil, err
	}
	if g.refs, g.broken, err = r.listRefs(ctx); err != nil {
		return nil, err
	}
	g.settings.Refs, g.settings.Broken = maps.Clone(g.refs), g.broken
	return g, r.attempts.learn(r)
}

// Head is where HEAD and the branch stood. A nil Guard knows of none.
func (g *Guard) Head() Head {
	if g == nil {
		return Head{}
	}
	return g.at
}

// keptIndex is the index as it was before the running attempt: a second name of its file, which git replaces
// and never writes to. It is there for the run that follows on one that was killed.
func (r *Repo) keptIndex() string { return filepath.Join(r.l.gitDir, "descartes-index") }

// keepIndex gives the index its second name. Where there are no hard links, a killed attempt's changes of the
// index stay.
func (r *Repo) keepIndex() {
	index, kept := filepath.Join(r.l.gitDir, "index"), r.keptIndex()
	now, err := os.Lstat(index)
	if err != nil {
		_ = os.Remove(kept)
		return
	}
	if old, err := os.Lstat(kept); err == nil {
		if os.SameFile(old, now) {
			return
		}
		_ = os.Remove(kept)
	}
	_ = os.Link(index, kept)
}

// DropGuard removes what Guard kept for the run after one that was cut off: to be called when no attempt is open,
// at the start of a run that finds none to repair after and at the end of one.
func (r *Repo) DropGuard() error {
	for _, kept := range []string{r.keptIndex(), filepath.Join(r.l.gitDir, "descartes-packed-refs")} { // an earlier version made the latter
		if err := os.Remove(kept); err != nil && !missing(err) {
			return fmt.Errorf("drop what a killed run left: %w", err)
		}
	}
	return nil
}

// clockSlack is how long after a change another one may still carry the same time stamp: a few ticks of the
// coarse clock that file systems use.
const clockSlack = 20 * time.Millisecond

// GuardSince is the guard of an attempt whose run died. HEAD and the branch are as they are known to have stood.
// The index is as it was before, and lock files and unfinished operations are the attempt's, where they date from
// between its beginning and its end. Configuration and hooks that changed in that time are put back at once, to what the
// Settings of its guard say, and the next Repair tells of it. Other refs are as they stand now, as a person may have
// changed them since; those that are gone are told of.
func (r *Repo) GuardSince(ctx context.Context, h Head, kept []byte, began, ended time.Time) (*Guard, error) {
	during := func(t time.Time) bool { return t.After(began.Add(-clockSlack)) && t.Before(ended.Add(clockSlack)) }
	was, known := parseSettings(kept)
	var notes []string
	if known {
		var err error
		if notes, err = r.settingsSince(ctx, was, during); err != nil {
			return nil, err
		}
	}
	g, err := r.look(ctx)
	if err != nil {
		return nil, r.wayOut(err, was.Refs)
	}
	if known {
		g.broken, g.settings.Refs, g.settings.Broken = was.Broken, was.Refs, was.Broken
	}
	if g.at, err = r.Head(ctx); err != nil { // damaged: h is what it was
		g.at = Head{}
	}
	for _, n := range sortedKeys(was.Refs) {
		if hash := was.Refs[n]; g.refs[n] == "" && n != h.Branch && n != "refs/stash" {
			notes = append(notes, fmt.Sprintf("%s, at %s when the attempt began, is gone: git update-ref %s %s brings it back", shortRef(n), shortHash(hash), n, hash))
		}
	}
	g.notes = notes
	maps.DeleteFunc(g.passing, func(p string, _ bool) bool {
		fi, err := os.Lstat(p)
		return err == nil && during(fi.ModTime())
	})
	if kept, err := copyFile(r.keptIndex()); err == nil && kept.Kind == 0 && during(g.index.Time) {
		kept.Path, kept.stamp = g.index.Path, fileStamp{}
		g.index = kept
	}
	if g.at == h || h == (Head{}) { // nothing is known of a HEAD that has neither
		return g, nil
	}
	if g.at.Branch != h.Branch || h.Branch == "" {
		text := h.Hash + "\n"
		if h.Branch != "" {
			text = "ref: " + h.Branch + "\n"
		}
		g.head.Kind, g.head.Text, g.head.stamp = 0, []byte(text), fileStamp{}
		g.head.Perm = cmp.Or(g.head.Perm, 0o644)
	}
	if h.Branch != "" {
		g.refs[h.Branch] = h.Hash
	}
	g.at = h
	return g, nil
}

// Repair undoes what an agent did to the git directory since, once all its processes are dead: configuration and hooks,
// the branch, HEAD and the index are put back, deleted refs too; unfinished operations and lock files go. Commits,
// stashes and new branches stay in the store, and the working tree stays as it is. What goes beyond, so that git cannot
// read the repository or objects are gone, is a RefusedError.
//
// It may be called again, for what was done since: nothing is told twice.
func (g *Guard) Repair(ctx context.Context) (Repaired, error) {
	return g.take(ctx, g.present, g.repairLogs, g.repairLocks, g.repairSettings, g.repairStates, g.repairShallow, g.repairStash, g.repairIndex, g.repairRefs, g.repairAttempts)
}

// RepairSettings undoes what an agent did to the configuration and the hooks, and leaves everything else: for where
// commits are the agent's business, and where others commit in the same repository meanwhile.
func (g *Guard) RepairSettings(ctx context.Context) (Repaired, error) {
	return g.take(ctx, g.repairLogs, g.repairSettings, g.repairStash)
}

func (g *Guard) take(ctx context.Context, steps ...func(context.Context, *Repaired) error) (Repaired, error) {
	s := Repaired{Notes: g.notes}
	g.notes = nil
	for _, step := range steps {
		if err := step(ctx, &s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// present refuses to touch a repository that is another one.
func (g *Guard) present(context.Context, *Repaired) error {
	const hint = "bring the repository back, from a clone or a backup: the files beside it stay as they are"
	if fi, err := os.Stat(g.r.l.gitDir); err != nil || !fi.IsDir() {
		return &RefusedError{Reason: "the repository is gone: " + g.r.l.gitDir, Hint: hint}
	}
	if g.at.Hash != "" && g.r.lacks(g.at.Hash) {
		return &RefusedError{Reason: fmt.Sprintf("commit %s, where the attempt began, is not in the repository any more: it was replaced", shortHash(g.at.Hash)), Hint: hint}
	}
	return nil
}

// lacks reports whether a text is not the id of an object of the repository. Those that it borrows are not
// looked for.
func (r *Repo) lacks(hash string) bool {
	id, err := parseID(hash)
	if err != nil {
		return true
	}
	if _, err := os.Lstat(filepath.Join(r.l.commonDir, "objects", "info", "alternates")); err == nil {
		return false
	}
	return !r.store.has(id)
}

// repairLogs removes what is no file or folder on the way to the logs of HEAD and its branch: git would write the next
// commit's line into what a link leads to, and wait for who reads a FIFO.
func (g *Guard) repairLogs(_ context.Context, s *Repaired) error {
	l := g.r.l
	for _, log := range []struct{ dir, name string }{{l.gitDir, "logs/HEAD"}, {l.commonDir, "logs/" + g.at.Branch}} {
		at := log.dir
		for name := range strings.SplitSeq(log.name, "/") {
			at = filepath.Join(at, name)
			fi, err := os.Lstat(at)
			if err != nil {
				break
			}
			if fi.Mode().IsRegular() || fi.IsDir() {
				continue
			}
			if err := os.Remove(at); err != nil {
				return err
			}
			s.note("removed %s, which was a link, a FIFO or a device: the log of a commit would be written to what it leads to", g.r.inGit(at))
			break
		}
	}
	return nil
}

// transient are the files and directories of git's unfinished operations.
var transient = []string{"MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "MERGE_RR", "AUTO_MERGE", "SQUASH_MSG", "CHERRY_PICK_HEAD",
	"REVERT_HEAD", "REBASE_HEAD", "rebase-merge", "rebase-apply", "sequencer"}

// deepLocks are those of the housekeeping that a commit starts. Left behind, they stop all later housekeeping.
var deepLocks = []string{"objects/maintenance.lock", "objects/info/commit-graph.lock", "objects/info/commit-graphs/commit-graph-chain.lock",
	"objects/pack/multi-pack-index.lock"}

// passing lists the unfinished operations and the lock files there are. In a linked working tree it leaves out those
// that the others share: they may be at work.
func passing(l layout) (map[string]bool, error) {
	out := map[string]bool{}
	entries, err := os.ReadDir(l.gitDir)
	if err != nil && !missing(err) {
		return nil, err
	}
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, ".lock") || strings.HasPrefix(n, "BISECT_") || slices.Contains(transient, n) {
			out[filepath.Join(l.gitDir, n)] = true
		}
	}
	if l.gitDir != l.commonDir {
		return out, nil
	}
	for _, d := range deepLocks {
		p := filepath.Join(l.commonDir, filepath.FromSlash(d))
		if _, err := os.Lstat(p); err == nil {
			out[p] = true
		}
	}
	err = eachRefFile(l, func(path string, _ fs.DirEntry) error {
		if strings.HasSuffix(path, ".lock") {
			out[path] = true
		}
		return nil
	})
	return out, err
}

// repairLocks removes the locks of dead git commands.
func (g *Guard) repairLocks(_ context.Context, s *Repaired) error {
	now, err := passing(g.r.l)
	if err != nil {
		return err
	}
	alive := sync.OnceValue(g.r.othersAtWork) // asked after the locks were seen: who holds one of them lives
	for _, p := range sortedKeys(now) {
		if g.passing[p] || !strings.HasSuffix(p, ".lock") {
			continue
		}
		if who := alive(); who != "" {
			g.passing[p] = true
			s.note("left %s: %s works here", g.r.inGit(p), who)
			continue
		}
		if err := os.RemoveAll(p); err != nil {
			return err
		}
		s.note("removed %s, which a dead git command of the attempt left", g.r.inGit(p))
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
	links, _ := within(r.l.commonDir, "worktrees/*/gitdir")
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

func (g *Guard) repairSettings(ctx context.Context, s *Repaired) error {
	return g.r.restoreSettings(ctx, &g.settings, s)
}

// repairStates ends merges, rebases and the like that an agent left unfinished. Their commits are in the store.
func (g *Guard) repairStates(_ context.Context, s *Repaired) error {
	now, err := passing(g.r.l)
	if err != nil {
		return err
	}
	var names, commits []string
	for _, p := range sortedKeys(now) {
		if g.passing[p] || strings.HasSuffix(p, ".lock") {
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
			names = append(names, g.r.inGit(p))
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

// repairShallow puts the list of commits whose parents are not here back where an attempt cut the history, or left a
// list that git cannot read or that lacks one. What a fetch makes of it stays.
func (g *Guard) repairShallow(ctx context.Context, s *Repaired) error {
	if changed, err := g.shallow.changed(); err != nil || !changed {
		return err
	}
	now, err := copyFile(g.shallow.Path)
	if err != nil {
		return err
	}
	if (now.Kind == 0 || now.stamp == fileStamp{}) && g.r.fetched(strings.Fields(string(g.shallow.Text)), strings.Fields(string(now.Text))) {
		return nil
	}
	kept := g.r.keepText(g.shallow.Path)
	if err := g.shallow.restore(ctx); err != nil {
		return err
	}
	s.note("%s was changed during the attempt by something else than a fetch, and put back%s", g.r.inGit(g.shallow.Path), kept)
	return nil
}

// fetched reports whether each commit that is new in the list lacks a parent here, and each that left it lacks none.
func (r *Repo) fetched(before, after []string) bool {
	complete := func(hash string) (all, ok bool) {
		c, err := r.store.commit(hash)
		if err != nil {
			return false, false
		}
		lacking := slices.ContainsFunc(c.ParentHashes, func(p plumbing.Hash) bool { return r.lacks(p.String()) })
		return !lacking && len(c.ParentHashes) > 0, true
	}
	for _, h := range after {
		if all, ok := complete(h); !ok || all && !slices.Contains(before, h) {
			return false
		}
	}
	for _, h := range before {
		if all, ok := complete(h); ok && !all && !slices.Contains(after, h) {
			return false
		}
	}
	return true
}

// repairStash tells of stash entries: new ones are kept, dropped ones can be had again.
func (g *Guard) repairStash(_ context.Context, s *Repaired) error {
	now, err := copyFile(g.stash.Path)
	if err != nil {
		return err
	}
	before, after := stashEntries(g.stash.Text), stashEntries(now.Text)
	for _, h := range after {
		if !slices.Contains(before, h) {
			s.Back = true
			s.note("the attempt ran git stash; its entry %s is kept (git stash list)", shortHash(h))
		}
	}
	for _, h := range before {
		if !slices.Contains(after, h) {
			s.note("the attempt dropped the stash entry %s; git stash store %s brings it back", shortHash(h), h)
		}
	}
	g.stash = now
	return nil
}

// stashEntries are the commits that a reflog leads to.
func stashEntries(log []byte) []string {
	var out []string
	for line := range strings.Lines(string(log)) {
		if f := strings.Fields(line); len(f) > 1 {
			out = append(out, f[1])
		}
	}
	return out
}

// repairIndex puts the index back byte for byte, unless only its stat data changed. What the agent added to it
// counts as tracked from now on, ignored or not.
func (g *Guard) repairIndex(ctx context.Context, s *Repaired) error {
	if changed, err := g.index.changed(); err != nil || !changed {
		return err
	}
	now, err := copyFile(g.index.Path)
	if err != nil {
		return err
	}
	note := "the index was changed during the attempt and put back (the files stay as they are)"
	before, berr := indexOf(&g.index)
	after, aerr := indexOf(&now)
	unsup := &unsupportedError{}
	switch {
	case berr != nil:
		note = "the index was changed during the attempt and put back"
	case errors.As(aerr, &unsup):
		note = "the index was rewritten in another format during the attempt and put back"
	case aerr != nil:
		note = "the index was damaged during the attempt and put back"
	case sameEntries(before, after):
		return nil
	default:
		g.r.track(addedPaths(before, after))
	}
	if err := g.index.restore(ctx); err != nil {
		return err
	}
	g.r.keepIndex()
	s.note("%s", note)
	return nil
}

func indexOf(f *fileCopy) (*index, error) {
	if f.Kind == fs.ModeIrregular {
		return &index{version: 2}, nil
	}
	return parseIndex(f.Text)
}

// sameEntries compares what two indexes say, leaving out what they remember of files.
func sameEntries(a, b *index) bool {
	return slices.EqualFunc(a.entries, b.entries, func(x, y indexEntry) bool {
		return x.name == y.name && x.id == y.id && x.mode == y.mode && x.flags == y.flags && x.ext == y.ext
	})
}

func addedPaths(old, now *index) []string {
	var out []string
	for i := range now.entries {
		e := &now.entries[i]
		if _, there := old.find(e.name); !there && e.mode != modeGitlink {
			out = append(out, strings.Clone(e.name)) // the name aliases the whole file
		}
	}
	return slices.Compact(out)
}

// track makes snapshots hold paths from now on, ignored or not.
func (r *Repo) track(paths []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range paths {
		if !safePath(p) || r.guard.covers(p) {
			continue
		}
		r.forced[p] = true
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
