package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/specbuild"
	"descartes/verify"
)

// A person may choose or write the text of a task's next attempt. It is used word for word, once: an attempt that reaches a verdict uses it up.

// maxTuned limits, in bytes, a text that a person chose or wrote.
const maxTuned = maxSpecFile

func (h Home) tunedDir(tag string) string { return filepath.Join(string(h), "tuned", FileName(tag)) }

func (h Home) tuned(tag, task string) string {
	return filepath.Join(h.tunedDir(tag), FileName(task)+".md")
}

// Tune keeps a text for a task's next attempt. It replaces an earlier one.
func (h Home) Tune(fsys atomicfile.FS, tag, task, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("the text for task %s is empty", task)
	case len(text) > maxTuned:
		return fmt.Errorf("the text for task %s has %d bytes: at most %d are allowed", task, len(text), maxTuned)
	case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
		return fmt.Errorf("the text for task %s is not UTF-8 text", task)
	}
	if err := h.Make(fsys); err != nil {
		return err
	}
	if err := os.MkdirAll(h.tunedDir(tag), 0o755); err != nil {
		return fmt.Errorf("keep the text for task %s: %w", task, err)
	}
	if err := atomicfile.Write(fsys, h.tuned(tag, task), []byte(text), 0o600); err != nil {
		return fmt.Errorf("keep the text for task %s: %w", task, err)
	}
	return nil
}

// Untune removes the text kept for a task's next attempt, if there is one.
func (h Home) Untune(fsys atomicfile.FS, tag, task string) error {
	if err := fsys.Remove(h.tuned(tag, task)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the text for task %s: %w", task, err)
	}
	return nil
}

// Tuned returns the text kept for a task's next attempt, or "".
func (h Home) Tuned(tag, task string) (string, error) {
	b, err := plainfile.Read("", h.tuned(tag, task), maxKept)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the text chosen for task %s: %w", task, err)
	}
	return string(b), nil
}

// tunedNames lists the tasks of a tag that have a text, by the names of their files.
func (h Home) tunedNames(tag string) map[string]bool {
	entries, err := os.ReadDir(h.tunedDir(tag))
	if err != nil || len(entries) == 0 {
		return nil
	}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names
}

// keptSpec is the file with the text of an attempt that was not verified.
func (h Home) keptSpec(id, task string, attempt int) string {
	return filepath.Join(h.Run(id), "specs", fmt.Sprintf("%s-%d.md", FileName(task), attempt))
}

// spent puts aside an attempt's spec, and the text that a person had chosen for it.
func (w *tagWork) spent(u *unit) {
	if u.res.Verdict != verify.Verified {
		to := w.home.keptSpec(w.state.ID, u.task.ID, u.number)
		putAside(u.lane.runner.PromptFile(), to)
	}
	if u.tuned && u.res.Verdict != verify.Limited && u.res.Verdict != verify.Cancelled {
		delete(w.tuned, FileName(u.task.ID)+".md")
		_ = os.Remove(w.home.tuned(w.state.Tag, u.task.ID)) // at worst it is used once more
	}
}

// putAside keeps an attempt's spec under another name. If that fails, loop tune shows less, or the spec is rebuilt from the journal.
func putAside(from, to string) {
	if os.Rename(from, to) != nil && os.MkdirAll(filepath.Dir(to), 0o755) == nil {
		_ = os.Rename(from, to)
	}
}

// loopKey is the key of a text for a prompt loop's next iteration. No tag has a colon.
func loopKey(id string) string { return "loop:" + id }

// promptKey is used in place of a task.
const promptKey = "prompt"

// TunePrompt keeps a text for a prompt loop's next iteration, which gets it word for word; "" removes it.
func (h Home) TunePrompt(fsys atomicfile.FS, id, text string) error {
	if text == "" {
		return h.Untune(fsys, loopKey(id), promptKey)
	}
	return h.Tune(fsys, loopKey(id), promptKey, text)
}

// TunedPrompt returns the text kept for a prompt loop's next iteration, or "".
func (h Home) TunedPrompt(id string) (string, error) { return h.Tuned(loopKey(id), promptKey) }

// keptPrompt is the file with the prompt of an iteration.
func (h Home) keptPrompt(id string, iteration, try int) string {
	return h.keptSpec(id, fmt.Sprintf("iteration-%d", iteration), try)
}

