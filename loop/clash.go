package loop

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"descartes/internal/oneline"
	"descartes/internal/safename"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/verify"
)

// Work that conflicts with that of others: how its next try merges the two, what is put back, and what runs apart.

// merge makes a unit start from what is verified now, merged with its task's own verified work that could not be
// integrated. Where both changed the same lines git's markers are in the files; where work that had conflicted merges
// by now, no agent has anything to do. It is slow.
func (w *taskWork) merge(u *unit, f journal.Failure) error {
	ref := store.RefPrefix(w.run.state.ID, u.task.ID) + strconv.Itoa(f.Attempt)
	commit, err := w.run.tools.Repo.RefCommit(ref)
	if err != nil || commit == "" { // somebody removed it
		return err
	}
	var tip string
	w.run.say(func() { tip, u.base = w.run.trunk.Tip, w.run.trunk.Tree })
	w.run.tools.Repo.AwaitGC(w.run.ctx)
	tree, met, err := w.run.tools.Repo.Merge(w.run.ctx, tip, commit)
	if err == nil && len(met) == 0 && len(f.Clash) > 0 && u.round == nil {
		w.run.say(func() {
			t := w.underway(u.lane, u.task, f.Attempt, 0)
			u.number, u.of, u.base, u.before = t.number, 0, t.base, t.before
		})
		u.merges, u.ref, u.res.Verdict = true, ref, verify.Verified
		return nil
	}
	for _, c := range met {
		u.marked = append(slices.Clone(u.marked), c.Path)
	}
	if err == nil {
		_, err = w.run.tools.Repo.Keep(w.run.ctx, "refs/descartes/"+w.run.state.ID+"/start/"+safename.Of(u.task.ID),
			tree, []string{tip, commit}, "descartes: start of attempt "+strconv.Itoa(u.number))
	}
	if err != nil {
		return gitErr("bring together what is verified and the work on task "+u.task.ID, err)
	}
	u.before = tree
	return nil
}

// putBack makes the tasks ready again whose work no commit has. The ref of each names a new commit of its work: one
// that was in the chain would bring nothing any more. Those that has names stay. It is slow.
func (t *mainline) putBack(ctx context.Context, fate *trunk.Fate, head string, has []string) error {
	base, err := t.run.tools.Repo.CommitTree(head)
	if err != nil {
		return err
	}
	var verified []*journal.VerifiedTask
	t.run.say(func() { verified = t.run.history.Verified() })
	for _, v := range verified {
		unit := v.Task
		if v.Ref == "" || !slices.Contains(t.Units, unit) || slices.Contains(has, unit) {
			continue
		}
		kept, err := t.run.tools.Repo.RefCommit(v.Ref)
		if err != nil || kept == "" {
			return err
		}
		was, err := t.run.tools.Repo.ReadCommit(kept)
		if err != nil {
			return err
		}
		k := source.Kept{Loop: t.run.state.ID, Task: v.Task, Attempt: v.Attempt, Verdict: string(verify.Verified),
			Unfit: true, Reason: fmt.Sprintf("%s%s (with commit %.12s)", journal.NotIntegrated, fate.Reason(), head),
			Output: fate.Detail()}
		if _, err := t.run.tools.Repo.Keep(ctx, v.Ref, was.Tree, []string{was.Parent()},
			t.run.tools.Redact.Text(k.Message(t.run.list))); err != nil {
			return gitErr("keep the work on task "+v.Task, err)
		}
		e := &journal.Event{Type: journal.Integrated, Unit: journal.Unit{Wave: v.Wave, Task: v.Task,
			Title: t.run.job.Title(v.Task), Attempt: v.Attempt}, Tree: string(base),
			Verdict: journal.Failed, Reason: fate.Reason(), Paths: fate.Paths(),
			Detail: &journal.Detail{Checked: journal.Checked{Output: Tail(fate.Detail(), MaxWords)}}}
		if err := t.run.tell(e); err != nil {
			return err
		}
	}
	return nil
}

// inTurn leaves out the tasks that come in again after another one that does.
func (w *queue) inTurn(ready []string) []string {
	back := w.run.history.Back()
	next := slices.IndexFunc(back, func(id string) bool { return w.at(id) != nil || slices.Contains(ready, id) })
	return slices.DeleteFunc(ready, func(id string) bool { return slices.Index(back, id) > next })
}

// judgeMarks lets a unit fail if conflict markers that an agent of its task was to resolve are left.
func (w *taskWork) judgeMarks(u *unit) error {
	if len(u.marked) == 0 || u.res.Verdict != verify.Verified {
		return nil
	}
	was, err := w.run.tools.Repo.Contents(u.base)
	if err != nil {
		return gitErr("look for conflict markers", err)
	}
	now, err := w.run.tools.Repo.Contents(u.res.Work.After)
	if err != nil {
		return gitErr("look for conflict markers", err)
	}
	var left []string
	for _, path := range u.marked {
		if trunk.Marked(now, path) && !trunk.Marked(was, path) && !slices.Contains(left, path) {
			left = append(left, path)
		}
	}
	if len(left) > 0 {
		u.res.Verdict, u.res.Reason = verify.Failed, "conflict markers are left in "+oneline.List(left)
	}
	return nil
}

// apart leaves out the tasks whose work conflicted at a file at which that of a running task did too: together they
// would only meet again.
func (w *queue) apart(ready []string) []string {
	busy := map[string]bool{}
	for _, u := range w.under {
		for _, path := range w.run.history.Task(u.task.ID).Clashes {
			busy[path] = true
		}
	}
	return slices.DeleteFunc(ready, func(id string) bool {
		return slices.ContainsFunc(w.run.history.Task(id).Clashes, func(path string) bool { return busy[path] })
	})
}
