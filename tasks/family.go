package tasks

import (
	"fmt"
	"slices"
	"strings"

	"descartes/tasks/prose"
)

const parentMark = "[PARENT] " // how the oldest SCUD files mark a container

// family is what the entries of a list say about parents and subtasks.
type family struct {
	listed     map[int][]string // by place: the subtasks a task lists
	marked     map[int]bool     // by place: called a parent in its title
	explicit   bool             // some task names its parent or its subtasks
	namespaced bool             // some id has the prefix of the tag
}

func (m *family) list(i int, children []string) {
	if len(children) == 0 {
		return
	}
	if m.listed == nil {
		m.listed = map[int][]string{}
	}
	m.listed[i] = append(m.listed[i], children...)
}

func (m *family) mark(i int) {
	if m.marked == nil {
		m.marked = map[int]bool{}
	}
	m.marked[i] = true
}

// dotted reports whether only dots in ids say which task belongs to which, as in the oldest SCUD files.
func (m *family) dotted() bool {
	return !m.explicit && len(m.listed) == 0 && (m.namespaced || len(m.marked) > 0)
}

// relate makes Parent and Children agree, name only tasks of the list and contain no cycle. A task's own Parent outranks another task's list of
// subtasks.
func (f *File) relate(m *family) {
	f.dropStrangers()
	for i := range f.tasks {
		f.adopt(i, m.listed[i])
	}
	f.adoptDotted(m)
	f.breakCircles()
	for i := range f.tasks {
		t := &f.tasks[i]
		if t.Parent != "" {
			p := &f.tasks[f.index[t.Parent]]
			p.Children = append(p.Children, t.ID)
		}
	}
	for i, list := range m.listed {
		f.tasks[i].Children = inOrder(f.tasks[i].Children, list)
	}
	for i := range f.tasks {
		if m.marked[i] && !f.tasks[i].Container() && f.index[f.tasks[i].ID] == i {
			f.note(i, "family", "its title calls it a parent, but it has no subtasks")
		}
	}
}

// dropStrangers forgets parents that are not in the list.
func (f *File) dropStrangers() {
	for i := range f.tasks {
		t := &f.tasks[i]
		if f.index[t.ID] != i {
			t.Parent = "" // a duplicate belongs nowhere
			continue
		}
		if t.Parent == "" {
			continue
		}
		if _, ok := f.index[t.Parent]; !ok {
			f.note(i, "family", fmt.Sprintf("its parent %s is not in the list", t.Parent))
			t.Parent = ""
		} else if t.Parent == t.ID {
			f.note(i, "family", "it is its own parent")
			t.Parent = ""
		}
	}
}

// adopt makes the tasks that entry i lists its children.
func (f *File) adopt(i int, children []string) {
	t := &f.tasks[i]
	if f.index[t.ID] != i {
		return
	}
	for _, id := range children {
		k, ok := f.index[id]
		switch {
		case !ok:
			f.note(i, "family", fmt.Sprintf("its subtask %s is not in the list", prose.Short(id)))
		case id == t.ID:
			f.note(i, "family", "it lists itself as a subtask")
		case f.tasks[k].Parent == "":
			f.tasks[k].Parent = t.ID
		case f.tasks[k].Parent != t.ID:
			f.note(i, "family", fmt.Sprintf("it lists subtask %s, which belongs to task %s", id, f.tasks[k].Parent))
		}
	}
}

// adoptDotted takes 3.1 for a child of 3 if 3 is expanded and nothing else names its children, or if the whole list says it in no other way. Either
// way it is reported.
func (f *File) adoptDotted(m *family) {
	taken := map[string]bool{}
	for i := range f.tasks {
		taken[f.tasks[i].Parent] = true
	}
	dots := m.dotted()
	for i := range f.tasks {
		t := &f.tasks[i]
		dot := strings.LastIndexByte(t.ID, '.')
		if dot <= 0 || t.Parent != "" || f.index[t.ID] != i {
			continue
		}
		p, ok := f.index[t.ID[:dot]]
		if !ok {
			continue
		}
		if !dots && (f.tasks[p].Status != Expanded || taken[t.ID[:dot]] || len(m.listed[p]) > 0) {
			f.note(i, "family", fmt.Sprintf("its id looks like that of a subtask of %s, but nothing else says so: it is a task of its own", f.tasks[p].ID))
			continue
		}
		t.Parent = t.ID[:dot]
		if !m.marked[p] {
			f.note(i, "family", fmt.Sprintf("taken for a subtask of %s by its id", t.Parent))
		}
	}
}

