package source

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

// SpecRequest is what differs between the specs of a job.
type SpecRequest struct {
	Task      string
	Attempt   int // its number
	Of        int // the last attempt's number; 0: as the settings and Counted make it
	Counted   int // attempts before it that used up what the task is allowed
	Failure   *specbuild.Failure
	Cut       *specbuild.Failure     // a later attempt that the provider cut short, whose work is in the tree
	Delivered func(id string) string // nil: nothing is known
	Known     []string               // tests that failed before the first attempt, and still do
	Before    time.Time              // leave out answers given later; zero: none
}

// Spec builds the complete text for one attempt.
func (j *Job) Spec(r SpecRequest) (specbuild.Spec, error) {
	t, ok := j.Graph.Task(r.Task)
	if !ok {
		return specbuild.Spec{}, fmt.Errorf("tag %q has no task %q", j.File.Tag(), r.Task)
	}
	c := j.Config.Scud
	r.Attempt = max(1, r.Attempt)
	req := specbuild.Request{
		Tag: j.File.Tag(), Task: *t, Parents: j.Graph.Parents(r.Task), Plan: j.plan, Story: j.stories[t.Story],
		Beside: j.beside,
		Files:  j.specs, Handoff: j.hand, Answers: j.answersTo(r.Task, r.Before), Promise: j.Config.CompletionPromise,
		Template: c.Spec.SpecTemplate, Budget: specbuild.Budget{Tokens: c.Spec.MaxSpecTokens, Cut: c.Spec.Cut},
		Attempt: specbuild.Attempt{Number: r.Attempt, Max: cmp.Or(r.Of,
			j.Config.LastAttempt(r.Attempt-1, r.Counted)), Failure: r.Failure, CutShort: r.Cut},
	}
	if j.Config.Baseline == config.BaselineKnown {
		req.Known = r.Known
	}
	req.Verify, req.Checks = specChecks(j.Config.ChecksOf(true))
	req.Attempt.Failure = unasked(req.Attempt.Failure, req.Answers)
	req.NoTask, req.Alone = !c.Spec.IncludeTask, !c.UseSubAgents
	if !c.Spec.IncludePlanSection {
		req.Plan = nil
	}
	for _, id := range j.Graph.Deps(r.Task) {
		d, ok := j.Graph.Task(id)
		if !ok {
			continue
		}
		dep := specbuild.Dependency{ID: id, Title: d.Title}
		if r.Delivered != nil {
			dep.Delivered = r.Delivered(id)
		}
		req.Dependencies = append(req.Dependencies, dep)
	}
	s, err := specbuild.Build(req)
	if err != nil {
		return s, fmt.Errorf("spec of task %s: %w", r.Task, err)
	}
	return s, nil
}

// specChecks returns what decides, as a spec says it: one command, or several checks.
func specChecks(checks []verify.Check) (command string, list []specbuild.Check) {
	later := map[verify.When]string{verify.AtWave: "before the wave is committed", verify.AtEnd: "at the end of the run"}
	for _, c := range checks {
		if c.Name == "" {
			return c.Run, nil
		}
		list = append(list, specbuild.Check{Name: c.Name, Run: c.Run, Later: later[c.When]})
	}
	return "", list
}

// OwnChecks returns the check that a list names for a task, if it does. Only its exit status counts.
func OwnChecks(t *tasks.Task) []verify.Check {
	if t.Verify == "" {
		return nil
	}
	return []verify.Check{{Name: "verify of task " + t.ID, Run: t.Verify}}
}

// CheckSpecs builds the spec of every task that may run. fits, which may be nil, says whether the agent accepts a
// prompt of n bytes.
func (j *Job) CheckSpecs(fits func(n int) error) []Problem {
	var problems []Problem
	for _, id := range j.Runnable() {
		s, err := j.Spec(SpecRequest{Task: id})
		if err == nil && fits != nil {
			if err = fits(len(s.Text)); err != nil {
				err = fmt.Errorf("task %s: %w", id, err)
			}
		}
		if err != nil {
			problems = append(problems, Problem{Message: err.Error(), Err: err})
			if len(problems) == 5 {
				break
			}
		}
	}
	return problems
}

