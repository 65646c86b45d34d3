package store

import (
	"slices"
	"time"

	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/tasks"
)

// Question is what the agent of a blocked task asked, or that of a prompt loop.
type Question struct {
	Loop     string
	Task     string // "" for a prompt loop
	Title    string
	Question string
	At       time.Time
}

// Questions lists the open questions of a list, in its order: those of tasks that are still blocked, as
// the last loop that blocked them recorded. If the list has no word for blocked, a question stays open until it is
// answered. status is where a task stands, which the file need not show.
func (h Home) Questions(file *tasks.File, status func(task string) tasks.Status) ([]Question, error) {
	key := h.KeyOf(file)
	last, err := h.lastAsked(key)
	if err != nil {
		return nil, err
	}
	answers, err := h.Answers(key)
	if err != nil {
		return nil, err
	}
	var out []Question
	for _, t := range file.Tasks() {
		q := last[t.ID]
		now := status(t.ID)
		answered := slices.ContainsFunc(answers, func(a Answer) bool { return a.Task == q.Task && a.At.After(q.At) })
		if q.Question != "" && (now == tasks.Blocked || now == tasks.Pending && !answered &&
			!file.Holds(tasks.Blocked)) {
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
	return &Question{Loop: s.State.ID, Title: oneline.Text(s.State.Config.Prompt), Question: last.Detail.Question,
		At: last.TS}, nil
}

// lastAsked returns why the list's loops last gave up each task, with or without a question.
func (h Home) lastAsked(list string) (map[string]Question, error) {
	all, err := h.Of(list)
	if err != nil {
		return nil, err
	}
	said, err := h.Said(list)
	if err != nil {
		return nil, err
	}
	last := map[string]Question{}
	for _, a := range said.Asked {
		last[a.Task] = Question{Loop: a.Loop, Task: a.Task, Title: a.Title, Question: a.Question, At: a.At}
	}
	for _, s := range all {
		v, err := h.View(s, nil)
		if err != nil {
			return nil, err
		}
		for _, b := range v.State.BlockedTasks {
			if last[b.Task.ID].At.After(b.At) {
				continue
			}
			last[b.Task.ID] = Question{Loop: s.State.ID, Task: b.Task.ID, Title: b.Title, Question: b.Question,
				At: b.At}
		}
	}
	return last, nil
}
