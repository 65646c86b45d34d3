package tasks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"descartes/tasks/prose"
)

const (
	byteOrder = "\ufeff"
	maxDepth  = 100 // of subtasks in subtasks; real files reach two
)

// document is a JSON text known to be valid.
type document struct {
	object // of the top level; nil unless it is one
	parsed bool
	root   gjson.Result
	array  bool     // the top level is an array
	lists  []string // members that hold a task list: tags
}

// member is one member of an object. A value's Index is its place in the source.
type member struct {
	name  string
	value gjson.Result
}

// object is the members of an object, in its order.
type object []member

func members(v gjson.Result) object {
	list := object{}
	v.ForEach(func(key, value gjson.Result) bool {
		list = append(list, member{key.Str, value})
		return true
	})
	return list
}

// get returns the last member with a name, as JSON readers do.
func (o object) get(name string) gjson.Result {
	for _, m := range slices.Backward(o) {
		if m.name == name {
			return m.value
		}
	}
	return gjson.Result{}
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
	d.root = gjson.Result{Type: gjson.JSON, Raw: text, Index: start}
	if d.array = text[0] == '['; text[0] == '{' {
		d.object = members(d.root)
	}
	for _, m := range d.object {
		if m.value.IsObject() && members(m.value).get("tasks").IsArray() {
			d.lists = append(d.lists, m.name)
		}
	}
	return d, nil
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
	case strings.HasPrefix(reason, "unexpected end"):
		at, reason = len(src), "the file ends too early: it seems to be cut off"
	case strings.HasSuffix(before, ",") && strings.Contains(reason, "looking for beginning of"):
		at, reason = len(before)-1, "there is a comma after the last member, which JSON does not allow"
	}
	return &problem{at, "not valid JSON: " + reason}
}

// reader decodes the tasks of one array. The document is valid JSON: only its meaning can be wrong.
type reader struct {
	*File
	line     int // of the byte at seen
	seen     int
	explicit bool // some task names its parent or its subtasks
	oldest   bool // an id has the prefix of the tag, or a title the mark of a parent
	notes    []note
	deps     bool // some task has dependencies
	alike    int  // 1 + where the first task is that looks like another program's
}

// note is a finding about a task whose id is not complete yet.
type note struct {
	task          int
	kind, message string
}

// entry is one task object while it is read.
type entry struct {
	task    Task
	index   int
	site    site
	depth   int
	deps    bool // has a list of dependencies
	flag    bool // has a boolean "completed"
	key, id gjson.Result
	status  int // how many status members
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

// begin makes room for the task at v, before the tasks in it.
func (r *reader) begin(v gjson.Result) (*entry, *problem) {
	r.line += strings.Count(r.src[r.seen:v.Index], "\n")
	r.seen = v.Index
	e := &entry{task: Task{Status: Pending, Priority: "medium", Line: r.line}, index: len(r.tasks),
		site: site{at: v.Index}}
	return e, r.hold(e.task, e.site)
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
	case "name": // Shrimp's word
		t.Title = cmp.Or(t.Title, plain(v))
	case "description":
		t.Description = plain(v)
	case "details", "implementationGuide": // Shrimp's
		t.Details = plain(v)
	case "test_strategy", "testStrategy", "verificationCriteria": // Shrimp's
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
			t.Parent, r.explicit = parent, true
		}
	case "completed":
		e.flag = e.flag || v.IsBool()
	}
	return nil
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
			text = cmp.Or(x.Get("text").Str, x.Get("description").Str, x.Get("criterion").Str, x.Get("title").Str,
				text)
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
	r.oldest = r.oldest || e.task.ID != strings.TrimSpace(plain(v))
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

// dependencies reads an array of ids, or a single id. What cannot be an id is kept as literal text: it names no task,
// so the task is held rather than started too early.
func (r *reader) dependencies(e *entry, v gjson.Result) {
	e.deps = true
	for _, d := range v.Array() {
		if d.IsObject() && d.Get("taskId").Exists() { // as Shrimp writes it
			d = d.Get("taskId")
		}
		id := r.own(d)
		if !isID(d) || id == "" {
			id = prose.Short(d.Raw)
			r.about(e, "dependency", "a dependency must be an id, found "+id)
		}
		e.task.DependsOn = append(e.task.DependsOn, id)
	}
	e.task.DependsOn = unique(e.task.DependsOn)
}

// complete finishes the reading: nested ids get their containers' ids in front, dependencies between them are
// resolved, and families are made to agree.
func (r *reader) complete() *problem {
	if p := r.nest(); p != nil {
		return p
	}
	for i := range r.tasks {
		r.enter(i)
	}
	for _, n := range r.notes {
		r.note(n.task, n.kind, n.message)
	}
	r.relate(!r.explicit && r.oldest)
	return nil
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
