package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/verify"
)

// Summary is the outcome of a run, for a person who was away.
type Summary struct {
	*Board // nil: of a loop over a prompt
	Run    Run
	Step   bool
	Took   time.Duration
	Kept   []gitops.Ref // of attempts; only looked up where tasks are blocked
	Update []string     // what brings the user's packages up to date
	Pool   string       // what the project's slots occupy, where that is much
	Live   bool         // the run is not over
	Away   bool         // whoever reads it is on another machine
	Later  bool         // the loop's settings are saved ones: no flags are known that would give them again
}

// Summary is a loop's current state, for a report. here is what a command typed elsewhere needs in addition.
func (st *Status) Summary(here string) *Summary {
	s, h := &st.View.State, st.View.History
	if st.Board != nil {
		st.Board.Here = here
	}
	return &Summary{Board: st.Board, Live: st.View.Live, Later: true, Run: Run{Outcome: st.Outcome(), ID: s.ID, Root: st.root,
		Path: st.View.Path, State: s, History: h, Loose: h.Uncommitted(), Here: here}}
}

// name is what the run is about.
func (s *Summary) name() string {
	if s.Board != nil {
		return s.File.Tag()
	}
	return s.Run.ID
}

// headline says in few words how far it is.
func (s *Summary) headline() string {
	if s.Board != nil {
		c := s.Graph.Counts()
		return fmt.Sprintf("%s: %d of %s done", s.name(), c.Done, terminal.Count(c.Total, "task"))
	}
	how := "stopped"
	switch {
	case s.Live:
		how = "running"
	case s.Run.Outcome.Ending.Final():
		how = "done"
	}
	return fmt.Sprintf("%s %s: %s after %s", s.Run.State.Kind, s.name(), how, terminal.Count(s.Run.State.Iteration, "iteration"))
}

// killed reports whether the loop did not come to its end.
func (s *Summary) killed() bool {
	e := s.Run.Outcome.Ending
	return !s.Live && s.Run.ID != "" && (e == "" || e == "running")
}

// ending says how the run ended, and what stopped it.
func (s *Summary) ending() string {
	switch e := s.Run.Outcome.Ending; {
	case s.Live:
		return "is running"
	case s.killed():
		return "was killed"
	case s.Run.Outcome.Message != "":
		return e.Words() + " (" + s.Run.Outcome.Message + ")"
	default:
		return e.Words()
	}
}

// broke reports whether the run ended with something that a person has to see to, and that is not said of its tasks or iterations.
func (s *Summary) broke() bool {
	if s.Live || s.Run.ID == "" {
		return false
	}
	switch s.Run.Outcome.Ending {
	case journal.AgentUnusable, journal.ProviderFails, journal.GitRefused, journal.DiskFull, journal.BaselineFails, journal.OwnError, journal.TestsFailed, journal.PlanMissing, journal.ChecksFail,
		journal.GateBlocked, journal.GateAsks, journal.BreakerOpen:
		return true
	}
	return s.killed() || s.Run.Outcome.Unpushed != ""
}

// where says where the work on a blocked task is kept.
func (s *Summary) where(id string) string {
	prefix := store.RefPrefix(s.Run.ID, id)
	if !slices.ContainsFunc(s.Kept, func(r gitops.Ref) bool { return strings.HasPrefix(r.Name, prefix) }) {
		return "; it left nothing"
	}
	return "; kept in " + prefix
}

func (s *Summary) blocked() []blockedLine {
	var out []blockedLine
	for _, b := range s.Run.State.BlockedTasks {
		out = append(out, blockedLine{b.Task.ID, b.Title, b.Reason})
	}
	return out
}

