package specbuild

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"descartes/internal/markdown"
	"descartes/tasks"
)

// Breakdown is a request to an agent to break a document, or one task, down into tasks.
type Breakdown struct {
	Tag      string
	Name     string      // of the document
	Document string      // "" if a task is split
	Split    *tasks.Task // nil if a document is broken down
	Ask      string      // what else the user wants
	First    int         // number of the first new task
	Most     int         // tasks

	Standing []tasks.Task // what the list holds, and keeps
	Tags     []string     // all lists of the project
	Files    []string     // at the top of the project
	Readme   string
	Verify   string // the command that decides whether a task is done; "" for none
	Tokens   int    // budget for the description of the project, besides the document; 0: any number

	Answer string   // a rejected answer; "" for none
	Faults []string // why
}

// Limits, in characters, of a task written by an agent.
const (
	MaxTitle = 200
	MaxText  = 5000
)

// CheckText says why something is not text, or which encoding it seems to have. Its message continues a sentence.
func CheckText(text []byte) error { return markdown.CheckText(text) }

// CheckDocument says why a text cannot be broken down. Its message continues a sentence.
func CheckDocument(text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("is empty: write down what is to be built")
	}
	return CheckText(text)
}

// BreakdownPrompt asks an agent for tasks. Everything that others wrote stands between tags, and is called data.
func BreakdownPrompt(b Breakdown) string {
	data := struct {
		Breakdown
		From, MaxTitle, MaxText int
		SplitText               string
		Project                 []fact
	}{b, b.First, MaxTitle, MaxText, "", b.project()}
	if t := b.Split; t != nil {
		data.From = 1
		data.SplitText = strings.TrimSpace(strings.Join([]string{taskName(*t), clean(t.Description), clean(t.Details),
			clean(t.TestStrategy), clean(t.Acceptance)}, "\n\n"))
	}
	return prompt("breakdown", data)
}

// fact is something about a project.
type fact struct{ Lead, Tag, Text string }

// project describes the project, the most important first, as far as the budget goes.
func (b *Breakdown) project() (list []fact) {
	var standing strings.Builder
	for _, t := range b.Standing {
		fmt.Fprintf(&standing, "%s [%s] %s", t.ID, t.Status, oneLine(t.Title))
		if len(t.DependsOn) > 0 {
			standing.WriteString(" (after " + strings.Join(t.DependsOn, ", ") + ")")
		}
		standing.WriteString("\n")
	}
	left := b.Tokens * 4
	for _, f := range []struct {
		fact
		most int
	}{
		{fact{"Tasks that the list " + oneLine(b.Tag) + " holds and keeps. Do not plan them again:", "tasks",
			standing.String()}, 1 << 20},
		{fact{"The command that decides whether a task is done:", "verify", b.Verify}, 1 << 10},
		{fact{"At the top of the project:", "files", strings.Join(b.Files, "\n")}, 4 << 10},
		{fact{"Other task lists of the project:", "lists", strings.Join(b.Tags, "\n")}, 2 << 10},
		{fact{"The beginning of its README:", "readme", b.Readme}, 6 << 10},
	} {
		if b.Tokens > 0 {
			f.most = min(f.most, left)
		}
		if f.Text = clean(f.Text); f.Text != "" && f.most >= 40 {
			f.Text = head(f.Text, f.most)
			left -= len(f.Text)
			list = append(list, f.fact)
		}
	}
	return list
}
