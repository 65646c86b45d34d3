package tasks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"descartes/internal/crash"
)

// Amendment changes which tasks a JSON list has.
type Amendment struct {
	Remove []string // tasks that leave the list; none that is done
	Split  string   // a task that becomes the container of those that are added; "" for none
	Add    []Task   // in this order: at the end of the list, or in the container, whose id their ids begin with
}

// AmendError says why a list cannot be changed like this.
type AmendError struct{ Path, Reason string }

func (e *AmendError) Error() string { return e.Path + ": " + e.Reason }

// NewList returns a list with those tasks in the tag's own file, .scud/tasks/<tag>.json below root. Nothing is written before Create.
func NewList(root, tag string, list []Task) (*File, error) {
	path, err := TagPath(root, tag)
	if err != nil {
		return nil, err
	}
	name, err := json.Marshal(tag)
	if err != nil {
		return nil, err
	}
	f, err := Parse(path, tag, fmt.Appendf(nil, "{\n  \"tag\": %s,\n  \"tasks\": []\n}\n", name))
	if err != nil {
		return nil, err
	}
	return f.Amended(Amendment{Add: list})
}

// Create writes a list whose file must not exist. If it exists by now, nothing is written, and the error is an fs.ErrExist.
func (f *File) Create() error {
	if _, err := os.Lstat(f.path); err == nil {
		return fmt.Errorf("write %s: %w", f.path, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		return err
	}
	crash.Point("tasks: create")
	if err := f.replaceFile(f.path, []byte(f.src)); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// Amend changes the list and keeps every other byte. If the file changed on disk since it was read, the change applies to what is there now.
// Afterwards f is what the file holds. An error leaves f unchanged.
func (f *File) Amend(a Amendment) error {
	now, deleted, err := f.current()
	if err != nil {
		return err
	}
	if deleted {
		return fmt.Errorf("change %s: %w", f.path, fs.ErrNotExist)
	}
	out, err := now.Amended(a)
	if err == nil {
		err = f.inPlace(false)
	}
	if err == nil {
		err = writable(f.real)
	}
	if err != nil {
		return err
	}
	crash.Point("tasks: amend")
	if err := f.replaceFile(f.real, []byte(out.src)); err != nil {
		return fmt.Errorf("change %s: %w", f.path, err)
	}
	*f = *out
	return nil
}

// Amended returns the list as Amend would leave it.
func (f *File) Amended(a Amendment) (*File, error) {
	if err := f.canAmend(&a); err != nil {
		return nil, err
	}
	list, err := f.amendJSON(&a)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b splice) int { return cmp.Compare(a.start, b.start) })
	now, err := f.reread(f.spliced(list))
	if err != nil {
		return nil, err
	}
	return now, f.compare(now, &a)
}

// canAmend rejects what no list can be changed to.
func (f *File) canAmend(a *Amendment) error {
	refuse := func(format string, args ...any) error { return &AmendError{f.path, fmt.Sprintf(format, args...)} }
	if f.letters || f.binary != notBinary {
		return refuse("tasks are added and split in SCUD's and Task Master's JSON lists only; edit this one by hand")
	}
	for _, id := range a.Remove {
		switch i, ok := f.index[id]; {
		case !ok:
			return refuse("there is no task %s to remove", id)
		case f.tasks[i].Status == Done:
			return refuse("task %s is done: it is not removed", id)
		}
	}
	for i := range f.tasks {
		for _, on := range f.tasks[i].DependsOn {
			if slices.Contains(a.Remove, on) && !slices.Contains(a.Remove, f.tasks[i].ID) {
				return refuse("task %s is %s and depends on task %s, which cannot be removed therefore", f.tasks[i].ID, f.tasks[i].Status, on)
			}
		}
	}
	i, ok := f.index[a.Split]
	switch {
	case a.Split == "":
	case !ok:
		return refuse("there is no task %s", a.Split)
	case f.tasks[i].Container():
		return refuse("task %s has subtasks already", a.Split)
	case f.tasks[i].Status == Done:
		return refuse("task %s is done: there is nothing to split", a.Split)
	case f.tasks[i].Status == InProgress:
		return refuse("task %s is in progress: it cannot be split now", a.Split)
	case f.master && f.sites[i].up > 0:
		return refuse("task %s is a subtask, and Task Master has no subtasks of subtasks", a.Split)
	}
	for k, t := range a.Add {
		if _, taken := f.index[t.ID]; taken || slices.ContainsFunc(a.Add[:k], func(o Task) bool { return o.ID == t.ID }) {
			return refuse("the id %s is taken", t.ID)
		}
		if a.Split != "" && !strings.HasPrefix(t.ID, a.Split+".") {
			return refuse("task %s is not a part of task %s", t.ID, a.Split)
		}
	}
	return nil
}

