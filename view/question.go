package view

import (
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

// asks is what the agent of a blocked task asks, "" for nothing.
func (b *Board) asks(id string) string {
	if q := b.blocked[id].Question; q != "" && b.Graph.Status(id) == tasks.Blocked {
		return q
	}
	return ""
}

// open are the questions of one run whose tasks are still blocked.
func (b *Board) open(s *store.State) (out []store.Question) {
	for _, t := range s.BlockedTasks {
		if b.asks(t.Task.ID) != "" {
			out = append(out, store.Question{Loop: s.ID, Task: t.Task.ID, Title: t.Title, Question: t.Question,
				At: t.At})
		}
	}
	return out
}

// QuestionOf is what is asked about a task; one without is a prompt loop's. named are the flags that name the list, or
// where the command is typed.
func QuestionOf(q store.Question, tag string, task store.TaskID, named string) Question {
	command := "descartes answer --name " + q.Loop
	if q.Task != "" {
		command = "descartes answer " + terminal.Quote(terminal.Clean(q.Task))
	}
	return Question{tag, task, q.Title, q.Question, q.Loop, command + ` "..."` + named}
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
