package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/loop/workspace"
)

// Check looks whether the ground is safe to run the job on. It changes no file of the working tree.
func Check(ctx context.Context, j *Job, repo *gitops.Repo, opt StartOptions) []Problem {
	home := NewHome(j.Root)
	who, held := busy(ctx, treeLock(repo.Dir()))
	if !held {
		who, held = busy(ctx, lockOf(home.tree()))
	}
	if held {
		return []Problem{{Message: (&BusyError{Holder: who}).Error(), Hint: "descartes loop status, or descartes loop cancel " + who.Loop, Err: &BusyError{Holder: who}}}
	}
	var problems []Problem
	old, err := home.Unfinished(j.File.Tag())
	if err != nil {
		return []Problem{{Message: err.Error(), Err: err}}
	}
	if len(j.Runnable()) == 0 && opt.Resume == "" && old == nil {
		problems = append(problems, noneRunnable(j))
		for _, p := range j.Graph.Problems() {
			if p.Kind == "duplicate" {
				problems = append(problems, Problem{Message: p.Message, Hint: "give each task an id of its own"})
			}
		}
	}
	// A lock that the killed agent of an unfinished loop left is seen to when that loop is gone on with.
	if path, locked := repo.Locked(); locked && old == nil && opt.Resume == "" {
		problems = append(problems, Problem{Message: path + " exists: git is at work here, or was killed in the middle of it",
			Hint: "wait for it to end; if no git process runs any more, remove the file"})
	}
	if j.Config.Slots() > 0 { // nobody works in the user's tree
		if err := repo.CanSlot(); err != nil {
			problems = append(problems, Problem{Message: err.Error(), Hint: "install a newer git, or run one agent at a time in your working tree: -j 1", Err: err})
		}
	} else if p := checkTree(ctx, j, repo, home, opt); p != nil {
		problems = append(problems, *p)
	}
	return problems
}

// NothingToDo reports whether every task of the job is done or was set aside by a person, and no loop has to be
// gone on with.
func NothingToDo(j *Job) (bool, error) {
	done := 0
	for _, id := range j.Graph.Leaves() {
		switch s, _ := j.Graph.State(id); {
		case s == "done":
			done++
		case !setAside(j.Graph.Status(id)):
			return false, nil
		}
	}
	if done == 0 {
		return false, nil
	}
	old, err := NewHome(j.Root).Unfinished(j.File.Tag())
	return old == nil, err
}

// NothingRunsError says that no task of a list can run.
type NothingRunsError struct {
	Tag           string
	Blocked, Held int // Blocked is 0 where the list itself is at fault
}

func (e *NothingRunsError) Error() string {
	s := fmt.Sprintf("tag %q has no task that can run", e.Tag)
	if e.Blocked > 0 {
		s += fmt.Sprintf(": %d blocked", e.Blocked)
	}
	if e.Blocked > 0 && e.Held > 0 {
		s += fmt.Sprintf(", %d held", e.Held)
	}
	return s
}

func noneRunnable(j *Job) Problem {
	e := &NothingRunsError{Tag: j.File.Tag(), Blocked: len(j.blockedTasks()), Held: j.Graph.Counts().Held}
	p := Problem{Message: e.Error(), Hint: "descartes waves --scud-tag " + j.File.Tag() + " shows why", Err: e}
	if e.Blocked > 0 {
		p.Hint += "; --retry-blocked tries the blocked ones again"
	}
	return p
}

// DirtyError names the uncommitted changes that stop a loop from starting.
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

// checkTree refuses changes that are neither committed, nor ours, nor allowed. What an earlier loop
// of the tag left is ours: as its journal knows it, or whatever its interrupted attempt had reached.
func checkTree(ctx context.Context, j *Job, repo *gitops.Repo, home Home, opt StartOptions) *Problem {
	fail := func(err error) *Problem { return &Problem{Message: err.Error(), Err: err} }
	dirty, err := repo.Dirty(ctx)
	if err != nil {
		return fail(err)
	}
	own := j.ownPaths(repo.Root(), opt.Own...)
	if dirty = foreign(dirty, own); len(dirty) == 0 || j.Config.AllowDirty {
		return nil
	}
	left, err := home.leftBefore(ctx, repo, dirty)
	if err != nil {
		return fail(err)
	}
	if dirty = without(dirty, left); len(dirty) == 0 {
		return nil
	}
	last, err := home.LastOf(j.File.Tag())
	if err != nil {
		return fail(err)
	}
	if last != nil {
		b, err := journal.Load(home.Events(last.State.ID))
		if err != nil {
			return fail(err)
		}
		if b.Unsettled() {
			return nil
		}
		if b.Tree != "" {
			if dirty, err = changedSince(ctx, repo, gitops.Tree(b.Tree), own); err != nil {
				return fail(err)
			}
		}
	}
	if len(dirty) == 0 {
		return nil
	}
	e := &DirtyError{Paths: dirty}
	return &Problem{Message: e.Error(), Hint: "commit them, or let them stay as they are with --allow-dirty", Err: e}
}

func changedSince(ctx context.Context, repo *gitops.Repo, tree gitops.Tree, own []string) ([]string, error) {
	paths, err := repo.ChangedSince(ctx, tree)
	if err != nil {
		return nil, err
	}
	return foreign(paths, own), nil
}

// leftBefore are those of uncommitted changes that verifications of earlier loops of the project left behind.
func (h Home) leftBefore(ctx context.Context, repo *gitops.Repo, dirty []string) ([]string, error) {
	all, err := h.List()
	if err != nil || len(dirty) == 0 {
		return nil, err
	}
	var candidates []string
	for _, s := range all {
		if s.State == nil {
			continue
		}
		for _, path := range s.State.VerifyLeft {
			if slices.Contains(dirty, path) && !slices.Contains(candidates, path) {
				candidates = append(candidates, path)
			}
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	now, err := repo.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return workspace.Untracked(ctx, repo, now, candidates)
}

// without leaves out of a list what another has.
func without(list, out []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(p string) bool { return slices.Contains(out, p) })
}
