package view

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/loop/store"
	"descartes/scheduler"
	"descartes/tasks"
)

// Why says why a task is where it is: the reasons as sentences, what shows them, and the command that comes next.
type Why struct {
	Tag      string         `json:"tag"`
	Task     store.TaskID   `json:"task_id"`
	Title    string         `json:"title"`
	Status   tasks.Status   `json:"status"`
	State    string         `json:"state"` // as in waves, or container, or interrupted: its loop is dead
	Because  []string       `json:"because"`
	Causes   []store.TaskID `json:"causes"` // of a task that waits or is held: those at the root of it
	Loop     string         `json:"loop,omitempty"`
	Commit   string         `json:"commit,omitempty"`
	Attempts []*Attempt     `json:"attempts"` // the oldest first
	Evidence []Evidence     `json:"evidence"`
	Next     string         `json:"next"`

	Receipt   *receipt.Receipt `json:"receipt,omitempty"`
	Rechecked *time.Time       `json:"rechecked,omitempty"` // when its checks last passed again
	Stale     *Stale           `json:"stale,omitempty"`

	board *Board
	here  string
	view  *store.View // of the tag's live loop, else of the last one

	accepted *store.Accept // what a person decided and no run has acted on
}

// Evidence is something that shows what is said of a task.
type Evidence struct {
	// verify (the command that checks it besides the project's), commit, receipt, note, work, log or journal
	Kind  string `json:"kind"`
	Where string `json:"where"`
}

// Why looks into the journals, the graph, the refs and the receipts, where MarkStale was given them. commit finds the
// commit that holds a loop's work on the task, where no journal names it; here is what a command needs besides where
// it is typed.
func (b *Board) Why(t *tasks.Task, kept Kept, commit func(loop string) string, here string) (*Why, error) {
	d := b.Detail(t)
	w := &Why{Tag: b.File.Tag(), Task: d.ID, Title: d.Title, Status: d.Status, State: d.State, Because: []string{},
		Causes: []store.TaskID{}, Evidence: []Evidence{}, board: b, here: here, view: b.view}
	w.Stale = d.Stale
	if r, ok := b.receipts[t.ID]; ok {
		w.Receipt = &r
		if at, ok := b.rechecked[t.ID]; ok {
			w.Rechecked = &at
		}
	}
	var err error
	if w.Attempts, err = b.Attempts(t.ID, kept); err != nil {
		return nil, err
	}
	answers, err := store.NewHome(b.Root).Answers(b.job.Key())
	if err != nil {
		return nil, err
	}
	w.accepted = store.Accepted(answers, t.ID)
	slices.SortStableFunc(w.Attempts, func(x, y *Attempt) int { return x.At.Compare(y.At) })
	if b.interrupted(t.ID) && !b.isMerged(t.ID) {
		w.State = "interrupted"
	}
	switch w.State {
	case "container":
		w.container(&d)
	case "interrupted":
		w.say("Run %s was killed while it worked on it.", w.view.State.ID)
		w.Loop, w.Next = w.view.State.ID, w.resume("")
	case string(scheduler.StateDone):
		w.done(commit)
	case string(scheduler.StateBlocked):
		w.blocked()
	case string(scheduler.StateRunning):
		w.running()
	case string(scheduler.StateReady), string(scheduler.StateWaiting):
		w.toDo(d.Cause, commit)
	case string(scheduler.StateHeld):
		w.held(d.Cause)
	default:
		w.aside()
	}
	if b.isMerged(t.ID) {
		w.State = string(Merged)
	}
	w.evidence()
	return w, nil
}

func (w *Why) say(format string, args ...any) {
	w.Because = append(w.Because, fmt.Sprintf(format, args...))
}

func (w *Why) live() bool { return w.view != nil && w.view.Live }

// command is one that is about the task, as it is typed.
func (w *Why) command(words string) string { return "descartes " + words + w.board.Named() }

func (w *Why) about(words, task string) string { return w.command(words + " " + terminal.Quote(task)) }

func (w *Why) resume(more string) string {
	return ResumeCommand(w.board.Root, w.view.State.ID, w.view.Path, w.here) + more
}

func (w *Why) container(d *TaskDetail) {
	var open []string
	for _, c := range d.Children {
		if w.board.Graph.Status(c.ID) != tasks.Done {
			open = append(open, c.ID)
		}
	}
	if len(open) == 0 {
		w.say("It has %s, and all are done.", terminal.Count(len(d.Children), "subtask"))
		w.Next = w.command("tasks list")
		return
	}
	w.say("It is done when its subtasks are: %s of %d to go (%s).", strconv.Itoa(len(open)), len(d.Children),
		terminal.Few(open, 8))
	w.Causes = w.board.ids(open)
	w.Next = w.about("why", open[0])
}

