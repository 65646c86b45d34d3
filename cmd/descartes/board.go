package main

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/scheduler"
	"descartes/tasks"
)

// board is a tag as it stands now: its task list and graph, with what the journal of a loop knows
// beyond the task file, and the commits of its waves.
type board struct {
	root    string
	scud    loop.ScudConfig
	file    *tasks.File
	graph   *scheduler.Graph
	mapped  *loop.Config    // says what each task is run with; nil where that is the same for all
	against []tasks.Finding // what the plan states against the list
	view    *loop.View      // of the tag's last loop; nil if there was none
	commits []loop.WaveCommit
}

// newBoard takes a job's graph for the board's own: it is given the statuses that the journal knows.
func newBoard(job *loop.Job) (*board, error) {
	root, file := job.Root, job.File
	b := &board{root: root, scud: job.Config.Scud, file: file, graph: job.Graph, against: job.Conflicts}
	if job.Config.Mapped() {
		b.mapped = &job.Config
	}
	home := loop.NewHome(root)
	all, err := home.List()
	if err != nil {
		return nil, err
	}
	changes := map[string]tasks.Status{}
	for _, s := range all {
		if s.State == nil || s.State.Tag != file.Tag() {
			continue
		}
		if s.Archived { // over and saved: its state says it all
			b.commits = append(b.commits, s.State.WaveCommits...)
			continue
		}
		v, err := home.View(s, file)
		if err != nil {
			return nil, err
		}
		b.commits = append(b.commits, v.State.WaveCommits...)
		maps.Copy(changes, v.Changes)
		if b.view == nil || v.Live || !b.view.Live && v.State.StartedAt.After(b.view.State.StartedAt) {
			b.view = &v
		}
	}
	for id, status := range changes {
		if _, ok := b.graph.Task(id); ok {
			b.graph.SetStatus(id, status)
		}
	}
	return b, nil
}