// Text is the end of a run: bars on a terminal, then what is done, blocked and held, the cost,
// and what to type next.
func (s *Summary) Text(paint terminal.Paint, boxed bool) string {
	if s.Board == nil {
		return s.promptText(paint)
	}
	p := &page{}
	p.say("")
	if boxed {
		p.WriteString(terminal.Box("SCUD Loop: "+terminal.Clean(s.File.Tag()), s.bars(paint, false, s.Run.State.CurrentWave, nil, s.blocked())))
	}
	c := s.Graph.Counts()
	head := fmt.Sprintf("done %d/%d", c.Done, c.Total)
	if c.Blocked > 0 {
		head += fmt.Sprintf(", blocked %d", c.Blocked)
	}
	if c.Held > 0 {
		head += fmt.Sprintf(", held %d", c.Held)
	}
	if n := c.Total - c.Done - c.Blocked - c.Other - c.Held; n > 0 {
		head += fmt.Sprintf(", left %d", n)
	}
	off, other := s.setAside()
	if other > 0 {
		head += fmt.Sprintf(", not run %d", other)
	}
	if off > 0 {
		head += fmt.Sprintf(", set aside %d", off)
	}
	p.say("%s (loop %s, %s, %s)", paint.In(terminal.Bold, head), s.Run.ID, s.Run.attempts(), terminal.Duration(s.Took))
	for _, b := range s.Run.State.BlockedTasks {
		p.say("blocked: %s %s: %s (%s%s)", terminal.Clean(b.Task.ID), terminal.Fit(terminal.Clean(b.Title), 60), why(b), terminal.Count(b.Attempts, "attempt"), s.where(b.Task.ID))
		for _, what := range b.Denied {
			p.say("  the sandbox refused %s", terminal.Clean(what))
		}
	}
	s.sayHeld(p)
	p.WriteString(QuestionLines(s.questions(), s.Named()))
	if m := s.Run.Outcome.Message; m != "" {
		p.say("stopped: %s", terminal.Clean(m))
	}
	if s.Run.Outcome.Ending == journal.GitRefused {
		p.say("kept: %s", s.keptWhere())
	}
	p.unpushed(s.Run)
	if text := s.uncommitted(); text != "" {
		p.say("not committed: %s", text)
	}
	p.noticed(s.Run.State)
	p.say("sandbox: %s", terminal.Clean(Sandbox(s.Run.State.Config)))
	s.sayChecks(p)
	if text := Policy(s.Run.State.Config, true); text != "" {
		p.say("in force: %s", text)
	}
	p.say("cost: %s", s.Run.State.Cost.Text())
	s.sayCosts(p)
	if used := agentsText(s.Run.State.Agents); used != "" {
		p.say("agents: %s", used)
	}
	if text := s.Run.History.Chains().String(); text != "" {
		p.say("chains: %s", text)
	}
	if text := s.Run.aside(len(s.Run.State.WaveCommits)); text != "" {
		p.say("%s", text)
	}
	if s.Step {
		p.say("%s", s.nextStep())
	}
	p.WriteString(s.here().lines())
	s.sayRest(p)
	return p.String()
}

// graded lists the tasks that are done with a grade, by that.
func (b *Board) graded() (lines []string) {
	for _, grade := range []journal.Grade{journal.RegressionOnly, journal.Accepted} {
		var ids []string
		for _, id := range b.Graph.Leaves() {
			if b.grade(id) == grade {
				ids = append(ids, id)
			}
		}
		if len(ids) > 0 {
			lines = append(lines, fmt.Sprintf("%s: %s", grade, terminal.Clean(terminal.Few(ids, tasksPriced))))
		}
	}
	return lines
}

const flakyShown = 10

// flaky lists what failed and passed when it was run again.
func flaky(list []journal.Flaky) (lines []string) {
	for _, f := range list[:min(flakyShown, len(list))] {
		what := cmp.Or(f.Test, "verify")
		if f.Check != "" {
			what = strings.TrimSuffix("check "+f.Check+": "+f.Test, ": ")
		}
		times := "once"
		if f.Times > 1 {
			times = fmt.Sprintf("%d times", f.Times)
		}
		lines = append(lines, fmt.Sprintf("%s failed and passed when it ran again, %s", terminal.Clean(what), times))
	}
	if n := len(list) - flakyShown; n > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", n))
	}
	return lines
}

// unrun are the checks of the end that did not run, as the run stopped before its end.
func (s *Summary) unrun() (names []string) {
	if e := s.Run.Outcome.Ending; s.Live || e == journal.AllDone || e == journal.TasksBlocked && !s.Step || e == journal.ChecksFail {
		return nil
	}
	for _, c := range s.Run.State.Config.ChecksOf(true) {
		if c.At(verify.AtEnd) {
			names = append(names, c.Name)
		}
	}
	return names
}

// sayChecks says what done does not say by itself: grades, flaky tests, checks that did not run.
func (s *Summary) sayChecks(p *page) {
	for _, line := range s.graded() {
		p.say("%s", line)
	}
	for _, line := range flaky(s.Run.State.Flaky) {
		p.say("flaky: %s", line)
	}
	if names := s.unrun(); len(names) > 0 {
		p.say("not run: %s, which waits for the end of the work", strings.Join(names, ", "))
	}
}

// unpushed has the command that does what --push could not.
func (p *page) unpushed(r Run) {
	if r.Outcome.Unpushed != "" {
		p.say("not pushed: the work is here; %s", terminal.Clean(r.Outcome.Unpushed))
	}
}

