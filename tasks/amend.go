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
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"descartes/internal/crash"
)

// Amendment adds tasks to a JSON list.
type Amendment struct {
	Split string // a task that becomes the container of those that are added; "" for none
	Add   []Task // in this order: at the end of the list, or in the container, whose id their ids begin with
}

// AmendError says why a list cannot be changed like this.
type AmendError struct{ Path, Reason string }

func (e *AmendError) Error() string { return e.Path + ": " + e.Reason }

// NewList returns a list with those tasks in the tag's own file, .scud/tasks/<tag>.json below root. Nothing is written
// before Create.
func NewList(root, tag string, list []Task) (*File, error) {
	path, err := TagPath(root, tag)
	if err != nil {
		return nil, err
	}
	name, err := json.Marshal(tag)
	if err != nil {
		return nil, err
	}
	f, err := Parse(path, tag, fmt.Appendf(nil, "{\n  \"tag\": %s,\n  \"order\": \"list\",\n  \"tasks\": []\n}\n", name))
	if err != nil {
		return nil, err
	}
	return f.Amended(Amendment{Add: list})
}

// Create writes a list whose file must not exist. If it exists by now, nothing is written, and the error is an
// fs.ErrExist.
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

// Amend changes the list and keeps every other byte. If the file changed on disk since it was read, the change applies
// to what is there now. Afterwards f is what the file holds. An error leaves f unchanged.
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
	w := &amender{File: f, Amendment: a, flat: t.flat(), master: f.format == (taskMaster{})}
	list := t.list(f.tag)
	w.layout(list)
	var ids, added []string
	for i := range a.Add {
		ids, added = append(ids, strconv.Quote(a.Add[i].ID)), append(added, w.task(&a.Add[i]))
	}
	at, split, task := list.Index+1, gjson.Result{}, ""
	list.ForEach(func(_, v gjson.Result) bool {
		if at = end(v); a.Split != "" && v.Index == f.sites[f.index[a.Split]].at {
			split, task = v, v.Raw
		}
		return task == ""
	})
	switch {
	case task == "":
	case w.master:
		task, added = w.laid(with(split, added)), nil
	case !w.flat: // SCUD names the parts of a task at the task, too
		task = w.laid(with(split, ids))
	}
	out := f.src[:at-len(split.Raw)] + task
	for i, one := range added {
		if i > 0 || at > list.Index+1 {
			out += ","
		}
		out += w.gap + w.laid(one)
	}
	if at == end(list)-1 && len(added) > 0 {
		out += strings.TrimSuffix(w.gap, w.indent)
	}
	return []byte(out + f.src[at:]), nil
}

// amender writes tasks as the others of the list are.
type amender struct {
	*File
	*Amendment
	flat        bool   // a list of one tag
	master      bool   // Task Master's
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

// with is a task that gets subtasks, of which it has none.
func with(v gjson.Result, list []string) string {
	text := "[" + strings.Join(list, ",") + "]"
	if sub := members(v).get("subtasks"); sub.Exists() {
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
		{"id", id(t.ID)}, {"title", t.Title}, {"description", t.Description}, {"details", t.Details},
		{strategy, t.TestStrategy},
		{acceptance, points(t.Acceptance)}, {"status", cmp.Or(t.Status, Pending)}, {"complexity", complexity},
		{"priority", t.Priority},
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
