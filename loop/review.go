package loop

import (
	"time"

	"descartes/internal/config"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/specbuild"
)

// lookReview is the look's name in journals.
const lookReview = "review"

// shown is a task as a reviewer is shown it.
func (j *Job) shown(id string) specbuild.Reviewed {
	t, ok := j.Graph.Task(id)
	if !ok {
		return specbuild.Reviewed{Name: "Task " + id}
	}
	req := specbuild.Request{Task: *t, Parents: j.Graph.Parents(id), Plan: j.plan, Story: j.stories[t.Story], AllTasks: j.all, Answers: j.answersTo(id, time.Time{})}
	if !j.Config.Scud.Spec.IncludePlanSection {
		req.Plan = nil
	}
	return specbuild.ReviewedTask(req)
}

// reviewOf is what a second agent is asked about some tasks; number is their wave's, or 0 for one task's attempt. known are its answers so far.
func (w *tagWork) reviewOf(number int, ids []string, known []*journal.Detail) *attempt.Review {
	r := &attempt.Review{Opinion: specbuild.Opinion{Tag: w.state.Tag, Wave: number, Ask: w.config.Review.Prompt}}
	for _, c := range w.config.Reviewers() {
		r.Among = append(r.Among, attempt.With(c))
	}
	for _, id := range ids {
		r.Opinion.Tasks = append(r.Opinion.Tasks, w.job.shown(id))
	}
	for _, d := range known {
		if d.Look == lookReview && d.End == journal.EndFinished {
			r.Known = append(r.Known, attempt.Known{Tree: d.Tree, Words: d.Words})
		}
	}
	return r
}

// askReview has the review look at a unit's attempt, where the settings want that. What the reviewer said before a kill it is not asked again.
func (w *tagWork) askReview(u *unit, in *attempt.Input) {
	if w.config.Reviews() != config.ReviewTask {
		return
	}
	var known []*journal.Detail
	if a := w.history.Running[journal.Key{Task: u.task.ID, Number: u.number}]; a != nil {
		known = a.Asked
	}
	in.Review = w.reviewOf(0, []string{u.task.ID}, known)
}

// CheckReview says what keeps a second agent from being of use: it never replaces the checks.
func CheckReview(c *Config) []Problem {
	if c.Reviews() == "" || len(checksOf(c, KindTag)) > 0 {
		return nil
	}
	return []Problem{{Message: "a review never replaces the verify command, and with --verify none there is none", Hint: `--verify "make test", or --review off`}}
}