// uncommitted names the tasks whose verified work is in no commit, and says why; "" for none.
func (s *Summary) uncommitted() string {
	n := len(s.Run.Loose)
	if n == 0 {
		return ""
	}
	list, why := terminal.Clean(strings.Join(s.Run.Loose[:min(n, tasksPriced)], ", ")), "the run ended with an error; resuming commits it"
	word := "tasks"
	if n == 1 {
		word = "task"
	}
	if n > tasksPriced {
		list += fmt.Sprintf(" and %d more", n-tasksPriced)
	}
	switch {
	case !s.Run.State.Config.Scud.AutoCommitWaves:
		why = "--no-commit"
	case s.Live:
		why = "its wave is committed when it is finished"
	case s.killed():
		why = "the run was killed; resuming commits it"
	case s.Run.Outcome.Ending == journal.GateAsks:
		why = "its review waits for you"
	case s.Run.Outcome.Ending == journal.Paused:
		why = "the run is paused; resuming commits it"
	case s.Run.Outcome.Ending == journal.DiskFull:
		why = "the disk is full; resuming commits it"
	case s.Run.Outcome.Ending == journal.GitRefused:
		why = "git refused; resuming commits it"
	}
	return fmt.Sprintf("the work done on %s %s is %s (%s)", word, list, s.Run.where(), why)
}

// log shows the run's commits, n by its own count.
func (r *Run) log(n int) string {
	return strings.TrimSuffix(fmt.Sprintf("git log --stat -%d %s", cmp.Or(r.Outcome.Commits, n), r.Outcome.Branch), " ")
}

// aside says where the commits are that the user's files did not follow, "" where they did.
func (r *Run) aside(commits int) string {
	if r.Outcome.Branch == "" || commits == 0 {
		return ""
	}
	return fmt.Sprintf("commits: on the branch %s; to bring them here: %s", terminal.Clean(r.Outcome.Branch), terminal.Clean(r.Outcome.Merging))
}

// where says where verified work lies that no commit holds.
func (r *Run) where() string { return "kept as " + store.TrunkRef(r.ID) }

// keptWhere says what there is of a run that git ended.
func (s *Summary) keptWhere() string {
	if len(s.Kept) > 0 {
		return "what the agents wrote is kept as commits under refs/descartes/" + s.Run.ID + "/"
	}
	return "your files are as they were"
}

func (p *page) noticed(s *store.State) {
	for _, text := range noticed(s) {
		p.say("look at: %s", text)
	}
}

// noticed lists what looks at the attempts that passed say, a line each.
func noticed(s *store.State) (list []string) {
	const most = 10
	more := 0
	for _, n := range s.Noticed {
		what := "task " + n.Task
		if n.Task == "" {
			what = fmt.Sprintf("iteration %d", n.Iteration)
		}
		for _, note := range n.Notes {
			if len(list) < most {
				list = append(list, terminal.Clean(what+": "+note))
			} else {
				more++
			}
		}
	}
	if more > 0 {
		list = append(list, fmt.Sprintf("and %d more, in the reports", more))
	}
	return list
}

const heldShown = 20

func (s *Summary) sayHeld(p *page) {
	n := 0
	for _, problem := range s.Graph.Problems() {
		if problem.Kind == "cycle" { // its tasks are in no wave
			n++
			p.say("held: %s", terminal.Clean(problem.Message))
		}
	}
	for _, w := range s.Graph.Waves() {
		for _, id := range w.Tasks {
			state, cause := s.Graph.State(id)
			if state != "held" && state != "other" {
				continue
			}
			if n++; n <= heldShown {
				t, _ := s.Graph.Task(id)
				p.say("%s: %s %s: %s", heldWord(string(state)), terminal.Clean(id), terminal.Fit(terminal.Clean(t.Title), 60), terminal.Clean(cmp.Or(cause, "its status is "+string(t.Status))))
			}
		}
	}
	if n > heldShown {
		p.say("and %d more: descartes waves%s", n-heldShown, s.Named())
	}
}

func heldWord(state string) string {
	if state == "other" {
		return "not run"
	}
	return "held"
}

const (
	wavesPriced = 20
	tasksPriced = 12
)

