package loop

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/verify"
)

// merge makes a unit start from what is verified now, merged with its task's own verified work that could not be integrated. Where both changed the
// same lines git's markers are in the files.
func (w *tagWork) merge(ctx context.Context, u *unit, f journal.Failure) error {
	commit, err := w.tools.Repo.RefCommit(store.RefPrefix(w.state.ID, u.task.ID) + strconv.Itoa(f.Attempt))
	if err != nil || commit == "" { // somebody removed it
		return err
	}
	var tree gitops.Tree
	err = w.trunk.alone(ctx, func() (err error) {
		u.base = w.trunk.tree
		var met []gitops.Conflict
		tree, met, err = w.tools.Repo.Merge(ctx, w.trunk.tip, commit)
		for _, c := range met {
			u.marked = append(slices.Clone(u.marked), c.Path)
		}
		if err == nil {
			_, err = w.tools.Repo.Keep(ctx, "refs/descartes/"+w.state.ID+"/start/"+store.FileName(u.task.ID), tree, []string{w.trunk.tip, commit}, "descartes: start of attempt "+strconv.Itoa(u.number))
		}
		return err
	})
	if err != nil {
		return gitErr("bring together what is verified and the work on task "+u.task.ID, err)
	}
	u.before = tree
	return nil
}

// takeClash takes the work of a lane's task that conflicted once and merges now: no agent has anything to do. It reports whether the task goes on
// otherwise.
func (w *tagWork) takeClash(ctx context.Context, ln *lane) (done bool, err error) {
	id := ln.task
	f := w.history.Failures[id]
	if len(f.Clash) == 0 || w.history.Tasks[id] == nil || w.rounds[id] != nil {
		return false, nil
	}
	ref := store.RefPrefix(w.state.ID, id) + strconv.Itoa(f.Attempt)
	commit, err := w.tools.Repo.RefCommit(ref)
	if err != nil || commit == "" {
		return false, err
	}
	tree, met, err := w.tools.Repo.Merge(ctx, w.trunk.tip, commit)
	if err != nil || len(met) > 0 {
		return false, err
	}
	t, _ := w.job.Graph.Task(id)
	u := w.underway(ln, t, f.Attempt, 0)
	u.res.Verdict, u.res.Work.After = verify.Verified, tree
	again, err := w.integrate(ctx, u, ref)
	if !again {
		ln.task = ""
	}
	return true, err
}

// judgeMarks lets a unit fail if conflict markers that an agent of its task was to resolve are left.
func (w *tagWork) judgeMarks(u *unit) error {
	if len(u.marked) == 0 || u.res.Verdict != verify.Verified {
		return nil
	}
	was, err := w.tools.Repo.Contents(u.base)
	if err != nil {
		return gitErr("look for conflict markers", err)
	}
	now, err := w.tools.Repo.Contents(u.res.Work.After)
	if err != nil {
		return gitErr("look for conflict markers", err)
	}
	var left []string
	for _, path := range u.marked {
		if marked(now, path) && !marked(was, path) && !slices.Contains(left, path) {
			left = append(left, path)
		}
	}
	if len(left) > 0 {
		u.res.Verdict, u.res.Reason = verify.Failed, "conflict markers are left in "+oneline.List(left)
	}
	return nil
}

// marked reports whether a file has git's conflict markers.
func marked(c *gitops.Contents, path string) bool {
	file, err := c.File(path, maxMarked)
	if err != nil || file == nil {
		return false
	}
	text := "\n" + string(file.Data)
	at := strings.Index(text, "\n<<<<<<< ")
	return at >= 0 && strings.Contains(text[at:], "\n>>>>>>> ")
}

// maxMarked is the largest file, in bytes, that is searched for conflict markers.
const maxMarked = 4 << 20

// apart leaves out the tasks whose work conflicted at a file at which that of a running task did too: together they would only meet again.
func (w *tagWork) apart(ready []string) []string {
	busy := map[string]bool{}
	for _, ln := range w.lanes {
		for _, path := range w.history.Clashes[ln.task] {
			busy[path] = true
		}
	}
	return slices.DeleteFunc(ready, func(id string) bool {
		return slices.ContainsFunc(w.history.Clashes[id], func(path string) bool { return busy[path] })
	})
}
