package trunk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
)

// LookBack limits how far back in HEAD's history to look for a wave's commit.
const LookBack = 10000

// Rewind returns to the state after one of a tag's waves: branch, files, statuses and journals go back together, and a
// branch keeps the newer state. PlanRewind makes one and changes nothing.
type Rewind struct {
	Tag     string   `json:"tag"`
	Wave    int      `json:"wave"`    // last wave that stays; 0 is the state before the first
	Branch  string   `json:"branch"`  // branch that goes back, "" for a detached HEAD
	From    string   `json:"from"`    // its commit now
	To      string   `json:"to"`      // its commit afterwards
	Keep    string   `json:"kept_as"` // branch that keeps From
	Commits []string `json:"commits"` // commits taken back, newest first
	Tasks   []string `json:"tasks"`   // tasks to do again
	Foreign []string `json:"foreign"` // those of Commits that no loop over the tag made, each with its subject
	Pushed  []string `json:"pushed"`  // remote branches that contain one of Commits
	Dirty   []string `json:"dirty"`   // uncommitted changes

	home   store.Home
	list   *tasks.File
	loops  []store.Saved
	undone map[string]bool // wave commits taken back
}

// NoWaveError says that there is nothing to take back.
type NoWaveError struct {
	Tag  string
	Wave int
	Why  string
}

func (e *NoWaveError) Error() string {
	return fmt.Sprintf("tag %q cannot go back to wave %d: %s", e.Tag, e.Wave, e.Why)
}

// Next is what to do about it.
func (e *NoWaveError) Next() string {
	return "descartes waves" + config.ListFlags(e.Tag, "") + " shows the waves and their commits"
}

// PlanRewind finds the commits of a tag's loops after a wave, and where HEAD stood before the first of them. The
// caller makes sure that no loop runs.
func PlanRewind(ctx context.Context, j *source.Job, repo *gitops.Repo, wave int) (*Rewind, error) {
	home, list := store.NewHome(j.Root), j.File
	w := &Rewind{Tag: list.Tag(), Wave: wave, Tasks: []string{}, Foreign: []string{}, Pushed: []string{},
		Dirty: []string{}, home: home, list: list, undone: map[string]bool{}}
	commits, folds, err := w.journals()
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(commits, func(a, b journal.WaveCommit) int { return a.At.Compare(b.At) })
	later := journal.After(commits, wave)
	if len(later) == 0 {
		return nil, &NoWaveError{w.Tag, wave, "no run here has committed a later one"}
	}
	for _, c := range later {
		w.undone[c.Commit] = true
	}
	if err := w.history(ctx, repo, later[0].Commit, later[len(later)-1].Commit); err != nil {
		return nil, err
	}
	w.again(later, folds)
	dirty, err := repo.Dirty(ctx)
	if err != nil {
		return nil, &slot.GitError{What: "look for uncommitted changes", Err: err}
	}
	w.Dirty = append(w.Dirty, source.Foreign(dirty, j.OwnPaths(repo.Root()))...)
	// an earlier call was cut short
	if kept, err := repo.RefCommit("refs/heads/" + w.Keep); err == nil && kept == w.From && len(w.Dirty) > 0 {
		moved, err := repo.MovedFiles(ctx, w.From, w.To)
		if err != nil {
			return nil, &slot.GitError{What: "look how far an earlier call came", Err: err}
		}
		w.Dirty = source.Foreign(w.Dirty, moved)
	}
	return w, nil
}

// journals reads those of the tag's loops, which all have ended.
func (w *Rewind) journals() (commits []journal.WaveCommit, folds []*journal.State, err error) {
	all, err := w.home.Of(w.home.KeyOf(w.list))
	for _, s := range all {
		fold, err := journal.Load(w.home.Events(s.State.ID))
		if err != nil {
			return nil, nil, err
		}
		if fold.Unfinished() {
			return nil, nil, &NoWaveError{w.Tag, w.Wave, "run " + s.State.ID +
				" was stopped in the middle of a task; finish that first with descartes resume --name " + s.State.ID}
		}
		commits, folds, w.loops = append(commits, fold.WaveCommits...), append(folds, fold), append(w.loops, s)
	}
	return commits, folds, err
}

