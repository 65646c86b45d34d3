package view

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/scheduler"
	"descartes/tasks"
)

// Board is a tag now: its task list and graph, with what the journals of its loops know beyond the task file, and the
// commits of its waves.
type Board struct {
	Root    string
	Here    string // what a command needs besides where it is typed
	Scud    config.ScudConfig
	File    *tasks.File
	On      string // the branch whose list has the statuses, where the file here has not; "": the file has
	Graph   *scheduler.Graph
	job     *source.Job
	mapped  *config.Config // says what each task is run with; nil if that is the same for all
	view    *store.View    // of the tag's last loop; nil if there was none
	Commits []store.WaveCommit
	Grades  journal.Grades           // of tasks that loops have done
	blocked map[string]store.Blocked // of each task that loops have blocked, the last time
	asked   []store.Asked            // what the last run of the tag in any clone left blocked

	stale     map[string]Stale
	receipts  map[string]receipt.Receipt // the last one of each task, once MarkStale knows them
	rechecked map[string]time.Time       // when its checks last passed again
}

// NewBoard takes a job's graph for the board's own: it is given the statuses that the journals know.
func NewBoard(job *source.Job) (*Board, error) {
	file := job.File
	b := &Board{job: job, Root: job.Root, Scud: job.Config.Scud, File: file, Graph: job.Graph,
		Grades: journal.Grades{}, blocked: map[string]store.Blocked{}}
	if job.Config.Mapped() {
		b.mapped = &job.Config
	}
	home := store.NewHome(b.Root)
	all, err := home.Of(job.Key())
	if err == nil && slices.ContainsFunc(all, home.IsLive) {
		err = b.reread()
	}
	if err != nil {
		return nil, err
	}
	said, err := home.Said(job.Key())
	if err != nil {
		return nil, err
	}
	b.Hear(said.Asked)
	for _, a := range said.Asked {
		b.block([]store.Blocked{b.elsewhere(a)})
	}
	if err := b.readOn(all); err != nil {
		return nil, err
	}
	changes := map[string]tasks.Status{}
	for _, s := range all {
		b.block(s.State.BlockedTasks)
		if s.Archived { // over and saved: its state says it all
			b.Commits = append(b.Commits, s.State.WaveCommits...)
			maps.Copy(b.Grades, s.State.Grades)
			continue
		}
		v, err := home.View(s, file)
		if err != nil {
			return nil, err
		}
		b.block(v.State.BlockedTasks)
		b.Commits = append(b.Commits, v.State.WaveCommits...)
		if s.State.ListOn == "" || b.On != "" || !v.State.Completed { // else the file here has them since, and is a person's
			maps.Copy(changes, v.Changes)
		}
		maps.Copy(b.Grades, v.State.Grades)
		if b.view == nil || v.Live || !b.view.Live && v.State.StartedAt.After(b.view.State.StartedAt) {
			b.view = &v
		}
	}
	if b.view != nil && (b.view.Live || !b.view.State.Completed) { // the list may have changed while it ran
		b.Graph.Number(b.view.History.Waves())
	}
	for id, status := range changes {
		b.know(id, status)
	}
	return b, nil
}

// readOn takes over the statuses of the branch that the tag's last loop commits to, if the file here does not get them.
func (b *Board) readOn(all []store.Saved) error {
	if len(all) == 0 || all[len(all)-1].State.ListOn == "" {
		return nil
	}
	ctx := context.Background() // git is asked twice, and has a deadline of its own
	repo, err := gitops.Open(ctx, gitops.Options{Dir: b.Root, Env: os.Environ()})
	if err != nil {
		return fmt.Errorf("read the task list on its branch: %w", err)
	}
	defer repo.Close()
	branch := all[len(all)-1].State.ListOn
	there, ahead, err := trunk.ListOn(ctx, repo, b.File, branch)
	if err != nil || !ahead {
		return err
	}
	b.job.GoOn(there)
	b.On = trunk.ShortRef(branch)
	return nil
}

