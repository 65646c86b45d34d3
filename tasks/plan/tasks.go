package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks"
	"descartes/tasks/outline"
	"descartes/tasks/prose"
)

const (
	maxTasks = 20_000
	maxLinks = 2_000_000 // dependencies that a plan states, or the order of its phases makes
)

// task is a task with what only a plan knows about it.
type task struct {
	tasks.Task
	last    int             // the line behind its own text
	phase   int             // place of its phase, -1 for none
	made    bool            // the id is not one that the plan gives to a task: a number of a list, or ours
	stated  bool            // the plan says what it waits for, be it nothing
	said    []string        // what it says
	isSaid  map[string]bool // the same
	settled bool            // its status is written at itself
}

// newTask is the task of an item.
func newTask(x *outline.Item) task {
	return task{last: x.Last, made: x.Made, settled: x.Status != "", Task: tasks.Task{ID: x.ID, Title: x.Title, Line: x.Line + 1,
		Status: cmp.Or(tasks.Status(x.Status), tasks.Pending), Priority: cmp.Or(x.Priority, "medium"), Parent: x.Parent, Story: x.Story,
		Verify: x.Verify, Description: x.Text, Acceptance: x.Acceptance}}
}

// phase is one phase of a plan.
type phase struct {
	outline.Phase
	tasks  []int // its tasks that are not part of another
	stated bool  // the plan says what it waits for
}

// reader makes the tasks of a document.
type reader struct {
	*Document
	phases   []phase
	phaseIDs map[string]int   // id in lower case to place
	unpadded map[string]int   // ids without zeros in front to place
	stems    map[string]bool  // ids without the number at their end
	called   map[string]int   // folded title to place, -1 for several
	links    int              // dependencies, each as often as it is stated
	open     *prose.Statement // what the list that follows is about: "Depends on:"
}

// readTasks finds the tasks and what they depend on.
func (d *Document) readTasks() {
	d.index = map[string]int{}
	r := &reader{Document: d, phaseIDs: map[string]int{}, unpadded: map[string]int{}, stems: map[string]bool{}, called: map[string]int{}}
	for k, f := range r.Phases {
		r.phases = append(r.phases, phase{Phase: f})
		r.phaseIDs[strings.ToLower(f.ID)] = k
	}
	for _, x := range r.Doubles {
		r.addFinding(tasks.Second(x.Line+1, x.What, x.ID, x.Own, x.First+1))
	}
	switch reason := r.otherDocument(); {
	case reason == "" && len(r.Items) == 0:
		reason = `the file has no tasks: expected headings "Task 1: Title" or "Phase 1: Title", a checklist, a table of tasks or a list under "Tasks"`
		fallthrough
	case reason != "":
		d.fault = &NoTasksError{tasks.FormatError{Path: d.Name, Reason: reason}}
		return
	case len(r.Items) > maxTasks:
		d.refuse(0, fmt.Sprintf("the plan has more than %d tasks", maxTasks))
		return
	}
	if !r.enter() {
		return
	}
	for k := range r.phases {
		r.readPhase(k)
	}
	r.statusElsewhere()
	for i := range r.tasks {
		r.readTask(i)
	}
	r.tableOrder()
	if r.order(); r.links > maxLinks {
		d.refuse(0, fmt.Sprintf(
			"the plan has more than %d dependencies: state what tasks of large phases wait for, or split the phases",
			maxLinks))
		return
	}
	r.account()
}

// otherDocument says what a file is that looks like a plan of tasks and is none.
func (r *reader) otherDocument() string {
	if strings.Contains(r.Front, "description:") && (strings.Contains(r.Source, "$ARGUMENTS") || strings.Contains(r.Front, "tools:")) {
		return "the file tells an agent how to work: its steps are no tasks"
	}
	for i := range r.Heads {
		if text := r.Heads[i].Text; text == "Constitution Check" || strings.Contains(text, "(/plan command scope)") ||
			strings.HasPrefix(text, "Phase 2: Task Planning Approach") {
			return "the file is Spec Kit's plan of a feature, which says how its tasks are made: they are in tasks.md beside it"
		}
	}
	return ""
}

// statusElsewhere takes the statuses of tasks that do not say theirs from rows of tables that name them.
func (r *reader) statusElsewhere() {
	for i := range r.Tables {
		t := &r.Tables[i]
		for _, row := range t.Rows {
			ref, title, _ := t.Names(row)
			i := r.rowSubject(t, row).task
			if i < 0 || r.tasks[i].Line == row.Line+1 || r.tasks[i].settled ||
				!ref.Word && !prose.CodeID(row.Cells[0]) && title != "" && prose.Fold(title) != prose.Fold(r.tasks[i].Title) { // numbers of something else
				continue
			}
			r.tasks[i].attribute("status", row.Cell(t.Column("status")))
		}
	}
}

// account notes what looks like work and is neither a task, nor a part of one, nor a criterion.
func (r *reader) account() {
	r.Left(func(n int, reason string) {
		r.findings = append(r.findings, tasks.NoTask(n, r.Line(n), reason, r.Closed(n)))
	})
	for i := range r.tasks {
		for n := r.tasks[i].Line - 1; n < r.tasks[i].last; n++ {
			if r.Lines[n].Box == '?' {
				r.findings = append(r.findings, tasks.UnknownMark(n+1, "", r.Plain(n)))
			}
		}
	}
	slices.SortStableFunc(r.findings, func(a, b tasks.Finding) int { return a.Line - b.Line })
}

// NoTasksError is the *tasks.FormatError of a plan without tasks.
type NoTasksError struct{ tasks.FormatError }

func (e *NoTasksError) Error() string { return e.FormatError.Error() }
func (e *NoTasksError) Unwrap() error { return &e.FormatError }

