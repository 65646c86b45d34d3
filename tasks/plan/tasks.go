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
	own     string          // the id that its text begins with
	whole   string          // the title with that
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
	unpadded map[string]int   // ids without zeros in front to place
	stems    map[string]bool  // ids without the number at their end
	called   map[string]int   // folded title to place, -1 for several
	links    int              // dependencies, each as often as it is stated
	open     *prose.Statement // what the list that follows is about: "Depends on:"
	gsd      []task
	weak     bool // no work was found: sections called checklist count too
}

// level is one way in which people write tasks.
type level struct {
	name, example string
	find          func(*reader) bool // adds the tasks
}

// levels are tried in this order; the first that finds tasks counts, and what the others would have found is left out
// and said.
func levels() []level {
	boxes := func(r *reader) bool {
		return r.addItems(r.entries(0, len(r.md.Lines), func(l *markdown.Line) bool { return l.Box != 0 }))
	}
	return []level{
		{"elements <task>", "<task><name>Title</name>", (*reader).elements},
		{`headings "Task"`, "### Task 1: Title", (*reader).taskHeadings},
		{"headings with ids", "### U1. Title", func(r *reader) bool { return r.sections("unit") }},
		{"steps", "## Step 1: Title", func(r *reader) bool {
			return len(r.phases) > 0 && r.phases[0].word == "step" && r.phaseTasks()
		}},
		{"rows of tables", "| # | Task | Status |", (*reader).tableTasks},
		{"parts of phases", "## Phase 1: Name, then - [ ] Title", (*reader).phaseItems},
		{"phases", "## Phase 1: Title", (*reader).phaseTasks},
		{"boxes", "- [ ] Title", boxes},
		{"numbered sections", "## Change 1: Title", func(r *reader) bool { return r.sections("section") }},
		{"numbered headings", "## 1. Title", (*reader).numberedHeadings},
		{"entries of a list", "## Tasks, then 1. Title", (*reader).listed},
		{"boxes of a checklist", "## Implementation Checklist, then - [ ] Title", func(r *reader) bool {
			r.weak = true
			return boxes(r)
		}},
	}
}

