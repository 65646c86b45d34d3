// Package view owns what people and programs are shown of a tag and of its loops: status, waves, tasks, summaries, JUnit and
// Markdown, as text and as JSON, out of the task list, its graph and journal.State. It prints nothing itself.
package view

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/internal/config"
	"descartes/internal/receipt"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/scheduler"
	"descartes/tasks"
)

// Board is a tag now: its task list and graph, with what a loop's journal knows beyond the task file, and the commits
// of its waves.
type Board struct {
	Root    string
	Here    string // what a command needs besides where it is typed
	Scud    loop.ScudConfig
	File    *tasks.File
	Graph   *scheduler.Graph
	job     *loop.Job
	mapped  *loop.Config    // says what each task is run with; nil where that is the same for all
	against []tasks.Finding // what the plan states against the list
	view    *store.View     // of the tag's last loop; nil if there was none
	Commits []store.WaveCommit
	Grades  journal.Grades // of tasks that loops have done

	stale     map[string]Stale
	receipts  map[string]receipt.Receipt // the last one of each task, once MarkStale knows them
	rechecked map[string]time.Time       // when its checks last passed again
}

// NewBoard takes a job's graph for the board's own: it is given the statuses that the journal knows.
func NewBoard(job *loop.Job) (*Board, error) {
	root, file := job.Root, job.File
	b := &Board{job: job, Root: root, Scud: job.Config.Scud, File: file, Graph: job.Graph, against: job.Conflicts}
	if job.Config.Mapped() {
		b.mapped = &job.Config
	}
	home := store.NewHome(root)
	all, err := home.List()
	if err != nil {
		return nil, err
	}
	changes := map[string]tasks.Status{}
	all = slices.DeleteFunc(all, func(s store.Saved) bool { return s.State == nil || s.State.Tag != file.Tag() })
	slices.SortStableFunc(all, func(x, y store.Saved) int { return x.State.StartedAt.Compare(y.State.StartedAt) })
	b.Grades = journal.Grades{}
	for _, s := range all {
		if s.Archived { // over and saved: its state says it all
			b.Commits = append(b.Commits, s.State.WaveCommits...)
			maps.Copy(b.Grades, s.State.Grades)
			continue
		}
		v, err := home.View(s, file)
		if err != nil {
			return nil, err
		}
		b.Commits = append(b.Commits, v.State.WaveCommits...)
		maps.Copy(changes, v.Changes)
		maps.Copy(b.Grades, v.State.Grades)
		if b.view == nil || v.Live || !b.view.Live && v.State.StartedAt.After(b.view.State.StartedAt) {
			b.view = &v
		}
	}
	if b.view != nil && (b.view.Live || !b.view.State.Completed) { // the list may have changed while it ran
		b.Graph.Number(b.view.History.Waves())
	}
	for id, status := range changes {
		b.Know(id, status)
	}
	return b, nil
}

// Know gives a task the status that a journal says it has.
func (b *Board) Know(id string, status tasks.Status) {
	if _, ok := b.Graph.Task(id); ok {
		b.Graph.SetStatus(id, status)
	}
}

// committed is the last commit that holds tasks of each wave, whatever number the wave had then. A wave with a
// task that was committed and is to be done again has none.
func (b *Board) committed() map[int]string {
	out, last, again := map[int]string{}, map[int]time.Time{}, map[int]bool{}
	for _, c := range b.Commits {
		for _, t := range c.Tasks {
			if _, ok := b.Graph.Task(t.ID); !ok {
				continue
			}
			w := b.Graph.Wave(t.ID)
			again[w] = again[w] || b.Graph.Status(t.ID) != tasks.Done
			if at, ok := last[w]; !ok || !c.Timestamp.Before(at) {
				out[w], last[w] = c.Hash, c.Timestamp
			}
		}
	}
	for w := range again {
		if again[w] {
			delete(out, w)
		}
	}
	return out
}

// setAside reports whether a person took a task off the list: nobody asks for it to be done.
func setAside(s tasks.Status) bool { return s == tasks.Cancelled || s == tasks.Deferred }

// setAside counts the tasks that a person took off the list, and those that wait for one otherwise.
func (b *Board) setAside() (off, other int) {
	for _, id := range b.Graph.Leaves() {
		if s, _ := b.Graph.State(id); s != scheduler.StateOther {
			continue
		}
		if setAside(b.Graph.Status(id)) {
			off++
		} else {
			other++
		}
	}
	return off, other
}

