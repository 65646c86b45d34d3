// Package source reads what a run has to do: a list, its plan, what people answered and what attempts left become a
// Job, and the job the specs of attempts. It writes nothing, and knows no run.
package source

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"descartes/config"
	"descartes/loop/store"
	"descartes/scheduler"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/tasks/plan"
	"descartes/verify/judge"
)

// Problem is something that prevents a run, and what to do about it if that is known.
type Problem struct {
	Message string
	Hint    string
	Err     error // the cause, for errors.As
}

// Job is a tag ready to run: everything is read, nothing is touched. It belongs to who loaded it.
type Job struct {
	Root      string
	Config    config.Config
	File      *tasks.File
	Graph     *scheduler.Graph
	Import    *plan.Document  // Start makes the task file from it; nil if there is a task file
	Conflicts []tasks.Finding // where the plan contradicts the task file
	// what the branch to commit to, which is not checked out, has of tasks that are pending in the list here
	Ahead   map[string]tasks.Status
	Answers []store.Answer

	all      []tasks.Task // as read; the file's own list changes with each save
	plan     *plan.Document
	checks   map[string]string           // which the plan beside the list has for its tasks
	settings string                      // digest of what descartes.yaml asks for, computed on first use
	stories  map[string]*specbuild.Story // of a spec-kit list, by their marks
	specs    []specbuild.File
	beside   *specbuild.Beside // documents in the list's folder; nil: none
	hand     string
	more     map[string][]string // dependencies that only the plan states
}

// Load reads the tag's task file, the plan and the spec files below root. It returns every problem it finds; the job
// is nil if there is no task list to work with. The job's settings have the tag as the file names it, which may differ
// from Task Master's "master".
func Load(root string, cfg config.Config) (*Job, []Problem) { return load(root, cfg, false) }

// LoadOrImport is Load, but if no task file has the tag the tasks come from the plan: Start then makes the task file
// first.
func LoadOrImport(root string, cfg config.Config) (*Job, []Problem) { return load(root, cfg, true) }

func load(root string, cfg config.Config, imports bool) (*Job, []Problem) {
	var problems []Problem
	note := func(err error, hint string) {
		problems = append(problems, Problem{Message: err.Error(), Hint: hint, Err: err})
	}
	j := &Job{Root: root, Config: cfg}
	text, err := j.readPlan()
	if err != nil {
		note(err, "")
	}
	if err := j.open(text, imports && err == nil); err != nil {
		note(err, "")
	}
	if j.File != nil {
		if j.Answers, err = store.NewHome(root).Answers(j.Key()); err != nil {
			note(err, "fix it, or move it away: it has what was said with descartes answer")
		}
	}
	if err := j.overlay(); err != nil {
		note(err, "")
	}
	for _, p := range cfg.Scud.Spec.AdditionalSpecs {
		text, err := ReadText(root, p, maxSpecFile)
		if err != nil {
			note(fmt.Errorf("spec file: %w", err), "")
			continue
		}
		j.specs = append(j.specs, specbuild.File{Name: p, Text: text})
	}
	if p := cfg.Scud.HandoffPath; p != "" {
		if j.hand, err = ReadText(root, p, store.MaxHandoff); err != nil && !errors.Is(err, fs.ErrNotExist) {
			note(fmt.Errorf("handoff: %w", err), "") // a missing one is written when the loop stops
		}
	}
	if j.File == nil {
		return nil, problems
	}
	if err := j.readStories(); err != nil {
		note(err, "")
	}
	j.readBeside()
	var bad []error
	j.Config.ProvesSome, bad = j.survey(j.all)
	for _, err := range bad {
		note(err, "allow tests, checks, ci, secrets, all, or rules by their names")
	}
	return j, problems
}

// JobOf returns a job for a list that is not on disk, or differs from the one there.
func JobOf(root string, cfg config.Config, file *tasks.File) *Job {
	j := &Job{Root: root, Config: cfg}
	j.take(file, nil)
	return j
}

// survey returns whether a task asks for a proof, and which ask for what there is not.
func (j *Job) survey(list []tasks.Task) (proves bool, bad []error) {
	for i := range list {
		t := &list[i]
		for _, name := range t.Allow {
			if !slices.Contains(judge.Names(), name) {
				bad = append(bad, fmt.Errorf("task %s allows %q, which is not a rule of the guard", t.ID, name))
			}
		}
		if t.Candidates > 1 && !t.Container() {
			bad = append(bad, fmt.Errorf("task %s asks for several attempts at a time: %s", t.ID, config.Gone("candidates")))
		}
		proves = proves || t.Prove != "" && j.Config.ProveOf(t)
	}
	return proves, bad
}

