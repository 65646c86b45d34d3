package loop

import (
	"context"
	"slices"
	"strings"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

func (w *tagWork) accepted(task string) *store.Accept { return store.Accepted(w.job.answers, task) }

// accept takes the kept work of an attempt as the result of the lane's task, because a person decided so: no agent runs, and no check. The work must
// merge with what was verified since.
func (w *tagWork) accept(ctx context.Context, stop *stopper, ln *lane, a *store.Accept) (*Outcome, error) {
	t, _ := w.job.Graph.Task(ln.task)
	u, err := w.alone(ctx, ln, t)
	if err != nil {
		return nil, err
	}
	u.started, u.before = w.tools.Now(), u.base
	merged, why := u.base, ""
	base, work, err := w.home.KeptWork(w.tools.Repo, a.Loop, t.ID, a.Attempt)
	if err == nil {
		var met []gitops.Conflict
		merged, met, err = w.tools.Repo.MergeTrees(ctx, base, u.base, work)
		if len(met) > 0 {
			why, merged = (&Fate{Unit: t.ID, Conflicts: met}).Reason(), u.base
		}
	}
	if err != nil {
		why, merged = err.Error(), u.base
	}
	if u.stand, err = w.prepare(ctx, ln, w.start(u)); err != nil {
		return nil, err
	}
	first := w.event(journal.AttemptStarted, u)
	inputs := w.inputs(u, "")
	inputs.Spec = "" // no agent was given one
	first.Detail = &journal.Detail{Client: journal.Client{Log: w.relative(u.log)}, Inputs: inputs}
	first.Slot, first.Branch, first.Head = ln.number(), u.stand.Head.Branch, u.stand.Head.Hash
	if err := w.record(w.begun(u, first)...); err != nil {
		return nil, err
	}
	u.begun = true
	if u.res, err = w.takeAccepted(ctx, u, merged); err != nil {
		return nil, err
	}
	u.res.Verdict, u.res.Grade, u.res.Reason = verify.Verified, verify.Accepted, strings.TrimSuffix("accepted by a person: "+oneline.Text(a.Reason), ": ")
	if why != "" {
		u.res.Verdict, u.res.Grade, u.res.Reason = verify.Blocked, "", "the accepted work cannot be used: "+why
	}
	out, err := w.conclude(ctx, stop, u)
	if err != nil {
		return out, err
	}
	for i := range w.job.answers {
		if one := &w.job.answers[i]; one.Task == t.ID && one.Accept != nil {
			used := *one.Accept
			used.Used, one.Accept = true, &used
		}
	}
	return out, w.home.EditAnswers(context.WithoutCancel(ctx), w.tools.FS, w.state.Tag, func(all []store.Answer) []store.Answer {
		for i := range all {
			if all[i].Task == t.ID && all[i].Accept != nil {
				all[i].Accept.Used = true
			}
		}
		return all
	})
}

// takeAccepted puts accepted work into the unit's workspace and returns the result that an attempt with this work would have.
func (w *tagWork) takeAccepted(ctx context.Context, u *unit, work gitops.Tree) (res attempt.Result, err error) {
	res.Agent = agent.Result{End: agent.Finished, Complete: true}
	res.Work.Before, res.Work.Seen, res.Work.After = u.base, work, work
	if res.Work.Changed, err = w.tools.Repo.Changed(ctx, u.base, work); err != nil {
		return res, gitErr("look at the accepted work on task "+u.task.ID, err)
	}
	res.Changed = len(res.Work.Changed)
	return res, nil
}

// answersTo returns the answers for a task's spec. If before is set, later answers are left out.
func (j *Job) answersTo(task string, before time.Time) (out []specbuild.Answer) {
	for _, a := range j.answers {
		if a.Task == task && a.Text != "" && (before.IsZero() || a.At.Before(before)) {
			out = append(out, specbuild.Answer{Question: a.Question, Text: a.Text})
		}
	}
	return out
}

// answers are those for the prompt of the next iteration.
func (w *promptWork) answers() (out []specbuild.Answer, err error) {
	all, err := w.home.Answers(store.LoopKey(w.state.ID))
	for _, a := range all {
		out = append(out, specbuild.Answer{Question: a.Question, Text: a.Text})
	}
	return out, err
}

// allowed returns the questions about a task that a person answered with yes.
func (j *Job) allowed(task string) (questions []string) {
	for _, a := range j.answers {
		word, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(a.Text)), " ")
		if a.Task == task && a.Question != "" && strings.Trim(word, ".,!") == "yes" {
			questions = append(questions, a.Question)
		}
	}
	return questions
}

// takeAnswers sets blocked tasks back to pending if a person answered about them while the loop ran, and reports whether there were any.
func (w *tagWork) takeAnswers() (bool, error) {
	if len(w.history.Blocked()) == 0 {
		return false, nil
	}
	answers, err := w.home.Answers(w.state.Tag)
	if err != nil {
		return false, w.record(&journal.Event{Type: journal.Warning, Message: err.Error()})
	}
	var ids []string
	for _, e := range w.history.Blocked() {
		answered := slices.ContainsFunc(answers, func(a store.Answer) bool { return a.Task == e.Task && a.At.After(e.At) })
		if answered && w.job.Graph.Status(e.Task) == tasks.Blocked {
			ids = append(ids, e.Task)
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	w.job.answers = answers
	if err := w.record(&journal.Event{Type: journal.LoopResumed, Reason: journal.ReasonAnswered, Tasks: ids}); err != nil {
		return false, err
	}
	return true, nil
}

// unasked returns the failure without its question if that has been answered.
func unasked(f *specbuild.Failure, answers []specbuild.Answer) *specbuild.Failure {
	if f == nil || !slices.ContainsFunc(answers, func(a specbuild.Answer) bool { return a.Question == f.Question }) {
		return f
	}
	answered := *f
	answered.Question = ""
	return &answered
}