// Next is how to get tasks of such a plan.
func (e *NoTasksError) Next() string {
	return "descartes tasks plan " + e.Path + " has an agent write them"
}

// refuse says why no list can be made of the plan.
func (d *Document) refuse(line int, reason string) {
	d.tasks, d.findings, d.index = nil, nil, nil
	d.fault = &tasks.FormatError{Path: d.Name, Line: line, Reason: reason}
}

// note adds a finding about a line, counted from 0.
func (d *Document) note(line int, id, kind, message string) {
	d.addFinding(tasks.Finding{Line: line + 1, ID: id, Kind: kind, Message: message})
}

func (d *Document) addFinding(f tasks.Finding) {
	const most = 1000
	if len(d.findings) < most {
		d.findings = append(d.findings, f)
	}
}

// enter makes ids unique and fills the index.
func (r *reader) enter() bool {
	for i := range r.Items {
		t := newTask(&r.Items[i])
		t.phase = r.PhaseAt(t.Line - 1)
		t.Title = cmp.Or(strings.TrimSpace(t.Title), "Task "+t.ID)
		if reason := prose.IDProblem(t.ID); reason != "" {
			r.refuse(t.Line, reason)
			return false
		}
		id := t.ID
		if t.ID = prose.FreeID(id, func(id string) bool { _, ok := r.index[id]; return ok }); t.ID != id {
			r.addFinding(tasks.Second(t.Line, "task", id, t.ID, r.tasks[r.index[id]].Line))
		}
		t.Numeric = prose.PlainNumber(t.ID)
		if up, ok := r.index[t.Parent]; ok {
			r.tasks[up].Children = append(r.tasks[up].Children, t.ID)
		} else {
			t.Parent = ""
		}
		if t.Parent == "" && t.phase >= 0 {
			r.phases[t.phase].tasks = append(r.phases[t.phase].tasks, len(r.tasks))
		}
		r.index[t.ID] = len(r.tasks)
		r.stems[strings.TrimRight(t.ID, "0123456789")] = true
		if bare := strings.TrimLeft(t.ID, "0"); bare != t.ID && bare != "" {
			r.unpadded[bare] = len(r.tasks)
		}
		short, _, _ := strings.Cut(t.Title, " (")
		names := []string{prose.Fold(t.Title), prose.Fold(short)}
		if k := r.HeadAt(t.Line - 1); k >= 0 && r.Heads[k].Line == t.Line-1 && r.Heads[k].Word == "section" {
			word, _, _ := strings.Cut(r.Heads[k].Text, r.Heads[k].ID)
			names = append(names, prose.Fold(word+r.Heads[k].ID))
		}
		for _, title := range names {
			at := len(r.tasks)
			if known, ok := r.called[title]; ok && known != at {
				at = -1
			}
			r.called[title] = at
		}
		r.tasks = append(r.tasks, t)
	}
	return true
}

// checks recognises a folded heading over how a task is checked.
var checks = lazyregexp.New(`criteria|verification|test(ing)? strategy|definition of done|done when|^test(s|ing)$`)

// readTask reads the lines of a task: its text, and what that says about its status, its priority, its own check and
// what it waits for.
func (r *reader) readTask(i int) {
	t := &r.tasks[i]
	var text, checked []string
	checking := 0 // level of the heading over checks, 0 for none
	label := ""   // the heading right above: "Status"
	ticked, boxes := 0, 0
	r.open = nil
	for n := t.Line - 1; n < t.last; n++ {
		l := &r.Lines[n]
		order := r.statements(subject{i, -1}, n)
		words := r.Plain(n)
		if l.Box != 0 {
			if boxes++; tasks.BoxStatus(l.Box) == tasks.Done {
				ticked++
			}
		}
		if n < t.Line {
			continue
		}
		if l.Kind == markdown.Heading {
			label = words
		}
		if l.Kind == markdown.Heading && (checking == 0 || l.Level <= checking) {
			checking = 0
			if checks.MatchString(prose.Fold(words)) {
				checking = l.Level
				continue
			}
		}
		if l.Kind == markdown.Text || l.Kind == markdown.Entry {
			name, value, _ := strings.Cut(strings.Replace(words, "：", ":", 1), ":")
			t.attribute(name, value)
			t.attribute(label, words)
			label = ""
		}
		if checking > 0 {
			checked = append(checked, r.Line(n))
		} else if !order { // dependencies have a field
			text = append(text, r.Line(n))
		}
	}
	r.sentences(i)
	t.Verify = cmp.Or(prose.Verify(r, t.Line, t.last), t.Verify)
	t.Title, t.Description, t.TestStrategy = prose.WithoutStatements(t.Title),
		cmp.Or(t.Description, prose.Block(text)), prose.Block(checked)
	switch {
	case !t.settled && boxes > 0 && ticked == boxes:
		t.Status = tasks.Done
	case t.Container() && t.Status != tasks.Done:
		t.Status = tasks.Expanded
	}
	t.RawStatus = string(t.Status)
}

// attribute reads "Status: done", "Priority: high", "Complexity: 3", and cells under such heads.
func (t *task) attribute(name, value string) {
	x := outline.Item{Priority: t.Priority}
	x.Attribute(name, value)
	if t.Priority = x.Priority; x.Status != "" {
		t.Status, t.settled = tasks.Status(x.Status), true
	}
	if value = strings.Trim(value, " *`."); strings.EqualFold(strings.TrimSpace(name), "complexity") && prose.PlainNumber(value) && len(value) < 4 {
		t.Complexity = value
	}
}

func (t *task) span(d *Document) span {
	return span{first: t.Line - 1, end: t.last, head: d.HeadAt(t.Line - 1)}
}