// open reads the task list and makes its graph. Dependencies that only the plan's text states are added; with imports,
// the plan replaces a missing list.
func (j *Job) open(text string, imports bool) error {
	c := &j.Config.Scud
	file, err := OpenTasks(j.Root, *c)
	var missing *tasks.NotFoundError
	imports = imports && c.TasksFile == "" && c.PlanPath != "" && errors.As(err, &missing)
	if err != nil && !imports {
		return err
	}
	if imports && strings.TrimSpace(text) == "" {
		return fmt.Errorf("plan: %s is empty", c.PlanPath)
	}
	var more map[string][]string
	if p := j.plan; p != nil {
		_, perr := p.Tasks()
		switch {
		case imports && perr != nil:
			return fmt.Errorf("%s; %w", err, perr)
		case imports && p.Boxed():
			c.TasksFile = c.PlanPath
			if file, err = OpenTasks(j.Root, *c); err != nil {
				return err
			}
		case file != nil && file.IsPlan() && p.Boxed(): // it is the list
		case imports:
			if file, err = p.List(j.Root, c.Tag); err != nil {
				return err
			}
			j.Import = p
		case perr == nil: // most plans have no tasks of their own
			more, j.Conflicts = p.Extra(file.Tasks())
			j.checks = p.Checks(file.Tasks())
		}
	}
	j.take(file, more)
	return nil
}

// take uses file as the job's list.
func (j *Job) take(file *tasks.File, more map[string][]string) {
	j.File, j.all, j.more = file, slices.Clone(file.Tasks()), more
	j.Config.Scud.Tag = file.Tag()
	j.Graph = j.graph(j.all)
}

// Tasks are those of the list, each with its check, which a plan beside the list may have.
func (j *Job) Tasks() []tasks.Task { return j.all }

// LeftOut says which lines of the list, or of the plan that it is made of, look like work and are no tasks; "" for none.
func (j *Job) LeftOut() string { return tasks.LeftOut(j.Account()) }

// Account is what the reader of the list had to say about it, or that of the plan from which all its tasks are.
func (j *Job) Account() []tasks.Finding {
	if j.plan == nil || j.Import == nil && !j.ofPlan() {
		return j.File.Findings()
	}
	return j.plan.Findings()
}

// ofPlan reports whether the list was made of the plan beside it.
func (j *Job) ofPlan() bool {
	list, err := j.plan.Tasks()
	return err == nil && !slices.ContainsFunc(list, func(t tasks.Task) bool {
		known, ok := j.File.Task(t.ID)
		return !ok || known.Title != t.Title
	})
}

// Unordered is how many tasks of a plan would run at the same time only because it says nothing about their order.
func (j *Job) Unordered() int {
	if j.Import == nil && !j.File.IsPlan() && (j.plan == nil || !j.ofPlan()) || len(j.Graph.Waves()) != 1 {
		return 0
	}
	return len(j.Runnable())
}

// graph is the graph of a list, which gets the plan's checks where it has none.
func (j *Job) graph(list []tasks.Task) *scheduler.Graph {
	c := &j.Config.Scud
	external, why := otherTags(j.Root, *c)
	for i := range list {
		list[i].Verify = cmp.Or(list[i].Verify, j.checks[list[i].ID])
	}
	return scheduler.New(list, scheduler.Options{External: external, ExternalErr: why, OpenInDone: c.OpenInDone,
		More: j.more, InOrder: j.File.InOrder()})
}

// Title is a task's, "" for one that the list lacks.
func (j *Job) Title(id string) string {
	if t, ok := j.Graph.Task(id); ok {
		return t.Title
	}
	return ""
}

// TaskID is a task's id in the form of the task file.
func (j *Job) TaskID(id string) store.TaskID {
	t, ok := j.Graph.Task(id)
	return store.TaskID{ID: id, Numeric: ok && t.Numeric}
}