// verified is the last attempt whose work was taken, nil if there is none.
func (w *Why) verified() *Attempt {
	for i := len(w.Attempts) - 1; i >= 0; i-- {
		if w.Attempts[i].Done() {
			return w.Attempts[i]
		}
	}
	return nil
}

// committed is the last commit that holds work on the task by the loop.
func (w *Why) committed(id string, commit func(loop string) string) string {
	for i := len(w.board.Commits) - 1; i >= 0; i-- {
		c := w.board.Commits[i]
		if slices.ContainsFunc(c.Tasks, func(t store.TaskID) bool { return t.ID == w.Task.ID }) {
			return c.Hash
		}
	}
	return commit(id)
}

func (w *Why) done(commit func(loop string) string) {
	a := w.verified()
	if a == nil {
		switch w.Commit = commit(""); {
		case w.Receipt != nil:
			w.say("A run in another clone did it: its receipt is here, its journal is not.")
			w.Next = w.command("recheck --commit " + Short(w.Receipt.Commit.Hash))
			return
		case w.Commit != "":
			w.say("A run in another clone did it: commit %s says so. Its receipt, if it was pushed, comes with git fetch origin %s:%s", Short(w.Commit), receipt.NotesRef, receipt.NotesRef)
		default:
			w.say("Marked done by hand; no run here did it.")
		}
		w.Next = w.command("tasks list")
		return
	}
	w.Loop, w.Commit = a.Loop, w.committed(a.Loop, commit)
	if a.Outcome == string(journal.Accepted) {
		w.say("Attempt %d in run %s was accepted by a person on %s%s", a.N, a.Loop, terminal.Moment(a.At),
			strings.TrimPrefix(a.Reason, "accepted by a person"))
	} else {
		w.say("Attempt %d in run %s was verified on %s%s.", a.N, a.Loop, terminal.Moment(a.At), a.by())
	}
	for _, c := range a.Checks {
		if !c.Passed {
			continue // another run of it passed
		}
		if w.say("verify passed in %s: %s", took(c.Seconds), c.Command); c.Tests == nil {
			w.say("It names no tests: only its exit status counts.")
		}
	}
	w.failures()
	if w.Commit != "" {
		if a.Ref == "" && a.Kept == nil {
			w.say("It changed nothing that git keeps: commit %s has only its status.", Short(w.Commit))
		} else {
			w.say("Commit %s contains it.", Short(w.Commit))
		}
		w.Next = "git show --stat " + Short(w.Commit)
		w.proof()
		return
	}
	w.uncommitted()
}

// uncommitted says why no commit contains verified work.
func (w *Why) uncommitted() {
	switch {
	case w.live():
		w.say("No commit contains it yet: its wave is not finished.")
		w.Next = "descartes status" + w.here
	case w.view != nil && !w.view.State.Completed:
		w.say("No commit contains it yet.")
		end := w.view.State.ExitReason
		if end.Message != "" {
			w.say("Its run stopped: %s", end.Message)
		}
		w.Next = w.resume("")
		if journal.Ending(end.Type) == journal.GateAsks { // the review of a wave
			w.Next = w.resume(" --yes")
		}
	default:
		w.say("No commit is known to contain it.")
		w.Next = "git status"
	}
}

// proof says what its receipt says, and whether that is still about the task as it is.
func (w *Why) proof() {
	if w.Receipt == nil {
		return
	}
	w.Next = w.command("recheck --commit " + Short(w.Receipt.Commit.Hash))
	if w.Receipt.Grade != "" {
		w.say("It is done (%s).", w.Receipt.Grade)
	}
	for _, l := range w.Receipt.Looks {
		for _, said := range l.Said {
			w.say("%s: %s", l.Name, said)
		}
	}
	if w.Rechecked != nil {
		w.say("Its checks passed again on %s.", terminal.Moment(*w.Rechecked))
	}
	if w.Stale != nil {
		w.say("It is stale: %s.", w.Stale)
		w.Next = w.command("recheck --commit " + Short(w.Stale.Commit))
	}
}

// by is what an attempt was run with, and what it cost, as the end of a sentence.
func (a *Attempt) by() (s string) {
	if by := a.By(); by != "" {
		s = ", by " + by
	}
	if cost := a.Dollars(); cost != "" {
		s += ", for " + cost
	}
	return s
}