// again finds the tasks to do again: those of later commits, and what later waves blocked or have not committed.
func (w *Rewind) again(later []journal.WaveCommit, folds []*journal.State) {
	var ids []string
	for _, c := range later {
		ids = append(ids, c.Tasks...)
	}
	for _, fold := range folds {
		for _, b := range fold.Blocked() {
			if b.Wave > w.Wave {
				ids = append(ids, b.Task)
			}
		}
		for _, v := range fold.Verified() {
			if v.Wave > w.Wave {
				ids = append(ids, v.Task)
			}
		}
	}
	slices.SortFunc(ids, tasks.CompareIDs)
	for _, id := range slices.Compact(ids) {
		if _, ok := w.list.Task(id); ok {
			w.Tasks = append(w.Tasks, id)
		}
	}
}

// history finds the commit to go back to, and the other commits between first and last that go with it. If an earlier
// call was cut off after it moved the branch, it returns what is left to do.
func (w *Rewind) history(ctx context.Context, repo *gitops.Repo, first, last string) error {
	head, err := repo.Head(ctx)
	if err != nil {
		return &slot.GitError{What: "read HEAD", Err: err}
	}
	w.From = head.Hash
	list, ok, err := repo.History(ctx, w.From, first, LookBack)
	if err == nil && !ok {
		if list, ok, err = repo.History(ctx, last, first, LookBack); ok {
			w.From, ok = last, list[len(list)-1].Parent() == head.Hash
		}
	}
	switch {
	case err != nil:
		return &slot.GitError{What: "read the history", Err: err}
	case !ok:
		return &NoWaveError{w.Tag, w.Wave,
			fmt.Sprintf("commit %.12s of a later wave is not in HEAD's history; switch to the branch that has it",
				first)}
	}
	w.Branch, w.To = strings.TrimPrefix(head.Branch, "refs/heads/"), list[len(list)-1].Parent()
	if w.To == "" {
		return &NoWaveError{w.Tag, w.Wave, "the repository had no commit before"}
	}
	w.Keep = fmt.Sprintf("descartes/before-rewind-%.12s", w.From)
	for _, c := range list {
		w.Commits = append(w.Commits, c.Hash)
		if !w.undone[c.Hash] {
			w.Foreign = append(w.Foreign, fmt.Sprintf("%.12s %s", c.Hash, oneline.Text(c.Subject)))
		}
	}
	if w.Pushed, err = repo.Pushed(ctx, first); err != nil {
		return &slot.GitError{What: "look at the remote branches", Err: err}
	}
	return nil
}

// Do goes back. It makes the branch that keeps the newer state, then resets the files and the branch, the journals,
// the statuses and the state files; after a crash the same call finishes the job. Files of the user's that are in the
// way are returned, and nothing has changed.
func (w *Rewind) Do(ctx context.Context, fsys atomicfile.FS, repo *gitops.Repo,
	now func() time.Time) (left []gitops.LeftOut, err error) {
	who := store.Holder{PID: os.Getpid(), Host: store.Hostname(), Tag: w.Tag, At: now(),
		List: w.home.KeyOf(w.list), Files: store.FilesOf(w.list)}
	release, err := w.home.HoldTree(ctx, repo, who)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := repo.Claim(); err != nil {
		return nil, err
	}
	if err := source.Unchanged(w.list); err != nil {
		return nil, err
	}
	keep := "refs/heads/" + w.Keep
	at, err := repo.RefCommit(keep)
	if err == nil && at != w.From { // else an earlier call made it
		err = repo.MoveRef(ctx, keep, "", w.From, "branch: Created from "+w.From)
	}
	if err != nil {
		return nil, &slot.GitError{What: "keep what was", Err: err}
	}
	if left, err = repo.Back(ctx, w.From, w.To, at == w.From); err != nil || len(left) > 0 {
		if err != nil {
			err = &slot.GitError{What: "go back", Err: err}
		}
		return left, err
	}
	tree, err := repo.HeadTree(ctx)
	if err != nil {
		return nil, &slot.GitError{What: "read HEAD", Err: err}
	}
	if err := w.reopen(fsys); err != nil { // before the journals: without them the same call finds nothing to finish
		return nil, err
	}
	for _, s := range w.loops {
		if err := w.takeOut(ctx, repo, s.State.ID, tree, now); err != nil {
			return nil, &slot.GitError{What: "take the tasks out of " + store.TrunkRef(s.State.ID), Err: err}
		}
		if err := w.record(fsys, s, string(tree), now); err != nil {
			return nil, err
		}
	}
	return nil, w.saveStates(fsys)
}

