package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/internal/safename"
)

// Answer is a person's reply about a blocked task: to the question its agent asked, or unasked. Answers belong to the
// tag, not to a loop: every later spec of the task contains them. Those about a prompt loop belong to the loop, and
// are in the prompt of each later iteration.
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

// MaxAnswer limits one answer and maxAnswerFile the file of a tag's answers, both in bytes. maxAnswers is how many
// answers of a task are kept: the latest ones.
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
	return filepath.Join(string(h), "answers", safename.Of(tag)+".json")
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
	return h.EditAnswers(ctx, fsys, tag, func(all []Answer) []Answer {
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

// EditAnswers changes a tag's answers. A nil result of edit leaves the file alone.
func (h Home) EditAnswers(ctx context.Context, fsys atomicfile.FS, tag string,
	edit func([]Answer) []Answer) (err error) {
	path := h.AnswerFile(tag)
	lk, err := TakeLock(ctx, LockOf(path), LockWait, Holder{PID: os.Getpid(), Host: Hostname(), Tag: tag,
		At: time.Now()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lk.Release()) }()
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