// reread takes over what a run wrote into the list since it was read: what the run's files say that the list has, they
// say of the list as it is now.
func (b *Board) reread() error {
	was := map[string]tasks.Status{}
	for _, t := range b.File.Tasks() {
		was[t.ID] = t.Status
	}
	if err := b.File.Refresh(); err != nil {
		return fmt.Errorf("read task list: %w", err)
	}
	for _, t := range b.File.Tasks() {
		if old, ok := was[t.ID]; ok && old != t.Status {
			b.know(t.ID, t.Status)
		}
	}
	return nil
}

// know gives a task the status that a journal says it has.
func (b *Board) know(id string, status tasks.Status) {
	if _, ok := b.Graph.Task(id); ok {
		b.Graph.SetStatus(id, status)
	}
}

// Wave is a wave with its tasks.
type Wave struct {
	Number int     `json:"number"`
	Commit *string `json:"commit"` // null if there is none

	Subject string    `json:"-"`    // of the commit
	Cost    *costJSON `json:"cost"` // of its loop; null if no agent ran in it
	Tasks   []Task    `json:"tasks"`
}

// Task is a task as people see it. What no list has is known only of a loop's.
type Task struct {
	ID        store.TaskID   `json:"id"`
	Title     string         `json:"title"`
	Status    tasks.Status   `json:"status"`
	DependsOn []store.TaskID `json:"depends_on"`
	State     string         `json:"state"`
	Cause     string         `json:"cause"`
	Agent     *agentJSON     `json:"agent,omitempty"`  // if tasks differ in it
	Verify    string         `json:"verify,omitempty"` // the command that checks it besides the project's
	Grade     journal.Grade  `json:"grade,omitempty"`  // of one that is done: how far that reaches
	Stale     *Stale         `json:"stale,omitempty"`  // of a done task whose receipt is about something else by now

	Stand    Stand          `json:"-"`
	Why      string         `json:"-"` // why it is so, in a line
	Attempts []*Attempt     `json:"-"` // the oldest first
	Wait     *journal.Wait  `json:"-"` // for its provider
	Blocked  *journal.Event `json:"-"`
	Price    string         `json:"-"` // "" if unknown
}

// Class is how a graph draws it.
func (t *Task) Class() string {
	if t.Stand == Asks {
		return string(Asks)
	}
	return t.State
}

// fold says how a task of a loop stands.
func (t *Task) fold(live bool) {
	working := slices.ContainsFunc(t.Attempts, func(a *Attempt) bool { return a.Stand == Running })
	switch {
	case working:
		t.Stand = Running
	case t.Wait != nil && live:
		t.Stand, t.Why = Limited, t.Wait.Reason
	case t.Stand == Blocked && t.Blocked != nil:
		t.Why = t.Blocked.Reason
	case t.Stand == Running: // it only seems to run, and is tried again
		t.Stand = Ready
		if !live {
			t.Stand = Interrupted
		}
	}
}

// Last is its last attempt, or nil.
func (t *Task) Last() *Attempt {
	if len(t.Attempts) == 0 {
		return nil
	}
	return t.Attempts[len(t.Attempts)-1]
}

// Tried counts its attempts that have ended.
func (t *Task) Tried() (n int) {
	for _, a := range t.Attempts {
		if a.Over() {
			n++
		}
	}
	return n
}

// Took is how long they ran.
func (t *Task) Took() (d time.Duration) {
	for _, a := range t.Attempts {
		if !a.Ended.IsZero() {
			d += a.Ended.Sub(a.Started)
		}
	}
	return d
}

// Line is how it stands and why: done: accepted, or waits for 2.
func (t *Task) Line() string {
	why, word := t.Why, t.Stand.Help()
	switch {
	case t.Stand == Done && t.Grade != "":
		why = string(t.Grade)
	case why == "" || t.Stand == Done:
		return word
	case t.Stand == Waiting:
		return why
	case t.Stand == Held:
		word = "held"
	}
	return word + ": " + why
}

// Said is what a line about it adds in brackets: its cause, its grade, its status.
func (t *Task) Said() string {
	switch {
	case t.Cause != "":
		return t.Cause
	case t.Grade != "":
		return string(t.Grade)
	case t.Stand == Other:
		return "status " + string(t.Status)
	}
	return ""
}

// Ended is its last attempt that has ended, or nil; failed the last of those that were not verified.
func (t *Task) Ended() (last, failed *Attempt) {
	for _, a := range t.Attempts {
		if a.Over() {
			if last = a; !a.Done() {
				failed = a
			}
		}
	}
	return last, failed
}

