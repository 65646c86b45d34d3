package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
)

// Options say how a tree is worked in.
type Options struct {
	Repo     *gitops.Repo
	FS       atomicfile.FS
	Root     string                 // of the project
	Dir      string                 // where commands run
	Settings string                 // file that keeps git's configuration and hooks during an attempt, for the next run after a kill
	Fixed    []string               // files that attempts must not change
	OwnList  func(path string) bool // reports the loop's own task list; nil: the other lists are not watched
	Shared   Sharing                // nil: no other loop works in the tree
	Watch    bool                   // record what attempts change
	Commits  bool                   // of a shared tree: the loop owns the branch and the index
	Reworks  bool                   // its attempts work on the same thing: only moving git back undoes an earlier one
	Loop     string                 // its id
}

// Sharing is how a tree is shared with other loops.
type Sharing interface {
	// Enter calls do while no other loop works in the tree. If a loop has the tree for itself, busy names it and do is not called.
	Enter(ctx context.Context, do func() error) (busy string, err error)
	Alone() bool // no other loop works in the tree now
}

// Tree is the user's own working tree, in a git repository. It restores what attempts must not change: the git directory, the user's earlier changes,
// verified work of earlier attempts, the project's settings.
type Tree struct {
	opt   Options
	fixed *Files
	lists lists
	now   gitops.Tree     // what the tree contains; "" if unknown
	kept  []byte          // content of Settings
	told  map[string]bool // paths in no snapshot, already reported

	work     gitops.Verified
	verified bool // there is such work

	// Of the current attempt.
	start    Start
	began    time.Time
	git      *gitops.Guard // nil: not watched
	repaired bool          // its changes to the settings are undone, and nothing of it runs any more
	alone    bool          // no other loop worked in the tree when it began
	commits  string        // tip of the agent's own commits
	deleted  []string      // verified files that it deleted, already reported
	left     []string      // what could not be restored, already reported
	seen     Result        // when its agent had ended
}

// NewTree returns a workspace for attempts in a working tree.
func NewTree(o Options) *Tree {
	return &Tree{opt: o, fixed: NewFiles(o.Root), lists: lists{root: o.Root, own: o.OwnList}, told: map[string]bool{}}
}

// Dir is where commands run.
func (t *Tree) Dir() string { return t.opt.Dir }

// Files is Dir.
func (t *Tree) Files() string { return t.opt.Dir }

// Verified adds verified work, with the trees before and after it. left is not work. Old work with pruned objects is ignored: commits contain it.
func (t *Tree) Verified(name string, base, result gitops.Tree, left []string) {
	t.verified = true
	_ = t.opt.Repo.AddVerified(&t.work, name, base, result)
	t.work.Drop(left)
}

// Committed says that the work of these names is committed.
func (t *Tree) Committed(names []string) { t.work.Committed(names) }

// Stale says that the tree may have changed since the last attempt.
func (t *Tree) Stale() { t.now = "" }

// Holds returns a snapshot of the tree.
func (t *Tree) Holds(ctx context.Context) (gitops.Tree, error) {
	if t.now != "" && t.opt.Shared == nil { // nothing changes the tree between attempts
		return t.now, nil
	}
	tree, err := t.opt.Repo.Snapshot(ctx)
	if err != nil {
		return "", gitErr("snapshot the working tree", err)
	}
	t.now = tree
	return tree, nil
}

// enter calls do while no other loop works in the tree.
func (t *Tree) enter(ctx context.Context, do func() error) (busy string, err error) {
	if t.opt.Shared == nil {
		return "", do()
	}
	return t.opt.Shared.Enter(ctx, do)
}

