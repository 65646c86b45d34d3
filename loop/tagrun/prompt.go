package tagrun

import (
	"fmt"
	"strings"

	"descartes/loop/source"
	"descartes/scheduler"
	"descartes/specbuild"
)

// text is what a task's agent is given.
func (r *Run) text(b *begun) (specbuild.Spec, error) {
	q := source.NextAttempt(r.book.History, b.Task)
	q.Attempt, q.Of = b.unit.Attempt, b.unit.Of
	q.AddEarlier(r.kept, r.ground.list, r.ID())
	if r.task(b.Task) == nil {
		return r.oursText(b), nil
	}
	spec, err := r.job.Spec(q)
	if err == nil && b.Purpose == scheduler.SecondLook {
		spec.Text += secondLook
	}
	return spec, err
}

// secondLook is what an agent is told where the one before it found nothing to do.
const secondLook = `
## A second look

Another agent was given this task before you, changed nothing, and says that it is done. Look for yourself. If something
is left to do, do it. If nothing is, name in your last message the files and tests that show that, by their paths.
`

// oursTitle is what a task is for that the run added.
func (r *Run) oursTitle(id string) string {
	t := r.machine.Task(id)
	switch {
	case t == nil:
		return ""
	case t.Takes != "":
		return fmt.Sprintf("take in %.12s", t.Takes)
	case t.Wave == scheduler.EndWave:
		return t.Check + " at the end"
	}
	return fmt.Sprintf("%s of wave %d", t.Check, t.Wave)
}

// oursText is the text of a task that the run added.
func (r *Run) oursText(b *begun) specbuild.Spec {
	t := r.machine.Task(b.Task)
	var text strings.Builder
	fmt.Fprintf(&text, "# Task %s: %s\n\n", b.Task, r.oursTitle(b.Task))
	if t.Takes != "" {
		fmt.Fprintf(&text, "Somebody committed %.12s while this run worked, and that conflicts with the run's own work. "+
			"Both are merged in this working tree, with git's conflict markers where they change the same lines. "+
			"Resolve the conflicts so that both intentions hold.\n", t.Takes)
	} else {
		fmt.Fprintf(&text, "The check %q fails on the work of several tasks together. Find out why, and mend it.\n", t.Check)
		for _, c := range r.checksNamed([]string{t.Check}) {
			fmt.Fprintf(&text, "\nIt runs:\n\n    %s\n", c.Run)
		}
		if r.ends.why != "" {
			fmt.Fprintf(&text, "\nIt ended with:\n\n%s\n", r.ends.why)
		}
	}
	if f := r.book.History.Task(b.Task).Failure; f.Verdict != "" {
		fmt.Fprintf(&text, "\nThe attempt before failed: %s\n", f.Reason)
		if f.Result != nil && f.Result.Output != "" {
			text.WriteString("\n" + f.Result.Output + "\n")
		}
	}
	for _, a := range r.job.Answers {
		if a.Task == b.Task && a.Text != "" {
			fmt.Fprintf(&text, "\nA person says about it: %s\n", a.Text)
		}
	}
	fmt.Fprintf(&text, "\nWhen you are done, say %s.\n", r.ground.config.CompletionPromise)
	s := specbuild.Spec{Text: text.String()}
	s.Tokens = specbuild.Tokens(s.Text)
	return s
}