// readTasks finds the tasks and what they depend on.
func (d *Document) readTasks() {
	d.index = map[string]int{}
	r := &reader{Document: d, phaseIDs: map[string]int{}, unpadded: map[string]int{}, stems: map[string]bool{}, called: map[string]int{}}
	r.findPhases()
	list := levels()
	if reason := r.otherDocument(); reason != "" {
		d.fault = &NoTasksError{tasks.FormatError{Path: d.Name, Reason: reason}}
		return
	}
	k := slices.IndexFunc(list, func(x level) bool { return x.find(r) })
	if k < 0 {
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
	said := r.statusElsewhere()
	for i := range r.tasks {
		r.readTask(i)
	}
	r.tableRows()
	if r.order(); r.links > maxLinks {
		d.refuse(0, fmt.Sprintf(
			"the plan has more than %d dependencies: state what tasks of large phases wait for, or split the phases",
			maxLinks))
		return
	}
	r.account(list[k], said)
}

// otherDocument says what a file is that looks like a plan of tasks and is none.
func (r *reader) otherDocument() string {
	for n := range r.md.Lines {
		if r.md.Lines[n].Kind == markdown.Heading && strings.Contains(r.words[n], "(/plan command scope)") ||
			strings.HasPrefix(r.words[n], "Phase 2: Task Planning Approach") {
			return "the file is Spec Kit's plan of a feature, which says how its tasks are made: they are in tasks.md beside it"
		}
	}
	return ""
}

// statusElsewhere takes the statuses of tasks that have sections from boxes elsewhere that name them, as in a
// checklist of steps above the steps, and returns the lines of these.
func (r *reader) statusElsewhere() map[int]bool {
	said := map[int]bool{}
	for n := range r.md.Lines {
		l := &r.md.Lines[n]
		if l.Box == 0 || r.Within(n) {
			continue
		}
		_, id, title := prose.Numbered(r.words[n])
		i, ok := r.called[prose.Fold(title)]
		if k, known := r.index[id]; known && (!ok || i < 0) && id != "" && prose.IsDotted(id) {
			i, ok = k, true
		}
		if !ok || i < 0 || r.md.Lines[r.tasks[i].Line-1].Kind == markdown.Entry {
			continue
		}
		if said[n] = true; !r.tasks[i].settled {
			r.tasks[i].Status, r.tasks[i].settled = tasks.BoxStatus(l.Box), true
		}
	}
	return said
}

// account notes what looks like work and is neither a task, nor a part of one, nor a criterion.
func (r *reader) account(by level, said map[int]bool) {
	inside := make([]bool, len(r.md.Lines)+1)
	for i := range r.tasks {
		for n := r.tasks[i].Line - 1; n < r.tasks[i].last; n++ {
			inside[n] = true
		}
	}
	reason := fmt.Sprintf("the tasks of this plan are its %s (as in %q)", by.name, by.example)
	leave := func(n int, reason string) {
		r.findings = append(r.findings, tasks.Finding{Line: n + 1, Kind: tasks.KindLeft,
			Closed:  tasks.BoxStatus(r.md.Lines[n].Box) == tasks.Done,
			Message: fmt.Sprintf("%q is not a task: %s", prose.Short(strings.TrimSpace(r.md.Line(n))), reason)})
	}
	rows := map[int]bool{}
	for i := range r.tables {
		for _, x := range r.rowTasks(&r.tables[i]) {
			_, byID := r.index[x.own]
			_, byTitle := r.called[prose.Fold(x.Title)]
			rows[x.Line-1] = !byID && !byTitle
		}
	}
	for n := range r.md.Lines {
		l := &r.md.Lines[n]
		section := prose.Unknown
		head := r.headAt(n)
		if head >= 0 {
			section = r.heads[head].section
		}
		switch {
		case l.Box == '?' && inside[n]:
			r.findings = append(r.findings, tasks.UnknownMark(n+1, "", r.words[n]))
		case inside[n] || said[n] || section >= prose.Checklist && section != prose.Aside:
		case l.Box != 0 && section != prose.Unknown && section != prose.Work:
			leave(n, fmt.Sprintf("it stands under %q", r.heads[head].text))
		case l.Box != 0, rows[n] && section < prose.Background:
			leave(n, reason)
		case head >= 0 && r.heads[head].line == n && (r.heads[head].word == "task" || r.heads[head].word == "unit") &&
			!r.holds(r.heads[head].line, r.heads[head].end):
			leave(n, reason)
		case l.Number != "" && section == prose.Work && l.Kind == markdown.Entry && by.name != "phases":
			leave(n, reason)
		}
	}
}

// holds reports whether a task begins in these lines.
func (r *reader) holds(first, end int) bool {
	return slices.ContainsFunc(r.tasks, func(t task) bool { return first < t.Line && t.Line <= end })
}

// elements makes tasks of elements <task> with a name, as GSD writes them.
func (r *reader) elements() bool {
	for n := 0; n < len(r.md.Lines); n++ {
		if !strings.HasPrefix(strings.TrimSpace(r.md.Line(n)), "<task") || r.md.Fenced(n) {
			continue
		}
		end := n + 1
		for end < len(r.md.Lines) && !strings.Contains(r.md.Line(end-1), "</task>") {
			end++
		}
		var text []string
		for k := n; k < end; k++ {
			text = append(text, r.md.Line(k))
		}
		body := strings.Join(text, "\n")
		t := task{Task: tasks.Task{Title: prose.Clip(element(body, "name")), Line: n + 1}, last: end}
		if t.Title == "" {
			continue
		}
		if _, id, title := prose.Numbered(t.Title); id != "" && title != "" {
			t.ID, t.Title = id, title
		}
		t.Description, t.Verify = element(body, "action"), element(body, "verify")
		t.Acceptance = element(body, "done")
		r.gsd = append(r.gsd, t)
		n = end - 1
	}
	return r.addItems(r.gsd)
}

// element is the text of the first element of this name.
func element(s, name string) string {
	_, s, found := strings.Cut(s, "<"+name+">")
	text, _, closed := strings.Cut(s, "</"+name+">")
	if !found || !closed {
		return ""
	}
	return prose.Block(strings.Split(strings.TrimSpace(text), "\n"))
}

// sections makes a task of each heading with this word, if there are several.
func (r *reader) sections(word string) bool {
	var list []int
	level := boldLevel + 1
	for i := range r.heads {
		if h := &r.heads[i]; h.word == word && !h.background() && h.level <= level {
			if h.level < level {
				level, list = h.level, nil
			}
			list = append(list, i)
		}
	}
	if len(list) < 2 {
		return false
	}
	for _, i := range list {
		r.add(headTask(&r.heads[i]))
	}
	return true
}

// numberedHeadings makes tasks of these, unless they are the chapters of a document: one of them is its summary, or
// another section that is about no work.
func (r *reader) numberedHeadings() bool {
	items := r.headingItems(0, len(r.md.Lines))
	if len(items) < 2 {
		return false
	}
	level := r.heads[r.headAt(items[0].Line-1)].level
	chapters := slices.ContainsFunc(r.heads, func(h heading) bool {
		return h.level == level && h.background() && h.id != ""
	})
	return !chapters && r.addItems(items)
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
// out. The second one of a number is a phase of its own.
func (r *reader) findPhases() {
	for _, word := range prose.PhaseWords {
		known := map[string]int{} // id to line
		end := 0
		for i := range r.heads {
			h := r.heads[i]
			if h.word != word || h.background() || h.line < end {
				continue
			}
			if first, ok := known[h.id]; ok {
				h.id = freeID(h.id, func(id string) bool { return known[id] > 0 })
				r.note(h.line, "", "line", fmt.Sprintf("a second %s %s: it is %s here, and the first one is in line %d",
					word, r.heads[i].id, h.id, first))
			}
			known[h.id], end = h.line+1, h.end
			r.phaseIDs[strings.ToLower(h.id)] = len(r.phases)
			r.phases = append(r.phases, phase{heading: &h, head: i})
		}
		if len(r.phases) > 0 {
			return
		}
	}
}

// freeID is what the second thing with an id is called.
func freeID(id string, taken func(string) bool) string {
	for k := 2; ; k++ {
		if free := fmt.Sprint(id, "-", k); !taken(free) {
			return free
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
		if h := &r.heads[i]; h.word == "task" || h.word == "subtask" {
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

// itemsOf finds the items of a phase: its boxes where each numbered heading in it has some, else numbered headings, else
// boxes, else a numbered list.
func (r *reader) itemsOf(f *phase) []task {
	heads := r.headingItems(f.head+1, f.end)
	boxes := r.entries(f.line+1, f.end, func(l *markdown.Line) bool { return l.Box != 0 })
	bare := slices.ContainsFunc(heads, func(h task) bool {
		return !slices.ContainsFunc(boxes, func(b task) bool { return h.Line < b.Line && b.Line <= h.last })
	})
	switch {
	case len(boxes) > 0 && !bare:
		return boxes
	case len(heads) > 0:
		return heads
	}
	return r.entries(f.line+1, f.end, func(l *markdown.Line) bool { return l.Number != "" })
}

// headingItems are the numbered headings of the highest level that has such, among the headings from i on.
func (r *reader) headingItems(i, end int) (items []task) {
	level := boldLevel + 1
	for ; i < len(r.heads) && r.heads[i].line < end; i++ {
		h := &r.heads[i]
		if h.id == "" || h.background() || h.level > level {
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
			if h.line < end || h.background() || whole && (i > 0 || !planTitle.MatchString(title)) || !whole &&
				(r.isTitle(i) || prose.SectionOf(title) != prose.Work) {
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
		if head := r.headAt(n); head >= 0 {
			switch section := r.heads[head].section; {
			case section >= prose.Aside, section == prose.Checklist && !r.weak,
				section == prose.Background && (l.Box == 0 || len(r.phases) > 0):
				continue
			}
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
	if title, status, ok := cutStatus(t.Title); ok && l.Box == 0 {
		t.Title, t.Status, t.settled = title, status, true // "1. **[x] Title**"
	}
	t.whole = t.Title
	if id, title := prose.LeadingID(t.Title); id != "" {
		t.ID, t.own, t.Title = id, id, title
	}
	return t
}

// nameItems gives the items of a phase their ids: what they have if that is one of its own (2.1, T004), else the
// number of the phase and their own, else their place. A prefix of "" is for lists outside of phases.
func nameItems(items []task, prefix string) {
	seen := map[string]bool{}
	unique := true
	all := !slices.ContainsFunc(items, func(t task) bool { return t.whole != "" && !prose.CodeID(t.own) })
	for k := range items { // a word like ES2023 is an id only where all entries begin with one
		if t := &items[k]; !all && prose.CodeID(t.own) && t.whole != "" {
			t.ID, t.Title = "", t.whole
		}
	}
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
			id := t.ID
			t.ID = freeID(id, func(id string) bool { _, ok := r.index[id]; return ok })
			r.note(t.Line-1, t.ID, "line", fmt.Sprintf("a second task %s: it is %s here, and the first one is in line %d",
				id, t.ID, kept[first].Line))
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
		if bare := strings.TrimLeft(t.ID, "0"); bare != t.ID && bare != "" {
			r.unpadded[bare] = len(kept)
		}
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
			name, value, _ := strings.Cut(strings.Replace(words, "：", ":", 1), ":")
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
	switch prose.Label(name) {
	case "status":
		if status := prose.Status(value); status != "" {
			t.Status, t.settled = tasks.Status(status), true
			return
		}
		for _, text := range []string{value, "(" + value + ")"} {
			if _, status, ok := cutStatus("x " + text); ok {
				t.Status, t.settled = status, true
				return
			}
		}
	case "priority":
		t.Priority = cmp.Or(prose.Priority(value), t.Priority)
	}
	if strings.EqualFold(strings.TrimSpace(name), "complexity") && plainNumber(value) && len(value) < 4 {
		t.Complexity = value
	}
}
