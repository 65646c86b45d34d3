package tasks

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"descartes/tasks/prose"
)

// reader decodes the tasks of one array. The document is valid JSON: only its meaning can be wrong.
type reader struct {
	file   *File
	line   int // of the byte at seen
	seen   int
	nested bool // some task is in another
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
	task     Task
	index    int
	site     site
	children []string // ids, as the file lists them
	deps     bool     // has a list of dependencies
	flag     bool     // has a boolean "completed"
	key, id  gjson.Result
	status   int // how many status members
}

func (r *reader) note(e *entry, kind, message string) {
	r.notes = append(r.notes, note{e.index, kind, message})
}

// each visits the elements of an array or the members of an object, until one is a problem.
func each(v gjson.Result, visit func(key, value gjson.Result) *problem) (p *problem) {
	v.ForEach(func(key, value gjson.Result) bool {
		p = visit(key, value)
		return p == nil
	})
	return p
}

// isID reports whether a value can be an id.
func isID(v gjson.Result) bool { return v.Type == gjson.String || v.Type == gjson.Number }

// own returns a value as an id of the tag.
func (r *reader) own(v gjson.Result) string { return ownID(r.file.tag, strings.TrimSpace(plain(v))) }

// decodeTasks reads an array of tasks into f.
func decodeTasks(f *File, list gjson.Result) *problem {
	r := &reader{file: f, line: 1}
	f.grow(min(strings.Count(list.Raw, "{"), maxTasks))
	if p := r.list(list, nil); p != nil {
		return p
	}
	if r.alike > 0 && !r.deps {
		return &problem{r.alike - 1, `looks like another program's file: a boolean "completed" and no dependencies`}
	}
	return r.complete()
}

// list reads an array of tasks: those of the list, or those in a container.
func (r *reader) list(array gjson.Result, up *entry) *problem {
	count := 0
	return each(array, func(_, v gjson.Result) *problem {
		count++
		switch {
		case v.IsObject():
			return r.object(v, up, count)
		case up == nil:
			return &problem{v.Index, "a task must be an object"}
		case !isID(v):
			return &problem{v.Index, "a subtask must be an object or be given by its id"}
		}
		up.children = append(up.children, r.own(v))
		return nil
	})
}

// begin makes room for the task at v, before the tasks in it.
func (r *reader) begin(v gjson.Result) (*entry, *problem) {
	f := r.file
	if len(f.tasks) == maxTasks {
		return nil, &problem{v.Index, fmt.Sprintf("more than %d tasks", maxTasks)}
	}
	r.line += strings.Count(f.src[r.seen:v.Index], "\n")
	r.seen = v.Index
	e := &entry{task: Task{Status: Pending, Priority: "medium", Line: r.line}, index: len(f.tasks), site: site{at: int32(v.Index)}}
	f.tasks, f.sites = append(f.tasks, Task{}), append(f.sites, site{})
	return e, nil
}

// object reads one task, which is the nth of its list.
func (r *reader) object(v gjson.Result, up *entry, nth int) *problem {
	e, p := r.begin(v)
	if p != nil {
		return p
	}
	if up != nil {
		r.nested = true
		e.site.up, e.site.depth = int32(up.index+1), up.site.depth+1
		if e.site.depth > maxDepth {
			return &problem{v.Index, "subtasks nested too deeply"}
		}
	}
	if p := each(v, func(key, value gjson.Result) *problem { return r.member(e, key, value) }); p != nil {
		return p
	}
	switch {
	case !e.id.Exists() && (up == nil || e.status == 0):
		return &problem{v.Index, "a task without id"}
	case !e.id.Exists():
		e.task.ID = strconv.Itoa(nth)
		r.note(e, "member", "it has no id: its number in the list is used")
	}
	if up != nil {
		e.task.Numeric, e.task.Parent = false, ""
	}
	r.deps = r.deps || e.deps
	if e.flag && !e.deps && r.alike == 0 && up == nil {
		r.alike = v.Index + 1
	}
	if rest, ok := strings.CutPrefix(e.task.Title, parentMark); ok {
		e.task.Title = rest
		r.family.mark(e.index)
	}
	r.family.list(e.index, e.children)
	r.finish(e, "status")
	return nil
}

