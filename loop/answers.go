package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

// Answer is a person's reply about a blocked task: to the question its agent asked, or unasked. Answers belong to the tag, not to a loop: every later
// spec of the task contains them. Those about a prompt loop belong to the loop, and are in the prompt of each later iteration.
type Answer struct {
	Task     string    `json:"task"`               // "": a prompt loop
	Question string    `json:"question,omitempty"` // "": the agent had asked nothing
	Text     string    `json:"answer"`             // "": only retry the task; the agent sees no answer
	At       time.Time `json:"at"`
	Accept   *Accept   `json:"accept,omitempty"` // take the kept work of an attempt as done, whatever the checks say
}

// Accept is a person's decision that the kept work of an attempt does what was asked.
type Accept struct {
	Loop    string `json:"loop"`
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason,omitempty"`
	Used    bool   `json:"used,omitempty"` // a run has acted on it
}

// MaxAnswer limits one answer and maxAnswerFile the file of a tag's answers, both in bytes. maxAnswers is how many answers of a task are kept: the
// latest ones.
const (
	MaxAnswer     = 16 << 10
	maxAnswers    = 20
	maxAnswerFile = 16 << 20
)

// LoopKey stands in place of a tag for a prompt loop's answers. No tag has a colon.
func LoopKey(id string) string { return "loop:" + id }

type answerFile struct {
	Version string   `json:"version"`
	Tag     string   `json:"tag"`
	Answers []Answer `json:"answers"`
}

// AnswerFile is the path of a tag's answers.
func (h Home) AnswerFile(tag string) string {
	return filepath.Join(string(h), "answers", FileName(tag)+".json")
}

// Answers reads a tag's answers, oldest first. It returns none if nobody has answered, and none in a fresh clone.
func (h Home) Answers(tag string) ([]Answer, error) {
	path := h.AnswerFile(tag)
	data, err := plainfile.Read("", path, maxAnswerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read answers: %w", err)
	}
	var f answerFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("read answers %s: %w", path, err)
	}
	if f.Version != StateVersion {
		return nil, &VersionError{Path: path, Version: f.Version}
	}
	return f.Answers, nil
}

// Answer adds an answer to a tag's, unless it repeats the task's latest one.
func (h Home) Answer(ctx context.Context, fsys atomicfile.FS, tag string, a Answer) error {
	if len(a.Text) > MaxAnswer || !utf8.ValidString(a.Text) {
		return fmt.Errorf("answer %.40q: give at most %d bytes of UTF-8 text", a.Text, MaxAnswer)
	}
	return h.editAnswers(ctx, fsys, tag, func(all []Answer) []Answer {
		mine := 0
		for i := len(all) - 1; i >= 0; i-- {
			if all[i].Task != a.Task {
				continue
			}
			if mine == 0 && a.Text != "" && all[i].Question == a.Question && all[i].Text == a.Text {
				return nil
			}
			if mine++; mine >= maxAnswers {
				all = slices.Delete(all, i, i+1)
			}
		}
		return append(all, a)
	})
}

// editAnswers changes a tag's answers. A nil result of edit leaves the file alone.
func (h Home) editAnswers(ctx context.Context, fsys atomicfile.FS, tag string, edit func([]Answer) []Answer) (err error) {
	path := h.AnswerFile(tag)
	lk, err := takeLock(ctx, lockOf(path), lockWait, Holder{PID: os.Getpid(), Host: hostname(), Tag: tag, At: time.Now()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lk.release()) }()
	if err := h.Make(fsys); err != nil {
		return err
	}
	all, err := h.Answers(tag)
	if err != nil {
		return err
	}
	if all = edit(all); all == nil {
		return nil
	}
	b, err := json.MarshalIndent(answerFile{StateVersion, tag, all}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode answers: %w", err)
	}
	if err := atomicfile.Write(fsys, path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("save answer: %w", err)
	}
	return nil
}

// KeptWork returns the trees before and after an attempt whose work is kept. It is an error if the attempt kept none.
func (h Home) KeptWork(repo *gitops.Repo, loop, task string, attempt int) (base, work gitops.Tree, err error) {
	if err := ValidID(loop); err != nil {
		return "", "", err
	}
	name := RefPrefix(loop, task) + strconv.Itoa(attempt)
	commit, err := repo.RefCommit(name)
	if err == nil && commit == "" {
		err = fmt.Errorf("attempt %d at task %s left no work: there is no %s", attempt, task, name)
	}
	if err != nil {
		return "", "", err
	}
	if work, err = repo.CommitTree(commit); err != nil {
		return "", "", err
	}
	events, err := journal.ReadEvents(h.Events(loop))
	if err != nil {
		return "", "", err
	}
	for i := range events {
		e := &events[i]
		switch {
		case e.Task != task:
		case e.Type == journal.TaskStarted:
			base = gitops.Tree(e.Base)
		case e.Type == journal.Integrated && e.Verdict != "":
			base = gitops.Tree(e.Tree)
		case e.Type == journal.AttemptFinished && e.Attempt == attempt:
			if base == "" {
				return "", "", fmt.Errorf("the journal of loop %s does not say what task %s started from", loop, task)
			}
			return base, work, nil
		}
	}
	return "", "", fmt.Errorf("the journal of loop %s knows no attempt %d at task %s", loop, attempt, task)
}

