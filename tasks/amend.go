package tasks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	if _, err := os.Lstat(f.path); err != nil {
		return fmt.Errorf("change %s: %w", f.path, err)
	}
	return f.change(func(now *File) ([]byte, error) {
		out, err := now.Amended(a)
		if err != nil {
			return nil, err
		}
		return []byte(out.src), nil
	})
}

// Amended returns the list as Amend would leave it.
func (f *File) Amended(a Amendment) (*File, error) {
	if err := f.canAmend(&a); err != nil {
		return nil, err
	}
	out, err := f.amended(&a)
	if err != nil {
		return nil, err
	}
	return f.reread(out)
}

// canAmend rejects what no list can be changed to.
func (f *File) canAmend(a *Amendment) error {
	refuse := func(format string, args ...any) error { return &AmendError{f.path, fmt.Sprintf(format, args...)} }
	if f.format != (scud{}) && f.format != (taskMaster{}) {
		return refuse("tasks are added and split in SCUD's and Task Master's JSON lists only; edit this one by hand")
	}
	gone := map[string]bool{}
	for _, id := range a.Remove {
		switch t, ok := f.Task(id); {
		case !ok:
			return refuse("there is no task %s to remove", id)
		case t.Status == Done:
			return refuse("task %s is done: it is not removed", id)
		}
		gone[id] = true
	}
	for i := range f.tasks {
		t := &f.tasks[i]
		for _, on := range t.DependsOn {
			if gone[on] && !gone[t.ID] {
				return refuse("task %s is %s and depends on task %s, which cannot be removed therefore", t.ID, t.Status, on)
			}
		}
	}
	t, ok := f.Task(a.Split)
	switch {
	case a.Split == "":
	case !ok:
		return refuse("there is no task %s", a.Split)
	case t.Container():
		return refuse("task %s has subtasks already", a.Split)
	case t.Status == Done || t.Status == InProgress:
		return refuse("task %s is %s: it cannot be split now", a.Split, t.Status)
	case f.sites[f.index[a.Split]].up > 0:
		return refuse("task %s is written inside of another task: it cannot be split", a.Split)
	}
	taken := maps.Clone(f.index)
	for i := range a.Add {
		id := a.Add[i].ID
		if _, ok := taken[id]; ok {
			return refuse("the id %s is taken", id)
		}
		if taken[id] = i; a.Split != "" && !strings.HasPrefix(id, a.Split+".") {
			return refuse("task %s is not a part of task %s", id, a.Split)
		}
	}
	return nil
}

// amended is the text of a JSON list with other tasks.
func (f *File) amended(a *Amendment) ([]byte, error) {
	if i, ok := f.index[a.Split]; ok && f.format == (scud{}) {
		_, text := f.format.SetStatus(&f.tasks[i], Expanded)
		var err error
		if f, err = f.reread(f.spliced([]edit{{i, Expanded, text}})); err != nil {
			return nil, err
		}
	}
	t, err := takeApart(f.path, f.src)
	if err != nil {
		return nil, err
	}
	w := &amender{File: f, Amendment: a, flat: t.flat(), master: f.format == (taskMaster{}), gone: map[int]bool{}}
	list, _ := t.find("tasks")
	if !w.flat {
		tag, _ := t.find(f.tag)
		list, _ = last(members(tag), "tasks")
	}
	w.list = list.Index
	w.layout(list)
	for _, id := range a.Remove {
		w.gone[f.sites[f.index[id]].at] = true
	}
	for i := range a.Add {
		w.added = append(w.added, w.task(&a.Add[i]))
	}
	return []byte(f.src[:list.Index] + w.array(list) + f.src[end(list):]), nil
}

// amender writes arrays of tasks anew. What stays keeps its bytes.
type amender struct {
	*File
	*Amendment
	flat        bool         // a list of one tag
	master      bool         // Task Master's
	list        int          // where the list is
	gone        map[int]bool // by place: tasks that leave
	added       []string
	gap, indent string // white space before an element, and before what is in it besides; "" in a compact text
}

// layout sees how the elements of an array are written.
func (w *amender) layout(array gjson.Result) {
	first := strings.IndexByte(array.Raw, '{')
	if first < 0 {
		if strings.Contains(w.src, "\n  ") {
			w.gap, w.indent = "\n    ", "  "
		}
		return
	}
	text := w.src[:array.Index+first]
	space := text[len(strings.TrimRight(text, " \t\r\n")):]
	if at := strings.LastIndexByte(space, '\n'); at >= 0 {
		if w.gap, w.indent = space[at:], "  "; strings.Contains(w.gap, "\t") {
			w.indent = "\t"
		}
	}
}

