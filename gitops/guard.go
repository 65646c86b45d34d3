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
	"time"

	"descartes/internal/proc"
)

// Guard remembers the git directory as it was before an attempt, so that Repair can restore it: configuration and hooks, HEAD, the branch and the
// other refs, and the index. It is valid until the next commit of its Repo.
type Guard struct {
	r        *Repo
	at       Head
	refs     refValues
	before   refValues            // as the attempt found them, for people who have to restore them themselves
	broken   []string             // refs that git cannot read
	kept     map[string]fileStamp // folders of kept attempts
	index    fileCopy
	held     heldFiles
	shallow  fileCopy // the commits whose parents are not here
	stash    fileCopy // the stash's log: its entries, one a line
	settings settings
	passing  map[string]bool // lock files and unfinished operations
	notes    []string        // of what GuardSince found
}

// Repaired is what Repair found and undid.
type Repaired struct {
	Notes   []string // one line each, for people
	Commits string   // the newest commit of the agent's own, "" if it made none
	Back    bool     // HEAD or the branch was moved to a commit that lacks the attempt's start, or a stash remains
}

func (s *Repaired) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// Guard reads the state of the git directory before an attempt. What the run after a killed one needs of the index stays in the git directory until
// DropGuard.
func (r *Repo) Guard(ctx context.Context) (*Guard, error) {
	if err := r.ownLinks(); err != nil {
		return nil, err
	}
	r.keepIndex()
	g, err := r.look(ctx)
	if err == nil {
		g.at, err = r.Head(ctx)
	}
	if err != nil {
		return nil, err
	}
	if g.held, err = r.hold(ctx, &g.index); err != nil {
		return nil, fmt.Errorf("keep the files that git is set to skip: %w", err)
	}
	return g, nil
}