// PastAttempt is one attempt at a task, or one iteration of a prompt loop, with everything needed to judge its spec.
type PastAttempt struct {
	Loop       string       `json:"loop"`
	Attempt    int          `json:"attempt"`       // of a prompt loop: its iteration
	Try        int          `json:"try,omitempty"` // of a repeated iteration; else 0
	Verdict    string       `json:"verdict"`       // "running" while it runs
	Reason     string       `json:"reason"`
	Seconds    float64      `json:"seconds"`
	Cost       journal.Cost `json:"cost"`
	Tuned      bool         `json:"tuned"`         // a person chose its text
	Refinement string       `json:"refinement"`    // what a review advised before it
	Spec       string       `json:"spec"`          // from ReadSpec
	Kept       bool         `json:"spec_kept"`     // false: it was built again
	SpecDiff   string       `json:"spec_diff"`     // from the attempt before
	Words      string       `json:"words"`         // the agent's last words
	Output     string       `json:"verify_output"` // end of the verification's output
	DiffStat   string       `json:"diff_stat"`
	Diff       string       `json:"diff"`
	Ref        string       `json:"ref"`
	Before     gitops.Tree  `json:"-"`
	After      gitops.Tree  `json:"-"`

	request *SpecRequest // nil for an iteration
}

// Name is what people call it.
func (a *PastAttempt) Name() string {
	switch {
	case a.Try > 1:
		return fmt.Sprintf("iteration %d, time %d", a.Attempt, a.Try)
	case a.request == nil:
		return fmt.Sprintf("iteration %d", a.Attempt)
	}
	return fmt.Sprintf("attempt %d", a.Attempt)
}

// Attempts returns a task's attempts in one loop, in order.
func (h Home) Attempts(id, task string) ([]PastAttempt, error) {
	events, err := journal.ReadEvents(h.Events(id))
	if err != nil {
		return nil, err
	}
	b := journal.NewState()
	var requests []SpecRequest
	for i := range events {
		e := &events[i]
		if e.Type == journal.AttemptStarted && e.Task == task {
			r := request(b, task)
			r.Attempt, r.Of, r.Before = cmp.Or(e.Round, e.Attempt), e.Of, e.TS
			requests = append(requests, r)
		}
		b.Apply(e)
	}
	out := []PastAttempt{} // never null in JSON
	for _, a := range b.Attempts {
		if a.Task == task && len(out) < len(requests) {
			past := pastAttempt(id, a)
			past.request = &requests[len(out)]
			out = append(out, past)
		}
	}
	return out, nil
}

func pastAttempt(loop string, a *journal.Attempt) PastAttempt {
	p := PastAttempt{Loop: loop, Attempt: a.Number, Verdict: "running", Before: gitops.Tree(a.Before), Refinement: a.Refinement, Tuned: a.Tuned, Cost: a.Cost}
	if a.Iteration > 0 {
		if p.Attempt = a.Iteration; a.Number > 1 {
			p.Try = a.Number
		}
	}
	if a.Agent != nil {
		p.Words = a.Agent.Words
	}
	if !a.Over() {
		return p
	}
	p.Verdict, p.Reason, p.Seconds, p.Ref = cmp.Or(a.Outcome(), string(a.Decision)), a.Reason, a.Seconds(), a.Ref
	p.After, p.DiffStat, p.Output = gitops.Tree(a.After), a.DiffStat, a.Next
	if a.Iteration == 0 && a.Result != nil {
		p.Output = a.Result.Output
	}
	return p
}

// Iterations returns a prompt loop's iterations, with each try.
func (h Home) Iterations(id string) ([]PastAttempt, error) {
	b, err := journal.Load(h.Events(id))
	if err != nil {
		return nil, err
	}
	out := []PastAttempt{}
	for _, a := range b.Attempts {
		out = append(out, pastAttempt(id, a))
	}
	return out, nil
}

// ReadSpec fills in the text that an attempt got. If a task's text was not kept, it is built again from the journal and today's files.
func (h Home) ReadSpec(j *Job, a *PastAttempt) error {
	path := h.keptPrompt(a.Loop, a.Attempt, max(1, a.Try))
	if a.request != nil {
		path = h.keptSpec(a.Loop, a.request.Task, a.Attempt)
	}
	b, err := plainfile.Read("", path, maxKept)
	switch {
	case err == nil:
		a.Spec, a.Kept = string(b), true
		return nil
	case a.request == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the spec of attempt %d: %w", a.Attempt, err)
	}
	spec, err := j.Spec(*a.request)
	a.Spec = spec.Text
	return err
}

// IterationPrompt returns the text an iteration's agent got, or gets now; if it was not kept, the loop's own prompt.
func (h Home) IterationPrompt(pool string, s *State, a *journal.Attempt) (string, error) {
	path := h.keptPrompt(s.ID, a.Iteration, a.Number)
	if !a.Over() {
		path = (&attempt.Runner{Dir: h.slotFiles(pool, s.ID, a.Slot)}).PromptFile()
	}
	b, err := plainfile.Read("", path, maxKept)
	if errors.Is(err, fs.ErrNotExist) {
		return s.Config.Prompt, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the prompt of iteration %d: %w", a.Iteration, err)
	}
	return string(b), nil
}

