package tasks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"descartes/tasks/prose"
)

const (
	byteOrder = "\ufeff"
	maxDepth  = 100 // of subtasks in subtasks; real files reach two
)

// document is a JSON text known to be valid.
type document struct {
	parsed  bool
	array   bool     // the top level is an array
	members []member // of the top level; nil unless it is an object
	lists   []string // members that hold a task list: tags
}

// member is one member of an object. A value's Index is its place in the source.
type member struct {
	name  string
	value gjson.Result
}

// members are those of an object.
func members(object gjson.Result) []member {
	list := []member{}
	object.ForEach(func(key, value gjson.Result) bool {
		list = append(list, member{key.Str, value})
		return true
	})
	return list
}

// last returns the last member with a name, as JSON readers do.
func last(list []member, name string) (gjson.Result, bool) {
	for _, m := range slices.Backward(list) {
		if m.name == name {
			return m.value, true
		}
	}
	return gjson.Result{}, false
}

// end is where a value ends in the source.
func end(v gjson.Result) int { return v.Index + len(v.Raw) }

// plain returns a string, "" for null, and the literal text of anything else.
func plain(v gjson.Result) string {
	switch v.Type {
	case gjson.String:
		return v.Str
	case gjson.Null:
		return ""
	}
	return v.Raw
}

func (d *document) find(name string) (gjson.Result, bool) { return last(d.members, name) }

// json reports whether the text is JSON; if not, the text says what is wrong with it.
func (t *text) json() bool {
	if !t.parsed {
		t.document, t.wrong = parse(t.src)
	}
	return t.wrong == nil
}

// parse validates src as a whole and takes its top level apart.
func parse(src string) (document, *problem) {
	d := document{parsed: true}
	text := strings.TrimLeft(strings.TrimPrefix(src, byteOrder), " \n\r\t")
	start := len(src) - len(text)
	if text == "" {
		return d, &problem{0, "the file is empty"}
	}
	if !json.Valid([]byte(text)) {
		return d, notJSON(src, start, json.Unmarshal([]byte(text), new(any)))
	}
	if d.array = text[0] == '['; text[0] == '{' {
		d.members = members(gjson.Result{Type: gjson.JSON, Raw: text, Index: start})
	}
	for _, m := range d.members {
		if m.value.IsObject() {
			if v, ok := last(members(m.value), "tasks"); ok && v.IsArray() {
				d.lists = append(d.lists, m.name)
			}
		}
	}
	return d, nil
}

// notText rejects what no program wrote as a list.
func notText(src string) *problem {
	if strings.HasPrefix(src, "\xff\xfe") || strings.HasPrefix(src, "\xfe\xff") {
		return &problem{0, "the file is UTF-16 text, and must be UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"}
	}
	for i, r := range src {
		if r == 0 {
			return &problem{i, "the file is not text (byte 0x00)"}
		}
		if r == utf8.RuneError && !strings.HasPrefix(src[i:], string(r)) {
			return &problem{i, fmt.Sprintf("the file is not UTF-8 text (byte 0x%02x); if it is Latin-1: iconv -f LATIN1 -t UTF-8 FILE > NEW", src[i])}
		}
	}
	if strings.HasPrefix(src, "version https://git-lfs") {
		return &problem{0, `this is a Git LFS pointer, not the file itself ("git lfs pull" fetches it)`}
	}
	if at := strings.Index("\n"+src, "\n<<<<<<< "); at >= 0 {
		return &problem{at, "merge conflict markers: resolve the conflict first"}
	}
	return nil
}

// notJSON explains what encoding/json says about the text from start on.
func notJSON(src string, start int, err error) *problem {
	var syntax *json.SyntaxError
	at, reason := start, err.Error()
	if errors.As(err, &syntax) {
		at += int(max(syntax.Offset-1, 0))
	}
	before := strings.TrimRight(src[:min(at, len(src))], " \t\r\n")
	switch {
	case strings.HasPrefix(src[start:], scgFirst):
		return &problem{0, "this is SCUD's graph text (SCG), not JSON"}
	case strings.HasPrefix(reason, "unexpected end"):
		at, reason = len(src), "the file ends too early: it seems to be cut off"
	case strings.HasSuffix(before, ",") && strings.Contains(reason, "looking for beginning of"):
		at, reason = len(before)-1, "there is a comma after the last member, which JSON does not allow"
	}
	return &problem{at, "not valid JSON: " + reason}
}

// lookalike explains why the document is no task list.
func (d *document) lookalike() *problem {
	switch {
	case d.array:
		return &problem{0, `a bare array of tasks, not a task file: that would be {"tag": "<tag>", "tasks": [...]}, each task with an "id"`}
	case len(d.members) == 0:
		return &problem{0, "no task list: expected an object with tasks"}
	}
	if v, ok := d.find("tasks"); ok && v.IsObject() {
		return &problem{v.Index, `"tasks" is an object here, not an array: this is some other program's file`}
	}
	var names []string
	for _, m := range d.members[:min(5, len(d.members))] {
		names = append(names, fmt.Sprintf("%.40q", m.name))
	}
	return &problem{0, `no task list: expected "tasks" or tags that contain "tasks", found ` + strings.Join(names, ", ")}
}

// reader decodes the tasks of one array. The document is valid JSON: only its meaning can be wrong.
type reader struct {
	*File
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
	depth    int
	children []string // ids, as the file lists them
	deps     bool     // has a list of dependencies
	flag     bool     // has a boolean "completed"
	key, id  gjson.Result
	status   int // how many status members
}