// Prepare records the state before an attempt.
func (t *Tree) Prepare(ctx context.Context, s Start) (stand Stand, err error) {
	t.start, t.git, t.commits, t.deleted, t.left, t.seen = s, nil, "", nil, nil, Result{}
	t.fixed.remember(t.opt.Fixed)
	t.lists.remember()
	t.alone = t.opt.Shared == nil || t.opt.Shared.Alone()
	stand.Busy, err = t.enter(ctx, func() error {
		if r := s.Resumed; r != nil {
			if t.git, err = t.opt.Repo.GuardSince(ctx, r.Head, t.savedSettings(), r.Began, r.Ended); err != nil {
				return gitErr("read the state of the repository", err)
			}
			if (r.Head == gitops.Head{}) {
				t.git = nil
			}
			return nil
		}
		if t.start.Before == "" && (t.opt.Watch || len(s.Users) > 0) {
			if t.start.Before, err = t.Holds(ctx); err != nil {
				return err
			}
		}
		if t.git, err = t.opt.Repo.Guard(ctx); err != nil {
			return gitErr("read the state of the repository", err)
		}
		return t.saveSettings()
	})
	if t.start.Base == "" {
		t.start.Base = t.start.Before
	}
	t.began = gitops.Now()
	if s.Resumed != nil {
		t.began = s.Resumed.Began
	}
	if s.Since.IsZero() {
		t.start.Since = t.began
	}
	stand.Tree = t.start.Before
	if t.git != nil {
		stand.Head = t.git.Head()
	}
	return stand, err
}

// saveSettings saves git's configuration and hooks before an attempt. In the sandbox no attempt can write there.
func (t *Tree) saveSettings() error {
	t.repaired = false
	now := t.git.Settings()
	if bytes.Equal(now, t.kept) {
		return nil
	}
	if err := atomicfile.Write(t.opt.FS, t.opt.Settings, now, 0o600); err != nil {
		return fmt.Errorf("keep git's settings: %w", err)
	}
	t.kept = now
	return nil
}

// savedSettings reads what a killed run saved; nil if it cannot be trusted.
func (t *Tree) savedSettings() []byte {
	b, err := plainfile.Read(filepath.Join(t.opt.Root, ".descartes"), t.opt.Settings, 16<<20)
	if err != nil {
		return nil
	}
	return b
}