// look reads everything except where HEAD points.
func (r *Repo) look(ctx context.Context) (g *Guard, err error) {
	g = &Guard{r: r}
	if g.shallow, err = copyFile(filepath.Join(r.l.commonDir, "shallow")); err != nil {
		return nil, err
	}
	if g.stash, err = copyFile(filepath.Join(r.l.commonDir, "logs", "refs", "stash")); err != nil {
		return nil, err
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
	g.before = maps.Clone(g.refs)
	g.settings.Refs, g.settings.Broken, g.settings.Links = g.before, g.broken, r.links
	if r.kept == nil {
		if r.kept, _, err = r.refs.list(privateRefs); err != nil {
			return nil, err
		}
	}
	g.kept, err = r.keptStamps()
	return g, err
}

// Head is where HEAD and the branch were; unknown for a nil Guard.
func (g *Guard) Head() Head {
	if g == nil {
		return Head{}
	}
	return g.at
}

// keptIndex is the index as it was before the running attempt: a hard link to its file, which git replaces and never writes to. It is for the run
// after a killed one.
func (r *Repo) keptIndex() string { return filepath.Join(r.l.gitDir, "descartes-index") }

// keepIndex makes that hard link. Without hard links, a killed attempt's changes of the index stay.
func (r *Repo) keepIndex() {
	index, kept := filepath.Join(r.l.gitDir, "index"), r.keptIndex()
	now, err := os.Lstat(index)
	if old, oerr := os.Lstat(kept); err == nil && oerr == nil && os.SameFile(old, now) {
		return
	}
	_ = os.Remove(kept)
	if err == nil {
		_ = os.Link(index, kept)
	}
}

// DropGuard removes what Guard saved for the run after a killed one. Call it when no attempt is open: at the start of a run with nothing to repair,
// and at the end of a run.
func (r *Repo) DropGuard() error {
	if err := r.removeRef(context.Background(), heldRef); err != nil {
		return err
	}
	if err := os.Remove(r.keptIndex()); err != nil && !missing(err) {
		return fmt.Errorf("drop what a killed run left: %w", err)
	}
	return nil
}

// ClockSlack is how long after a change another one may get the same time stamp: a few ticks of the file system's coarse clock.
const ClockSlack = 20 * time.Millisecond

// GuardSince is the guard of an attempt whose run died. HEAD and the branch are as they were known to be, the index as it was before. Lock files and
// unfinished operations are the attempt's if they date from its time. Configuration and hooks that changed in that time are restored at once to what
// the guard's Settings say, and the next Repair reports it. Other refs stay, since a person may have changed them meanwhile; missing ones are
// reported.
func (r *Repo) GuardSince(ctx context.Context, h Head, kept []byte, began, ended time.Time) (*Guard, error) {
	during := func(t time.Time) bool { return t.After(began.Add(-ClockSlack)) && t.Before(ended.Add(ClockSlack)) }
	was, known := parseSettings(kept)
	var s Repaired
	if known {
		if r.links = was.Links; r.links == nil {
			r.links = map[string]string{}
		}
		if err := r.noLinks(true); err != nil {
			return nil, r.wayOut(err, was.Refs)
		}
		later := func(at fileStamp) bool { return at != fileStamp{} && !during(time.Unix(at.ctime.Unix())) }
		if err := r.restoreSettings(ctx, &was, later, &s); err != nil {
			return nil, err
		}
		if err := r.readSettings(ctx); err != nil {
			return nil, err
		}
	}
	g, err := r.look(ctx)
	if err != nil {
		return nil, r.wayOut(err, was.Refs)
	}
	if known {
		g.before, g.broken, g.settings.Refs, g.settings.Broken = was.Refs, was.Broken, was.Refs, was.Broken
	}
	for _, n := range sortedKeys(was.Refs) {
		if hash := was.Refs[n]; g.refs[n] == "" && n != h.Branch {
			command := "git update-ref " + n + " " + hash
			if n == "refs/stash" {
				command = "git stash store " + hash
			}
			s.note("%s, at %s when the attempt began, is gone: %s brings it back", shortRef(n), shortHash(hash), command)
		}
	}
	g.notes = s.Notes
	maps.DeleteFunc(g.passing, func(p string, _ bool) bool {
		fi, err := os.Lstat(p)
		return err == nil && during(fi.ModTime())
	})
	if kept, err := copyFile(r.keptIndex()); err == nil && kept.Kind == 0 && during(g.index.Time) {
		kept.Path, kept.stamp = g.index.Path, fileStamp{}
		g.index = kept
	}
	if g.at = h; h == (Head{}) { // nothing is known
		g.at, _ = r.Head(ctx)
	} else if h.Branch != "" {
		g.refs[h.Branch] = h.Hash
	}
	if g.held, err = r.heldSince(during); err != nil {
		return nil, err
	}
	return g, nil
}

// Repair undoes what an agent did to the git directory, once all its processes are dead: it restores configuration and hooks, the branch, HEAD, the
// index and deleted refs, and removes unfinished operations and lock files. Commits, stashes and new branches stay in the store, and the working tree
// stays as it is. Worse damage, such as an unreadable repository or missing objects, is a RefusedError, and then no ref has changed.
//
// It may be called again for later changes: nothing is reported twice.
func (g *Guard) Repair(ctx context.Context) (Repaired, error) {
	return g.take(ctx, g.present, g.clear, g.repairHeld, g.repairSettings, g.repairStash, g.repairIndex, g.readable, g.repairRefs)
}

// RepairSettings only undoes what an agent did to the configuration and the hooks: for when the agent may commit, or others commit in the same
// repository meanwhile.
func (g *Guard) RepairSettings(ctx context.Context) (Repaired, error) {
	return g.take(ctx, g.repairHeld, g.repairSettings, g.repairStash)
}

func (g *Guard) take(ctx context.Context, steps ...func(context.Context, *Repaired) error) (Repaired, error) {
	s := Repaired{Notes: g.notes}
	g.notes = nil
	stamps, err := g.r.keptStamps()
	if err == nil {
		err = g.r.noLinks(!maps.Equal(stamps, g.kept))
	}
	if err != nil {
		return s, g.r.wayOut(err, g.before)
	}
	for _, step := range steps {
		if err := step(ctx, &s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// present refuses to touch a repository that is not the one it was.
func (g *Guard) present(context.Context, *Repaired) error {
	const hint = "bring the repository back, from a clone or a backup: the files beside it stay as they are"
	r := g.r
	if fi, err := os.Stat(r.l.gitDir); err != nil || !fi.IsDir() {
		return &RefusedError{Reason: "the repository is gone: " + r.l.gitDir, Hint: hint}
	}
	if _, err := os.Lstat(filepath.Join(r.l.commonDir, "objects", "info", "alternates")); err == nil || g.at.Hash == "" {
		return nil // what is borrowed is not looked for
	}
	if id, err := parseID(g.at.Hash); err != nil || !r.store.has(id) {
		return &RefusedError{Reason: fmt.Sprintf("commit %s, where the attempt began, is not in the repository any more: it was replaced", shortHash(g.at.Hash)), Hint: hint}
	}
	return nil
}

// unfinished are the files and directories of git's operations that are not done.
var unfinished = []string{"MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "MERGE_RR", "AUTO_MERGE", "SQUASH_MSG", "CHERRY_PICK_HEAD",
	"REVERT_HEAD", "REBASE_HEAD", "rebase-merge", "rebase-apply", "sequencer"}

// passing returns the unfinished operations and the lock files, including those of the housekeeping that a commit starts: left behind, they would
// stop all later housekeeping. In a linked working tree it leaves out those shared with others: they may be in use.
func passing(l layout) (map[string]bool, error) {
	out := map[string]bool{}
	entries, err := os.ReadDir(l.gitDir)
	if err != nil && !missing(err) {
		return nil, err
	}
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, ".lock") || strings.HasPrefix(n, "BISECT_") || slices.Contains(unfinished, n) {
			out[filepath.Join(l.gitDir, n)] = true
		}
	}
	if l.gitDir != l.commonDir {
		return out, nil
	}
	for _, dir := range []string{"objects", "objects/info", "objects/info/commit-graphs", "objects/pack"} {
		locks, _ := within(filepath.Join(l.commonDir, dir), "*.lock")
		for _, p := range locks {
			out[p] = true
		}
	}
	err = eachRefFile(l, func(path string) error {
		if strings.HasSuffix(path, ".lock") {
			out[path] = true
		}
		return nil
	})
	return out, err
}

// clear removes what dead git commands left: locks, and unfinished merges, rebases and the like. Their commits are in the store.
func (g *Guard) clear(_ context.Context, s *Repaired) error {
	now, err := passing(g.r.l)
	if err != nil {
		return err
	}
	maps.DeleteFunc(now, func(p string, _ bool) bool { return g.passing[p] })
	if len(now) == 0 {
		return nil
	}
	var names, commits []string
	for _, p := range sortedKeys(now) {
		if filepath.Base(p) == "AUTO_MERGE" { // every merge leaves it
			continue
		}
		names = append(names, g.r.inGit(p))
		for _, holder := range []string{p, filepath.Join(p, "autostash")} {
			if b, err := readPlain(holder, mostLoose); err == nil && len(b) >= 40 && isHex(string(b[:40])) {
				commits = append(commits, string(b[:12]))
			}
		}
	}
	if who := g.r.othersAtWork(); who != "" && len(names) > 0 { // asked after they were seen: who holds one of them lives
		maps.Copy(g.passing, now)
		s.note("left %s: %s works here", strings.Join(names, " "), who)
		return nil
	}
	for p := range now {
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		return nil
	}
	kept := ""
	if len(commits) > 0 {
		kept = "; kept: commit " + strings.Join(commits, ", ")
	}
	s.note("removed what the attempt's git commands left unfinished: %s%s", strings.Join(names, " "), kept)
	return nil
}

// readers are git commands that may run for long without a lock.
var readers = []string{"log", "show", "diff", "blame", "grep", "help", "reflog", "shortlog", "cat-file", "ls-files", "fsmonitor--daemon"}

// othersAtWork names a git command that runs in a working tree of the repository, or "". Every process of the attempt is dead by now, so it is
// somebody else's.
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
	return g.r.restoreSettings(ctx, &g.settings, func(fileStamp) bool { return false }, s)
}

// repairStash reports stash entries. New ones are kept; dropped ones can be recovered, and are restored if none is left. Entries with missing objects
// are a RefusedError.
func (g *Guard) repairStash(ctx context.Context, s *Repaired) error {
	now, err := copyFile(g.stash.Path)
	if err != nil {
		return err
	}
	was := g.stash.Text
	before, after := stashEntries(was), stashEntries(now.Text)
	for _, h := range after {
		if !slices.Contains(before, h) {
			s.Back = true
			s.note("the attempt ran git stash; its entry %s is kept (git stash list)", shortHash(h))
		}
	}
	dropped := slices.DeleteFunc(before, func(h string) bool { return slices.Contains(after, h) })
	g.stash = now
	lost, err := g.r.missingObjects(ctx, dropped)
	if err != nil {
		return err
	}
	dropped = slices.DeleteFunc(dropped, func(h string) bool { return slices.Contains(lost, h) })
	for _, h := range dropped { // the oldest first
		back := "; git stash store " + h + " brings it back"
		if len(after) == 0 {
			_, err := g.r.cli.run(ctx, gitCall{args: []string{"stash", "store", "-q", "-m", stashMessage(was, h), h}})
			if _, said := errors.AsType[*gitError](err); err != nil && !said {
				return err
			}
			if err == nil { // else refs/stash is damaged, and repairRefs refuses it
				back = "; it was put back"
			}
		}
		s.note("the attempt dropped the stash entry %s%s", shortHash(h), back)
	}
	if g.stash, err = copyFile(g.stash.Path); err != nil || len(lost) == 0 {
		return err
	}
	delete(g.refs, "refs/stash")
	return &RefusedError{Reason: "the attempt deleted stash entries whose objects are not in the repository: " + strings.Join(lost, ", "),
		Hint: "fetch what is missing from a copy or a backup of the repository; git stash list shows the entries that are left"}
}

// stashEntries are the commits that a reflog leads to.
func stashEntries(log []byte) (out []string) {
	for line := range strings.Lines(string(log)) {
		if f := strings.Fields(line); len(f) > 1 {
			out = append(out, f[1])
		}
	}
	return out
}

// stashMessage is what the log of the stash says of an entry.
func stashMessage(log []byte, entry string) (message string) {
	for line := range strings.Lines(string(log)) {
		at, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if f := strings.Fields(at); len(f) > 1 && f[1] == entry {
			message = text
		}
	}
	return message
}

// repairIndex restores the index byte for byte, unless only its stat data changed. What the agent added to it counts as tracked from now on, ignored
// or not.
func (g *Guard) repairIndex(ctx context.Context, s *Repaired) error {
	if changed, err := g.index.changed(); err != nil || !changed {
		return err
	}
	now, err := copyFile(g.index.Path)
	if err != nil {
		return err
	}
	before, berr := indexOf(&g.index)
	after, aerr := indexOf(&now)
	if berr == nil && aerr == nil {
		if sameEntries(before, after) {
			return nil
		}
		g.r.track(before, after)
	}
	if err := g.index.restore(ctx); err != nil {
		return err
	}
	g.r.keepIndex()
	if aerr != nil { // git add, rm and mv are what every agent does
		s.note("the index was changed during the attempt and put back (the files stay as they are)")
	}
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

// track makes snapshots include from now on, ignored or not, what the earlier index lacked.
func (r *Repo) track(old, now *index) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range now.entries {
		e := &now.entries[i]
		if _, there := old.find(e.name); !there && e.mode != modeGitlink && safePath(e.name) && !r.guard.covers(e.name) {
			r.forced[strings.Clone(e.name)] = true // the name aliases the whole file
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
