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
	"strings"
	"time"
	"unicode/utf8"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
	"descartes/specbuild"
	"descartes/tasks"
)

// Answer is what a person said to a question of a task's agent, or of a task that was blocked otherwise. Answers belong to the
// tag, not to a loop: every later spec of the task has them.
type Answer struct {
	Task     string    `json:"task"`
	Question string    `json:"question,omitempty"` // "": nobody had asked
	Text     string    `json:"answer"`             // "": the task is tried again, and its agent hears of nothing
	At       time.Time `json:"at"`
}

// MaxAnswer is how long an answer may be, in bytes; maxAnswers how many of a task are kept, the last ones;
// maxAnswerFile what a file of them may have.
const (
	MaxAnswer     = 16 << 10
	maxAnswers    = 20
	maxAnswerFile = 16 << 20
)

type answerFile struct {
	Version string   `json:"version"`
	Tag     string   `json:"tag"`
	Answers []Answer `json:"answers"`
}

// AnswerFile is where the answers of a tag lie.
func (h Home) AnswerFile(tag string) string {
	return filepath.Join(string(h), "answers", fileName(tag)+".json")
}

// Answers reads those of a tag, oldest first. Where nobody has answered, and in a fresh clone, there are none.
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

// Answer adds one to those of a tag. An answer that is the task's last one already is not added again.
func (h Home) Answer(ctx context.Context, fsys atomicfile.FS, tag string, a Answer) (err error) {
	if len(a.Text) > MaxAnswer || !utf8.ValidString(a.Text) {
		return fmt.Errorf("answer to task %s: at most %d bytes of UTF-8 text can be kept", a.Task, MaxAnswer)
	}
	path := h.AnswerFile(tag)
	lk, err := takeLock(ctx, lockOf(path), lockWait, Holder{PID: os.Getpid(), Host: hostname(), Tag: tag, At: a.At})
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
	b, err := json.MarshalIndent(answerFile{StateVersion, tag, append(all, a)}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode answers: %w", err)
	}
	if err := atomicfile.Write(fsys, path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("save answer: %w", err)
	}
	return nil
}

// answersTo is what the spec of a task is told; before, where it is not zero, leaves out what was said later.
func (j *Job) answersTo(task string, before time.Time) (out []specbuild.Answer) {
	for _, a := range j.answers {
		if a.Task == task && a.Text != "" && (before.IsZero() || a.At.Before(before)) {
			out = append(out, specbuild.Answer{Question: a.Question, Text: a.Text})
		}
	}
	return out
}

// allowed are the questions about a task that a person answered with yes.
func (j *Job) allowed(task string) (questions []string) {
	for _, a := range j.answers {
		word, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(a.Text)), " ")
		if a.Task == task && a.Question != "" && strings.Trim(word, ".,!") == "yes" {
			questions = append(questions, a.Question)
		}
	}
	return questions
}

// takeAnswers makes blocked tasks pending again that a person answered while the loop ran, whether their agents had asked or not,
// and reports whether there were any.
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

// unasked is a failure whose question was answered since, or is the failure itself.
func unasked(f *specbuild.Failure, answers []specbuild.Answer) *specbuild.Failure {
	if f == nil || !slices.ContainsFunc(answers, func(a specbuild.Answer) bool { return a.Question == f.Question }) {
		return f
	}
	answered := *f
	answered.Question = ""
	return &answered
}

// Question is what the agent of a blocked task asked.
type Question struct {
	Loop     string
	Task     string
	Title    string
	Question string
	At       time.Time
}

// Questions lists those of a tag that wait for an answer, by the order of its list: asked by the last loop that
// blocked the task, which is still blocked. A list that has no word for blocked leaves them open until they are answered.
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

// lastAsked is why the loops of a tag gave up its tasks last, with or without a question, and the statuses that the
// task file may not show yet.
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