func (r *reader) about(e *entry, kind, message string) {
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
func (r *reader) own(v gjson.Result) string { return ownID(r.tag, strings.TrimSpace(plain(v))) }

// readTasks reads an array of tasks into f.
func readTasks(f *File, list gjson.Result) *problem {
	r := &reader{File: f, line: 1}
	f.tasks = make([]Task, 0, min(strings.Count(list.Raw, "{"), maxTasks))
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
	r.line += strings.Count(r.src[r.seen:v.Index], "\n")
	r.seen = v.Index
	e := &entry{task: Task{Status: Pending, Priority: "medium", Line: r.line}, index: len(r.tasks), site: site{at: v.Index}}
	return e, r.add(e.task, e.site)
}

// object reads one task, which is the nth of its list.
func (r *reader) object(v gjson.Result, up *entry, nth int) *problem {
	e, p := r.begin(v)
	if p != nil {
		return p
	}
	if up != nil {
		r.nested = true
		if e.site.up, e.depth = up.index+1, up.depth+1; e.depth > maxDepth {
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
		r.about(e, "member", "it has no id: its number in the list is used")
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
	if e.status > 1 {
		r.about(e, "member", status+" is given more than once: the last one counts")
	}
	if e.status == 0 {
		before, colon := r.src[:e.key.Index], r.src[end(e.key):e.id.Index]
		gap := cmp.Or(before[len(strings.TrimRight(before, " \t\r\n")):], colon[strings.IndexByte(colon, ':')+1:])
		e.site.span = span{end(e.id), end(e.id)}
		e.site.before = "," + gap + strconv.Quote(status) + colon
	}
	r.tasks[e.index], r.sites[e.index] = e.task, e.site
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
	case "verify":
		t.Verify = plain(v)
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
	case "scope", "allow", "needs":
		var names []string
		for _, x := range v.Array() {
			names = append(names, x.Str)
		}
		t.attribute(key.Str, strings.Join(names, ","))
	case "candidates", "prove":
		if text := plain(v); text != "" && !t.attribute(key.Str, text) {
			r.about(e, "member", fmt.Sprintf("its %s is %s, which means nothing: ignored", key.Str, prose.Short(text)))
		}
	case "depends_on", "dependencies", "dependsOn":
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
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	switch name {
	case "scope":
		t.Scope = names
	case "allow":
		t.Allow = names
	case "needs":
		t.Needs = names
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

// bullets reads an array of texts as a list, anything else as text. Some lists hold objects with a text each.
func bullets(v gjson.Result) string {
	if !v.IsArray() {
		return plain(v)
	}
	var lines []string
	for _, x := range v.Array() {
		text := plain(x)
		if x.IsObject() {
			text = cmp.Or(x.Get("text").Str, x.Get("description").Str, x.Get("criterion").Str, x.Get("title").Str, text)
		}
		if text = strings.TrimSpace(text); text != "" {
			lines = append(lines, "- "+strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	return strings.Join(lines, "\n")
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
	e.site.span = span{v.Index, end(v)}
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
	before := len(r.tasks)
	p := r.list(v, e)
	r.family.explicit = r.family.explicit || len(r.tasks) > before || len(e.children) > 0
	return p
}

// dependencies reads an array of ids, or a single id. What cannot be an id is kept as literal text: it names no task, so the task is held rather than
// started too early.
func (r *reader) dependencies(e *entry, v gjson.Result) {
	e.deps = true
	for _, d := range v.Array() {
		id := r.own(d)
		if !isID(d) || id == "" {
			id = prose.Short(d.Raw)
			r.about(e, "dependency", "a dependency must be an id, found "+id)
		}
		e.task.DependsOn = append(e.task.DependsOn, id)
	}
	e.task.DependsOn = unique(e.task.DependsOn)
}

// nestedKey names a task by its container, as 1 + its place, and by its id as the file has it.
type nestedKey struct {
	up int
	id string
}

// complete finishes the reading: nested ids get their containers' ids in front, dependencies between them are resolved, and families are made to
// agree.
func (r *reader) complete() *problem {
	full := map[nestedKey]string{}
	own := make([]string, len(r.tasks)) // ids as the file has them
	for i := range r.tasks {
		t, s := &r.tasks[i], &r.sites[i]
		if own[i] = t.ID; s.up > 0 {
			t.Parent = r.tasks[s.up-1].ID
			t.ID = nestedID(t.Parent, own[s.up-1], t.ID)
			full[nestedKey{s.up, own[i]}] = t.ID
			if len(t.ID) > prose.MaxID {
				return &problem{s.at, prose.IDProblem(t.ID)}
			}
		}
		r.enter(i)
	}
	for _, n := range r.notes {
		r.note(n.task, n.kind, n.message)
	}
	if r.nested {
		r.resolve(full)
	}
	r.relate(&r.family)
	return nil
}

// nestedID is the complete id of a task in a container: 12 and 3 is 12.3. Some files repeat the container's id, whole (12.3, also as
// the number 12.3) or its last part (in 1.2, 2.3 is 1.2.3).
func nestedID(parent, ownParent, id string) string {
	if strings.HasPrefix(id, parent+".") {
		return id
	}
	return parent + "." + strings.TrimPrefix(id, ownParent+".")
}

// resolve completes the dependencies of nested tasks: a task in the same container, else one in a surrounding container, else one of the list.
func (r *reader) resolve(full map[nestedKey]string) {
	for i := range r.tasks {
		list := r.tasks[i].DependsOn
		for k, id := range list {
			for u := r.sites[i].up; u > 0; u = r.sites[u-1].up {
				if whole, ok := full[nestedKey{u, id}]; ok {
					list[k] = whole
					break
				}
			}
		}
		r.tasks[i].DependsOn = unique(list)
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
