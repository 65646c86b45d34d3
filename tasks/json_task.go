package tasks

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"descartes/tasks/prose"
)

// reader decodes the tasks of one array. The document is valid JSON: only its meaning can be wrong here.
type reader struct {
	scanner
	file   *File
	line   int // of the byte at seen
	seen   int
	levels []*entry // one for each level of nesting; their memory is used again for the next task
	pool   []string // from which lists of dependencies are cut
	family family
	notes  []note
	deps   bool // some task has dependencies
	alike  int  // 1 + where the first task is that looks like another program's
}

// note is a finding about a task whose id is not complete yet.
type note struct {
	task          int
	kind, message string
}

// entry is one task object while it is read.
type entry struct {
	task      Task
	index     int
	site      site
	children  []string // ids, as the file lists them
	dependsOn []string
	deps      bool // has a list of dependencies
	flag      bool // has a boolean "completed"
	id        bool
	idEnd     int
	gap       string // white space after the comma behind the id
	colon     string // between the name and the value of the id
	status    int    // how many status members
}

func (r *reader) note(e *entry, kind, message string) {
	r.notes = append(r.notes, note{e.index, kind, message})
}

// decodeTasks reads the array of tasks at list into f.
func decodeTasks(d *document, f *File, list member) *problem {
	r := &reader{scanner: scanner{src: d.src, pos: list.start}, file: f, line: 1}
	f.grow(min(strings.Count(d.src[list.start:list.end], "{"), maxTasks))
	if p := r.list(nil); p != nil {
		return p
	}
	if r.alike > 0 && !r.deps {
		return &problem{r.alike - 1, `looks like another program's file: a boolean "completed" and no dependencies`}
	}
	return r.settle()
}

// list reads an array of tasks: those of the list, or those in a container.
func (r *reader) list(up *entry) *problem {
	depth, count := 0, 0
	if up != nil {
		depth = int(up.site.depth) + 1
	}
	for more := r.open(']'); more; more = r.next(']') {
		count++
		switch first := r.peek(); {
		case first == '{':
			if p := r.object(up, depth, count); p != nil {
				return p
			}
		case up == nil:
			return &problem{r.pos, "a task must be an object"}
		case first != '"' && first != '-' && (first < '0' || first > '9'):
			return &problem{r.pos, "a subtask must be an object or be given by its id"}
		default:
			up.children = append(up.children, ownID(r.file.tag, strings.TrimSpace(r.text())))
		}
	}
	return nil
}

func (r *reader) lineAt(pos int) int {
	r.line += strings.Count(r.src[r.seen:pos], "\n")
	r.seen = pos
	return r.line
}

// object reads one task, which is the nth of its list.
func (r *reader) object(up *entry, depth, nth int) *problem {
	f, start := r.file, r.pos
	if len(f.tasks) == maxTasks {
		return &problem{start, fmt.Sprintf("more than %d tasks", maxTasks)}
	}
	if depth == len(r.levels) {
		r.levels = append(r.levels, new(entry))
	}
	e := r.levels[depth]
	*e = entry{task: Task{Status: Pending, Priority: "medium", Line: r.lineAt(start)}, index: len(f.tasks), dependsOn: e.dependsOn[:0]}
	e.site = site{at: int32(start), depth: uint8(depth)}
	if up != nil {
		e.site.up = int32(up.index + 1)
	}
	f.tasks, f.sites = append(f.tasks, Task{}), append(f.sites, site{}) // its place, before the tasks in it
	for more := r.open('}'); more; more = r.next('}') {
		key := r.pos
		name := r.key()
		if p := r.member(e, name, key); p != nil {
			return p
		}
	}
	return r.finish(e, start, nth)
}

// finish completes a task whose last member was read.
func (r *reader) finish(e *entry, start, nth int) *problem {
	f := r.file
	switch {
	case !e.id && (e.site.up == 0 || e.status == 0):
		return &problem{start, "a task without id"}
	case !e.id:
		e.task.ID = strconv.Itoa(nth)
		r.note(e, "member", "it has no id of its own, its number in the list is taken")
	}
	if e.site.up > 0 {
		e.task.Numeric, e.task.Parent = false, ""
	}
	r.deps = r.deps || e.deps
	if e.flag && !e.deps && r.alike == 0 && e.site.up == 0 {
		r.alike = start + 1
	}
	if e.status > 1 {
		r.note(e, "member", "status is given more than once, the last one counts")
	}
	if e.status == 0 {
		e.site.start, e.site.end = int32(e.idEnd), int32(e.idEnd)
		if f.inserts == nil {
			f.inserts = map[int]string{}
		}
		f.inserts[e.index] = "," + e.gap + `"status"` + e.colon
	}
	if rest, ok := strings.CutPrefix(e.task.Title, parentMark); ok {
		e.task.Title = rest
		r.family.mark(e.index)
	}
	r.family.list(e.index, e.children)
	e.task.DependsOn = r.keep(e.dependsOn)
	f.tasks[e.index], f.sites[e.index] = e.task, e.site
	return nil
}

