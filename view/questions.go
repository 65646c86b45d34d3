package view

import (
	"fmt"
	"strings"

	"descartes/internal/terminal"
	"descartes/loop/store"
	"descartes/tasks"
)

// QuestionLines shows questions with what to type; "" if there are none.
func QuestionLines(list []store.Question, named string) string {
	var s strings.Builder
	for _, q := range list {
		who := terminal.Clean(q.Task)
		if who == "" {
			who = "loop " + q.Loop
		}
		fmt.Fprintf(&s, "asks: %s %s\n%s  %s\n", who, terminal.Fit(terminal.Clean(q.Title), 60), terminal.Indent(q.Question), answerCommand(q, named))
	}
	return s.String()
}

func answerCommand(q store.Question, named string) string {
	if q.Task == "" {
		return "descartes answer --name " + q.Loop + ` "..."` + named
	}
	return "descartes answer " + terminal.Quote(terminal.Clean(q.Task)) + ` "..."` + named
}

// openQuestions are those of one loop whose tasks are still blocked.
func openQuestions(b *Board, s *store.State) (out []store.Question) {
	for _, t := range s.BlockedTasks {
		if t.Question != "" && b.Graph.Status(t.Task.ID) == tasks.Blocked {
			out = append(out, store.Question{Loop: s.ID, Task: t.Task.ID, Title: t.Title, Question: t.Question, At: t.At})
		}
	}
	return out
}

func (s *Summary) questions() []store.Question { return openQuestions(s.Board, s.Run.State) }

// why is the reason of a blocked task on one line; a question is shown whole elsewhere.
func why(b store.Blocked) string {
	if b.Question != "" {
		return terminal.Fit(terminal.Clean(b.Reason), 80)
	}
	return terminal.Clean(b.Reason)
}

type Question struct {
	Tag      string       `json:"tag"`
	Task     store.TaskID `json:"task_id"`
	Title    string       `json:"title"`
	Question string       `json:"question"`
	Loop     string       `json:"loop"`
	Command  string       `json:"command"`
}

func QuestionList(b *Board, list []store.Question) []Question {
	out := []Question{}
	for _, q := range list {
		out = append(out, Question{b.File.Tag(), b.ID(q.Task), q.Title, q.Question, q.Loop, answerCommand(q, b.Named())})
	}
	return out
}

// LoopQuestion is a prompt loop's; it has no tag and no task.
func LoopQuestion(q store.Question, here string) Question {
	return Question{Title: q.Title, Question: q.Question, Loop: q.Loop, Command: answerCommand(q, here)}
}
