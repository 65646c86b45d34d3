package tasks

import (
	"fmt"
	"strings"
)

// site is where the status of a task stands in the source. Where start is end, there is none yet: File.inserts has what goes before it.
// A file is at most 64 MiB, so 32 bits do.
type site struct{ start, end int32 }

// reader decodes the tasks of one array. The document is valid JSON: only its meaning can be wrong here.
type reader struct {
	scanner
	file *File
	line int // of the byte at seen
	seen int
	entry
	pool []string // from which lists of dependencies are cut
}

// entry is one task object while it is read.
type entry struct {
	task      Task
	site      site
	children  []string // as the file lists them
	dependsOn []string // its memory is used again for the next task
	deps      bool     // has a list of dependencies
	flag      bool     // has a boolean "completed"
	idEnd     int
	gap       string // white space after the comma behind the id
	colon     string // between the name and the value of the id
	status    int    // how many status members
	findings  []Finding
}

func (e *entry) note(kind, message string) {
	e.findings = append(e.findings, Finding{Line: e.task.Line, Kind: kind, Message: message})
}

// decodeTasks reads the array of tasks at list into f.
func decodeTasks(d *document, f *File, list member) *problem {
	r := &reader{scanner: scanner{src: d.src, pos: list.start}, file: f, line: 1}
	f.grow(min(strings.Count(d.src[list.start:list.end], "{"), maxTasks))
	listed := map[int][]string{}
	for more := r.open(']'); more; more = r.next(']') {
		if len(f.tasks) == maxTasks {
			return &problem{r.pos, fmt.Sprintf("more than %d tasks", maxTasks)}
		}
		if r.peek() != '{' {
			return &problem{r.pos, "a task must be an object"}
		}
		if p := r.object(); p != nil {
			return p
		}
		if len(r.children) > 0 {
			listed[len(f.tasks)] = r.children
		}
		f.add(&r.entry)
	}
	f.relate(listed)
	return nil
}

func (r *reader) lineAt(pos int) int {
	r.line += strings.Count(r.src[r.seen:pos], "\n")
	r.seen = pos
	return r.line
}

// object reads one task into r.entry.
func (r *reader) object() *problem {
	start := r.pos
	e := &r.entry
	*e = entry{task: Task{Status: Pending, Priority: "medium", Line: r.lineAt(start)}, dependsOn: e.dependsOn[:0]}
	for more := r.open('}'); more; more = r.next('}') {
		key := r.pos
		name, _ := r.key()
		if p := r.member(e, name, key); p != nil {
			return p
		}
	}
	if e.idEnd == 0 {
		return &problem{start, "a task without id"}
	}
	if e.flag && !e.deps {
		return &problem{start, `looks like another program's file: a boolean "completed" and no dependencies`}
	}
	if e.status > 1 {
		e.note("member", "status is given more than once, the last one counts")
	}
	if e.status == 0 {
		e.site = site{int32(e.idEnd), int32(e.idEnd)}
	}
	e.task.DependsOn = r.keep(e.dependsOn)
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
	case "depends_on", "dependencies":
		e.deps = true
		r.dependencies(e)
	case "subtasks":
		return r.subtasks(e)
	case "parent_id", "parentId", "parentTaskId":
		if parent := ownID(r.file.tag, r.text()); parent != "" {
			t.Parent = parent
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

func (r *reader) id(e *entry, key int) *problem {
	start, first := r.pos, r.peek()
	if first != '"' && first != '-' && (first < '0' || first > '9') {
		return &problem{start, "the id of a task must be a string or a number"}
	}
	e.task.ID = ownID(r.file.tag, r.text())
	e.task.Numeric = first != '"'
	if reason := idProblem(e.task.ID); reason != "" {
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
	e.site = site{int32(start), int32(r.pos)}
	e.task.Status = Pending
	if e.task.RawStatus != "" {
		e.task.Status, _ = ParseStatus(e.task.RawStatus)
	}
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
		id := r.text()
		if first != '"' && first != '-' && (first < '0' || first > '9') || id == "" {
			id = short(r.src[start:r.pos])
			e.note("dependency", fmt.Sprintf("a dependency must be an id, found %s", id))
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
	ids := []string{short(r.src[start:r.pos])}
	if first != '{' {
		ids = strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
	}
	e.note("dependency", "dependencies should be an array of ids, read as "+short(strings.Join(ids, ", ")))
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

// subtasks reads an array of ids. Nested subtask objects are another program's format: reading the parents alone would run them
// as if they were the work.
func (r *reader) subtasks(e *entry) *problem {
	if r.peek() != '[' {
		start := r.pos
		if text := r.text(); text != "" {
			return &problem{start, "subtasks must be an array of ids"}
		}
		return nil
	}
	for more := r.open(']'); more; more = r.next(']') {
		start := r.pos
		switch first := r.peek(); {
		case first == '{':
			return &problem{start, "nested subtask objects (a Task Master file), this format is not read here"}
		case first != '"' && first != '-' && (first < '0' || first > '9'):
			return &problem{start, "a subtask must be given by its id"}
		}
		e.children = append(e.children, ownID(r.file.tag, r.text()))
	}
	return nil
}

// short cuts a foreign text for a message.
func short(text string) string {
	const limit = 40
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