// Story is what became of it, for a report: nothing runs in a loop that nobody runs.
func (t *Task) Story() string {
	last, _ := t.Ended()
	switch {
	case t.Stand == Done && t.Grade != "":
		return "done (" + string(t.Grade) + ")"
	case t.Stand == Asks:
		return "asks: " + t.Why
	case t.State == "blocked" && t.Blocked != nil:
		return "blocked: " + t.Blocked.Reason
	case (t.State == "ready" || t.State == "waiting" || t.State == "running") && last != nil &&
		last.Verdict == journal.Cancelled:
		return fmt.Sprintf("attempt %d interrupted, not finished", last.Number)
	case (t.State == "ready" || t.State == "waiting" || t.State == "running") && last != nil &&
		last.Verdict != journal.Verified:
		return fmt.Sprintf("attempt %d %s: %s, not finished", last.Number, last.Verdict, last.Reason)
	case t.Stand == Interrupted:
		return "interrupted, not finished"
	}
	return strings.TrimSuffix(t.State+": "+t.Cause, ": ")
}

// agentJSON is what a task's next attempt is run with, if nothing takes its place.
type agentJSON struct {
	Backend string `json:"backend"`
	Model   string `json:"model,omitempty"`
}

func (a *agentJSON) String() string {
	if a == nil {
		return ""
	}
	return strings.TrimSpace(terminal.Clean(a.Backend) + " " + terminal.Clean(a.Model))
}

func (b *Board) agent(t *tasks.Task) *agentJSON {
	if b.mapped == nil || t.Container() {
		return nil
	}
	c := b.mapped.Choices(t)[0]
	return &agentJSON{c.Backend, c.Model}
}

// Waves are the waves now, with orphaned in-progress tasks shown as ready.
func (b *Board) Waves() []*Wave {
	out := []*Wave{}
	for _, w := range b.Graph.Waves() {
		one := &Wave{Number: w.Number, Tasks: make([]Task, 0, len(w.Tasks))}
		for _, id := range w.Tasks {
			one.Tasks = append(one.Tasks, b.task(id))
		}
		out = append(out, one)
	}
	return out
}

// committedWaves is Waves with the last commit that holds tasks of each, whatever number the wave had then. A wave
// with a task that was committed and is to be done again has none.
func (b *Board) committedWaves() []*Wave {
	last, again := map[int]*store.WaveCommit{}, map[int]bool{}
	for i := range b.Commits {
		c := &b.Commits[i]
		for _, t := range c.Tasks {
			if _, ok := b.Graph.Task(t.ID); !ok {
				continue
			}
			w := b.Graph.Wave(t.ID)
			again[w] = again[w] || b.Graph.Status(t.ID) != tasks.Done
			if last[w] == nil || !c.Timestamp.Before(last[w].Timestamp) {
				last[w] = c
			}
		}
	}
	out := b.Waves()
	for _, w := range out {
		if c := last[w.Number]; c != nil && !again[w.Number] {
			w.Commit, w.Subject = &c.Hash, c.Subject
		}
	}
	return out
}

func (b *Board) task(id string) Task {
	t, _ := b.Graph.Task(id)
	state, cause := b.Graph.State(id), b.Graph.Why(id, func(id string) bool { return b.asks(id) != "" })
	out := Task{ID: b.ID(id), Title: t.Title, Verify: t.Verify, Status: b.Graph.Status(id), DependsOn: b.dependsOn(t),
		State: string(state), Cause: cause, Agent: b.agent(t), Grade: b.grade(id), Stale: b.isStale(id),
		Stand: Stand(state), Why: cause}
	switch {
	case out.Stand == Other:
		out.Why = "status " + string(out.Status)
	case b.asks(id) != "":
		out.Stand, out.Why = Asks, b.asks(id)
	case b.isMerged(id):
		out.Stand, out.Why = Merged, "the branch gets it with the next commit"
	case b.interrupted(id):
		out.State, out.Stand = string(scheduler.StateReady), Interrupted
	}
	return out
}

// isMerged reports whether the trunk of the tag's last run has a task's work, and the branch does not.
func (b *Board) isMerged(id string) bool {
	return b.view != nil && b.Graph.State(id).Open() && slices.Contains(b.view.History.Uncommitted(), id)
}