// breakCircles removes the parent of a task that is its own ancestor.
func (f *File) breakCircles() {
	const walking, fine = 1, 2
	state := make([]uint8, len(f.tasks))
	for i := range f.tasks {
		var path []int
		k := i
		for state[k] == 0 {
			state[k] = walking
			path = append(path, k)
			if f.tasks[k].Parent == "" {
				break
			}
			k = f.index[f.tasks[k].Parent]
		}
		if state[k] == walking && f.tasks[k].Parent != "" {
			f.note(k, "family", "it is among its own ancestors")
			f.tasks[k].Parent = ""
		}
		for _, p := range path {
			state[p] = fine
		}
	}
}

// inOrder puts the listed children first, in the order of the list.
func inOrder(children, list []string) []string {
	mine := make(map[string]bool, len(children))
	for _, id := range children {
		mine[id] = true
	}
	ordered := make([]string, 0, len(children))
	for _, id := range list {
		if mine[id] {
			delete(mine, id)
			ordered = append(ordered, id)
		}
	}
	for _, id := range children {
		if mine[id] {
			ordered = append(ordered, id)
		}
	}
	if len(ordered) == 0 {
		return nil
	}
	return ordered
}

// Outcome is the status of a task as others depend on it: a container is done when its status says so or all tasks in
// it are done; until then, expanded means pending. Everything in a done container is done.
func (f *File) Outcome(id string) (Status, bool) { return f.outcomes().of(id) }

// outcomes answers for many tasks of one file whose families may be deep: each is walked once.
type outcomes struct {
	f       *File
	covered map[string]bool // by container: whether it, or one around it, is done
	done    map[string]bool // by container: whether it is done, or everything in it
}

func (f *File) outcomes() *outcomes {
	return &outcomes{f, map[string]bool{}, map[string]bool{}}
}

// of is File.Outcome.
func (o *outcomes) of(id string) (Status, bool) {
	t, ok := o.f.Task(id)
	switch {
	case !ok:
		return "", false
	case t.Parent != "" && o.covers(t.Parent):
		return Done, true
	case !t.Container() || t.Status != Expanded && t.Status != Pending && t.Status != InProgress:
		return t.Status, true
	case o.isDone(t.ID):
		return Done, true
	case t.Status == Expanded:
		return Pending, true
	}
	return t.Status, true
}

func (o *outcomes) covers(id string) bool {
	is, known := o.covered[id]
	if !known {
		t, _ := o.f.Task(id)
		is = t.Status == Done || t.Parent != "" && o.covers(t.Parent)
		o.covered[id] = is
	}
	return is
}

func (o *outcomes) isDone(id string) bool {
	t, _ := o.f.Task(id)
	if t.Status == Done || !t.Container() {
		return t.Status == Done
	}
	is, known := o.done[id]
	if !known {
		is = !slices.ContainsFunc(t.Children, func(c string) bool { return !o.isDone(c) })
		o.done[id] = is
	}
	return is
}

// maxLinks is how many dependencies the order of a list may make.
const maxLinks = 1_000_000

// queue makes each task wait for the group before its own. The tasks at places are in the order of the list; together reports whether two neighbours
// are in one group. ok is false if that would be too many dependencies.
func (f *File) queue(places []int, together func(before, after int) bool) bool {
	var before, group []string
	links := 0
	for k, i := range places {
		if k > 0 && !together(places[k-1], i) {
			before, group = group, nil
		}
		group = append(group, f.tasks[i].ID)
		f.tasks[i].DependsOn = before // shared: do not change it
		if links += len(before); links > maxLinks {
			return false
		}
	}
	return true
}
