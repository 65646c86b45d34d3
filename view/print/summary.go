package print

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/verify"
	"descartes/view"
)

// width is how wide a line is at most, but for names.
const width = 80

// Summary is the end of a run: bars on a terminal, then what is done, blocked and held, the cost, and what to type next.
func Summary(l *view.Loop, paint terminal.Paint, boxed bool) string {
	t, r := &text{}, &l.Run
	t.say("")
	if l.Board != nil {
		t.tasks(l, paint, boxed)
	} else {
		head := "stopped"
		if r.State.Completed {
			head = "completed"
		}
		t.say("%s: %s (loop %s, %s, %s)", paint.In(terminal.Bold, head), terminal.Clean(cmp.Or(r.Outcome.Message, r.Outcome.Ending.Words())), l.ID, terminal.Count(l.Iteration, "iteration"), terminal.Duration(l.Took))
		if r.Outcome.Ending == journal.GitRefused {
			t.say("kept: what the agent wrote is kept under refs/descartes/%s/; what this iteration changed is in no commit", l.ID)
		}
	}
	line := func(format, value string) {
		if value != "" {
			t.say(format, terminal.Clean(value))
		}
	}
	line("not pushed: the work is here; %s", r.Outcome.Unpushed)
	line("not committed: %s", l.Uncommitted())
	for _, text := range l.Notices() {
		line("look at: %s", text)
	}
	line("sandbox: %s", l.Sandbox)
	if l.Board != nil {
		for _, text := range l.Board.Graded() {
			line("%s", text)
		}
	}
	for _, text := range l.Unsteady() {
		line("flaky: %s", text)
	}
	if names := unrun(l); len(names) > 0 {
		line("not run: %s, which waits for the end of the work", strings.Join(names, ", "))
	}
	line("in force: %s", view.Policy(r.State.Config, l.Board != nil))
	t.say("cost: %s", r.State.Cost.Text())
	line("agents: %s", l.Mixed())
	line("%s", l.Aside())
	if l.Step {
		t.step(l.Board)
	}
	t.WriteString(l.Here().Lines())
	for _, text := range l.Update {
		line("then: %s", text)
	}
	line("slots: %s on disk; descartes cleanup removes those that no run used for a week", l.Pool)
	return t.String()
}

// tasks says what became of a tag's tasks.
func (t *text) tasks(l *view.Loop, paint terminal.Paint, boxed bool) {
	r, c := &l.Run, l.Board.Graph.Counts()
	if boxed {
		t.WriteString(bars(l, paint, true, false))
	}
	off, other := l.Board.SetAside()
	head := fmt.Sprintf("done %d/%d", c.Done, c.Total)
	for _, x := range []struct {
		n    int
		word string
	}{{c.Blocked, "blocked"}, {c.Held, "held"}, {c.Total - c.Done - c.Blocked - c.Other - c.Held, "left"}, {other, "not run"}, {off, "set aside"}} {
		if x.n > 0 {
			head += fmt.Sprintf(", %s %d", x.word, x.n)
		}
	}
	t.say("%s (loop %s, %s, %s)", paint.In(terminal.Bold, head), l.ID, l.Counted(), terminal.Duration(l.Took))
	for _, b := range l.Blocked {
		why, where := terminal.Clean(b.Reason), "it left nothing"
		if b.Question != "" { // it is shown whole below
			why = terminal.Fit(why, 80)
		}
		prefix := store.RefPrefix(l.ID, b.Task.ID)
		if slices.ContainsFunc(l.Kept, func(r gitops.Ref) bool { return strings.HasPrefix(r.Name, prefix) }) {
			where = "kept in " + prefix
		}
		t.say("blocked: %s %s: %s (%s; %s)", terminal.Clean(b.Task.ID), terminal.Fit(terminal.Clean(b.Title), 60), why, terminal.Count(b.Attempts, "attempt"), where)
		for _, what := range b.Denied {
			t.say("  the sandbox refused %s", terminal.Clean(what))
		}
	}
	t.held(l)
	t.WriteString(Questions(l.Questions))
	if m := r.Outcome.Message; m != "" {
		t.say("stopped: %s", terminal.Clean(m))
	}
	if r.Outcome.Ending == journal.GitRefused {
		kept := "your files are as they were"
		if len(l.Kept) > 0 {
			kept = "what the agents wrote is kept as commits under refs/descartes/" + l.ID + "/"
		}
		t.say("kept: %s", kept)
	}
}