// Needs are the labels of the workers of a fleet that may do a task: its own, and those of the containers around it.
// Sorted. What belongs to no task, such as the review of a wave, has none.
func (j *Job) Needs(id string) (labels []string) {
	t, ok := j.Graph.Task(id)
	if !ok {
		return nil
	}
	labels = append(labels, t.Needs...)
	for _, around := range j.Graph.Parents(id) {
		labels = append(labels, around.Needs...)
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

// GoOn takes over the statuses that another version of the list has of tasks that are pending here.
func (j *Job) GoOn(there []tasks.Task) {
	if j.Ahead == nil {
		j.Ahead = map[string]tasks.Status{}
	}
	for _, t := range there {
		if now, ok := j.Graph.Task(t.ID); ok && !now.Container() && !t.Status.Open() &&
			j.Graph.Status(t.ID) == tasks.Pending && !(t.Status == tasks.Blocked && j.answeredSince(t.ID)) {
			j.Ahead[t.ID] = t.Status
			j.Graph.SetStatus(t.ID, t.Status)
		}
	}
}

// answeredSince reports whether a person answered or accepted a task after the last run of any clone had blocked it.
func (j *Job) answeredSince(id string) bool {
	said, err := store.NewHome(j.Root).Said(j.Key())
	return err == nil && slices.ContainsFunc(said.Asked,
		func(a store.Asked) bool { return a.Task == id && j.Answered(id, a.At) })
}

// Runnable lists the leaves that a run would start now or once others are done, in wave order.
func (j *Job) Runnable() []string {
	var out []string
	for _, w := range j.Graph.Waves() {
		for _, id := range w.Tasks {
			if s := j.Graph.State(id); s.Open() || s == scheduler.StateBlocked && j.Config.Scud.RetryBlocked {
				out = append(out, id)
			}
		}
	}
	return out
}

// Made reports whether the list says that a task's work is made, done or begun and not in the branch yet, and whether it
// has the task.
func (j *Job) Made(id string) (made, listed bool) {
	if _, listed = j.Graph.Task(id); listed {
		made = j.Graph.Status(id) == tasks.Done || j.Graph.Status(id) == tasks.InProgress
	}
	return made, listed
}

// Blocked lists the leaves that the task file calls blocked or failed.
func (j *Job) Blocked() []string {
	var out []string
	for _, id := range j.Graph.Leaves() {
		if s := j.Graph.Status(id); s == tasks.Blocked || s == tasks.Failed {
			out = append(out, id)
		}
	}
	return out
}

// overlay adds which tasks are blocked from the tag's last loop, if the task file has no word for that. One that a
// person has answered or accepted since is to be done.
func (j *Job) overlay() error {
	if j.File == nil || j.File.Holds(tasks.Blocked) {
		return nil
	}
	home := store.NewHome(j.Root)
	last, err := home.LastOf(j.Key())
	if err != nil || last == nil {
		return err
	}
	v, err := home.View(*last, j.File)
	if err != nil {
		return err
	}
	for _, b := range v.State.BlockedTasks {
		if j.Graph.Status(b.Task.ID) == tasks.Pending && !j.Answered(b.Task.ID, b.At) {
			j.Graph.SetStatus(b.Task.ID, tasks.Blocked)
		}
	}
	return nil
}

// Key names the job's list among the files of the project, as store.Home.KeyOf does.
func (j *Job) Key() string { return store.NewHome(j.Root).KeyOf(j.File) }

// NothingToDo reports whether every task of the job is done or set aside by a person, and no run is left to resume.
func (j *Job) NothingToDo() (bool, error) {
	done := 0
	for _, id := range j.Graph.Leaves() {
		switch s := j.Graph.State(id); {
		case s == "done":
			done++
		case !j.Graph.Status(id).SetAside():
			return false, nil
		}
	}
	if done == 0 {
		return false, nil
	}
	old, err := store.NewHome(j.Root).Unfinished(j.Key())
	return old == nil, err
}

// NothingRunsError says that no task of a list can run.
type NothingRunsError struct {
	Tag           string
	Asks          int      // that wait for an answer
	Blocked, Held int      // both are 0, as Asks is, if the list itself is at fault
	Faults        []string // the list's first cycles and missing dependencies
}

func (e *NothingRunsError) Error() string {
	s := fmt.Sprintf("tag %q has no task that can run", e.Tag)
	var counts []string
	if e.Asks > 0 {
		counts = append(counts, fmt.Sprintf("%d asks", e.Asks))
	}
	if e.Blocked > 0 {
		counts = append(counts, fmt.Sprintf("%d blocked", e.Blocked))
	}
	if len(counts) > 0 && e.Held > 0 {
		counts = append(counts, fmt.Sprintf("%d held", e.Held))
	}
	if len(counts) > 0 {
		s += ": " + strings.Join(counts, ", ")
	}
	if len(e.Faults) > 0 {
		s += ": " + strings.Join(e.Faults, "; ")
	}
	return s
}

// Faults returns the dependencies that can never be met until somebody corrects the list.
func (j *Job) Faults() (list []string) {
	for _, p := range j.Graph.Problems() {
		if slices.Contains([]string{"cycle", "missing", "self"}, p.Kind) {
			list = append(list, p.Message)
		}
	}
	return list
}

// NothingRuns is the problem of a list of which nothing can run. asked are the tasks that earlier runs left blocked.
func (j *Job) NothingRuns(asked []store.Asked) Problem {
	e := &NothingRunsError{Tag: j.File.Tag(), Held: j.Graph.Counts().Held, Faults: j.Faults()}
	for _, id := range j.Blocked() {
		if slices.ContainsFunc(asked, func(a store.Asked) bool { return a.Task == id && a.Question != "" }) {
			e.Asks++
		} else {
			e.Blocked++
		}
	}
	e.Faults = e.Faults[:min(3, len(e.Faults))]
	p := Problem{Message: e.Error(), Hint: "descartes waves" +
		config.ListFlags(j.File.Tag(), j.Config.Scud.TasksFile) + " shows why", Err: e}
	if e.Asks > 0 {
		p.Hint = "descartes answer" + config.ListFlags(j.File.Tag(), j.Config.Scud.TasksFile) + " shows what is asked"
	}
	if e.Blocked > 0 {
		p.Hint += "; --retry-blocked tries the blocked ones again"
	}
	return p
}
