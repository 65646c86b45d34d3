package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/verify"
)

// Fact is a named line of an account: text, reports and the page each show it in their way.
type Fact struct{ Name, Text string }

type facts []Fact

// add adds a fact that has a text.
func (f *facts) add(name, text string) {
	if text != "" {
		*f = append(*f, Fact{name, text})
	}
}

// Facts are what the numbers of a run do not say: where its work is, what it was run with, what it cost, what a person
// should look at.
func (l *Loop) Facts() (out facts) {
	const most = 10
	r := &l.Run
	few := func(name string, lines []string) {
		for i, line := range lines {
			if i == most {
				out.add(name, fmt.Sprintf("and %d more, in status --json", len(lines)-most))
				return
			}
			out.add(name, line)
		}
	}
	if l.Unpushed != "" {
		out.add("not pushed", "the work is only where the run was; to push it from there: "+l.Unpushed)
	}
	out.add("not committed", l.uncommitted())
	var lines []string
	for _, n := range l.Noticed {
		what := "task " + n.Task
		if n.Task == "" {
			what = fmt.Sprintf("iteration %d", n.Iteration)
		}
		for _, note := range n.Notes {
			lines = append(lines, what+": "+note)
		}
	}
	few("look at", lines)
	out.add("sandbox", r.State.Config.SandboxInForce)
	if l.Board != nil {
		for _, grade := range []journal.Grade{journal.RegressionOnly, journal.Accepted, journal.NotNeeded} {
			ids := slices.DeleteFunc(slices.Clone(l.Board.Graph.Leaves()),
				func(id string) bool { return l.Board.grade(id) != grade })
			out.add(string(grade), terminal.Few(ids, 12))
		}
	}
	for _, c := range l.Checks {
		if c.Fails != "" {
			out.add("check "+c.Check, "it fails on the work as a whole: "+c.Fails)
		}
	}
	lines = nil
	for _, f := range l.Flaky {
		what, times := cmp.Or(f.Test, "verify"), "once"
		if f.Check != "" {
			what = strings.TrimSuffix("check "+f.Check+": "+f.Test, ": ")
		}
		if f.Times > 1 {
			times = fmt.Sprintf("%d times", f.Times)
		}
		lines = append(lines, fmt.Sprintf("%s failed and passed when it ran again, %s", what, times))
	}
	few("flaky", lines)
	if names := l.unrun(); len(names) > 0 {
		out.add("not run", strings.Join(names, ", ")+", which waits for the end of the work")
	}
	out.add("in force", config.InForce(&r.State.Config, !l.Prompt()))
	out.add("cost", r.State.Cost.Text())
	lines = nil
	for _, u := range l.Agents {
		lines = append(lines, strings.TrimSpace(u.Backend+" "+u.Model)+" "+terminal.Count(u.Attempts, "attempt"))
	}
	if len(lines) > 1 {
		out.add("agents", strings.Join(lines, ", "))
	}
	out.add("time", r.timed())
	if r.Outcome.Branch != "" && len(l.Commits)+r.commits() > 0 { // which the user's files did not follow
		out.add("commits", trunk.OnBranch(r.Outcome.Branch, r.Outcome.Merging))
	}
	return out
}