// held lists the tasks that could not run.
func (t *text) held(l *view.Loop) {
	const most = 20
	n := 0
	for _, problem := range l.Board.Graph.Problems() {
		if problem.Kind == "cycle" { // its tasks are in no wave
			n++
			t.say("held: %s", terminal.Clean(problem.Message))
		}
	}
	for _, w := range l.Waves {
		for _, one := range w.Tasks {
			if one.Stand != view.Held && one.Stand != view.Other {
				continue
			}
			if n++; n <= most {
				word, why := "held", one.Cause
				if one.Stand == view.Other {
					word, why = "not run", cmp.Or(one.Cause, "its status is "+string(one.Status))
				}
				t.say("%s: %s %s: %s", word, terminal.Clean(one.ID.ID), terminal.Fit(terminal.Clean(one.Title), 60), terminal.Clean(why))
			}
		}
	}
	if n > most {
		t.say("and %d more: descartes waves%s", n-most, l.Board.Named())
	}
}

// step says what another step would do.
func (t *text) step(b *view.Board) {
	for _, w := range b.Graph.Waves() {
		var names []string
		for _, id := range w.Tasks {
			if b.Graph.Ready(id) {
				one, _ := b.Graph.Task(id)
				names = append(names, terminal.Clean(id)+" "+terminal.Fit(terminal.Clean(one.Title), 40))
			}
		}
		if len(names) > 0 {
			t.say("next step: wave %d: %s", w.Number, terminal.Few(names, 10))
			return
		}
	}
	t.say("next step: nothing is left to run")
}

// unrun are the checks of the end that did not run, as the run stopped before its end.
func unrun(l *view.Loop) (names []string) {
	e := l.Run.Outcome.Ending
	if l.Board == nil || l.Run.Live || e == journal.AllDone || e == journal.TasksBlocked && !l.Step || e == journal.ChecksFail {
		return nil
	}
	for _, c := range l.Run.State.Config.ChecksOf(true) {
		if c.At(verify.AtEnd) {
			names = append(names, c.Name)
		}
	}
	return names
}

// Why is why a task is where it is.
func Why(w *view.Why) string {
	const most = 10
	t := &text{}
	stale := ""
	if w.Stale != nil {
		stale = ", stale"
	}
	t.say("%s %s: %s%s\n", terminal.Clean(w.Task.ID), terminal.Clean(w.Title), terminal.Clean(w.State), stale)
	hang := func(line string, further int) { t.say("%s", strings.Join(terminal.Hang(line, width, further), "\n")) }
	for _, sentence := range w.Because {
		for _, line := range terminal.Hang("  "+strings.ReplaceAll(terminal.CleanLines(strings.TrimSpace(sentence)), "\n", "\n  "), width, 2) {
			t.say("%s", line)
		}
	}
	list := w.Attempts
	if len(list) > 0 {
		t.say("\nAttempts")
	}
	if n := len(list) - most; n > 0 {
		t.say("  (%s before)", terminal.Count(n, "attempt"))
		list = list[n:]
	}
	for _, a := range list {
		line := fmt.Sprintf("  %d in %s %s", a.N, terminal.Clean(a.Loop), a.Word())
		if !a.At.IsZero() {
			line += ", " + terminal.Moment(a.At)
		}
		if a.Reason != "" && !a.Done() {
			line += ": " + terminal.Clean(a.Reason)
		}
		hang(line, 4)
	}
	for i, e := range w.Evidence {
		if i == 0 {
			t.say("\nEvidence")
		}
		t.say("  %-8s %s", e.Kind, terminal.Clean(e.Where))
	}
	t.say("\nnext: %s", terminal.Clean(w.Next))
	return t.String()
}