func (w *tagWork) accepted(task string) *Accept { return Accepted(w.job.answers, task) }

// Accepted returns the decision about a task that no run has acted on yet, or nil.
func Accepted(answers []Answer, task string) *Accept {
	for _, a := range slices.Backward(answers) {
		if a.Task == task {
			if a.Accept != nil && !a.Accept.Used {
				return a.Accept
			}
			return nil
		}
	}
	return nil
}

// accept takes the kept work of an attempt as the result of the lane's task, because a person decided so: no agent runs, and no check. The work must
// merge with what was verified since.
func (w *tagWork) accept(ctx context.Context, stop *stopper, ln *lane, a *Accept) (*Outcome, error) {
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
	first.Detail = &journal.Detail{Log: w.relative(u.log), Inputs: inputs}
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
	return out, w.home.editAnswers(context.WithoutCancel(ctx), w.tools.FS, w.state.Tag, func(all []Answer) []Answer {
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
	all, err := w.home.Answers(LoopKey(w.state.ID))
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
	if len(w.history.Blocked) == 0 {
		return false, nil
	}
	answers, err := w.home.Answers(w.state.Tag)
	if err != nil {
		return false, w.record(&journal.Event{Type: journal.Warning, Message: err.Error()})
	}
	var ids []string
	for _, e := range w.history.Blocked {
		answered := slices.ContainsFunc(answers, func(a Answer) bool { return a.Task == e.Task && a.At.After(e.At) })
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

// Question is what the agent of a blocked task asked, or that of a prompt loop.
type Question struct {
	Loop     string
	Task     string // "" for a prompt loop
	Title    string
	Question string
	At       time.Time
}

// Questions lists the open questions of a tag, in the order of its list: those of tasks that are still blocked, as the last loop that blocked them
// recorded. If the list has no word for blocked, a question stays open until it is answered.
func (h Home) Questions(file *tasks.File) ([]Question, error) {
	last, status, err := h.lastAsked(file.Tag())
	if err != nil {
		return nil, err
	}
	answers, err := h.Answers(file.Tag())
	if err != nil {
		return nil, err
	}
	var out []Question
	for _, t := range file.Tasks() {
		q := last[t.ID]
		now, changed := status[t.ID]
		if !changed {
			now = t.Status
		}
		answered := slices.ContainsFunc(answers, func(a Answer) bool { return a.Task == q.Task && a.At.After(q.At) })
		if q.Question != "" && (now == tasks.Blocked || now == tasks.Pending && !answered && !file.Holds(tasks.Blocked)) {
			out = append(out, q)
		}
	}
	return out, nil
}

// Asks returns the question for which a prompt loop waits, or nil.
func (h Home) Asks(s Saved) (*Question, error) {
	if s.State.Kind == KindTag || s.State.ExitReason.Type != string(journal.GateAsks) {
		return nil, nil
	}
	b, err := journal.Load(h.Events(s.State.ID))
	if err != nil {
		return nil, err
	}
	last := b.Prompt.Last
	if last == nil || last.Detail == nil || last.Detail.Question == "" {
		return nil, nil
	}
	answers, err := h.Answers(LoopKey(s.State.ID))
	if err != nil || slices.ContainsFunc(answers, func(a Answer) bool { return a.At.After(last.TS) }) {
		return nil, err
	}
	return &Question{Loop: s.State.ID, Title: oneline.Text(s.State.Config.Prompt), Question: last.Detail.Question, At: last.TS}, nil
}

// lastAsked returns why the tag's loops last gave up each task, with or without a question, and the statuses that the task file may not show yet.
func (h Home) lastAsked(tag string) (map[string]Question, map[string]tasks.Status, error) {
	all, err := h.List()
	if err != nil {
		return nil, nil, err
	}
	all = slices.DeleteFunc(all, func(s Saved) bool { return s.State == nil || s.State.Tag != tag })
	slices.SortStableFunc(all, func(a, b Saved) int { return a.State.StartedAt.Compare(b.State.StartedAt) })
	last, status := map[string]Question{}, map[string]tasks.Status{}
	for _, s := range all {
		v, err := h.View(s, nil)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(status, v.Changes)
		for _, b := range v.State.BlockedTasks {
			last[b.Task.ID] = Question{Loop: s.State.ID, Task: b.Task.ID, Title: b.Title, Question: b.Question, At: b.At}
		}
	}
	return last, status, nil
}