// interrupted reports whether a task only seems to run: its loop is dead.
func (b *Board) interrupted(id string) bool {
	if state, _ := b.Graph.State(id); state != scheduler.StateRunning || b.view == nil || b.view.Live {
		return false
	}
	return b.view.State.CurrentTask == id || slices.ContainsFunc(b.view.History.Running, func(a *journal.Attempt) bool { return a.Task == id })
}

// counts counts the tasks: what only seems to run is yet to be done.
func (b *Board) counts() (c scheduler.Counts, interrupted int) {
	c = b.Graph.Counts()
	if c.InProgress == 0 {
		return c, 0
	}
	for _, id := range b.Graph.Leaves() {
		if b.interrupted(id) {
			interrupted++
		}
	}
	c.InProgress, c.Pending = c.InProgress-interrupted, c.Pending+interrupted
	return c, interrupted
}

// ID is a task's id as reports write it: a number where the task file has one.
func (b *Board) ID(id string) store.TaskID {
	t, ok := b.Graph.Task(id)
	return store.TaskID{ID: id, Numeric: ok && t.Numeric}
}

func (b *Board) ids(list []string) []store.TaskID {
	out := make([]store.TaskID, 0, len(list))
	for _, id := range list {
		out = append(out, b.ID(id))
	}
	return out
}

// The JSON shapes of waves, status and tasks.
type Wave struct {
	Number int    `json:"number"`
	Tasks  []Task `json:"tasks"`
}

type Task struct {
	ID        store.TaskID   `json:"id"`
	Title     string         `json:"title"`
	Status    tasks.Status   `json:"status"`
	DependsOn []store.TaskID `json:"depends_on"`
	State     string         `json:"state"`
	Cause     string         `json:"cause"`
	Agent     *agentJSON     `json:"agent,omitempty"`  // where tasks differ in it
	Verify    string         `json:"verify,omitempty"` // the command that checks it besides the project's
	Grade     journal.Grade  `json:"grade,omitempty"`  // of one that is done: how far that reaches
	Stale     *Stale         `json:"stale,omitempty"`  // of a done task whose receipt is about something else by now
}

// done is the state of a task, with the grade of one that is done.
func (t *Task) done() string {
	if t.Grade == "" {
		return t.State
	}
	return t.State + " (" + string(t.Grade) + ")"
}

