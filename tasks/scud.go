package tasks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"descartes/tasks/prose"
)

// scud is SCUD's JSON: {"tag": ..., "tasks": [...]} of one tag, or {"<tag>": {"name": ..., "tasks": [...]}, ...} of several. Declared waves, the summary
// and all else are left alone.
type scud struct{}

func (scud) Match(t *text) bool { return t.json() && (t.flat() || len(t.lists) > 0) }

func (scud) Tags(t *text) []string {
	if !t.flat() {
		return t.lists
	}
	if tag, _ := t.find("tag"); tag.Str != "" {
		return []string{tag.Str}
	}
	return nil
}

func (scud) Read(t *text, f *File) *problem {
	list, _ := t.find("tasks")
	if !t.flat() {
		tag, ok := t.find(f.tag)
		if !ok {
			return noTag
		}
		if list.IsArray() {
			f.find("tag", `an old list "tasks" is beside the tags: it is not read`)
		}
		if list, _ = last(members(tag), "tasks"); !tag.IsObject() || !list.IsArray() {
			return &problem{tag.Index, "the tag has no array of tasks"}
		}
	} else if tag, _ := t.find("tag"); tag.Str != f.tag && tag.Str != "" {
		f.find("tag", fmt.Sprintf("the file says that its tag is %s: it is read as %s", prose.Short(tag.Str), f.tag))
	}
	return readTasks(f, list)
}

func (scud) SetStatus(_ *Task, s Status) (Status, string) { return s, strconv.Quote(string(s)) }

// flat reports whether the document is one list. Task Master leaves an old list beside its tags in some files, and ignores it.
func (t *text) flat() bool {
	v, ok := t.find("tasks")
	tag, _ := t.find("tag")
	return ok && v.IsArray() && (tag.Str != "" || len(t.lists) == 0)
}

const master = "master" // the tag of Task Master's lists without tags

// taskMaster is Task Master's tasks.json, known by its place: SCUD's are below .scud. A task contains its subtasks.
type taskMaster struct{ scud }

func (m taskMaster) Match(t *text) bool {
	path, err := filepath.Abs(t.path)
	return err == nil && filepath.Base(path) == manyTags && filepath.Base(filepath.Dir(filepath.Dir(path))) != ".scud" && m.scud.Match(t)
}

func (m taskMaster) Tags(t *text) []string {
	tags := m.scud.Tags(t)
	if tags == nil && t.flat() {
		return []string{master}
	}
	return tags
}

func (m taskMaster) Read(t *text, f *File) *problem {
	if tags := m.Tags(t); f.tag == master && !slices.Contains(tags, master) {
		f.tag = tags[0] // as Task Master does
		f.find("tag", fmt.Sprintf("there is no tag %s: the first one is read: %s", master, prose.Short(f.tag)))
	}
	return m.scud.Read(t, f)
}

// SetStatus knows no failed, as Task Master does not.
func (m taskMaster) SetStatus(t *Task, s Status) (Status, string) {
	if s == Failed && t.Status != Failed {
		s = Blocked
	}
	return m.scud.SetStatus(t, s)
}