// NextSpec returns what the journal says for the spec of a task's next attempt, or of the attempt with that number:
// the failure before it, and what earlier tasks had delivered by then. The next attempt at a blocked task is the one
// --retry-blocked makes; any other attempt after a loop's end belongs to a new loop, which knows the refs of earlier
// ones. With an empty id it is the first attempt of the list's first loop here.
func NextSpec(home store.Home, id string, list gitops.Named, task string, attempt int,
	refs []gitops.Ref) (r SpecRequest, err error) {
	defer func() { r.AddEarlier(refs, list, id) }()
	if id == "" {
		return SpecRequest{Task: task, Attempt: attempt}, nil
	}
	events, err := journal.ReadEvents(home.Events(id))
	if err != nil {
		return SpecRequest{Task: task, Attempt: attempt}, err
	}
	b := journal.NewState()
	for i := range events {
		e := &events[i]
		if e.Type == journal.AttemptStarted && e.Task == task && e.Attempt == attempt {
			r := NextAttempt(b, task)
			r.Attempt, r.Of, r.Before = e.Attempt, e.Of, e.TS
			return r, nil
		}
		b.Apply(e)
	}
	r = NextAttempt(b, task)
	switch {
	case b.Task(task).Blocked != nil:
		r.Counted = 0
	case b.Finished != nil && b.Finished.Ending.Final():
		r, id = SpecRequest{Task: task, Attempt: 1}, ""
	}
	if more := attempt - r.Attempt; more > 0 {
		r.Attempt, r.Counted, r.Failure = attempt, r.Counted+more, nil
	}
	return r, nil
}

// NextAttempt returns what a task's next attempt learns from earlier ones.
func NextAttempt(h *journal.State, task string) SpecRequest {
	t := h.Task(task)
	r := SpecRequest{Task: task, Attempt: t.Attempts + 1, Counted: t.Counted,
		Delivered: func(id string) string { return h.Task(id).Delivered }}
	if a := h.RunningOf(journal.Key{Task: task, Number: t.Attempts}); a != nil && !a.Over() &&
		a.Phase != journal.PhaseOpen {
		r.Counted++
	}
	if t.Failure.Verdict != "" {
		r.Failure = FailureOf(t.Failure)
	}
	if t.CutShort.Verdict != "" {
		r.Cut = FailureOf(t.CutShort)
	}
	for _, c := range slices.SortedFunc(slices.Values(h.Checks),
		func(a, b *journal.Check) int { return cmp.Compare(a.Check, b.Check) }) {
		if k := c.Known; k != nil && k.Failed {
			r.Known = append(r.Known, k.Fails...)
		}
	}
	return r
}

// FailureOf is the last attempt as the next one sees it. It comes from the journal alone, so a resumed loop says the
// same.
func FailureOf(of journal.Failure) *specbuild.Failure {
	f := &specbuild.Failure{Attempt: of.Attempt, Verdict: string(of.Verdict), Clash: of.Verdict == journal.Clashed,
		Reason: of.Reason, DiffStat: of.DiffStat}
	if d := of.Result; d != nil {
		f.Hidden = d.Hidden
		f.Words, f.Output, f.Question, f.Denied, f.Look = d.Words, d.Output, d.Question, d.Denied, d.Objector()
	}
	failed := false
	for _, c := range of.Checks {
		one := specbuild.Checked{Name: c.Check, Passed: c.Passed, Reason: c.Why}
		if failed && !c.Passed { // the output of the first comes with the attempt
			one.Output = c.Output
		}
		failed = failed || !c.Passed
		f.Checks = append(f.Checks, one)
	}
	return f
}

// Reviewed is a task as a reviewer sees it.
func (j *Job) Reviewed(id string) specbuild.Reviewed {
	t, ok := j.Graph.Task(id)
	if !ok {
		return specbuild.Reviewed{Name: "Task " + id}
	}
	req := specbuild.Request{Task: *t, Parents: j.Graph.Parents(id), Plan: j.plan, Story: j.stories[t.Story],
		Answers: j.answersTo(id, time.Time{})}
	if !j.Config.Scud.Spec.IncludePlanSection {
		req.Plan = nil
	}
	return specbuild.ReviewedTask(req)
}
