package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"descartes/loop/journal"
	"descartes/tasks"
)

// variant is one attempt as loop tune shows it.
type variant struct {
	Loop       string       `json:"loop"`
	Attempt    int          `json:"attempt"` // of a prompt loop its iteration
	Try        int          `json:"try,omitempty"`
	Verdict    string       `json:"verdict"`
	Reason     string       `json:"reason"`
	Seconds    float64      `json:"seconds"`
	Cost       journal.Cost `json:"cost"`
	Tuned      bool         `json:"tuned"`      // a person chose its text
	Refinement string       `json:"refinement"` // what a review advised before it
	Spec       string       `json:"spec"`
	Kept       bool         `json:"spec_kept"` // else it was built again
	SpecDiff   string       `json:"spec_diff"` // from the attempt before
	Words      string       `json:"words"`
	Output     string       `json:"verify_output"`
	DiffStat   string       `json:"diff_stat"`
	Diff       string       `json:"diff"`
	Ref        string       `json:"ref"`
	turn       bool         // an iteration
}

// shownDiff bounds, in bytes, the diff that is shown of an attempt; its ref has all of it.
const shownDiff = 16 << 10

// variants are the attempts of a task in the tag's last loop.
func (src *specSource) variants(ctx context.Context, id string) ([]variant, error) {
	if src.last == nil {
		return nil, nil
	}
	found, err := src.home.Variants(src.last.State.ID, id)
	if err != nil {
		return nil, err
	}
	repo, err := openRepo(ctx, src.root, nil)
	if err != nil {
		return nil, err
	}
	defer repo.Close()
	list := make([]variant, 0, len(found)) // never null in JSON
	for i, f := range found {
		v := variant{Loop: f.Loop, Attempt: f.Attempt, Verdict: orWord(f.Verdict, "running"), Reason: f.Reason, Seconds: f.Seconds, Cost: f.Cost,
			Tuned: f.Tuned, Refinement: f.Refinement, Words: f.Words, Output: f.Output, DiffStat: f.DiffStat, Ref: f.Ref}
		if v.Spec, v.Kept, err = src.home.VariantSpec(src.job, f); err != nil {
			return nil, err
		}
		if i > 0 {
			v.SpecDiff = changes(fmt.Sprintf("attempt %d", list[i-1].Attempt), list[i-1].Spec, fmt.Sprintf("attempt %d", v.Attempt), v.Spec)
		}
		if f.Before != "" && f.After != "" {
			if v.Diff, err = repo.Patch(ctx, f.Before, f.After, shownDiff); err != nil {
				v.Diff = "" // a tree that git has pruned; the diff stat is left
			}
		}
		list = append(list, v)
	}
	return list, nil
}

// changes is the difference of two texts without the two lines that name them.
func changes(oldName, old, newName, text string) string {
	d := string(diff.Diff(oldName, []byte(old), newName, []byte(text)))
	if at := strings.Index(d, "\n@@"); at >= 0 {
		return d[at+1:]
	}
	return d
}

// render shows a task's attempts in the format asked for.
func (t *tune) render(src *specSource, task *tasks.Task, list []variant) (string, error) {
	if t.format == "json" {
		var s strings.Builder
		err := writeJSON(&s, list)
		return s.String(), err
	}
	if len(list) == 0 {
		return "task " + clean(task.ID) + " has no attempts in a loop that is known here\n", nil
	}
	m := t.format == "markdown"
	var s strings.Builder
	title := fmt.Sprintf("task %s  %s: %s, %s in loop %s", clean(task.ID), clean(task.Title), src.graph.Status(task.ID), count(len(list), "attempt"), clean(list[0].Loop))
	heading(&s, m, 1, title)
	for _, v := range list {
		v.text(&s, m)
	}
	chosen, err := src.home.Tuned(src.file.Tag(), task.ID)
	if err != nil {
		return "", err
	}
	if chosen != "" {
		last := list[len(list)-1]
		heading(&s, m, 2, "next attempt: a chosen text")
		block(&s, m, "differs from that of attempt "+itoa(last.Attempt), changes("", last.Spec, "", chosen))
	}
	at := quote(task.ID) + ofTag(src.file.Tag(), src.scud.TasksFile)
	if !m && src.graph.Status(task.ID) != tasks.Done {
		fmt.Fprintf(&s, "\nnext: descartes loop tune %s --select N, or --edit\n", at)
	}
	return s.String(), nil
}

func (v *variant) text(s *strings.Builder, m bool) {
	line := fmt.Sprintf("%s  %s", v.name(), clean(v.Verdict))
	if v.Reason != "" {
		line += ": " + clean(v.Reason)
	}
	heading(s, m, 2, line)
	facts := fmt.Sprintf("took %s, cost %s", lasted(time.Duration(v.Seconds*float64(time.Second))), costText(&v.Cost))
	if v.Tuned {
		facts += "; its text was chosen by hand"
	}
	if !v.Kept && v.Spec != "" {
		facts += "; its text is built again from the files as they are now"
	}
	if v.Ref != "" {
		facts += "; kept as " + v.Ref
	}
	fmt.Fprintf(s, "  %s\n", facts)
	if m {
		s.WriteString("\n")
	}
	block(s, m, "a review advised", v.Refinement)
	block(s, m, "the spec differs from that of the attempt before", v.SpecDiff)
	block(s, m, "the agent's last words", v.Words)
	block(s, m, "the verification printed", v.Output)
	if v.Diff != "" {
		block(s, m, "it changed", v.Diff)
	} else {
		block(s, m, "it changed", v.DiffStat)
	}
}

// name is how a variant is called in a heading.
func (v *variant) name() string {
	switch {
	case v.Try > 1:
		return fmt.Sprintf("iteration %d, time %d", v.Attempt, v.Try)
	case v.turn:
		return fmt.Sprintf("iteration %d", v.Attempt)
	}
	return fmt.Sprintf("attempt %d", v.Attempt)
}

func heading(s *strings.Builder, markdown bool, level int, text string) {
	if s.Len() > 0 {
		s.WriteString("\n")
	}
	if markdown {
		s.WriteString(strings.Repeat("#", level) + " ")
	}
	s.WriteString(text + "\n")
	if markdown {
		s.WriteString("\n")
	}
}

// block shows foreign text: indented for a person, in a fence that it does not close for Markdown.
func block(s *strings.Builder, markdown bool, lead, text string) {
	text = strings.TrimRight(text, "\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	if markdown {
		fence := "```"
		for strings.Contains(text, fence) {
			fence += "`"
		}
		fmt.Fprintf(s, "%s:\n\n%s\n%s\n%s\n\n", strings.ToUpper(lead[:1])+lead[1:], fence, text, fence)
		return
	}
	fmt.Fprintf(s, "  %s:\n", lead)
	for line := range strings.SplitSeq(text, "\n") {
		s.WriteString(strings.TrimRight("    "+clean(strings.ReplaceAll(line, "\t", "    ")), " ") + "\n")
	}
}
