package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop"
)

// showQuestions lists what is open: in the tag that was named, or in each that a loop ran over.
func showQuestions(cmd *cobra.Command, look looking) error {
	boards, err := asked(cmd, look)
	if err != nil {
		return err
	}
	list, text := []report.Question{}, ""
	for _, b := range boards {
		open, err := loop.NewHome(b.Root).Questions(b.File)
		if err != nil {
			return err
		}
		list = append(list, report.QuestionList(b, open)...)
		text += report.QuestionLines(open, b.Named())
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
func asked(cmd *cobra.Command, look looking) (boards []*report.Board, err error) {
	if err := environment(cmd.Flags()); err != nil {
		return nil, err
	}
	if f := cmd.Flags(); f.Changed("scud-tag") || f.Changed("tasks-file") {
		b, err := look.board(cmd)
		return []*report.Board{b}, err
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
		c := report.ListOf(s.State)
		key := c.Tag + "\x00" + c.TasksFile
		if seen[key] {
			continue
		}
		seen[key] = true
		if job, _ := loop.Load(root, loop.Config{Scud: c}); job != nil {
			b, err := report.NewBoard(job)
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
	t, err := need(b, id)
	if err != nil {
		return err
	}
	home := loop.NewHome(b.Root)
	open, err := home.Questions(b.File)
	if err != nil {
		return err
	}
	answers, err := home.Answers(b.File.Tag())
	if err != nil {
		return err
	}
	shown := struct {
		Task     loop.TaskID   `json:"task_id"`
		Question *string       `json:"question"` // null where none is open
		Answers  []loop.Answer `json:"answers"`
	}{Task: b.ID(t.ID), Answers: []loop.Answer{}}
	var text strings.Builder
	for _, a := range answers {
		if a.Task == t.ID {
			shown.Answers = append(shown.Answers, a)
			fmt.Fprintf(&text, "answered %s:\n%s", a.At.Local().Format(time.DateTime), terminal.Indent(a.Text))
		}
	}
	for _, q := range open {
		if q.Task == t.ID {
			shown.Question = &q.Question
			text.WriteString(report.QuestionLines([]loop.Question{q}, b.Named()))
		}
	}
	if look.json {
		return writeJSON(cmd.OutOrStdout(), shown)
	}
	if shown.Question == nil {
		fmt.Fprintf(&text, "task %s waits for no answer\n", terminal.Clean(t.ID))
	}
	return write(cmd.OutOrStdout(), text.String())
}