// laid is an object as the others are.
func (w *amender) laid(object string) string {
	var b bytes.Buffer
	if w.gap == "" || json.Indent(&b, []byte(object), w.gap[1:], w.indent) != nil {
		return object
	}
	return b.String()
}

// array is an array of tasks, or of ids, without those that leave. Those that are added come behind the task that is split, or at the end of the list.
func (w *amender) array(array gjson.Result) string {
	var b strings.Builder
	b.WriteByte('[')
	from, empty := array.Index+1, true
	add := func(lead, element string) {
		if empty {
			lead = strings.Replace(lead, ",", "", 1)
		}
		b.WriteString(lead)
		b.WriteString(element)
		empty = false
	}
	addAll := func() {
		for _, element := range w.added {
			add(","+w.gap, w.laid(element))
		}
	}
	split := -1
	if w.Split != "" {
		split = w.sites[w.index[w.Split]].at
	}
	array.ForEach(func(_, v gjson.Result) bool {
		lead := w.src[from:v.Index]
		from = end(v)
		switch {
		case w.gone[v.Index] || !v.IsObject() && slices.Contains(w.Remove, ownID(w.tag, plain(v))):
		case v.Index != split:
			add(lead, w.element(v))
		case w.master:
			add(lead, w.laid(w.with(v, w.added)))
		case w.flat:
			add(lead, v.Raw)
			addAll()
		default: // SCUD names the parts of a task at the task, too
			var ids []string
			for i := range w.Add {
				ids = append(ids, strconv.Quote(w.Add[i].ID))
			}
			add(lead, w.laid(w.with(v, ids)))
			addAll()
		}
		return true
	})
	if array.Index == w.list && w.Split == "" {
		addAll()
	}
	tail := w.src[from:end(array)]
	if tail == "]" && !empty {
		tail = strings.TrimSuffix(w.gap, w.indent) + tail
	}
	return b.String() + tail
}

// element is a task that stays, without the subtasks that leave.
func (w *amender) element(v gjson.Result) string {
	if sub, ok := last(members(v), "subtasks"); ok && sub.IsArray() {
		return v.Raw[:sub.Index-v.Index] + w.array(sub) + v.Raw[end(sub)-v.Index:]
	}
	return v.Raw
}

// with is a task that gets subtasks, of which it has none.
func (w *amender) with(v gjson.Result, list []string) string {
	text := "[" + strings.Join(list, ",") + "]"
	if sub, ok := last(members(v), "subtasks"); ok {
		return v.Raw[:sub.Index-v.Index] + text + v.Raw[end(sub)-v.Index:]
	}
	return v.Raw[:len(v.Raw)-1] + `,"subtasks":` + text + "}"
}

// task is a task as the list's program writes it, in one line.
func (w *amender) task(t *Task) string {
	nested := w.master && w.Split != ""
	numeric := nested || len(w.tasks) == 0 || w.tasks[0].Numeric
	id := func(s string) any {
		if nested {
			s = strings.TrimPrefix(s, w.Split+".")
		}
		if n, err := strconv.Atoi(s); numeric && err == nil && strconv.Itoa(n) == s {
			return n
		}
		return s
	}
	dependencies, strategy, acceptance := "dependencies", "test_strategy", "acceptance"
	var complexity, parent any
	if n, err := strconv.Atoi(t.Complexity); err == nil || w.flat && !w.master { // whose first reader wants one always
		complexity = n
	}
	if w.flat && !w.master {
		dependencies = "depends_on"
	}
	if w.master {
		strategy, acceptance = "testStrategy", "acceptanceCriteria"
	} else if up := cmp.Or(w.Split, t.Parent); up != "" {
		parent = id(up)
	}
	on := make([]any, len(t.DependsOn))
	for i, one := range t.DependsOn {
		on[i] = id(one)
	}
	var fields []string
	for _, x := range []struct {
		name  string
		value any
	}{
		{"id", id(t.ID)}, {"title", t.Title}, {"description", t.Description}, {"details", t.Details}, {strategy, t.TestStrategy},
		{acceptance, points(t.Acceptance)}, {"status", cmp.Or(t.Status, Pending)}, {"complexity", complexity}, {"priority", t.Priority},
		{"verify", t.Verify}, {dependencies, on}, {"parent_id", parent}, {"scope", t.Scope},
	} {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(x.value) // texts, numbers and lists of these
		if text := strings.TrimSpace(b.String()); text != "null" && text != `""` {
			fields = append(fields, strconv.Quote(x.name)+":"+text)
		}
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// points are the entries of a Markdown list.
func points(text string) (list []string) {
	for line := range strings.Lines(text) {
		if entry := strings.TrimSpace(strings.TrimPrefix(line, "- ")); entry != "" {
			list = append(list, entry)
		}
	}
	return list
}
