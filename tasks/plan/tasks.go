package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks"
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

// phase is one phase of a plan.
type phase struct {
	*heading
	head   int
	tasks  []int // its tasks that are not part of another
	stated bool  // the plan says what it waits for
}

// reader makes the tasks of a document.
type reader struct {
	*Document
	phases   []phase
	phaseIDs map[string]int   // id in lower case to place
	stems    map[string]bool  // ids without the number at their end
	called   map[string]int   // folded title to place, -1 for several
	links    int              // dependencies, each as often as it is stated
	open     *prose.Statement // what the list that follows is about: "Depends on:"
}

// readTasks finds the tasks and what they depend on.
func (d *Document) readTasks() {
	d.index = map[string]int{}
	r := &reader{Document: d, phaseIDs: map[string]int{}, stems: map[string]bool{}, called: map[string]int{}}
	r.findPhases()
	numbered := r.headingItems(0, len(d.md.Lines))
	switch {
	case r.taskHeadings(), r.phaseItems(), r.tableTasks(), r.phaseTasks():
	case r.addItems(r.entries(0, len(d.md.Lines), func(l *markdown.Line) bool { return l.Box != 0 })):
	case len(numbered) > 1 && r.addItems(numbered), r.listed():
	default:
		d.fault = &NoTasksError{tasks.FormatError{Path: d.Name,
			Reason: `the file has no tasks: expected headings "Task 1: Title" or "Phase 1: Title", a checklist, a table of tasks or a list under "Tasks"`}}
		return
	}
	if len(d.tasks) > maxTasks {
		d.refuse(0, fmt.Sprintf("the plan has more than %d tasks", maxTasks))
		return
	}
	if !r.enter() {
		return
	}
	for k := range r.phases {
		r.readPhase(k)
	}
	for i := range r.tasks {
		r.readTask(i)
	}
	r.tableRows()
	if r.order(); r.links > maxLinks {
		d.refuse(0, fmt.Sprintf(
			"the plan has more than %d dependencies: state what tasks of large phases wait for, or split the phases",
			maxLinks))
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
	const most = 1000
	if len(d.findings) < most {
		d.findings = append(d.findings, tasks.Finding{Line: line + 1, ID: id, Kind: kind, Message: message})
	}
}

// findPhases fills the list of phases: the headings with the largest of the words for one, those within another left
// out.
func (r *reader) findPhases() {
	for _, word := range prose.PhaseWords {
		known := map[string]int{} // id to line
		end := 0
		for i := range r.heads {
			h := &r.heads[i]
			if h.word != word || h.background || h.line < end {
				continue
			}
			if first, ok := known[h.id]; ok {
				r.note(h.line, "", "line", fmt.Sprintf("a second %s %s: only the one in line %d counts", word, h.id,
					first))
				continue
			}
			known[h.id], end = h.line+1, h.end
			r.phaseIDs[strings.ToLower(h.id)] = len(r.phases)
			r.phases = append(r.phases, phase{heading: h, head: i})
		}
		if len(r.phases) > 0 {
			return
		}
	}
}

// phaseAt is the phase around a line, -1 for none.
func (r *reader) phaseAt(line int) int {
	i, found := slices.BinarySearchFunc(r.phases, line, func(f phase, line int) int { return f.line - line })
	if !found {
		i--
	}
	if i < 0 || line >= r.phases[i].end {
		return -1
	}
	return i
}

// headTask is the task of a heading.
func headTask(h *heading) task {
	return task{Task: tasks.Task{ID: h.id, Title: h.title, Status: h.status, Line: h.line + 1}, settled: h.settled,
		last: h.end}
}

func (t *task) span(d *Document) span {
	return span{first: t.Line - 1, end: t.last, head: d.headAt(t.Line - 1)}
}

func (r *reader) add(t task) {
	if t.Status == "" {
		t.Status = tasks.Pending
	}
	t.Priority = cmp.Or(t.Priority, "medium")
	t.phase = r.phaseAt(t.Line - 1)
	if strings.TrimSpace(t.Title) == "" {
		t.Title = "Task " + t.ID
	}
	r.tasks = append(r.tasks, t)
}

// taskHeadings makes a task of each heading "Task N". One in the section of another is a part of it. Where each phase
// counts anew, these are its items.
func (r *reader) taskHeadings() bool {
	var list []int
	seen := map[string]int{} // by id: 1 + the phase
	for i := range r.heads {
		if h := &r.heads[i]; (h.word == "task" || h.word == "subtask") && !h.background {
			at := 1 + r.phaseAt(h.line)
			if first, ok := seen[h.id]; ok && first != at {
				return false
			}
			list, seen[h.id] = append(list, i), at
		}
	}
	ids := map[int]string{} // by heading
	for k, i := range list {
		t := headTask(&r.heads[i])
		ids[i] = t.ID
		for up := r.heads[i].parent; up >= 0 && t.Parent == ""; up = r.heads[up].parent {
			t.Parent = ids[up]
		}
		if k+1 < len(list) {
			t.last = min(t.last, r.heads[list[k+1]].line)
		}
		r.add(t)
	}
	return len(list) > 0
}

// phaseItems makes tasks of the items in phases, and of phases without any, if some phase has items.
func (r *reader) phaseItems() bool {
	items := make([][]task, len(r.phases))
	// through: numbered on from phase to phase, so that the numbers are ids
	some, through, last := false, len(r.phases) > 1, 0
	for i := range r.phases {
		items[i] = r.itemsOf(&r.phases[i])
		some, through = some || len(items[i]) > 0, through && len(items[i]) > 0
		for _, t := range items[i] {
			n, err := strconv.Atoi(t.ID)
			through, last = through && err == nil && n > last, n
		}
	}
	if !some {
		return false
	}
	for i := range r.phases {
		f := &r.phases[i]
		if len(items[i]) == 0 {
			items[i] = []task{headTask(f.heading)}
			items[i][0].made = true
		} else {
			prefix := f.id
			if through {
				prefix = ""
			}
			nameItems(items[i], prefix)
		}
		for _, t := range items[i] {
			if f.settled && f.status == tasks.Done && !t.settled {
				t.Status, t.settled = tasks.Done, true
			}
			r.add(t)
		}
	}
	return true
}

// phaseTasks makes a task of each phase.
func (r *reader) phaseTasks() bool {
	for i := range r.phases {
		t := headTask(r.phases[i].heading)
		t.made = true
		r.add(t)
	}
	return len(r.phases) > 0
}

// itemsOf finds the items of a phase: numbered headings, else a checklist, else a numbered list.
func (r *reader) itemsOf(f *phase) []task {
	if items := r.headingItems(f.head+1, f.end); len(items) > 0 {
		return items
	}
	if items := r.entries(f.line+1, f.end, func(l *markdown.Line) bool { return l.Box != 0 }); len(items) > 0 {
		return items
	}
	return r.entries(f.line+1, f.end, func(l *markdown.Line) bool { return l.Number != "" })
}

// headingItems are the numbered headings of the highest level that has such, among the headings from i on.
func (r *reader) headingItems(i, end int) (items []task) {
	level := boldLevel + 1
	for ; i < len(r.heads) && r.heads[i].line < end; i++ {
		h := &r.heads[i]
		if h.id == "" || h.background || h.level > level {
			continue
		}
		if h.level < level {
			level, items = h.level, items[:0]
		}
		t := headTask(h)
		t.last = min(t.last, end)
		items = append(items, t)
	}
	return items
}

// listed makes tasks of the lists under headings such as "Tasks", or else of one directly under a title that says that
// it is a plan: of their numbered entries, or of all if none has a number.
func (r *reader) listed() bool {
	var items []task
	for _, whole := range []bool{false, true} {
		end := 0
		for i := range r.heads {
			h := &r.heads[i]
			title := prose.Fold(h.title)
			if h.line < end || h.background || whole && (i > 0 || !planTitle.MatchString(title)) || !whole &&
				(r.isTitle(i) || !isList(title)) {
				continue
			}
			if end = h.end; whole && len(r.heads) > 1 {
				end = r.heads[1].line
			}
			found := r.entries(h.line+1, end, func(l *markdown.Line) bool { return l.Number != "" })
			if len(found) == 0 {
				found = r.entries(h.line+1, end, func(*markdown.Line) bool { return true })
			}
			items = append(items, found...)
		}
		if len(items) > 0 {
			break
		}
	}
	return r.addItems(items)
}

var planTitle = lazyregexp.New(`\bplan\b`)

func (r *reader) addItems(items []task) bool {
	nameItems(items, "")
	for _, t := range items {
		r.add(t)
	}
	return len(items) > 0
}

// entries are the list entries of a kind in some lines, background left out. What is nested in one is its text.
func (r *reader) entries(first, end int, match func(*markdown.Line) bool) (items []task) {
	for n := first; n < end; n++ {
		l := &r.md.Lines[n]
		if l.Kind != markdown.Entry || !match(l) {
			continue
		}
		if head := r.headAt(n); head >= 0 && (r.heads[head].aside || r.heads[head].background &&
			(l.Box == 0 || len(r.phases) > 0)) {
			continue
		}
		t := r.entryTask(n)
		t.last = r.md.EntryEnd(n, end)
		items = append(items, t)
		n = t.last - 1
	}
	return items
}

// entryTask is the task of one list entry; its id is what the entry begins with, or the number before it, or "".
func (d *Document) entryTask(n int) task {
	l := &d.md.Lines[n]
	t := task{Task: tasks.Task{ID: l.Number, Status: tasks.Pending, Line: n + 1}, settled: l.Box != 0}
	if l.Box != 0 {
		t.Status = tasks.BoxStatus(l.Box)
	}
	t.Title = prose.Clip(d.words[n])
	if id, title := prose.LeadingID(t.Title); id != "" {
		t.ID, t.Title = id, title
	}
	return t
}

// nameItems gives the items of a phase their ids: what they have if that is one of its own (2.1, T004), else the
// number of the phase and their own, else their place. A prefix of "" is for lists outside of phases.
func nameItems(items []task, prefix string) {
	seen := map[string]bool{}
	unique := true
	for _, t := range items {
		unique = unique && t.ID != "" && !seen[t.ID]
		seen[t.ID] = true
	}
	if prefix != "" {
		prefix += "."
	}
	for k := range items {
		t := &items[k]
		t.made = !unique || !prose.CodeID(t.ID) // numbers of a plan seldom are numbers of tasks
		switch {
		case unique && (prose.CodeID(t.ID) || strings.HasPrefix(t.ID, prefix)):
		case unique && !strings.Contains(t.ID, "."):
			t.ID = prefix + t.ID
		default:
			t.ID = prefix + strconv.Itoa(k+1)
		}
	}
}

// enter makes ids unique and fills the index.
func (r *reader) enter() bool {
	kept := r.tasks[:0]
	for _, t := range r.tasks {
		if reason := prose.IDProblem(t.ID); reason != "" {
			r.refuse(t.Line, reason)
			return false
		}
		if first, ok := r.index[t.ID]; ok {
			r.note(t.Line-1, t.ID, "duplicate", fmt.Sprintf(
				"task %s: the id is already used in line %d: this task is ignored", t.ID, kept[first].Line))
			continue
		}
		t.Numeric = plainNumber(t.ID)
		if up, ok := r.index[t.Parent]; ok {
			kept[up].Children = append(kept[up].Children, t.ID)
		} else {
			t.Parent = ""
		}
		if t.Parent == "" && t.phase >= 0 {
			r.phases[t.phase].tasks = append(r.phases[t.phase].tasks, len(kept))
		}
		r.index[t.ID] = len(kept)
		r.stems[strings.TrimRight(t.ID, "0123456789")] = true
		short, _, _ := strings.Cut(t.Title, " (")
		for _, title := range []string{prose.Fold(t.Title), prose.Fold(short)} {
			at := len(kept)
			if known, ok := r.called[title]; ok && known != at {
				at = -1
			}
			r.called[title] = at
		}
		kept = append(kept, t)
	}
	r.tasks = kept
	return true
}

// plainNumber reports whether an id can be written as a JSON number and is read back the same.
func plainNumber(id string) bool {
	return prose.IsNumber(id) && len(id) < 16 && (id == "0" || id[0] != '0')
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
		l := &r.md.Lines[n]
		order := r.statements(subject{i, -1}, n)
		words := r.words[n]
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
			name, value, _ := strings.Cut(words, ":")
			t.attribute(name, value)
		}
		if checking > 0 {
			checked = append(checked, r.md.Line(n))
		} else if !order { // dependencies have a field
			text = append(text, r.md.Line(n))
		}
	}
	t.Verify = cmp.Or(prose.Verify(r.md, t.Line, t.last), t.Verify)
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

// attribute reads "Status: done", "Priority: high", and cells under such heads.
func (t *task) attribute(name, value string) {
	value = strings.Trim(value, " *`.")
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "status":
		for _, text := range []string{value, "(" + value + ")"} {
			if _, status, ok := cutStatus("x " + text); ok {
				t.Status, t.settled = status, true
				return
			}
		}
	case "priority":
		t.Priority = cmp.Or(prose.Priority(value), t.Priority)
	case "complexity":
		if plainNumber(value) && len(value) < 4 {
			t.Complexity = value
		}
	}
}