// failures says what the attempts came to that counted and were not verified.
func (w *Why) failures() {
	n := 0
	for _, a := range w.Attempts {
		if !a.Done() && a.Counts() {
			n++
		}
	}
	if n > 0 {
		w.say("It was run again because %s failed before; see the attempts below.", terminal.Count(n, "attempt"))
	}
}

// givenUp is a task that the loop gave up, nil if it did not.
func (w *Why) givenUp(id string) *store.Blocked {
	if w.view == nil {
		return nil
	}
	list := w.view.State.BlockedTasks
	if at := slices.IndexFunc(list, func(b store.Blocked) bool { return b.Task.ID == id }); at >= 0 {
		return &list[at]
	}
	return nil
}

// Word is how it stands.
func (w *Why) Word() string {
	if w.State == string(scheduler.StateBlocked) && w.board.asks(w.Task.ID) != "" {
		return string(Asks)
	}
	return w.State
}

func (w *Why) blocked() {
	b := w.givenUp(w.Task.ID)
	if b == nil {
		if len(w.Attempts) > 0 {
			w.say("Blocked in the task list.")
		} else {
			w.say("Blocked in the task list; no run here blocked it.")
		}
		w.lastFailure()
		if w.Next = w.anew(); !strings.Contains(w.Next, " --retry-blocked") {
			w.Next += " --retry-blocked"
		}
		if n := len(w.Attempts); n > 0 && w.Attempts[n-1].isAsking() {
			w.Next = w.command("answer --edit " + terminal.Quote(w.Task.ID))
		} else if w.live() {
			w.Next = w.command("tasks list")
		}
		return
	}
	w.Loop = w.view.State.ID
	if b.Question != "" {
		w.say("Its agent waits for an answer:")
		w.say("%s", b.Question)
		w.Next = w.command("answer --edit " + terminal.Quote(w.Task.ID))
		return
	}
	w.say("Run %s gave up on it on %s, after %s:", w.Loop, terminal.Moment(b.At),
		terminal.Count(b.Attempts, "attempt"))
	w.say("%s", b.Reason)
	for _, what := range b.Denied {
		w.say("The sandbox refused %s", what)
	}
	w.Next = w.resume(" --retry-blocked")
	if w.live() {
		w.say("Run %s tries it again when you answer it.", w.Loop)
		w.Next = w.command("answer --edit " + terminal.Quote(w.Task.ID))
	}
}

// lastFailure says what the last attempt that was not verified came to.
func (w *Why) lastFailure() {
	if n := len(w.Attempts); n > 0 && !w.Attempts[n-1].Done() {
		a := w.Attempts[n-1]
		w.say("Attempt %d in run %s %s: %s", a.N, a.Loop, a.Word(), a.Reason)
	}
}

func (w *Why) running() {
	if w.view != nil && slices.Contains(w.view.History.Uncommitted(), w.Task.ID) {
		w.say("Its work is verified.")
		w.uncommitted()
		return
	}
	if !w.live() {
		w.say("The task list says so, and no run works on it: the next run tries it again.")
		w.Next = w.start()
		return
	}
	w.Loop = w.view.State.ID
	for _, one := range w.view.History.Running {
		if one.Task != w.Task.ID {
			continue
		}
		a, place := AttemptOf(w.board.Root, w.Loop, one, true), ""
		if p := a.Place(); p != "" {
			place = " (" + terminal.Clean(p) + ")"
		}
		w.say("Run %s works on %s%s: %s since %s.", w.Loop, a.Which(), place, a.Doing(), terminal.Clock(a.Since))
	}
	if len(w.Because) == 0 {
		w.say("Run %s is between two attempts at it.", w.Loop)
	}
	if wait := w.view.History.WaitOf(w.Task.ID); wait != nil {
		w.say("%s.", Until("It is waiting", wait))
	}
	w.lastFailure()
	w.Next = "descartes logs " + terminal.Quote(w.Task.ID) + " --follow --name " + w.Loop + w.here
}

// start is the command by which a loop takes up what is to be done.
func (w *Why) start() string {
	switch {
	case w.live():
		return "descartes status" + w.here
	case w.view != nil && !w.view.State.Completed:
		return w.resume("")
	}
	return w.anew()
}

// anew is the command that starts another loop over the list, as the last one was.
func (w *Why) anew() string {
	if w.view == nil {
		return w.command("start")
	}
	return w.command("start") + w.view.State.Config.Typed.String()
}