// takeOut takes the tasks out of a loop's trunk, which then has the branch's commit.
func (w *Rewind) takeOut(ctx context.Context, repo *gitops.Repo, id string, tree gitops.Tree,
	now func() time.Time) error {
	c := Chain{Repo: repo, Ref: store.TrunkRef(id), Now: now}
	if found, err := c.Read(ctx); !found || err != nil || c.On == w.To {
		return err
	}
	from, err := repo.CommitTree(w.From)
	if err != nil {
		return err
	}
	units := slices.Clone(w.Tasks)
	next, met, err := repo.MergeTrees(ctx, from, c.Tree, tree)
	if err != nil {
		return err
	}
	if len(met) > 0 { // what is left cannot do without them
		next, units = tree, append(units, c.Units...)
	}
	return c.TakeOut(ctx, next, w.To, units...)
}

// record notes in a loop's journal what was taken back.
func (w *Rewind) record(fsys atomicfile.FS, s store.Saved, tree string, now func() time.Time) error {
	j, events, err := journal.Open(fsys, w.home.Events(s.State.ID), s.State.ID, now)
	if err != nil {
		return err
	}
	if len(events) > 0 {
		err = j.Append(&journal.Event{Type: journal.LoopRewound, Unit: journal.Unit{Wave: w.Wave}, Tasks: w.Tasks,
			Tree: tree, Base: w.From, Commit: w.To, Branch: w.Keep})
	}
	return errors.Join(err, j.Close())
}

// reopen resets the statuses. The task list may have gone back with the files already.
func (w *Rewind) reopen(fsys atomicfile.FS) error {
	list := w.list
	if err := list.Refresh(); err != nil {
		return err
	}
	changes := map[string]tasks.Status{}
	for _, id := range w.Tasks {
		if t, ok := list.Task(id); ok && t.Status != tasks.Pending {
			changes[id] = tasks.Pending
		}
	}
	if len(changes) > 0 {
		list.SetReplace(atomicfile.Replacer(fsys))
		if err := list.Save(changes); err != nil {
			return fmt.Errorf("save task file: %w", err)
		}
	}
	return nil
}

// saveStates updates the state files.
func (w *Rewind) saveStates(fsys atomicfile.FS) error {
	for _, s := range w.loops {
		v, err := w.home.View(s, w.list)
		if err != nil {
			return err
		}
		if err := v.State.Save(fsys, s.Path); err != nil {
			return err
		}
		if s.State.ListOn != "" {
			continue
		}
		if err := w.home.Listed(fsys, s.State.ID, v.State.Seq); err != nil {
			return err
		}
	}
	return nil
}

// DirtyError names the uncommitted changes that keep a rewind from starting.
type DirtyError struct{ Paths []string }

func (e *DirtyError) Error() string {
	shown := e.Paths[:min(10, len(e.Paths))]
	s := fmt.Sprintf("%d uncommitted changes: %s", len(e.Paths), strings.Join(shown, ", "))
	if len(e.Paths) == 1 {
		s = "uncommitted change: " + e.Paths[0]
	}
	if n := len(e.Paths) - len(shown); n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}
