package loop

import (
	"maps"
	"slices"
	"time"

	"descartes/tasks"
)

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
