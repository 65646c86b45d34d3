package loop

import (
	"context"
	"strings"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/tasks"
	"descartes/verify"
)

// What a person says meanwhile: accepts of kept work, and answers.

func (w *taskWork) accepted(task string) *store.Accept {
	return store.Accepted(w.run.job.Answers, task)
}

// accept is a unit that takes the kept work of an attempt as a task's result, because a person decided so: no agent
// runs, and no check. The work must merge with what was verified since.
func (w *taskWork) accept(ln *lane, t *tasks.Task, a store.Accept) *unit {
	u := w.alone(ln, t)
	u.before, u.accepts = u.base, true
	var res attempt.Result
	u.from = func(u *unit) error {
		merged, why := u.base, ""
		base, work, err := w.run.home.KeptWork(w.run.tools.Repo, a.Loop, t.ID, a.Attempt)
		if err == nil {
			var met []gitops.Conflict
			if merged, met, err = w.run.tools.Repo.MergeTrees(w.run.ctx, base, u.base, work); len(met) > 0 {
				why, merged = (&trunk.Fate{Unit: t.ID, Conflicts: met}).Reason(), u.base
			}
		}
		if err != nil {
			why, merged = err.Error(), u.base
		}
		res.Agent = agent.Result{End: agent.Finished, Complete: true}
		res.Work.Before, res.Work.Seen, res.Work.After = u.base, merged, merged
		if res.Work.Changed, err = w.run.tools.Repo.Changed(w.run.ctx, u.base, merged); err != nil {
			return gitErr("look at the accepted work on task "+t.ID, err)
		}
		res.Changed = len(res.Work.Changed)
		res.Verdict, res.Grade, res.Reason = verify.Verified, verify.Accepted,
			strings.TrimSuffix("accepted by a person: "+oneline.Text(a.Reason), ": ")
		if why != "" {
			res.Verdict, res.Grade, res.Reason = verify.Blocked, "", "the accepted work cannot be used: "+why
		}
		return nil
	}
	u.made = func() attempt.Result { return res }
	return u
}

// acceptUsed notes that what a person accepted is a task's result.
func (w *taskWork) acceptUsed(task string) error {
	for i := range w.run.job.Answers {
		if one := &w.run.job.Answers[i]; one.Task == task && one.Accept != nil {
			used := *one.Accept
			used.Used, one.Accept = true, &used
		}
	}
	return w.run.home.EditAnswers(context.WithoutCancel(w.run.ctx), w.run.tools.FS, w.run.state.Tag,
		func(all []store.Answer) []store.Answer {
			for i := range all {
				if all[i].Task == task && all[i].Accept != nil {
					all[i].Accept.Used = true
				}
			}
			return all
		})
}

// takeAnswers sets blocked tasks back to pending if a person answered about them while the loop ran, and reports
// whether there were any.
func (w *list) takeAnswers() (bool, error) {
	if len(w.run.history.Blocked()) == 0 {
		return false, nil
	}
	answers, err := w.run.home.Answers(w.run.state.Tag)
	if err != nil {
		return false, w.run.record(&journal.Event{Type: journal.Warning, Message: err.Error()})
	}
	w.run.job.Answers = answers
	var ids []string
	for _, e := range w.run.history.Blocked() {
		if w.run.job.Answered(e.Task, e.TS) && w.run.job.Graph.Status(e.Task) == tasks.Blocked {
			ids = append(ids, e.Task)
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	w.tag.queue.passed = 0
	if err := w.run.record(&journal.Event{Type: journal.LoopResumed, Reason: journal.ReasonAnswered,
		Tasks: ids}); err != nil {
		return false, err
	}
	return true, nil
}