// compare returns what would be read back differently from what was meant.
func (f *File) compare(now *File, a *Amendment) error {
	wrong := func(id, what string) error {
		return fmt.Errorf("change %s: task %s would be read back with another %s", f.path, id, what)
	}
	if len(now.index) != len(f.index)-len(a.Remove)+len(a.Add) {
		return fmt.Errorf("change %s: it would be read back with %d tasks", f.path, len(now.index))
	}
	for id, i := range f.index {
		if slices.Contains(a.Remove, id) {
			continue
		}
		was := &f.tasks[i]
		t, ok := now.Task(id)
		switch {
		case !ok:
			return wrong(id, "id")
		case t.Status != was.Status && id != a.Split:
			return wrong(id, "status")
		case !slices.Equal(t.DependsOn, was.DependsOn):
			return wrong(id, "list of dependencies")
		}
	}
	for _, want := range a.Add {
		t, ok := now.Task(want.ID)
		switch {
		case !ok:
			return wrong(want.ID, "id")
		case t.Status != Pending:
			return wrong(want.ID, "status")
		case t.Parent != a.Split:
			return wrong(want.ID, "parent")
		case t.Title != want.Title || !slices.Equal(t.DependsOn, unique(slices.Clone(want.DependsOn))):
			return wrong(want.ID, "title or list of dependencies")
		}
	}
	return nil
}

// layout is how a JSON text is written.
type layout struct{ prefix, indent string } // of an element and of what is in it; no newline in a compact text

// amendJSON changes arrays of tasks.
func (f *File) amendJSON(a *Amendment) ([]splice, error) {
	d, p := parse(f.src)
	if p != nil {
		return nil, f.refuse(p)
	}
	root, ok := d.find("tasks")
	if !d.flat() {
		tag, _ := d.find(f.tag)
		root, ok = last(members(tag), "tasks")
	}
	if !ok || !root.IsArray() {
		return nil, &AmendError{f.path, "it has no array of tasks"}
	}
	in := layoutOf(f.src, root)
	var texts []string
	for i := range a.Add {
		texts = append(texts, in.write(f.object(&a.Add[i], a)))
	}
	if a.Split == "" {
		gone := f.places(a.Remove)
		if list := f.cut(root, gone, a.Remove); len(texts) == 0 || staying(root, gone) > 0 {
			return append(list, in.append(f.src, root, texts)...), nil
		}
		return []splice{in.fill(root, texts)}, nil
	}
	i := f.index[a.Split]
	object := at(root, int(f.sites[i].at))
	if f.master {
		return f.nest(object, in, a), nil
	}
	behind := int32(end(object))
	list := []splice{{behind, behind, "," + in.gap() + strings.Join(texts, ","+in.gap())}}
	if !d.flat() { // SCUD names the parts of a task at the task, too
		ids := make([]string, len(a.Add))
		for k := range a.Add {
			ids[k] = strconv.Quote(a.Add[k].ID)
		}
		list = append(list, in.deeper().member(f.src, object, "subtasks", "["+strings.Join(ids, ", ")+"]"))
	}
	return append(list, f.splices([]edit{{i, Expanded}}, f.time)...), nil
}

// places are where some tasks begin.
func (f *File) places(ids []string) map[int]bool {
	out := map[int]bool{}
	for _, id := range ids {
		out[int(f.sites[f.index[id]].at)] = true
	}
	return out
}