// finish stores a task. If it has no status, one gets inserted after its id, with the white space used there.
func (r *reader) finish(e *entry, status string) {
	const blank = " \t\r\n"
	f := r.file
	if e.status > 1 {
		r.note(e, "member", status+" is given more than once: the last one counts")
	}
	if e.status == 0 {
		at := end(e.id)
		gap := f.src[len(strings.TrimRight(f.src[:e.key.Index], blank)):e.key.Index]
		if rest, ok := strings.CutPrefix(strings.TrimLeft(f.src[at:], blank), ","); ok {
			gap = rest[:len(rest)-len(strings.TrimLeft(rest, blank))]
		}
		e.site.start, e.site.end = int32(at), int32(at)
		if f.inserts == nil {
			f.inserts = map[int]string{}
		}
		f.inserts[e.index] = "," + gap + strconv.Quote(status) + f.src[end(e.key):e.id.Index]
	}
	f.tasks[e.index], f.sites[e.index] = e.task, e.site
}

// member reads one member of a task.
func (r *reader) member(e *entry, key, v gjson.Result) *problem {
	t := &e.task
	switch key.Str {
	case "id":
		return r.id(e, key, v)
	case "title":
		t.Title = plain(v)
	case "description":
		t.Description = plain(v)
	case "details":
		t.Details = plain(v)
	case "test_strategy", "testStrategy":
		t.TestStrategy = bullets(v)
	case "acceptance", "acceptance_criteria", "acceptanceCriteria":
		t.Acceptance = bullets(v)
	case "status":
		t.RawStatus, t.Status = e.mark(v), Pending
		if t.RawStatus != "" {
			t.Status, _ = ParseStatus(t.RawStatus)
		}
	case "priority":
		t.Priority = cmp.Or(plain(v), t.Priority)
	case "complexity":
		t.Complexity = plain(v)
	case "agent_type":
		t.AgentType = plain(v)
	case "model_tier":
		t.ModelTier = plain(v)
	case "scope":
		t.Scope = scope(v)
	case "allow":
		t.Allow = scope(v)
	case "needs":
		t.Needs = scope(v)
	case "chain", "candidates", "prove":
		if text := plain(v); text != "" && !t.attribute(key.Str, text) {
			r.note(e, "member", fmt.Sprintf("its %s is %s, which means nothing: ignored", key.Str, prose.Short(text)))
		}
	case "depends_on", "dependencies":
		r.dependencies(e, v)
	case "subtasks":
		return r.subtasks(e, v)
	case "parent_id", "parentId", "parentTaskId":
		if parent := r.own(v); parent != "" {
			t.Parent, r.family.explicit = parent, true
		}
	case "completed":
		e.flag = e.flag || v.IsBool()
	}
	return nil
}

// attribute reads what a list says about how to run the task; false: it makes no sense, and is ignored.
func (t *Task) attribute(name, text string) bool {
	switch name {
	case "scope":
		t.Scope = scopeOf(text)
	case "allow":
		t.Allow = scopeOf(text)
	case "needs":
		t.Needs = scopeOf(text)
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
	case "prove":
		if text != "red-without" && text != "off" {
			return false
		}
		t.Prove = text
	}
	return true
}

// scope reads paths and patterns: an array, or one string with commas between them.
func scope(v gjson.Result) []string {
	names := strings.Split(v.Str, ",")
	if v.IsArray() {
		for _, name := range v.Array() {
			names = append(names, name.Str)
		}
	}
	return trimmed(names)
}

// scopeOf cuts a list of paths and patterns at its commas.
func scopeOf(text string) []string { return trimmed(strings.Split(text, ",")) }

// trimmed are the texts without blanks around them, and without those that are nothing else.
func trimmed(list []string) (out []string) {
	for _, text := range list {
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, text)
		}
	}
	return out
}

