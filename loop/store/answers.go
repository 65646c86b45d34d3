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
	"strings"
	"time"
	"unicode/utf8"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/internal/safename"
)

// Answer is a person's reply about a blocked task: to the question its agent asked, or unasked. Answers belong to the
// list, not to a loop: every later spec of the task contains them. Those about a prompt loop belong to the loop, and
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

// MaxAnswer limits one answer and MaxSaid the file of a list's answers, both in bytes. maxAnswers is how many
// answers of a task are kept: the latest ones.
const (
	MaxAnswer  = 16 << 10
	maxAnswers = 20
	MaxSaid    = 16 << 20
)

// LoopKey stands in place of a list's key for a prompt loop's answers. No tag has a colon, and no id a slash.
func LoopKey(id string) string { return "loop:" + id }

// Asked is why a run gave up a task, for those who have no journal of it.
type Asked struct {
	Loop     string    `json:"loop"`
	Task     string    `json:"task"`
	Title    string    `json:"title,omitempty"`
	Reason   string    `json:"reason"`
	Question string    `json:"question,omitempty"` // "": its agent asked nothing
	Attempts int       `json:"attempts"`
	At       time.Time `json:"at"`

	// of a task that the run added for a check of waves, or of the end: that check, and the branch's commit then
	Check string `json:"check,omitempty"`
	AtEnd bool   `json:"at_end,omitempty"`
	Tip   string `json:"tip,omitempty"`
}

// Same reports whether two records are of the same.
func (a Asked) Same(b Asked) bool {
	at := a.At.Equal(b.At)
	a.At, b.At = time.Time{}, time.Time{}
	return at && a == b
}

// Said is what is said about a tag's tasks: what people answered, oldest first, and what the last run left blocked.
// Clones share it.
type Said struct {
	Answers []Answer  `json:"answers"`
	Asked   []Asked   `json:"asked,omitempty"`
	AskedAt time.Time `json:"asked_at,omitzero"` // when that run ended
	Known   []string  `json:"known,omitempty"`   // failures that what people accepted brought to the branch, then
}

// With is what is said here and there together. What was asked is that of the later run.
func (s Said) With(there Said) Said {
	all := slices.Clone(s.Answers)
	for _, a := range there.Answers {
		if i := slices.IndexFunc(all, a.same); i < 0 {
			all = append(all, a)
		} else if a.Accept != nil && a.Accept.Used {
			all[i].Accept = a.Accept
		}
	}
	slices.SortStableFunc(all, func(a, b Answer) int { return a.At.Compare(b.At) })
	s.Answers = latest(all)
	if there.AskedAt.After(s.AskedAt) {
		s.Asked, s.AskedAt, s.Known = there.Asked, there.AskedAt, there.Known
	}
	return s
}

// same reports whether two records are of the same answer, which may have been acted on in one.
func (a Answer) same(b Answer) bool {
	return a.Task == b.Task && a.At.Equal(b.At) && a.Question == b.Question && a.Text == b.Text
}

// latest leaves out the oldest answers of tasks that have too many.
func latest(all []Answer) []Answer {
	of := map[string]int{}
	for i := len(all) - 1; i >= 0; i-- {
		if of[all[i].Task]++; of[all[i].Task] > maxAnswers {
			all = slices.Delete(all, i, i+1)
		}
	}
	return all
}

type saidFile struct {
	Version string `json:"version"`
	Tag     string `json:"tag"`
	Said
}

// Encode is what a file has of it.
func (s Said) Encode(tag string) ([]byte, error) {
	if s.Answers == nil {
		s.Answers = []Answer{}
	}
	b, err := json.MarshalIndent(saidFile{StateVersion, tag, s}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode answers: %w", err)
	}
	return append(b, '\n'), nil
}

// DecodeSaid reads what Encode wrote; name is that of its file.
func DecodeSaid(b []byte, name string) (Said, error) {
	var f saidFile
	if err := json.Unmarshal(b, &f); err != nil {
		return Said{}, fmt.Errorf("read answers %s: %w", name, err)
	}
	if f.Version != StateVersion {
		return Said{}, &VersionError{Path: name, Version: f.Version}
	}
	return f.Said, nil
}

// AnswerFile is the path of what is said about a list, which KeyOf names, or of a prompt loop's answers.
func (h Home) AnswerFile(key string) string {
	return filepath.Join(string(h), "answers", safename.Of(key)+".json")
}

// Answers reads a list's answers, oldest first. It returns none if nobody has answered.
func (h Home) Answers(key string) ([]Answer, error) {
	said, err := h.Said(key)
	return said.Answers, err
}

// Said reads what is said about a list's tasks in this working tree.
func (h Home) Said(key string) (Said, error) {
	path := h.AnswerFile(key)
	data, err := plainfile.Read("", path, MaxSaid)
	if errors.Is(err, fs.ErrNotExist) {
		return Said{}, nil
	}
	if err != nil {
		return Said{}, fmt.Errorf("read answers: %w", err)
	}
	return DecodeSaid(data, path)
}

// Answer adds an answer to a list's, unless it repeats the task's latest one.
func (h Home) Answer(ctx context.Context, fsys atomicfile.FS, key string, a Answer) error {
	if len(a.Text) > MaxAnswer || !utf8.ValidString(a.Text) {
		return fmt.Errorf("answer %.40q: give at most %d bytes of UTF-8 text", a.Text, MaxAnswer)
	}
	return h.EditSaid(ctx, fsys, key, func(s *Said) bool {
		for _, was := range slices.Backward(s.Answers) {
			if was.Task == a.Task {
				if a.Text != "" && was.Question == a.Question && was.Text == a.Text {
					return false
				}
				break
			}
		}
		s.Answers = latest(append(s.Answers, a))
		return true
	})
}

// EditSaid changes what is said about a list's tasks. Where edit returns false the file stays as it is.
func (h Home) EditSaid(ctx context.Context, fsys atomicfile.FS, key string, edit func(*Said) bool) (err error) {
	path := h.AnswerFile(key)
	tag, _, _ := strings.Cut(key, ":/")
	lk, err := TakeLock(ctx, LockOf(path), LockWait, Holder{PID: os.Getpid(), Host: Hostname(), Tag: tag,
		At: time.Now()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lk.Release()) }()
	if err := h.Make(fsys); err != nil {
		return err
	}
	said, err := h.Said(key)
	if err != nil || !edit(&said) {
		return err
	}
	b, err := said.Encode(tag)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(fsys, path, b, 0o600); err != nil {
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