// staying counts the elements of an array that do not begin in one of these places.
func staying(array gjson.Result, gone map[int]bool) (n int) {
	array.ForEach(func(_, v gjson.Result) bool {
		if !gone[v.Index] {
			n++
		}
		return true
	})
	return n
}

// at is the element of an array, or of an array in it, that begins there.
func at(array gjson.Result, pos int) (found gjson.Result) {
	array.ForEach(func(_, v gjson.Result) bool {
		if v.Index == pos {
			found = v
		} else if v.IsObject() && v.Index < pos && pos < end(v) {
			if sub, ok := last(members(v), "subtasks"); ok {
				found = at(sub, pos)
			}
		}
		return !found.Exists()
	})
	return found
}

// nest puts subtasks into a task, as Task Master has them.
func (f *File) nest(object gjson.Result, in layout, a *Amendment) []splice {
	sub, ok := last(members(object), "subtasks")
	deep := in.deeper().deeper()
	texts := make([]string, len(a.Add))
	for i := range a.Add {
		texts[i] = deep.write(f.object(&a.Add[i], a))
	}
	text := "[" + deep.gap() + strings.Join(texts, ","+deep.gap()) + in.deeper().gap() + "]"
	if ok {
		return []splice{{int32(sub.Index), int32(end(sub)), text}} // null, or an empty array
	}
	return []splice{in.deeper().member(f.src, object, "subtasks", text)}
}

// cut takes elements out of an array of tasks, and out of those in it: the tasks that begin there, and ids.
func (f *File) cut(array gjson.Result, gone map[int]bool, ids []string) (list []splice) {
	if len(ids) == 0 {
		return nil
	}
	var elements []gjson.Result
	array.ForEach(func(_, v gjson.Result) bool {
		elements = append(elements, v)
		return true
	})
	from, first := 0, true // behind what stays
	for k, v := range elements {
		stays := !gone[v.Index] && (v.IsObject() || !slices.Contains(ids, ownID(f.tag, plain(v))))
		if stays && v.IsObject() {
			if sub, ok := last(members(v), "subtasks"); ok && sub.IsArray() {
				list = append(list, f.cut(sub, gone, ids)...)
			}
		}
		switch {
		case stays:
			from, first = end(v), false
		case first && k+1 < len(elements): // up to the next one
			list = append(list, splice{int32(v.Index), int32(elements[k+1].Index), ""})
		case first:
			list = append(list, splice{int32(v.Index), int32(end(v)), ""})
		default:
			list = append(list, splice{int32(from), int32(end(v)), ""})
			from = end(v)
		}
	}
	return list
}

// layoutOf sees how the elements of an array are written.
func layoutOf(src string, array gjson.Result) layout {
	const blank = " \t\r\n"
	line := func(pos int) string { // white space that the line begins with
		from := strings.LastIndexByte(src[:pos], '\n') + 1
		text := src[from:pos]
		return text[:len(text)-len(strings.TrimLeft(text, " \t"))]
	}
	l := layout{prefix: line(array.Index) + "  ", indent: "  "}
	var last gjson.Result
	array.ForEach(func(_, v gjson.Result) bool {
		last = v
		return true
	})
	if !last.Exists() {
		if !strings.Contains(strings.TrimRight(src, blank), "\n") {
			return layout{}
		}
		return l
	}
	before := src[len(strings.TrimRight(src[:last.Index], blank)):last.Index]
	if !strings.Contains(before, "\n") && !strings.Contains(last.Raw, "\n") && !strings.Contains(before, " \t") && strings.LastIndexByte(src[:last.Index], '\n') < array.Index {
		return layout{}
	}
	l.prefix = line(last.Index)
	if inner := strings.TrimLeft(last.Raw, "{"); len(inner) > 0 {
		space := inner[:len(inner)-len(strings.TrimLeft(inner, blank))]
		if more, ok := strings.CutPrefix(space[strings.LastIndexByte(space, '\n')+1:], l.prefix); ok && strings.Contains(space, "\n") && more != "" {
			l.indent = more
		}
	}
	return l
}

