package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/tasks"
)

// showQuestions lists what is open: in the tag that was named, or in each that a loop ran over.
func showQuestions(cmd *cobra.Command, look looking) error {
	boards, err := asked(cmd, look)
	if err != nil {
		return err
	}
	list, text := []questionJSON{}, ""
	for _, b := range boards {
		open, err := loop.NewHome(b.root).Questions(b.file)
		if err != nil {
			return err
		}
		list = append(list, questionList(b, open)...)
		text += questionLines(open, b.named())
	}
	if look.json {
		return writeJSON(cmd.OutOrStdout(), list)
	}
	if text == "" {
		text = "no task waits for an answer\n"
	}
	return write(cmd.OutOrStdout(), text)
}

// asked are the boards that questions are looked for in.
func asked(cmd *cobra.Command, look looking) (boards []*board, err error) {
	if err := environment(cmd.Flags()); err != nil {
		return nil, err
	}
	if f := cmd.Flags(); f.Changed("scud-tag") || f.Changed("tasks-file") {
		b, err := look.board(cmd)
		return []*board{b}, err
	}
	root, err := findRoot(look.Dir)
	if err != nil {
		return nil, err
	}
	all, err := loop.NewHome(root).List()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, s := range all {
		if s.State == nil {
			continue
		}
		c := listOf(s.State)
		key := c.Tag + "\x00" + c.TasksFile
		if seen[key] {
			continue
		}
		seen[key] = true
		if job, _ := loop.Load(root, loop.Config{Scud: c}); job != nil {
			b, err := newBoard(job)
			if err != nil {
				return nil, err
			}
			boards = append(boards, b)
		}
	}
	return boards, nil
}

// showQuestion tells what a task's agent asks, and what was answered before.
func showQuestion(cmd *cobra.Command, look looking, id string) error {
	b, err := look.board(cmd)
	if err != nil {
		return err
	}
	t, err := b.need(id)
	if err != nil {
		return err
	}
	home := loop.NewHome(b.root)
	open, err := home.Questions(b.file)
	if err != nil {
		return err
	}
	answers, err := home.Answers(b.file.Tag())
	if err != nil {
		return err
	}
	report := struct {
		Task     loop.TaskID   `json:"task_id"`
		Question *string       `json:"question"` // null where none is open
		Answers  []loop.Answer `json:"answers"`
	}{Task: b.id(t.ID), Answers: []loop.Answer{}}
	var text strings.Builder
	for _, a := range answers {
		if a.Task == t.ID {
			report.Answers = append(report.Answers, a)
			fmt.Fprintf(&text, "answered %s:\n%s", a.At.Local().Format(time.DateTime), terminal.Indent(a.Text))
		}
	}
	for _, q := range open {
		if q.Task == t.ID {
			report.Question = &q.Question
			text.WriteString(questionLines([]loop.Question{q}, b.named()))
		}
	}
	if look.json {
		return writeJSON(cmd.OutOrStdout(), report)
	}
	if report.Question == nil {
		fmt.Fprintf(&text, "task %s waits for no answer\n", terminal.Clean(t.ID))
	}
	return write(cmd.OutOrStdout(), text.String())
}

// questionLines shows questions with what to type; "" if there are none.
func questionLines(list []loop.Question, named string) string {
	var s strings.Builder
	for _, q := range list {
		fmt.Fprintf(&s, "asks: %s %s\n%s  %s\n", terminal.Clean(q.Task), terminal.Fit(terminal.Clean(q.Title), 60), terminal.Indent(q.Question), answerCommand(q.Task, named))
	}
	return s.String()
}

func answerCommand(task, named string) string {
	return "descartes answer " + terminal.Quote(terminal.Clean(task)) + ` "..."` + named
}

// openQuestions are those of one loop whose tasks are still blocked.
func openQuestions(b *board, s *loop.State) (out []loop.Question) {
	for _, t := range s.BlockedTasks {
		if t.Question != "" && b.graph.Status(t.Task.ID) == tasks.Blocked {
			out = append(out, loop.Question{Loop: s.ID, Task: t.Task.ID, Title: t.Title, Question: t.Question, At: t.At})
		}
	}
	return out
}

func (s *summary) questions() []loop.Question { return openQuestions(s.board, s.run.state) }

// why is the reason of a blocked task on one line; a question is shown whole elsewhere.
func why(b loop.Blocked) string {
	if b.Question != "" {
		return terminal.Fit(terminal.Clean(b.Reason), 80)
	}
	return terminal.Clean(b.Reason)
}

type questionJSON struct {
	Tag      string      `json:"tag"`
	Task     loop.TaskID `json:"task_id"`
	Title    string      `json:"title"`
	Question string      `json:"question"`
	Loop     string      `json:"loop"`
	Command  string      `json:"command"`
}

func questionList(b *board, list []loop.Question) []questionJSON {
	out := []questionJSON{}
	for _, q := range list {
		out = append(out, questionJSON{b.file.Tag(), b.id(q.Task), q.Title, q.Question, q.Loop, answerCommand(q.Task, b.named())})
	}
	return out
}