func (r *reader) id(e *entry, key, v gjson.Result) *problem {
	if !isID(v) {
		return &problem{v.Index, "the id of a task must be a string or a number"}
	}
	e.key, e.id = key, v
	e.task.ID, e.task.Numeric = r.own(v), v.Type == gjson.Number
	r.family.namespaced = r.family.namespaced || e.task.ID != strings.TrimSpace(plain(v))
	if reason := prose.IDProblem(e.task.ID); reason != "" {
		return &problem{v.Index, reason}
	}
	return nil
}

// mark records where the status is, and returns its word.
func (e *entry) mark(v gjson.Result) string {
	e.status++
	e.site.start, e.site.end = int32(v.Index), int32(end(v))
	return plain(v)
}

// subtasks reads what a container holds: objects, as Task Master nests them, or ids, as SCUD lists them.
func (r *reader) subtasks(e *entry, v gjson.Result) *problem {
	if !v.IsArray() {
		if plain(v) != "" {
			return &problem{v.Index, "subtasks must be an array"}
		}
		return nil
	}
	before := len(r.file.tasks)
	p := r.list(v, e)
	r.family.explicit = r.family.explicit || len(r.file.tasks) > before || len(e.children) > 0
	return p
}

// dependencies reads an array of ids, a single id, or several in one string. What cannot be an id is kept as literal text: it names no task, so the
// task is held rather than started too early.
func (r *reader) dependencies(e *entry, v gjson.Result) {
	e.deps = true
	var ids []string
	switch text := plain(v); {
	case v.IsArray():
		for _, d := range v.Array() {
			id := strings.TrimSpace(plain(d))
			if !isID(d) || id == "" {
				id = prose.Short(d.Raw)
				r.note(e, "dependency", "a dependency must be an id, found "+id)
			}
			ids = append(ids, id)
		}
	case text != "":
		if ids = []string{prose.Short(v.Raw)}; !v.IsObject() {
			ids = strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
		}
		r.note(e, "dependency", "dependencies should be an array of ids: read as "+prose.Short(strings.Join(ids, ", ")))
	}
	for _, id := range ids {
		e.task.DependsOn = append(e.task.DependsOn, ownID(r.file.tag, id))
	}
	e.task.DependsOn = unique(e.task.DependsOn)
}

// nestedKey names a task by its container, as 1 + its place, and by its id as the file has it.
type nestedKey struct {
	up int32
	id string
}

// complete finishes the reading: nested ids get their containers' ids in front, dependencies between them are resolved, and families are made to
// agree.
func (r *reader) complete() *problem {
	f := r.file
	var byNested map[nestedKey]string
	var own []string // ids as the file has them
	if r.nested {
		byNested, own = make(map[nestedKey]string, len(f.tasks)), make([]string, len(f.tasks))
	}
	slices.SortStableFunc(r.notes, func(a, b note) int { return cmp.Compare(a.task, b.task) })
	notes := r.notes
	for i := range f.tasks {
		t, s := &f.tasks[i], &f.sites[i]
		if r.nested {
			own[i] = t.ID
		}
		if s.up > 0 {
			t.Parent = f.tasks[s.up-1].ID
			byNested[nestedKey{s.up, t.ID}] = nestedID(t.Parent, own[s.up-1], t.ID)
			t.ID = byNested[nestedKey{s.up, t.ID}]
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
	if r.nested {
		f.resolveNested(byNested)
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

// resolveNested resolves the dependencies of nested tasks: a task in the same container, else one in a surrounding container, else one of the list.
func (f *File) resolveNested(byNested map[nestedKey]string) {
	for i := range f.tasks {
		up := f.sites[i].up
		if up == 0 {
			continue
		}
		changed := false
		list := f.tasks[i].DependsOn
		for k, id := range list {
			for u := up; u > 0; u = f.sites[u-1].up {
				if full, ok := byNested[nestedKey{u, id}]; ok {
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

// unique drops repeated elements.
func unique(list []string) []string {
	if len(list) < 2 {
		return list
	}
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
}