// member reads the value of one member of a task.
func (r *reader) member(e *entry, name string, key int) *problem {
	t := &e.task
	switch name {
	case "id":
		return r.id(e, key)
	case "title":
		t.Title = r.text()
	case "description":
		t.Description = r.text()
	case "details":
		t.Details = r.text()
	case "test_strategy", "testStrategy":
		t.TestStrategy = r.text()
	case "status":
		r.status(e)
	case "priority":
		if word := r.text(); word != "" {
			t.Priority = word
		}
	case "complexity":
		t.Complexity = r.text()
	case "agent_type":
		t.AgentType = r.text()
	case "model_tier":
		t.ModelTier = r.text()
	case "scope":
		t.Scope = r.scope()
	case "chain", "candidates":
		if text := r.text(); text != "" && !t.attribute(name, text) {
			r.note(e, "member", fmt.Sprintf("its %s is %s, which says nothing", name, prose.Short(text)))
		}
	case "depends_on", "dependencies":
		e.deps = true
		r.dependencies(e)
	case "subtasks":
		return r.subtasks(e)
	case "parent_id", "parentId", "parentTaskId":
		if parent := ownID(r.file.tag, strings.TrimSpace(r.text())); parent != "" {
			t.Parent, r.family.explicit = parent, true
		}
	case "completed":
		e.flag = e.flag || r.peek() == 't' || r.peek() == 'f'
		r.value()
	default:
		r.value()
	}
	return nil
}

// text reads a string, "" for null, and the literal text of anything else.
func (r *reader) text() string {
	start := r.pos
	first := r.peek()
	r.value()
	switch first {
	case '"':
		return unquote(r.src[start:r.pos])
	case 'n':
		return ""
	}
	return r.src[start:r.pos]
}

// attribute takes in what a list says about how the task is run; false: it makes no sense, and says nothing.
func (t *Task) attribute(name, text string) bool {
	switch name {
	case "scope":
		t.Scope = scopeOf(text)
	case "chain":
		yes, err := strconv.ParseBool(text)
		if err != nil {
			return false
		}
		t.Chain = &yes
	case "candidates":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return false
		}
		t.Candidates = n
	}
	return true
}

// scope reads paths and patterns: an array, or one string with commas between them.
func (r *reader) scope() []string {
	var scope []string
	switch r.peek() {
	case '"':
		return scopeOf(r.text())
	case '[':
	default:
		r.value()
		return nil
	}
	for more := r.open(']'); more; more = r.next(']') {
		if r.peek() != '"' {
			r.value()
		} else if name := strings.TrimSpace(r.text()); name != "" {
			scope = append(scope, name)
		}
	}
	return scope
}

// scopeOf cuts a list of paths and patterns at its commas.
func scopeOf(text string) []string {
	var scope []string
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			scope = append(scope, name)
		}
	}
	return scope
}

func (r *reader) id(e *entry, key int) *problem {
	start, first := r.pos, r.peek()
	if first != '"' && first != '-' && (first < '0' || first > '9') {
		return &problem{start, "the id of a task must be a string or a number"}
	}
	text := strings.TrimSpace(r.text())
	e.task.ID = ownID(r.file.tag, text)
	e.task.Numeric = first != '"'
	e.id = true
	r.family.namespaced = r.family.namespaced || e.task.ID != text
	if reason := prose.IDProblem(e.task.ID); reason != "" {
		return &problem{start, reason}
	}
	e.idEnd = r.pos
	name := scanner{src: r.src, pos: key}
	name.str()
	e.colon = r.src[name.pos:start]
	after := scanner{src: r.src, pos: r.pos}
	if after.space(); after.peek() == ',' {
		comma := after.pos + 1
		after.pos = comma
		after.space()
		e.gap = r.src[comma:after.pos]
		return nil
	}
	e.gap = r.src[len(strings.TrimRight(r.src[:key], " \t\r\n")):key]
	return nil
}

func (r *reader) status(e *entry) {
	start := r.pos
	e.task.RawStatus = r.text()
	e.status++
	e.site.start, e.site.end = int32(start), int32(r.pos)
	e.task.Status = Pending
	if e.task.RawStatus != "" {
		e.task.Status, _ = ParseStatus(e.task.RawStatus)
	}
}

// subtasks reads what a container holds: objects, as Task Master nests them, or ids, as SCUD lists them.
func (r *reader) subtasks(e *entry) *problem {
	if r.peek() != '[' {
		start := r.pos
		if text := r.text(); text != "" {
			return &problem{start, "subtasks must be an array"}
		}
		return nil
	}
	before := len(r.file.tasks)
	p := r.list(e)
	r.family.explicit = r.family.explicit || len(r.file.tasks) > before || len(e.children) > 0
	return p
}