// Limits, in bytes, of what a reviewer sees and of its advice.
const (
	maxReviewDiff = 64 << 10
	maxRefinement = 8 << 10
)

// consult has a second agent look at the failed unit u, once per failure, and keeps its advice for all later attempts. A review without a result
// costs nothing.
func (l *Loop) consult(ctx context.Context, stop *stopper, u *unit) error {
	u.started = l.tools.Now()
	stand, err := l.prepare(ctx, u.lane, l.start(u))
	if err != nil {
		return err
	}
	r, ref, err := l.work.review(ctx, u, stand.Tree)
	if err != nil {
		return err
	}
	in := l.input(u, specbuild.ReviewPrompt(r))
	in.Session, in.Spent, in.Keep, in.Env = "", nil, false, append(in.Env, "DESCARTES_REVIEW=1") // for agents that are scripts
	actx, done := stop.watch(ctx)
	defer done()
	var res agent.Result
	l.unlocked(func() { res, err = u.lane.runner.Consult(actx, u.lane.ws, in, "review", l.observe(u)) })
	if err == nil {
		err = l.undoReview(context.WithoutCancel(ctx), u, ref)
	}
	if err != nil {
		return fmt.Errorf("review the last attempt: %w", err)
	}
	if res.End == agent.Cancelled || res.End == agent.Limited {
		return nil // not a review: the next attempt, if there is one, makes it
	}
	e := l.work.event(journal.SpecRefined, u)
	e.Detail = agentDetail(res, u.with, 0)
	e.Detail.Log = l.relative(u.log)
	if res.End == agent.Finished {
		e.Message = strings.TrimSpace(head(res.Final, maxRefinement))
	}
	if e.Message == "" {
		e.Reason = cmp.Or(res.Reason, "it gave no advice")
	}
	return l.record(e)
}

// undoReview undoes what a review changed, since it is asked for words alone, and keeps that below the ref: a person may have saved a file meanwhile.
func (l *Loop) undoReview(ctx context.Context, u *unit, ref string) error {
	left, err := u.lane.ws.Look(ctx)
	if err != nil || len(left.Changed) == 0 {
		return err
	}
	if _, err := l.tools.Repo.Keep(ctx, ref, left.After, nil, "what a review changed\n"); err != nil {
		return gitErr("keep what a review changed", err)
	}
	if err := u.lane.ws.Restore(ctx, left.Before); err != nil {
		return err
	}
	return l.warn(u, "the review changed files, which were put back; its versions are kept as "+ref+": "+workspace.Paths(left.Changed))
}

// reviewed returns the unit again if its task's last attempt failed and was not reviewed.
func (w *tagWork) reviewed(u *unit) *unit {
	id := u.task.ID
	f, failed := w.history.Failures[id]
	if !w.config.Scud.AutoTune || u.round != nil || !failed || w.history.Reviewed[id] == f.Attempt || w.tuned[FileName(id)+".md"] {
		return nil
	}
	return &unit{lane: u.lane, task: u.task, with: u.with, number: u.number, of: u.of, since: u.since,
		log: filepath.Join(w.home.Run(w.state.ID), "logs", fmt.Sprintf("%s-%d.tune.log", FileName(id), u.number))}
}

// review is what a review of a task's last attempt sees, and the ref that keeps what it changes.
func (w *tagWork) review(ctx context.Context, u *unit, _ gitops.Tree) (r specbuild.Review, ref string, err error) {
	id := u.task.ID
	f := w.history.Failures[id]
	ref = RefPrefix(w.state.ID, id) + fmt.Sprintf("%d-review", u.number)
	r = specbuild.Review{Task: *u.task, Failure: *failure(f), Earlier: w.history.Refinements[id]}
	attempts, err := w.home.Attempts(w.state.ID, id)
	if err != nil {
		return r, ref, err
	}
	for _, a := range attempts {
		if a.Attempt != f.Attempt {
			continue
		}
		if err := w.home.ReadSpec(w.job, &a); err != nil {
			return r, ref, err
		}
		r.Spec = a.Spec
		if a.Before != "" && a.After != "" {
			if r.Diff, err = w.tools.Repo.Patch(ctx, a.Before, a.After, maxReviewDiff); err != nil {
				return r, ref, gitErr("compare the work on task "+id, err)
			}
		}
	}
	return r, ref, nil
}