func (l layout) compact() bool { return l.indent == "" }

func (l layout) deeper() layout { return layout{l.prefix + l.indent, l.indent} }

// gap is what stands before an element.
func (l layout) gap() string {
	if l.compact() {
		return ""
	}
	return "\n" + l.prefix
}

// write lays out an object.
func (l layout) write(object []byte) string {
	if l.compact() {
		return string(object)
	}
	var b bytes.Buffer
	if json.Indent(&b, object, l.prefix, l.indent) != nil {
		return string(object) // ours is always valid
	}
	return b.String()
}

// append adds elements to an array of which some stay, or that is to have none.
func (l layout) append(src string, array gjson.Result, texts []string) []splice {
	if len(texts) == 0 {
		return nil
	}
	tail := int32(len(strings.TrimRight(src[:end(array)-1], " \t\r\n")))
	return []splice{{tail, tail, "," + l.gap() + strings.Join(texts, ","+l.gap())}}
}

// fill is an array with these elements alone.
func (l layout) fill(array gjson.Result, texts []string) splice {
	text := "[" + l.gap() + strings.Join(texts, ","+l.gap())
	if !l.compact() {
		text += "\n" + strings.TrimSuffix(l.prefix, l.indent)
	}
	return splice{int32(array.Index), int32(end(array)), text + "]"}
}

// member gives an object a member, in the place of one of that name.
func (l layout) member(src string, object gjson.Result, name, text string) splice {
	if old, ok := last(members(object), name); ok {
		return splice{int32(old.Index), int32(end(old)), text}
	}
	close := end(object) - 1
	tail := len(strings.TrimRight(src[:close], " \t\r\n"))
	space := " "
	if l.compact() {
		space = ""
	}
	return splice{int32(tail), int32(tail), "," + l.gap() + strconv.Quote(name) + ":" + space + text}
}

// object is a task as the list's program writes it, in one line.
func (f *File) object(t *Task, a *Amendment) []byte {
	numeric := len(f.tasks) == 0 || f.tasks[0].Numeric
	nested := f.master && a.Split != ""
	id := func(s string) any {
		if nested {
			s = strings.TrimPrefix(s, a.Split+".")
		}
		if n, err := strconv.Atoi(s); err == nil && strconv.Itoa(n) == s && (numeric || nested) {
			return n
		}
		return s
	}
	dependencies, strategy, acceptance := "depends_on", "test_strategy", "acceptance"
	if d, p := parse(f.src); f.master || p == nil && !d.flat() {
		dependencies = "dependencies"
	}
	if f.master {
		strategy, acceptance = "testStrategy", "acceptanceCriteria"
	}
	on := make([]any, len(t.DependsOn))
	for i, one := range t.DependsOn {
		on[i] = id(one)
	}
	var b bytes.Buffer
	put := func(name string, v any) {
		b.WriteString(map[bool]string{true: "{", false: ","}[b.Len() == 0])
		b.WriteString(strconv.Quote(name) + ":")
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v) // texts, numbers and lists of these
		b.Truncate(b.Len() - 1)
	}
	text := func(name, s string) {
		if s != "" {
			put(name, s)
		}
	}
	put("id", id(t.ID))
	put("title", t.Title)
	text("description", t.Description)
	text("details", t.Details)
	text(strategy, t.TestStrategy)
	if list := entries(t.Acceptance); len(list) > 0 {
		put(acceptance, list)
	}
	put("status", string(Pending))
	if n, err := strconv.Atoi(t.Complexity); err == nil {
		put("complexity", n)
	}
	text("priority", t.Priority)
	put(dependencies, on)
	if a.Split != "" && !f.master {
		put("parent_id", id(a.Split))
	}
	if len(t.Scope) > 0 {
		put("scope", t.Scope)
	}
	return append(b.Bytes(), '}')
}

// entries are those of a Markdown list.
func entries(text string) (list []string) {
	for line := range strings.Lines(text) {
		if entry := strings.TrimSpace(strings.TrimPrefix(line, "- ")); entry != "" {
			list = append(list, entry)
		}
	}
	return list
}