// timed says how long checks took beside agents, and whether more of them at a time would have helped: they did less
// in the lanes together than checks, which run one after the other. "" where nobody waited long for either.
func (r *Run) timed() string {
	var agents, checks time.Duration
	for _, a := range r.History.Attempts {
		if a.Agent != nil {
			agents += seconds(a.Agent.Seconds)
		}
		for _, d := range a.Checks {
			checks += seconds(d.Seconds)
		}
	}
	if agents+checks < time.Minute || checks == 0 {
		return ""
	}
	c := &r.State.Config
	text := fmt.Sprintf("agents %s, checks %s", terminal.Duration(agents), terminal.Duration(checks))
	if lanes := c.Slots(); r.State.Tag != "" && lanes > 1 && c.ChecksAtOnce < 2 &&
		checks > agents/time.Duration(lanes) {
		text += fmt.Sprintf("; %d agents waited for checks: checks_at_once: 2 would have helped, if two can run side by side", lanes)
	}
	return text
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// unrun are the checks of the end that did not run, as the run stopped before its end.
func (l *Loop) unrun() (names []string) {
	e := l.Run.Outcome.Ending
	if l.Board == nil || l.Run.Live || e == "" || e == journal.AllDone || e == journal.TasksBlocked && !l.Step ||
		e == journal.ChecksFail {
		return nil
	}
	for _, c := range l.Run.State.Config.ChecksOf(true) {
		if c.At(verify.AtEnd) {
			names = append(names, c.Name)
		}
	}
	return names
}

// uncommitted names the tasks whose verified work is in no commit, and says why; "" for none.
func (l *Loop) uncommitted() string {
	r := &l.Run
	if len(r.Loose) == 0 {
		return ""
	}
	why := map[journal.Ending]string{
		journal.Paused:       "the run is paused; resuming commits it",
		journal.DiskFull:     "the disk is full; resuming commits it",
		journal.GitRefused:   "git refused; resuming commits it",
		journal.OwnError:     "the run ended with an error; resuming commits it",
		journal.TasksBlocked: "a check fails on the work as a whole; it is committed when that passes"}[r.Outcome.Ending]
	switch {
	case !r.State.Config.Scud.AutoCommitWaves:
		why = "--no-commit"
	case r.Live:
		why = "its wave is committed when it is finished"
	case r.Killed():
		why = "the run was killed; resuming commits it"
	case len(r.Outcome.Lost) > 0:
		why = "it stands on work that the branch lost; a resume makes it again"
	}
	return fmt.Sprintf("%s (%s)", trunk.KeptAs(r.Loose, store.TrunkRef(r.ID)),
		cmp.Or(why, "the run ended before its commit; resuming commits it"))
}

// commits counts the commits of a prompt loop.
func (r *Run) commits() (n int) {
	for _, i := range r.State.Summaries {
		if i.Commit != "" {
			n++
		}
	}
	return n
}

// Stuck are the tasks that were given up or could not run.
func (l *Loop) Stuck() (out facts) {
	const most = 20
	for _, b := range l.Blocked {
		name, where := "blocked", "no changes"
		run := l.Board.runOf(b, l.ID)
		if run != l.ID {
			where = "in run " + run
		}
		prefix := store.RefPrefix(run, b.Task.ID)
		if slices.ContainsFunc(l.Kept, func(r gitops.Ref) bool {
			return strings.HasPrefix(r.Name, prefix) && source.KeepsWork(r)
		}) {
			where = "kept in " + prefix
		} else if b.Question != "" { // which is shown below
			continue
		}
		if b.Question != "" {
			name = "question"
		}
		out.add(name, fmt.Sprintf("%s %s: %s (%s; %s)", b.Task.ID, terminal.Fit(b.Title, 60), b.Reason,
			terminal.Count(b.Attempts, "attempt"), where))
		for _, what := range b.Denied {
			out.add("  the sandbox refused", what)
		}
	}
	all := len(out) + most
	for _, problem := range l.Board.Graph.Problems() {
		if problem.Kind == "cycle" { // its tasks are in no wave
			out.add("held", problem.Message)
		}
	}
	for _, w := range l.Waves {
		for _, t := range w.Tasks {
			if t.Stand == Held || t.Stand == Other {
				out.add(map[Stand]string{Held: "held", Other: "not run"}[t.Stand],
					fmt.Sprintf("%s %s: %s", t.ID.ID, terminal.Fit(t.Title, 60), t.Why))
			}
		}
	}
	if n := len(out) - all; n > 0 {
		out = append(out[:all], Fact{fmt.Sprintf("and %d more", n), "descartes waves" + l.Board.Named()})
	}
	return out
}

// Head is what a run came to, in a line.
func (l *Loop) Head() string {
	r := &l.Run
	if l.Board == nil {
		word := "stopped"
		switch {
		case r.State.Completed && r.State.Iteration == 0: // and nothing was verified
			word = "nothing to do"
		case r.State.Completed:
			word = "completed"
		}
		return word + ": " + terminal.Clean(cmp.Or(r.Outcome.Message, r.Outcome.Ending.Words()))
	}
	c := l.Tasks
	off, other := l.Board.SetAside()
	text := fmt.Sprintf("done %d/%d", c.Done, c.Total)
	for _, x := range []struct {
		n    int
		word string
	}{{c.Questions, "questions"}, {c.Blocked, "blocked"}, {c.Held, "held"}, {c.InProgress + c.Pending, "left"},
		{other, "not run"}, {off, "set aside"}} {
		if x.n > 0 {
			text += fmt.Sprintf(", %s %d", x.word, x.n)
		}
	}
	return text
}

// Counted counts the attempts, or the iterations.
func (l *Loop) Counted() string {
	if l.Prompt() {
		return terminal.Count(l.Iteration, "iteration")
	}
	n, cut := l.Iteration, l.Run.History.Interrupted()
	switch {
	case cut == 0:
		return terminal.Count(n, "attempt")
	case n == 0:
		return terminal.Count(cut, "interrupted attempt")
	}
	return fmt.Sprintf("%s and %d interrupted", terminal.Count(n, "attempt"), cut)
}

// NextStep is what another step would do.
func (b *Board) NextStep() string {
	for _, w := range b.Graph.Waves() {
		var names []string
		for _, id := range w.Tasks {
			if b.Graph.Ready(id) {
				t, _ := b.Graph.Task(id)
				names = append(names, id+" "+terminal.Fit(terminal.Clean(t.Title), 40))
			}
		}
		if len(names) > 0 {
			return fmt.Sprintf("wave %d: %s", w.Number, terminal.Few(names, 10))
		}
	}
	return "nothing is left to run"
}

// Lines are how a run stands, with the seed's own names.
func (l *Loop) Lines(now time.Time) (out facts) {
	utc := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	out = facts{{"State file", l.StateFile}, {"Iteration", fmt.Sprint(l.Iteration)}, {"Started", utc(l.StartedAt)},
		{"Completed", l.Completed()}, {"Exit reason", l.Why}}
	out.add("Run", l.ID)
	when := Ago(now, l.LastActivity) + ", after " + terminal.Spell(l.Elapsed(now))
	if l.Run.Live {
		when = "started " + Ago(now, l.Run.History.Begun)
	}
	out.add("Last activity", utc(l.LastActivity)+" ("+when+")")
	if asked := l.Run.Asked; asked.Stopping {
		out.add("Requested", "to end (Ctrl-C), "+asked.When())
		if !asked.Now {
			out.add("At once", "descartes cancel "+l.ID+" --now"+l.Run.Here)
		}
	} else if asked.Asked != "" {
		out.add("Requested", string(asked.Asked)+", "+asked.When())
		out.add("Undo", fmt.Sprintf("descartes %s %s --undo%s", asked.Asked, l.ID, l.Run.Here))
	}
	if !l.Prompt() {
		var words []string
		for _, n := range l.Numbers() {
			words = append(words, n.Text)
		}
		out.add("Tasks", strings.Join(append(words, l.Times(now)...), ", "))
	}
	return out
}

// Ago says how long something is ago.
func Ago(now, at time.Time) string {
	if now.Sub(at) < time.Second {
		return "just now"
	}
	return terminal.Spell(now.Sub(at)) + " ago"
}

// Config are a run's settings.
func (l *Loop) Config() (out facts) {
	c := l.Run.State.Config
	command := []string{cmp.Or(c.Command, c.Backend.Type)}
	if !l.Prompt() { // the seed has the name alone
		for _, a := range c.Args {
			command = append(command, terminal.Quote(a))
		}
	}
	var checks []string
	for _, one := range c.ChecksOf(!l.Prompt()) {
		checks = append(checks, one.Name+" `"+one.Run+"`")
	}
	verify := strings.Join(checks, ", ")
	out = facts{{"Command", strings.Join(command, " ")}, {"Max iterations", fmt.Sprint(l.MaxIteration)}}
	if !l.Prompt() {
		return append(out, Fact{"Completion promise", fmt.Sprintf("%q", c.CompletionPromise)},
			Fact{"Verify", cmp.Or(c.Scud.VerificationCommand, verify)},
			Fact{"Max attempts per task", fmt.Sprint(c.Scud.MaxIterationsPerTask)})
	}
	if c.Promised() {
		out.add("Completion promise", fmt.Sprintf("%q", c.CompletionPromise))
	}
	out.add("Verify", cmp.Or(c.VerificationCommand, verify))
	if c.Git.AutoCommit {
		subject := cmp.Or(c.Git.CommitTemplate, config.DefaultCommitTemplate)
		if l.Kind != store.KindPrompt {
			subject = l.Kind + ": iteration {iteration} - <task>"
		}
		out.add("Commits", subject)
	}
	return out
}

// KeptWork says where the work is of a run that git refused, by the refs that are there: what keeps it, and of what
// nothing does, "" for neither.
func (l *Loop) KeptWork() (kept, lost string) {
	refs, there := "refs/descartes/"+l.ID+"/", map[string]bool{}
	for _, r := range l.Kept {
		there[r.Name] = source.KeepsWork(r)
		if of := strings.TrimPrefix(r.Name, refs); there[r.Name] &&
			(strings.HasPrefix(of, "tasks/") || strings.HasPrefix(of, "iteration-")) {
			kept = "what the agents wrote is kept as commits under " + refs
		}
	}
	var names []string
	for _, a := range l.Run.History.Attempts {
		ref := fmt.Sprintf("%siteration-%d-%d", refs, a.Iteration, a.Number)
		if a.Task != "" {
			ref = store.RefPrefix(l.ID, a.Task) + strconv.Itoa(a.Number)
		}
		if !a.Over() && !there[ref] {
			names = append(names, AttemptOf(l.Run.Root, l.ID, a, false).Subject())
		}
	}
	if len(names) > 0 {
		lost = "what the last agent of " + terminal.Few(names, 12) + " wrote: no ref of this run has it"
	}
	return kept, lost
}

// Underway is what is worked on, what each does and since when, and what waits for a provider.
func (l *Loop) Underway(now time.Time) (out facts) {
	for i, a := range l.Working() {
		name := a.Subject()
		if a.Task != "" {
			name = strings.TrimSpace(name + " " + terminal.FitWords(terminal.Clean(a.Title), 60))
		}
		out.add(name, a.Now("for "+terminal.Spell(now.Sub(a.Since)), true))
		out.add("", terminal.FitWords(l.Running[i].Action, 74))
	}
	for _, w := range l.Limits {
		if len(w.Tasks) > 0 {
			out.add(terminal.Few(w.Tasks, 12), Until("waiting", &journal.Wait{Until: w.Until, Reason: w.Reason}))
		}
	}
	return out
}

// Past is an iteration of a prompt loop as its history has it.
type Past struct {
	Number, Exit int
	Took         time.Duration
	Preview      string
}

// History are the last iterations, the latest first.
func (l *Loop) History(most int) (out []Past) {
	for _, s := range slices.Backward(l.Run.State.Summaries) {
		if len(out) < most {
			out = append(out, Past{s.Iteration + 1, s.ExitCode, s.CompletedAt.Sub(s.StartedAt),
				terminal.Fit(terminal.Clean(s.OutputPreview), 60)})
		}
	}
	return out
}

// Row is a run in a list of them.
func (l *Listed) Row() []string {
	if l.Err != nil {
		return []string{terminal.Clean(l.Called), "-", "-", "unreadable", "-", "-"}
	}
	kind := l.Kind
	if l.Gate != nil {
		kind += " (" + l.Gate.Kind + ")"
	}
	row := []string{l.ID, kind, l.Tag, l.Word, l.Did(), Ago(time.Now(), l.LastActivity)}
	for i := range row {
		row[i] = cmp.Or(terminal.Clean(row[i]), "-")
	}
	return row
}