// committed is the last commit that holds tasks of each wave, whatever number the wave had then. A wave with a
// task that was committed and is to be done again has none.
func (b *board) committed() map[int]string {
	out, last, again := map[int]string{}, map[int]time.Time{}, map[int]bool{}
	for _, c := range b.commits {
		for _, t := range c.Tasks {
			if _, ok := b.graph.Task(t.ID); !ok {
				continue
			}
			w := b.graph.Wave(t.ID)
			again[w] = again[w] || b.graph.Status(t.ID) != tasks.Done
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
func (b *board) setAside() (off, other int) {
	for _, id := range b.graph.Leaves() {
		if s, _ := b.graph.State(id); s != scheduler.StateOther {
			continue
		}
		if setAside(b.graph.Status(id)) {
			off++
		} else {
			other++
		}
	}
	return off, other
}

// interrupted reports whether a task only seems to run: its loop is dead.
func (b *board) interrupted(id string) bool {
	return b.view != nil && !b.view.Live && b.view.State.CurrentTask == id
}

// id is a task's id as reports write it: a number where the task file has one.
func (b *board) id(id string) loop.TaskID {
	t, ok := b.graph.Task(id)
	return loop.TaskID{ID: id, Numeric: ok && t.Numeric}
}

func (b *board) ids(list []string) []loop.TaskID {
	out := make([]loop.TaskID, 0, len(list))
	for _, id := range list {
		out = append(out, b.id(id))
	}
	return out
}

// need is the task of that id, or an error that names it.
func (b *board) need(id string) (*tasks.Task, error) {
	t, ok := b.graph.Task(id)
	if !ok {
		t, ok = b.file.Task(id)
	}
	if !ok {
		return nil, badInput("descartes tasks list"+b.named(), "tag %q has no task %q", b.file.Tag(), id)
	}
	return t, nil
}

// The JSON shapes of waves, status and tasks.
type waveJSON struct {
	Number int        `json:"number"`
	Tasks  []taskJSON `json:"tasks"`
}

type taskJSON struct {
	ID        loop.TaskID   `json:"id"`
	Title     string        `json:"title"`
	Status    tasks.Status  `json:"status"`
	DependsOn []loop.TaskID `json:"depends_on"`
	State     string        `json:"state"`
	Cause     string        `json:"cause"`
	Agent     *agentJSON    `json:"agent,omitempty"` // where tasks differ in it
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

func (b *board) agent(t *tasks.Task) *agentJSON {
	if b.mapped == nil || t.Container() {
		return nil
	}
	c := b.mapped.Choices(t)[0]
	return &agentJSON{c.Backend, c.Model}
}

type problemJSON struct {
	Kind    string        `json:"kind"`
	Tasks   []loop.TaskID `json:"tasks"`
	Message string        `json:"message"`
}

// waves lists every wave with its tasks.
func (b *board) waves() []waveJSON {
	out := []waveJSON{}
	for _, w := range b.graph.Waves() {
		one := waveJSON{Number: w.Number, Tasks: make([]taskJSON, 0, len(w.Tasks))}
		for _, id := range w.Tasks {
			one.Tasks = append(one.Tasks, b.task(id))
		}
		out = append(out, one)
	}
	return out
}

// wavesWithCommits is waves with the commit of each, null where there is none.
func (b *board) wavesWithCommits() []committedWave {
	out, commits := []committedWave{}, b.committed()
	for _, w := range b.waves() {
		c := committedWave{Number: w.Number, Tasks: w.Tasks}
		if hash := commits[w.Number]; hash != "" {
			c.Commit = &hash
		}
		out = append(out, c)
	}
	return out
}

type committedWave struct {
	Number int        `json:"number"`
	Commit *string    `json:"commit"`
	Cost   *costJSON  `json:"cost"` // null where no agent ran in it
	Tasks  []taskJSON `json:"tasks"`
}

func (b *board) task(id string) taskJSON {
	t, _ := b.graph.Task(id)
	state, cause := b.graph.State(id)
	return taskJSON{ID: b.id(id), Title: t.Title, Status: b.graph.Status(id), DependsOn: b.dependsOn(t),
		State: string(state), Cause: cause, Agent: b.agent(t)}
}

// dependsOn is what the file says that a task depends on; an id that nothing has looks like the task's own.
func (b *board) dependsOn(t *tasks.Task) []loop.TaskID {
	out := b.fileIDs(t.DependsOn)
	for i := range out {
		if _, ok := b.file.Task(out[i].ID); !ok && t.Numeric {
			_, err := strconv.ParseUint(out[i].ID, 10, 63)
			out[i].Numeric = err == nil
		}
	}
	return out
}

func (b *board) problems() []problemJSON {
	out := []problemJSON{}
	for _, p := range b.graph.Problems() {
		out = append(out, problemJSON{Kind: p.Kind, Tasks: b.ids(p.Tasks), Message: p.Message})
	}
	for _, f := range b.against {
		out = append(out, problemJSON{Kind: "plan", Tasks: b.ids([]string{f.ID}), Message: f.Message})
	}
	for _, message := range b.elsewhere() {
		out = append(out, problemJSON{Kind: "source", Tasks: []loop.TaskID{}, Message: message})
	}
	return out
}

// elsewhere says where else the tag may be, beyond the list that is read.
func (b *board) elsewhere() []string {
	var out []string
	for _, f := range b.file.Findings() {
		if f.Kind == "source" {
			out = append(out, f.Message)
		}
	}
	return out
}

// addedJSON is a dependency that only the plan states.
type addedJSON struct {
	Task loop.TaskID `json:"task"`
	On   loop.TaskID `json:"on"`
}

func (b *board) added() []addedJSON {
	var out []addedJSON
	for _, d := range b.graph.Added() {
		out = append(out, addedJSON{b.id(d.Task), b.id(d.On)})
	}
	return out
}

// named is how another command is told of this list.
func (b *board) named() string { return ofTag(b.file.Tag(), b.scud.TasksFile) }
