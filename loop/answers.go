package loop

import (
	"context"
	"fmt"
	"slices"
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
	return w.run.home.EditSaid(context.WithoutCancel(w.run.ctx), w.run.tools.FS, w.run.state.Key(),
		func(s *store.Said) bool {
			for i := range s.Answers {
				if one := &s.Answers[i]; one.Task == task && one.Accept != nil {
					one.Accept.Used = true
				}
			}
			return true
		})
}

// takeAnswers sets blocked tasks back to pending if a person answered about them while the loop ran, and reports
// whether there were any.
func (w *list) takeAnswers() (bool, error) {
	if len(w.run.history.Blocked()) == 0 {
		return false, nil
	}
	answers, err := w.run.home.Answers(w.run.state.Key())
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

// sayings are what is said about the tasks of the list.
func (l *Loop) sayings() trunk.Sayings {
	return trunk.Sayings{Repo: l.tools.Repo, Home: l.home, FS: l.tools.FS, Tag: l.list.Tag, List: l.list.Key(),
		Key: l.state.Key(), Now: l.tools.Now}
}

// share keeps what is blocked, and what is asked, with the answers: the next run has it, in any clone. It is slow.
func (w *tagWork) share(ctx context.Context) error {
	var blocked []store.Asked
	of := map[string]*journal.Event{}
	var open []string
	w.run.say(func() {
		open = w.run.job.Blocked()
		for _, e := range w.run.history.Blocked() {
			of[e.Task] = e
		}
	})
	err := w.run.home.EditSaid(ctx, w.run.tools.FS, w.run.state.Key(), func(s *store.Said) bool {
		for _, id := range open {
			if e := of[id]; e != nil {
				blocked = append(blocked, store.Asked{Loop: w.run.state.ID, Task: id, Title: e.Title, Reason: e.Reason,
					Question: e.Spoken().Question, Attempts: e.Attempt, At: e.TS})
			} else if i := slices.IndexFunc(s.Asked, func(a store.Asked) bool { return a.Task == id }); i >= 0 {
				blocked = append(blocked, s.Asked[i])
			}
		}
		if len(blocked) == 0 && len(s.Asked) == 0 {
			return false
		}
		s.Asked, s.AskedAt = blocked, w.run.tools.Now()
		return true
	})
	if err == nil {
		err = w.run.sayings().Share(ctx, "")
	}
	if err != nil && ctx.Err() == nil {
		err = w.run.Warn(fmt.Sprintf("what is asked reaches no other clone: %v", err))
	}
	return err
}