// dependencies reads an array of ids. What cannot be an id is kept as its literal text: it names no task, so the task is held
// rather than started too early.
func (r *reader) dependencies(e *entry) {
	if r.peek() != '[' {
		r.looseDependencies(e)
		return
	}
	var seen map[string]bool
	for more := r.open(']'); more; more = r.next(']') {
		first := r.peek()
		start := r.pos
		id := strings.TrimSpace(r.text())
		if first != '"' && first != '-' && (first < '0' || first > '9') || id == "" {
			id = prose.Short(r.src[start:r.pos])
			r.note(e, "dependency", fmt.Sprintf("a dependency must be an id, found %s", id))
		}
		seen = e.depend(ownID(r.file.tag, id), seen)
	}
}

// looseDependencies reads a lone id, or several in one string.
func (r *reader) looseDependencies(e *entry) {
	start, first := r.pos, r.peek()
	text := r.text()
	if text == "" {
		return
	}
	ids := []string{prose.Short(r.src[start:r.pos])}
	if first != '{' {
		ids = strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
	}
	r.note(e, "dependency", "dependencies should be an array of ids, read as "+prose.Short(strings.Join(ids, ", ")))
	var seen map[string]bool
	for _, id := range ids {
		seen = e.depend(ownID(r.file.tag, id), seen)
	}
}

// depend adds one dependency unless it is there already; seen appears with the first long list.
func (e *entry) depend(id string, seen map[string]bool) map[string]bool {
	list := e.dependsOn
	if seen == nil && len(list) >= 16 {
		seen = make(map[string]bool, 2*len(list))
		for _, d := range list {
			seen[d] = true
		}
	}
	if seen != nil {
		if !seen[id] {
			seen[id] = true
			e.dependsOn = append(list, id)
		}
		return seen
	}
	for _, d := range list {
		if d == id {
			return nil
		}
	}
	e.dependsOn = append(list, id)
	return nil
}

// keep copies a list out of the memory that the next task uses; many lists share one allocation.
func (r *reader) keep(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	if cap(r.pool)-len(r.pool) < len(list) {
		r.pool = make([]string, 0, max(1024, len(list)))
	}
	from := len(r.pool)
	r.pool = append(r.pool, list...)
	return r.pool[from:len(r.pool):len(r.pool)]
}

// kin names a task by its container, as 1 + its place, and by its id as the file has it.
type kin struct {
	up int32
	id string
}

// settle completes what was read: ids of nested tasks get the ids of their containers before them, dependencies between these are
// found, and families are made to agree.
func (r *reader) settle() *problem {
	f := r.file
	nested := len(r.levels) > 1
	var byKin map[kin]string
	var own []string // ids as the file has them
	if nested {
		byKin, own = make(map[kin]string, len(f.tasks)), make([]string, len(f.tasks))
	}
	slices.SortStableFunc(r.notes, func(a, b note) int { return cmp.Compare(a.task, b.task) })
	notes := r.notes
	for i := range f.tasks {
		t, s := &f.tasks[i], &f.sites[i]
		if nested {
			own[i] = t.ID
		}
		if s.up > 0 {
			t.Parent = f.tasks[s.up-1].ID
			byKin[kin{s.up, t.ID}] = nestedID(t.Parent, own[s.up-1], t.ID)
			t.ID = byKin[kin{s.up, t.ID}]
			if len(t.ID) > prose.MaxID {
				return &problem{int(s.at), prose.IDProblem(t.ID)}
			}
		}
		f.enter(i)
		for len(notes) > 0 && notes[0].task == i {
			f.note(i, notes[0].kind, notes[0].message)
			notes = notes[1:]
		}
	}
	if nested {
		f.resolveNested(byKin)
	}
	f.relate(&r.family)
	return nil
}

// nestedID is the complete id of a task in a container: 12 and 3 is 12.3. Some files repeat the container's id, whole (12.3, also as
// the number 12.3) or its last part (in 1.2, 2.3 is 1.2.3).
func nestedID(parent, ownParent, id string) string {
	if strings.HasPrefix(id, parent+".") {
		return id
	}
	if rest, ok := strings.CutPrefix(id, ownParent+"."); ok {
		id = rest
	}
	return parent + "." + id
}

// resolveNested finds what the dependencies of nested tasks mean: a task in the same container, else one in a container around that,
// else one of the list.
func (f *File) resolveNested(byKin map[kin]string) {
	for i := range f.tasks {
		up := f.sites[i].up
		if up == 0 {
			continue
		}
		changed := false
		list := f.tasks[i].DependsOn
		for k, id := range list {
			for u := up; u > 0; u = f.sites[u-1].up {
				if full, ok := byKin[kin{u, id}]; ok {
					changed = changed || full != id
					list[k] = full
					break
				}
			}
		}
		if changed {
			f.tasks[i].DependsOn = unique(list)
		}
	}
}

// unique drops what comes a second time.
func unique(list []string) []string {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
}