// grade is that of a task that is done.
func (b *Board) grade(id string) journal.Grade {
	if b.Graph.Status(id) != tasks.Done {
		return ""
	}
	return b.Grades[id]
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

type problemJSON struct {
	Kind    string         `json:"kind"`
	Tasks   []store.TaskID `json:"tasks"`
	Message string         `json:"message"`
}

// Waves lists every wave with its tasks.
func (b *Board) Waves() []Wave {
	out := []Wave{}
	for _, w := range b.Graph.Waves() {
		one := Wave{Number: w.Number, Tasks: make([]Task, 0, len(w.Tasks))}
		for _, id := range w.Tasks {
			one.Tasks = append(one.Tasks, b.task(id))
		}
		out = append(out, one)
	}
	return out
}

// standing is waves at this moment: what runs according to the list, and is run by nobody, is ready.
func (b *Board) standing() []Wave {
	out := b.Waves()
	for _, w := range out {
		for i, t := range w.Tasks {
			if b.interrupted(t.ID.ID) {
				w.Tasks[i].State = string(scheduler.StateReady)
			}
		}
	}
	return out
}

// wavesWithCommits is waves with the commit of each, null where there is none.
func (b *Board) wavesWithCommits() []CommittedWave {
	out, commits := []CommittedWave{}, b.committed()
	for _, w := range b.standing() {
		c := CommittedWave{Number: w.Number, Tasks: w.Tasks}
		if hash := commits[w.Number]; hash != "" {
			c.Commit = &hash
		}
		out = append(out, c)
	}
	return out
}

type CommittedWave struct {
	Number int       `json:"number"`
	Commit *string   `json:"commit"`
	Cost   *costJSON `json:"cost"` // null where no agent ran in it
	Tasks  []Task    `json:"tasks"`
}

func (b *Board) task(id string) Task {
	t, _ := b.Graph.Task(id)
	state, cause := b.Graph.State(id)
	return Task{ID: b.ID(id), Title: t.Title, Verify: t.Verify, Status: b.Graph.Status(id), DependsOn: b.dependsOn(t),
		State: string(state), Cause: cause, Agent: b.agent(t), Grade: b.grade(id), Stale: b.isStale(id)}
}

// dependsOn is what the file says that a task depends on; an id that nothing has looks like the task's own.
func (b *Board) dependsOn(t *tasks.Task) []store.TaskID {
	out := b.FileIDs(t.DependsOn)
	for i := range out {
		if _, ok := b.File.Task(out[i].ID); !ok && t.Numeric {
			_, err := strconv.ParseUint(out[i].ID, 10, 63)
			out[i].Numeric = err == nil
		}
	}
	return out
}

func (b *Board) problems() []problemJSON {
	out := []problemJSON{}
	for _, p := range b.Graph.Problems() {
		out = append(out, problemJSON{Kind: p.Kind, Tasks: b.ids(p.Tasks), Message: p.Message})
	}
	for _, f := range b.against {
		out = append(out, problemJSON{Kind: "plan", Tasks: b.ids([]string{f.ID}), Message: f.Message})
	}
	for _, message := range b.Elsewhere() {
		out = append(out, problemJSON{Kind: "source", Tasks: []store.TaskID{}, Message: message})
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

// addedJSON is a dependency that only the plan states.
type addedJSON struct {
	Task store.TaskID `json:"task"`
	On   store.TaskID `json:"on"`
}

func (b *Board) added() []addedJSON {
	var out []addedJSON
	for _, d := range b.Graph.Added() {
		out = append(out, addedJSON{b.ID(d.Task), b.ID(d.On)})
	}
	return out
}

// Named are the flags that name this list in another command.
func (b *Board) Named() string { return config.ListFlags(b.File.Tag(), b.Scud.TasksFile) + b.Here }

// FileIDs gives ids, containers' too, the form that they have in the file.
func (b *Board) FileIDs(list []string) []store.TaskID {
	out := make([]store.TaskID, 0, len(list))
	for _, id := range list {
		t, ok := b.File.Task(id)
		out = append(out, store.TaskID{ID: id, Numeric: ok && t.Numeric})
	}
	return out
}

// Relative is a path the way a person in the project's folder would type it.
func Relative(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return rel
	}
	return path
}

func Short(hash string) string { return hash[:min(7, len(hash))] }

// ListOf is the task list and graph that a loop runs over.
func ListOf(s *store.State) loop.ScudConfig {
	c := s.Config.Scud
	return loop.ScudConfig{Tag: s.Tag, TasksFile: c.TasksFile, PlanPath: c.PlanPath, OpenInDone: c.OpenInDone}
}

// Policy is what is in force for a run beyond what every run has, in one line; "" where that is nothing.
func Policy(c loop.Config, tag bool) string {
	var list []string
	for _, l := range config.Policy(&c, tag) {
		list = append(list, l.String())
	}
	return terminal.Clean(strings.Join(list, "; "))
}

// Sandbox is the sandbox that a loop's commands ran in, in words.
func Sandbox(c loop.Config) string { return cmp.Or(c.SandboxInForce, "not known") }

// wholeCommand is what a state file says is run.
func wholeCommand(cfg loop.Config) string {
	words := []string{cfg.Command}
	if cfg.Command == "" {
		words[0] = cfg.Backend.Type
	}
	for _, a := range cfg.Args {
		words = append(words, terminal.Quote(a))
	}
	return strings.Join(words, " ")
}

// Explain says what a loop would start next with a slot for each, and what every other task waits for.
func (b *Board) Explain() string {
	var now scheduler.Now
	if b.view != nil && b.view.Live {
		for _, a := range b.view.History.Running {
			now.Running = append(now.Running, a.Task)
		}
		slices.Sort(now.Running)
	}
	now.Free = len(b.Graph.Leaves())
	q := b.job.Queue(now.Free, nil)
	var out strings.Builder
	say := func(what string, ids []string) {
		if len(ids) > 0 {
			fmt.Fprintf(&out, "%s: %s\n", what, terminal.Clean(strings.Join(ids, ", ")))
		}
	}
	say("running", now.Running)
	next := q.Next(scheduler.Now{Running: now.Running, Free: now.Free})
	now.Running = append(now.Running, next...)
	say("next", next)
	for _, w := range q.Waiting(now) {
		fmt.Fprintf(&out, "%s: %s\n", terminal.Clean(w.Task), terminal.Clean(w.String()))
	}
	if out.Len() == 0 {
		return "no task is waiting to start\n"
	}
	return out.String()
}
