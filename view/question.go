package view

import (
	"slices"

	"descartes/internal/terminal"
	"descartes/loop/store"
	"descartes/tasks"
)

// Question is what an agent, or a loop's gate, asks, and the command that answers it.
type Question struct {
	Tag      string       `json:"tag"`
	Task     store.TaskID `json:"task_id"`
	Title    string       `json:"title"`
	Question string       `json:"question"`
	Loop     string       `json:"loop"`
	Command  string       `json:"command"`
}

// block takes in which tasks a run has blocked.
func (b *Board) block(list []store.Blocked) {
	for _, t := range list {
		if !t.At.Before(b.blocked[t.Task.ID].At) {
			b.blocked[t.Task.ID] = t
		}
	}
}

// Hear takes in what the last run of the tag in any clone left blocked.
func (b *Board) Hear(asked []store.Asked) { b.asked = asked }

// left are the tasks that one run has blocked, after those that it found blocked by an earlier one and are so still.
func (b *Board) left(s *store.State) (list []store.Blocked) {
	list = append([]store.Blocked{}, s.BlockedTasks...)
	for _, a := range slices.Backward(b.asked) {
		known := slices.ContainsFunc(list, func(t store.Blocked) bool { return t.Task.ID == a.Task })
		if !known && a.At.Before(s.StartedAt) && b.Graph.Status(a.Task) == tasks.Blocked {
			list = slices.Insert(list, 0, b.elsewhere(a))
		}
	}
	return list
}

// elsewhere is a task that was blocked in another clone.
func (b *Board) elsewhere(a store.Asked) store.Blocked {
	return store.Blocked{Task: b.ID(a.Task), Title: a.Title, Reason: a.Reason, Question: a.Question,
		Attempts: a.Attempts, At: a.At}
}

// asks is what the agent of a blocked task asks, "" for nothing.
func (b *Board) asks(id string) string {
	if q := b.blocked[id].Question; q != "" && b.Graph.Status(id) == tasks.Blocked {
		return q
	}
	return ""
}

// runOf is the run that blocked a task: the given one, or an earlier one.
func (b *Board) runOf(t store.Blocked, run string) string {
	for _, a := range b.asked {
		if a.Task == t.Task.ID && a.At.Equal(t.At) {
			return a.Loop
		}
	}
	return run
}

// open are the questions of tasks that are still blocked, as a run left them.
func (b *Board) open(run string, left []store.Blocked) (out []store.Question) {
	for _, t := range left {
		if b.asks(t.Task.ID) == "" {
			continue
		}
		out = append(out, store.Question{Loop: b.runOf(t, run), Task: t.Task.ID, Title: t.Title, Question: t.Question,
			At: t.At})
	}
	return out
}

// QuestionOf is what is asked about a task; one without is a prompt loop's. named are the flags that name the list, or
// where the command is typed.
func QuestionOf(q store.Question, tag string, task store.TaskID, named string) Question {
	about := "--name " + q.Loop
	if q.Task != "" {
		about = terminal.Quote(terminal.Clean(q.Task))
	}
	return Question{tag, task, q.Title, q.Question, q.Loop, "descartes answer --edit " + about + named}
}

// Questions are some of a tag's.
func (b *Board) Questions(list []store.Question) []Question {
	out := []Question{}
	for _, q := range list {
		out = append(out, QuestionOf(q, b.File.Tag(), b.ID(q.Task), b.Named()))
	}
	return out
}

// Who asks.
func (q *Question) Who() string {
	if q.Task.ID != "" {
		return q.Task.ID
	}
	return "run " + q.Loop
}