// forget removes them.
func (t *Tree) forget() error {
	t.kept = nil
	if err := t.opt.FS.Remove(t.opt.Settings); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// Forget removes what is saved for the run after a killed one: no attempt is open.
func (t *Tree) Forget() error {
	if err := t.forget(); err != nil {
		return err
	}
	if _, err := t.enter(context.Background(), t.opt.Repo.DropGuard); err != nil {
		return gitErr("clean up", err)
	}
	return nil
}

// Close ends the use of the tree. With an open attempt its changes to the settings may be undone already: later changes, perhaps to fix what ended
// the run, are a person's.
func (t *Tree) Close(open bool) error {
	switch {
	case !open:
		return t.Forget()
	case t.repaired:
		return t.forget()
	}
	return nil
}

// Running says that a part of the attempt runs again, which may change git's settings.
func (t *Tree) Running() { t.repaired = false }

// Repair undoes forbidden changes once the attempt's processes are dead, and reports them; who is the part of the attempt. It may be called again
// later. Only a loop that commits, and has the tree for itself, decides where the branch and the index stand.
func (t *Tree) Repair(ctx context.Context, who string) (notes []string, err error) {
	t.now = ""
	if notes, err = t.fixed.PutBack(t.opt.FS, who, t.start.Aside+".changed"); err != nil {
		return notes, err
	}
	missing, err := t.lists.missing(who, t.start.Aside+".lists")
	notes = append(notes, missing...)
	if err != nil || t.git == nil {
		return notes, err
	}
	_, err = t.enter(ctx, func() error {
		repair := t.git.RepairSettings
		if t.opt.Shared == nil {
			repair = t.git.Repair
		} else if t.alone = t.alone && t.opt.Shared.Alone() && t.opt.Repo.OursSince(ctx, t.git, t.opt.Loop); t.alone && t.opt.Commits {
			repair = t.git.Repair
		}
		done, err := repair(ctx)
		notes = append(notes, done.Notes...)
		if err != nil {
			return gitErr("put the repository back after the "+who, err)
		}
		t.repaired = true
		if done.Commits != "" {
			t.commits = done.Commits
		}
		undone, err := t.restore(ctx, who, done.Back)
		notes = append(notes, undone...)
		return err
	})
	return notes, err
}

// restore brings back what the attempt undid; see gitops.Repo.Undone for the rule.
func (t *Tree) restore(ctx context.Context, who string, back bool) ([]string, error) {
	p := gitops.Protected{Before: t.start.Before, Base: t.start.Base, Users: t.start.Users, Back: back}
	if !t.opt.Reworks || back {
		p.Work = &t.work
	}
	if p.Before == "" || len(p.Users) == 0 && (p.Work == nil || !t.verified) {
		return nil, nil
	}
	repo := t.opt.Repo
	now, err := repo.Snapshot(ctx)
	if err != nil {
		return nil, gitErr("snapshot what the "+who+" left", err)
	}
	losses, err := repo.Undone(ctx, now, p)
	if err != nil {
		return nil, gitErr("compare what the "+who+" left", err)
	}
	losses = slices.DeleteFunc(losses, func(l gitops.Loss) bool { return l.Deleted && slices.Contains(t.deleted, l.Path) })
	var paths []string
	for _, l := range losses {
		if l.Deleted {
			t.deleted = append(t.deleted, l.Path)
		} else {
			paths = append(paths, l.Path)
		}
	}
	if len(paths) == 0 {
		t.now = now
		return lossNotes(losses, who), nil
	}
	put, err := repo.RestorePaths(ctx, p.Base, paths)
	if err != nil {
		return nil, gitErr("restore what the "+who+" undid", err)
	}
	notes := lossNotes(slices.DeleteFunc(losses, func(l gitops.Loss) bool { return !l.Deleted && !slices.Contains(put.Back, l.Path) }), who)
	put.Left = slices.DeleteFunc(put.Left, func(l gitops.LeftOut) bool { return slices.Contains(t.left, l.Path) })
	if left := NotRestored(put); left != "" {
		notes = append(notes, "not everything the "+who+" undid could be restored"+left+"; git show "+string(p.Base)+":PATH prints it")
	}
	for _, l := range put.Left {
		t.left = append(t.left, l.Path)
	}
	return notes, nil
}

// lossNotes describe what an attempt undid: one line for the user's changes, one for each set of tasks.
func lossNotes(losses []gitops.Loss, who string) []string {
	paths, order := map[string][]string{}, []string{}
	for _, l := range losses {
		line := "the " + who + " undid your uncommitted changes, which are restored: "
		switch of := worksOf(l.Of); {
		case l.Deleted:
			line = "the " + who + " deleted verified files of " + of + ", which counts as its own work: "
		case of != "":
			line = "the " + who + " undid verified work of " + of + ", which is restored: "
		}
		if !slices.Contains(order, line) {
			order = append(order, line)
		}
		paths[line] = append(paths[line], l.Path)
	}
	for i, line := range order {
		order[i] = line + oneline.List(paths[line])
	}
	return order
}

// worksOf names the last of several pieces of work.
func worksOf(names []string) string {
	last := names[max(0, len(names)-3):]
	s := strings.Join(last, ", ")
	if n := len(names) - len(last); n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// from is the tree with which an attempt's work is compared.
func (t *Tree) from() gitops.Tree {
	if t.start.Whole {
		return t.start.Base
	}
	return t.start.Before
}

// Look takes the snapshot at the agent's end, before verification.
func (t *Tree) Look(ctx context.Context) (Result, error) {
	if t.from() == "" || !t.opt.Watch {
		return Result{Commits: t.commits}, nil
	}
	r := Result{Before: t.from()}
	var err error
	r.Busy, err = t.enter(ctx, func() error { return t.look(ctx, &r) })
	if r.Seen = r.After; t.start.Resumed != nil && t.start.Resumed.Seen != "" { // its verification may have begun
		r.Seen = t.start.Resumed.Seen
	}
	t.seen = r
	return r, err
}

// look sets in r what the tree contains and what differs, unless Repair, which comes last, already knows it.
func (t *Tree) look(ctx context.Context, r *Result) (err error) {
	if r.After, err = t.Holds(ctx); err != nil {
		return err
	}
	r.Commits, r.Changed = t.commits, nil
	if r.After == r.Before {
		return nil
	}
	if r.Changed, err = t.opt.Repo.Changed(ctx, r.Before, r.After); err != nil {
		return gitErr("compare the work", err)
	}
	return nil
}

// Result is what the attempt left in the end. verified says that commands ran after the agent: new files of theirs are not work.
func (t *Tree) Result(ctx context.Context, verified bool) (Result, error) {
	r := t.seen
	if r.After == "" {
		return r, nil
	}
	busy, err := t.enter(ctx, func() (err error) {
		if verified {
			if err := t.look(ctx, &r); err != nil {
				return err
			}
		}
		if err := r.measure(ctx, t.opt.Repo, t.start, verified); err != nil {
			return err
		}
		r.Old = unreported(t.told, r.Old)
		r.Nested, err = t.nested(ctx, t.began)
		return err
	})
	if busy != "" {
		r = Result{Busy: busy}
	}
	return r, err
}

// past returns at, or zero if it is in the future because the clock was set back.
func past(at time.Time) time.Time {
	if at.After(gitops.Now()) {
		return time.Time{}
	}
	return at
}

// nested lists edits inside submodules and the like, which are neither committed nor restored.
func (t *Tree) nested(ctx context.Context, since time.Time) ([]string, error) {
	edits, err := t.opt.Repo.NestedEdits(ctx, since)
	if err != nil {
		return nil, gitErr("look at the submodules", err)
	}
	return edits, nil
}

// Restore restores the tree. Files that it lacks and that are older than since stay.
func (t *Tree) Restore(ctx context.Context, to gitops.Tree, since time.Time) (r Restored, err error) {
	_, err = t.enter(ctx, func() error {
		if r.Restored, err = t.opt.Repo.Restore(ctx, to, past(since)); err != nil {
			return gitErr("restore the working tree", err)
		}
		if r.Tree, err = t.opt.Repo.Snapshot(ctx); err != nil {
			return gitErr("snapshot the restored tree", err)
		}
		if t.now = r.Tree; r.Tree != to { // a moved submodule or a new repository: not ours to undo
			if r.Differs, err = t.opt.Repo.Changed(ctx, to, r.Tree); err != nil {
				return gitErr("look at the restored tree", err)
			}
		}
		r.Nested, err = t.nested(ctx, past(since))
		return err
	})
	return r, err
}

// Untouched undoes a command outside of any attempt: the project's files are restored, and their changed versions kept below the ref. made are new
// files, which stay.
func (t *Tree) Untouched(ctx context.Context, ref string) (back, made []string, err error) {
	r, err := t.Look(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range r.Changed {
		if c.Op == 'A' && !lockFile(c.Path) {
			made = append(made, c.Path)
		} else {
			back = append(back, c.Path)
		}
	}
	if len(back) == 0 {
		return nil, made, nil
	}
	if err := t.opt.Repo.Pin(ctx, ref, r.After); err != nil {
		return nil, nil, gitErr("keep what was changed", err)
	}
	if _, err := t.opt.Repo.RestorePaths(ctx, r.Before, back); err != nil {
		return nil, nil, gitErr("restore what was changed", err)
	}
	t.now = ""
	return back, made, nil
}

// Unrestored lists what differs after a restore, each with the reason if it is known.
func (r *Restored) Unrestored() string {
	why := map[string]string{}
	for _, x := range r.Left {
		why[x.Path] = x.Why
	}
	var list []string
	for _, c := range r.Differs {
		if w := why[c.Path]; w != "" {
			list = append(list, c.Path+" ("+w+")")
		} else {
			list = append(list, c.Path)
		}
	}
	return oneline.List(list)
}
