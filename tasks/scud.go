package tasks

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"descartes/tasks/prose"
)

// scud is SCUD's JSON: {"tag": ..., "tasks": [...]} of one tag, or {"<tag>": {"name": ..., "tasks": [...]}, ...} of
// several. Declared waves, the summary and all else are left alone.
type scud struct{}

func (scud) Match(t *text) bool { return t.json() && (t.flat() || len(t.lists) > 0) }

func (scud) Tags(t *text) []string {
	if !t.flat() {
		return t.lists
	}
	if tag := t.get("tag").Str; tag != "" {
		return []string{tag}
	}
	return nil
}

func (scud) Read(t *text, f *File) *problem {
	list := t.list(f.tag)
	f.inOrder = t.flat() && t.get("order").Str == "list"
	if !t.flat() {
		tag := t.get(f.tag)
		switch {
		case !tag.Exists():
			return noTag
		case !tag.IsObject() || !list.IsArray():
			return &problem{tag.Index, "the tag has no array of tasks"}
		case t.get("tasks").IsArray():
			f.find("tag", `an old list "tasks" is beside the tags: it is not read`)
		}
	} else if tag := t.get("tag").Str; tag != f.tag && tag != "" {
		f.find("tag", fmt.Sprintf("the file says that its tag is %s: it is read as %s", prose.Short(tag), f.tag))
	}
	return readTasks(f, list)
}

func (scud) SetStatus(_ *Task, s Status) (Status, string) { return s, strconv.Quote(string(s)) }

// flat reports whether the document is one list. Task Master leaves an old list beside its tags in some files, and
// ignores it.
func (t *text) flat() bool {
	return t.get("tasks").IsArray() && (t.get("tag").Str != "" || len(t.lists) == 0)
}

// list is the array of the tag's tasks.
func (t *text) list(tag string) gjson.Result {
	if t.flat() {
		return t.get("tasks")
	}
	return members(t.get(tag)).get("tasks")
}

// lookalike explains why the document is no task list.
func (d *document) lookalike() *problem {
	switch {
	case d.array:
		return &problem{0, `a bare array of tasks, not a task file: that would be {"tag": "<tag>", "tasks": [...]}, each task with an "id"`}
	case len(d.object) == 0:
		return &problem{0, "no task list: expected an object with tasks"}
	}
	if v := d.get("tasks"); v.IsObject() {
		return &problem{v.Index, `"tasks" is an object here, not an array: this is some other program's file`}
	}
	var names []string
	for _, m := range d.object[:min(5, len(d.object))] {
		names = append(names, fmt.Sprintf("%.40q", m.name))
	}
	return &problem{0, `no task list: expected "tasks" or tags that contain "tasks", found ` +
		strings.Join(names, ", ")}
}

// readTasks reads an array of tasks into f.
func readTasks(f *File, list gjson.Result) *problem {
	if first := list.Get("0"); first.Get("prompt").Exists() && !first.Get("title").Exists() {
		return &problem{list.Index, `its entries have a prompt and no title: this is some other program's file`}
	}
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
		up.site.children = append(up.site.children, r.own(v))
		return nil
	})
}

// object reads one task, which is the nth of its list.
func (r *reader) object(v gjson.Result, up *entry, nth int) *problem {
	e, p := r.begin(v)
	if p != nil {
		return p
	}
	if up != nil {
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
		e.site.marked, r.oldest = true, true
	}
	r.finish(e, "status")
	return nil
}