// grade is that of a task that is done.
func (b *Board) grade(id string) journal.Grade {
	if b.Graph.Status(id) != tasks.Done {
		return ""
	}
	return b.Grades[id]
}

// interrupted reports whether a task only seems to run: its loop is dead.
func (b *Board) interrupted(id string) bool {
	if b.view == nil || b.view.Live || b.Graph.State(id) != scheduler.StateRunning {
		return false
	}
	return b.view.State.CurrentTask == id || slices.ContainsFunc(b.view.History.Running,
		func(a *journal.Attempt) bool { return a.Task == id })
}

// counts counts the tasks: what only seems to run is yet to be done.
func (b *Board) counts() (c counts, interrupted int) {
	c.TaskCounts = journal.TaskCounts(b.Graph.Counts())
	for _, id := range b.Graph.Leaves() {
		if b.interrupted(id) {
			interrupted++
		}
		if b.asks(id) != "" {
			c.Questions++
		}
	}
	c.InProgress, c.Pending, c.Blocked = c.InProgress-interrupted, c.Pending+interrupted, c.Blocked-c.Questions
	return c, interrupted
}

// SetAside counts the tasks that a person took off the list, and those that wait for one otherwise.
func (b *Board) SetAside() (off, other int) {
	for _, id := range b.Graph.Leaves() {
		if b.Graph.State(id) != scheduler.StateOther {
			continue
		}
		if b.Graph.Status(id).SetAside() {
			off++
		} else {
			other++
		}
	}
	return off, other
}