// sayCosts lists what waves and tasks cost, where that is known of any.
func (s *Summary) sayCosts(p *page) {
	shown := 0
	for _, w := range s.Graph.Waves() {
		sum := s.Run.History.WaveOf(w.Number).Cost
		if sum.USD == nil {
			continue
		}
		if shown++; shown > wavesPriced {
			continue
		}
		var list []string
		for _, id := range w.Tasks {
			if c := s.Run.History.Task(id).Cost; c.USD != nil {
				list = append(list, terminal.Clean(id)+": "+c.Dollars())
			}
		}
		more := ""
		if n := len(list) - tasksPriced; n > 0 {
			list, more = list[:tasksPriced], fmt.Sprintf(" and %d more", n)
		}
		p.say("  wave %d: %s (%s%s)", w.Number, sum.Dollars(), strings.Join(list, "; "), more)
	}
	if n := shown - wavesPriced; n > 0 {
		p.say("  and %s more", terminal.Count(n, "wave"))
	}
}

const stepShown = 10

// nextStep says what another step would do.
func (s *Summary) nextStep() string {
	for _, w := range s.Graph.Waves() {
		var names []string
		for _, id := range w.Tasks {
			if s.Graph.Ready(id) {
				t, _ := s.Graph.Task(id)
				names = append(names, terminal.Clean(id)+" "+terminal.Fit(terminal.Clean(t.Title), 40))
			}
		}
		if len(names) > 0 {
			more := ""
			if n := len(names) - stepShown; n > 0 {
				names, more = names[:stepShown], fmt.Sprintf(" and %d more", n)
			}
			return fmt.Sprintf("next step: wave %d: %s%s", w.Number, strings.Join(names, ", "), more)
		}
	}
	return "next step: nothing is left to run"
}

// agentsText counts the attempts by what they were run with, where that was not always the same.
func agentsText(used []journal.AgentUse) string {
	if len(used) < 2 {
		return ""
	}
	words := make([]string, 0, len(used))
	for _, u := range used {
		name := u.Backend
		if u.Model != "" {
			name += " " + u.Model
		}
		words = append(words, terminal.Clean(name)+" "+terminal.Count(u.Attempts, "attempt"))
	}
	return strings.Join(words, ", ")
}

// Run is what is left of a run when it is over.
type Run struct {
	Outcome loop.Outcome
	ID      string
	Root    string // of the project
	Path    string // of the state file
	State   *store.State
	History *journal.State
	Loose   []string // tasks whose verified work is in no commit

	Here string // what a command needs besides where it is typed
}

// attempts counts them in words.
func (r *Run) attempts() string {
	n, cut := r.State.Iteration, r.History.Interrupted()
	switch {
	case cut == 0:
		return terminal.Count(n, "attempt")
	case n == 0:
		return terminal.Count(cut, "interrupted attempt")
	}
	return fmt.Sprintf("%s and %d interrupted", terminal.Count(n, "attempt"), cut)
}

// page is a text that grows line by line.
type page struct{ strings.Builder }

func (p *page) say(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// promptText is the end of a prompt loop, and what to type next.
func (s *Summary) promptText(paint terminal.Paint) string {
	p, e, st := &page{}, &s.Run, s.Run.State
	p.say("")
	head := "stopped"
	if st.Completed {
		head = "completed"
	}
	p.say("%s: %s (loop %s, %s, %s)", paint.In(terminal.Bold, head), terminal.Clean(cmp.Or(e.Outcome.Message, Readable(st.ExitReason.Type))), st.ID, terminal.Count(st.Iteration, "iteration"), terminal.Duration(s.Took))
	if e.Outcome.Ending == journal.GitRefused {
		p.say("kept: what the agent wrote is kept under refs/descartes/%s/; what this iteration changed is in no commit", e.ID)
	}
	p.unpushed(*e)
	p.noticed(st)
	for _, line := range flaky(st.Flaky) {
		p.say("flaky: %s", line)
	}
	p.say("sandbox: %s", terminal.Clean(Sandbox(st.Config)))
	if text := Policy(st.Config, false); text != "" {
		p.say("in force: %s", text)
	}
	p.say("cost: %s", st.Cost.Text())
	if text := e.aside(commitsIn(st)); text != "" {
		p.say("%s", text)
	}
	p.WriteString(s.here().lines())
	s.sayRest(p)
	return p.String()
}

// sayRest is what there is to do or to know beside the work.
func (s *Summary) sayRest(p *page) {
	for _, line := range s.Update {
		p.say("then: %s", terminal.Clean(line))
	}
	if s.Pool != "" {
		p.say("slots: %s on disk; descartes cleanup removes those that no run used for a week", s.Pool)
	}
}

// Readable is an ending's word in a sentence.
func Readable(word string) string { return strings.ReplaceAll(word, "_", " ") }

func commitsIn(s *store.State) (n int) {
	for _, i := range s.Summaries {
		if i.Commit != "" {
			n++
		}
	}
	return n
}
