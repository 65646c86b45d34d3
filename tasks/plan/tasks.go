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
	own     string          // the id that its text begins with
	whole   string          // the title with that
	phase   int             // place of its phase, -1 for none
	made    bool            // the id is not one that the plan gives to a task: a number of a list, or ours
	stated  bool            // the plan says what it waits for, be it nothing
	said    []string        // what it says
	isSaid  map[string]bool // the same
	settled bool            // its status is written at itself
}

// say sets the status that is written at the task; "" is none.
func (t *task) say(status string) {
	if t.Status == "" || status != "" {
		t.Status, t.settled = cmp.Or(tasks.Status(status), tasks.Pending), status != ""
	}
}

// phase is one phase of a plan.
type phase struct {
	*outline.Heading
	head   int
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
	work     []*outline.Table // tables but those that are an index of sections
	rowTasks []task           // of these
	weak     bool             // no work was found: sections called checklist count too
}

// readTasks finds the tasks and what they depend on.
func (d *Document) readTasks() {
	d.index, d.mentions = map[string]int{}, map[int]bool{}
	r := &reader{Document: d, phaseIDs: map[string]int{}, unpadded: map[string]int{}, stems: map[string]bool{}, called: map[string]int{}}
	r.findPhases()
	r.findRows()
	by, list := r.choose()
	switch reason := r.otherDocument(); {
	case reason == "" && len(list) == 0:
		reason = `the file has no tasks: expected headings "Task 1: Title" or "Phase 1: Title", a checklist, a table of tasks or a list under "Tasks"`
		fallthrough
	case reason != "":
		d.fault = &NoTasksError{tasks.FormatError{Path: d.Name, Reason: reason}}
		return
	case len(list) > maxTasks:
		d.refuse(0, fmt.Sprintf("the plan has more than %d tasks", maxTasks))
		return
	}
	if !r.enter(list) {
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
	r.account(by)
}

// otherDocument says what a file is that looks like a plan of tasks and is none.
func (r *reader) otherDocument() string {
	for i := range r.Heads {
		if text := r.Heads[i].Text; text == "Constitution Check" || strings.Contains(text, "(/plan command scope)") ||
			strings.HasPrefix(text, "Phase 2: Task Planning Approach") {
			return "the file is Spec Kit's plan of a feature, which says how its tasks are made: they are in tasks.md beside it"
		}
	}
	return ""
}

// statusElsewhere takes the statuses of tasks that have sections from boxes elsewhere that name them, as in a
// checklist of steps above the steps, and from rows of tables.
func (r *reader) statusElsewhere() {
	in := r.inside(r.tasks)
	for n := range r.Lines {
		l := &r.Lines[n]
		if l.Box == 0 || in[n] {
			continue
		}
		_, id, title := prose.Numbered(r.Plain(n))
		i, ok := r.called[prose.Fold(title)]
		if k, known := r.index[id]; known && (!ok || i < 0) && id != "" && prose.IsDotted(id) {
			i, ok = k, true
		}
		if !ok || i < 0 || r.Lines[r.tasks[i].Line-1].Kind == markdown.Entry {
			continue
		}
		if r.mentions[n] = true; !r.tasks[i].settled {
			r.tasks[i].say(prose.BoxStatus(l.Box))
		}
	}
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

// findPhases fills the list of phases: the headings with the largest of the words for one, those within another left
// out. The second one of a number is a phase of its own, but elsewhere than among the others it only speaks of one.
func (r *reader) findPhases() {
	for _, word := range prose.PhaseWords {
		size, place := map[int]int{}, map[string]int{} // lines by the heading around; that by id
		heads := func(visit func(i int, h *outline.Heading)) {
			end := 0
			for i := range r.Heads {
				if h := &r.Heads[i]; h.Word == word && !h.Background() && h.Line >= end {
					visit(i, h)
					end = h.End
				}
			}
		}
		heads(func(_ int, h *outline.Heading) { size[h.Parent] += h.End - h.Line })
		heads(func(_ int, h *outline.Heading) {
			if at, ok := place[h.ID]; !ok || size[h.Parent] > size[at] {
				place[h.ID] = h.Parent
			}
		})
		known := map[string]int{} // id to line
		heads(func(i int, h *outline.Heading) {
			if place[h.ID] != h.Parent {
				return
			}
			own := *h
			if own.ID = prose.FreeID(h.ID, func(id string) bool { return known[id] > 0 }); own.ID != h.ID {
				r.addFinding(tasks.Second(h.Line+1, word, h.ID, own.ID, known[h.ID]))
			}
			known[own.ID] = h.Line + 1
			r.phaseIDs[strings.ToLower(own.ID)] = len(r.phases)
			r.phases = append(r.phases, phase{Heading: &own, head: i})
		})
		if len(r.phases) > 1 {
			r.addUnnumbered()
		}
		if len(r.phases) > 0 {
			return
		}
	}
}

// addUnnumbered makes phases of the sections with boxes that stand before or between those with a number, as the "MVP"
// of a roadmap.
func (r *reader) addUnnumbered() {
	list, k := []phase{}, 0
	first, last := r.phases[0].Heading, r.phases[len(r.phases)-1].Line
	for i := range r.Heads {
		h := &r.Heads[i]
		if k < len(r.phases) && r.phases[k].Line == h.Line {
			list, k = append(list, r.phases[k]), k+1
			continue
		}
		boxed := slices.ContainsFunc(r.Lines[h.Line:h.End], func(l markdown.Line) bool { return l.Box != 0 })
		if h.Line < last && h.ID == "" && h.Level == first.Level && h.Parent == first.Parent && h.Section == r.parentSection(i) && boxed {
			own := *h
			name, _, _ := strings.Cut(prose.Slug(h.Title), "-")
			own.ID = prose.FreeID(name, func(id string) bool { _, ok := r.phaseIDs[id]; return ok })
			r.phaseIDs[own.ID] = 0
			list = append(list, phase{Heading: &own, head: i})
		}
	}
	r.phases = list
	for k := range r.phases {
		r.phaseIDs[strings.ToLower(r.phases[k].ID)] = k
	}
}

// parentSection is what the heading around a heading stands over.
func (r *reader) parentSection(i int) prose.Section {
	if up := r.Heads[i].Parent; up >= 0 {
		return r.Heads[up].Section
	}
	return prose.Unknown
}

// phaseAt is the phase around a line, -1 for none.
func (r *reader) phaseAt(line int) int {
	i, found := slices.BinarySearchFunc(r.phases, line, func(f phase, line int) int { return f.Line - line })
	if !found {
		i--
	}
	if i < 0 || line >= r.phases[i].End {
		return -1
	}
	return i
}

// enter makes ids unique and fills the index.
func (r *reader) enter(list []task) bool {
	for _, t := range list {
		t.say("")
		t.Priority = cmp.Or(t.Priority, "medium")
		t.phase = r.phaseAt(t.Line - 1)
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

// choices are words with a box before each, of which the last one that is ticked holds.
var choices = lazyregexp.New(`\[(.)\] *([^\[]+)`)

// attribute reads "Status: done", "Priority: high", and cells under such heads.
func (t *task) attribute(name, value string) {
	value = strings.Trim(value, " *`.")
	switch prose.Label(name) {
	case "status":
		status := prose.Status(value)
		for _, m := range choices.FindAllStringSubmatch(value, -1) {
			if prose.BoxStatus([]rune(m[1])[0]) == "done" {
				status = prose.Status(m[2])
			}
		}
		for _, text := range []string{"x " + value, "x (" + value + ")"} {
			if status == "" {
				_, status = outline.CutStatus(text)
			}
		}
		if status != "" {
			t.say(status)
		}
	case "priority":
		t.Priority = cmp.Or(prose.Priority(value), t.Priority)
	}
	if strings.EqualFold(strings.TrimSpace(name), "complexity") && prose.PlainNumber(value) && len(value) < 4 {
		t.Complexity = value
	}
}

func (t *task) span(d *Document) span {
	return span{first: t.Line - 1, end: t.last, head: d.HeadAt(t.Line - 1)}
}