// Tally counts what is not simply waiting.
func (b *Board) Tally() string {
	c, cut := b.counts()
	off, other := b.SetAside()
	var parts []string
	add := func(n int, word string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	add(c.Done, "done")
	add(c.InProgress, "in progress")
	add(cut, "interrupted")
	parts = append(parts, stuck(c.Questions, c.Blocked)...)
	add(c.Held, "held")
	add(off, "set aside")
	add(other, "not run")
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// Bar is a wave in numbers. All are those that somebody wants done.
type Bar struct{ All, Done, Aside, running, ready, blocked, asks int }

// Bar counts a wave's tasks.
func (w *Wave) Bar() Bar {
	n := Bar{All: len(w.Tasks)}
	for i := range w.Tasks {
		switch t := &w.Tasks[i]; t.Class() {
		case "other":
			if t.Status.SetAside() {
				n.Aside++
				n.All--
				continue
			}
			n.blocked++
		case "done":
			n.Done++
		case "running":
			n.running++
		case "ready", "waiting":
			n.ready++
		case "held":
		case string(Asks):
			n.asks++
		default:
			n.blocked++
		}
	}
	return n
}

// Words say how it stands; live says that somebody works on the tag.
func (n Bar) Words(live bool) string {
	all := terminal.Count(n.All, "task")
	part := fmt.Sprintf("%d/%s", n.Done, all)
	switch {
	case n.All == 0 && n.Aside > 0:
		return "Set aside (" + terminal.Count(n.Aside, "task") + ")"
	case n.Done == n.All:
		return "Complete (" + all + ")"
	case n.running > 0 || n.Done > 0 && n.ready > 0 && live:
		return "In Progress (" + part + ")"
	case n.Done > 0 && n.ready > 0: // nobody makes progress
		return "Unfinished (" + part + ")"
	case n.ready > 0:
		return "Pending (" + all + ")"
	case n.blocked > 0:
		return "Blocked (" + part + ")"
	case n.asks > 0:
		return "Waits for your answer (" + part + ")"
	}
	return "Held (" + part + ")"
}

// Colour is a code of package terminal.
func (n Bar) Colour() string {
	switch {
	case n.Done == n.All:
		return terminal.Green
	case n.blocked > 0:
		return terminal.Red
	case n.Done+n.running+n.ready < n.All:
		return terminal.Yellow
	}
	return terminal.Bold
}

// Next is the first task in wave order that is ready, or "".
func (b *Board) Next() string {
	for _, w := range b.Graph.Waves() {
		for _, id := range w.Tasks {
			if b.Graph.Ready(id) {
				return id
			}
		}
	}
	return ""
}

// The JSON of waves.
type WavesJSON struct {
	Tag      string      `json:"tag"`
	Source   string      `json:"source"`
	Waves    []*Wave     `json:"-"`
	Plain    []plainWave `json:"waves"`
	Added    []Added     `json:"added,omitempty"` // dependencies that only the plan states
	Problems []Problem   `json:"problems"`
}

type plainWave struct {
	Number int    `json:"number"`
	Tasks  []Task `json:"tasks"`
}

// Added is a dependency that only the plan states.
type Added struct {
	Task store.TaskID `json:"task"`
	On   store.TaskID `json:"on"`
}

// Problem is something wrong with the list.
type Problem struct {
	Kind    string         `json:"kind"`
	Tasks   []store.TaskID `json:"tasks"`
	Message string         `json:"message"`
}

// Report is all waves with what is wrong with the list.
func (b *Board) Report() WavesJSON {
	out := WavesJSON{Tag: b.File.Tag(), Source: store.Relative(b.Root, b.File.Path()), Waves: b.committedWaves(),
		Plain: []plainWave{}, Problems: []Problem{}}
	for _, w := range out.Waves {
		out.Plain = append(out.Plain, plainWave{w.Number, w.Tasks})
	}
	if b.job.Import != nil {
		out.Source = b.Scud.PlanPath // that a run would import
	}
	for _, d := range b.Graph.Added() {
		out.Added = append(out.Added, Added{b.ID(d.Task), b.ID(d.On)})
	}
	for _, p := range b.Graph.Problems() {
		out.Problems = append(out.Problems, Problem{p.Kind, b.ids(p.Tasks), p.Message})
	}
	for _, f := range b.job.Conflicts {
		out.Problems = append(out.Problems, Problem{"plan", b.ids([]string{f.ID}), f.Message})
	}
	if left := b.job.LeftOut(); left != "" {
		out.Problems = append(out.Problems, Problem{"account", []store.TaskID{}, left})
	}
	for _, message := range b.Elsewhere() {
		out.Problems = append(out.Problems, Problem{"source", []store.TaskID{}, message})
	}
	return out
}

// Elsewhere says where else the tag may be, beyond the list that is read.
func (b *Board) Elsewhere() []string {
	var out []string
	for _, f := range b.File.Findings() {
		if f.Kind == "source" {
			out = append(out, f.Message)
		}
	}
	return out
}

// ID is a task's id as reports write it: a number if it is one in the task file.
func (b *Board) ID(id string) store.TaskID {
	t, ok := b.File.Task(id)
	return store.TaskID{ID: id, Numeric: ok && t.Numeric}
}

func (b *Board) ids(list []string) []store.TaskID {
	out := make([]store.TaskID, 0, len(list))
	for _, id := range list {
		out = append(out, b.ID(id))
	}
	return out
}

// dependsOn is what the file says that a task depends on; an id that nothing has looks like the task's own.
func (b *Board) dependsOn(t *tasks.Task) []store.TaskID {
	out := b.ids(t.DependsOn)
	for i := range out {
		if _, ok := b.File.Task(out[i].ID); !ok && t.Numeric {
			_, err := strconv.ParseUint(out[i].ID, 10, 63)
			out[i].Numeric = err == nil
		}
	}
	return out
}

// IDList is ids in a line.
func IDList(list []store.TaskID) string {
	names := make([]string, 0, len(list))
	for _, id := range list {
		names = append(names, terminal.Clean(id.ID))
	}
	return strings.Join(names, ", ")
}

// Named are the flags that name this list in another command.
func (b *Board) Named() string { return config.ListFlags(b.File.Tag(), b.Scud.TasksFile) + b.Here }

// Short is a commit's hash for people.
func Short(hash string) string { return hash[:min(7, len(hash))] }

// ListOf is the task list and graph that a loop runs over.
func ListOf(s *store.State) config.ScudConfig {
	c := s.Config.Scud
	return config.ScudConfig{Tag: s.Tag, TasksFile: c.TasksFile, PlanPath: c.PlanPath, OpenInDone: c.OpenInDone}
}

// Sandbox is the sandbox that a loop's commands ran in, in words.
func Sandbox(c config.Config) string {
	if c.SandboxInForce == "" {
		return "not known"
	}
	return c.SandboxInForce
}