// toDo explains ready and waiting tasks.
func (w *Why) toDo(cause string, commit func(loop string) string) {
	if w.State == string(scheduler.StateWaiting) {
		w.say("It %s.", cause)
		roots := w.roots()
		w.Causes = w.board.ids(roots)
		for _, id := range roots[:min(len(roots), 8)] {
			t, _ := w.board.Graph.Task(id)
			w.say("Task %s %s is %s.", id, terminal.FitWords(t.Title, 50), w.board.Graph.State(id))
		}
	} else {
		w.say("Nothing keeps it from running.")
	}
	if a := w.accepted; a != nil {
		w.say("A person accepted attempt %d of run %s: the next run takes its work.", a.Attempt, a.Loop)
	}
	if a := w.verified(); a != nil {
		w.say("It was done before, by attempt %d in run %s, and was set to %s since.", a.N, a.Loop, w.Status)
		w.Commit = w.committed(a.Loop, commit)
	} else {
		w.lastFailure()
	}
	switch {
	case w.live():
		w.Loop = w.view.State.ID
		w.say("Run %s will get to it.", w.Loop)
	case w.view != nil && journal.Ending(w.view.State.ExitReason.Type) == journal.BaselineFails:
		w.say("Run %s started no agent: %s.", w.view.State.ID, w.view.State.ExitReason.Message)
	default:
		w.say("No run is under way.")
	}
	w.Next = w.start()
}

// roots are the tasks at the beginning of what it waits for.
func (w *Why) roots() (out []string) {
	g, seen := w.board.Graph, map[string]bool{}
	var walk func(id string)
	walk = func(id string) {
		deeper := false
		for _, on := range g.Deps(id) {
			if g.Status(on) != tasks.Done {
				if deeper = true; !seen[on] {
					seen[on] = true
					walk(on)
				}
			}
		}
		if !deeper {
			out = append(out, id)
		}
	}
	walk(w.Task.ID)
	return out
}

func (w *Why) held(cause string) {
	roots, _ := w.board.Graph.Held(w.Task.ID)
	w.say("It cannot run: %s.", cause)
	w.Causes = w.board.ids(roots)
	w.Next = w.command("tasks check")
	for _, id := range roots {
		t, ok := w.board.Graph.Task(id)
		if !ok {
			continue
		}
		if id == w.Task.ID || w.board.Graph.State(id) == scheduler.StateHeld {
			continue // a cycle, or a list that contradicts itself
		}
		title := terminal.FitWords(t.Title, 50)
		if q := w.board.asks(id); q != "" {
			w.say("Task %s %s asks: %s", id, title, q)
		} else if b := w.givenUp(id); b != nil {
			w.say("Task %s %s: %s", id, title, b.Reason)
		}
		w.Next = w.about("why", id)
		break
	}
}

// aside is for a status that no loop runs.
func (w *Why) aside() {
	w.say("Its status is %s: no run takes it.", w.Status)
	w.Next = w.command("tasks set " + terminal.Quote(w.Task.ID) + " pending")
	if w.live() {
		w.Next = "descartes pause " + w.view.State.ID + w.here
	}
}

// evidence lists what shows it: the commit, the work of the last attempt, its log and its journal.
func (w *Why) evidence() {
	add := func(kind, where string) {
		if where != "" {
			w.Evidence = append(w.Evidence, Evidence{kind, where})
		}
	}
	if t, ok := w.board.File.Task(w.Task.ID); ok {
		add("verify", t.Verify)
	}
	add("commit", w.Commit)
	if r := w.Receipt; r != nil && w.State == string(scheduler.StateDone) {
		add("receipt", existing(w.board.Root, filepath.Join(store.NewHome(w.board.Root).Receipts(),
			r.Commit.Hash+".jsonl")))
		add("note", receipt.NotesRef+" on "+Short(r.Commit.Hash))
	}
	a := w.verified()
	if n := len(w.Attempts); n > 0 && (a == nil || w.State != string(scheduler.StateDone)) {
		a = w.Attempts[n-1]
	}
	if a == nil {
		return
	}
	if a.Kept != nil {
		add("work", *a.Kept)
	}
	home := store.NewHome(w.board.Root)
	add("log", existing(w.board.Root, home.Log(a.Loop, w.Task.ID, a.N)))
	add("journal", existing(w.board.Root, home.Events(a.Loop)))
}

// existing is a file as a person in the project's folder would type it, "" where there is none.
func existing(root, path string) string {
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return store.Relative(root, path)
}
