package specbuild

import (
	"fmt"
	"strings"

	"descartes/tasks"
)

// Review is what a second agent sees of a failed attempt.
type Review struct {
	Task    tasks.Task
	Name    string // what was attempted, if it is not a task
	Spec    string // the text of the attempt
	Failure Failure
	Diff    string   // what it changed
	Earlier []string // advice before earlier attempts
}

// Limits, in bytes, for what a review repeats. Of the spec the beginning says most, of the rest the end.
const (
	reviewSpec   = 48 << 10
	reviewOutput = 16 << 10
	reviewDiff   = 32 << 10
)

// ReviewPrompt asks a second agent what the next attempt should know besides its spec.
func ReviewPrompt(r Review) string {
	w := &writer{}
	if r.Name != "" {
		fmt.Fprintf(w, "# Why did it not succeed? %s\n", r.Name)
	} else {
		fmt.Fprintf(w, "# Why did attempt %d not succeed? %s\n", r.Failure.Attempt, taskName(r.Task))
	}
	w.WriteString(`
A coding agent got the specification below and did not succeed. Find out why, and write what the next agent should
know besides that specification. You may read the files in the current directory and run commands that change nothing. Do not
change any file and do not do the task: whatever you change is put back.

Answer with that advice and nothing else: at most 15 lines, to the next agent, about this task. Name files, functions, commands
and the cause, not general virtues. Where the specification itself is wrong or leaves something open, say what is right.
`)
	fmt.Fprintf(w, "\n## The attempt\n\nVerdict: %s", oneLine(r.Failure.Verdict))
	if reason := oneLine(r.Failure.Reason); reason != "" {
		fmt.Fprintf(w, " (%s)", reason)
	}
	w.WriteString("\n")
	quoted(w, outputOf(&r.Failure), tail(clean(r.Failure.Output), reviewOutput))
	quoted(w, "The last words of that attempt's agent:", tail(clean(r.Failure.Words), maxWords))
	quoted(w, "What it had changed:", clean(r.Failure.DiffStat))
	if diff := clean(r.Diff); diff != "" {
		w.WriteString("\nThe diff of its work:\n\n")
		enclose(w, "diff", "", head(diff, reviewDiff))
	}
	for i, advice := range r.Earlier {
		fmt.Fprintf(w, "\n## Advice given before (%d)\n\n", i+1)
		enclose(w, "advice", "", clean(advice))
	}
	w.WriteString("\n## Its specification\n\n")
	enclose(w, "specification", "", head(clean(r.Spec), reviewSpec))
	return strings.TrimRight(w.String(), "\n") + "\n"
}

// refinements is all advice from second agents: dropping some would cost an attempt to learn it again.
func (d *draft) refinements(w *writer) {
	for i, advice := range d.req.Attempt.Refinements {
		text := clean(advice)
		if text == "" {
			continue
		}
		at := w.Len()
		if i == 0 {
			w.WriteString("\n## Advice from reviews of the earlier attempts\n\nWhere it contradicts the rest of this text, find out which is right.\n")
		}
		fmt.Fprintf(w, "\nReview %d:\n\n", i+1)
		enclose(w, "advice", "", text)
		w.from(at, Source{Part: "refinement"})
	}
}
