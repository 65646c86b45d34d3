package tasks

import (
	"fmt"
	"slices"
	"strings"

	"descartes/tasks/prose"
)

const parentMark = "[PARENT] " // how the oldest SCUD files mark a container

// relate makes Parent and Children agree, name only tasks of the list and contain no cycle. A task's own Parent
// outranks another task's list of subtasks. With dots nothing but ids says in the whole list which task belongs to
// which, as in the oldest SCUD files.
func (f *File) relate(dots bool) {
	for i := range f.tasks {
		t := &f.tasks[i]
		_, ok := f.index[t.Parent]
		switch {
		case f.index[t.ID] != i:
			t.Parent = "" // a duplicate belongs nowhere
		case t.Parent == "":
		case !ok:
			f.note(i, "family", fmt.Sprintf("its parent %s is not in the list", t.Parent))
			t.Parent = ""
		case t.Parent == t.ID:
			f.note(i, "family", "it is its own parent")
			t.Parent = ""
		}
	}
	for i := range f.tasks {
		f.adopt(i, f.sites[i].children)
	}
	f.adoptDotted(dots)
	f.breakCircles()
	for i := range f.tasks {
		if p, ok := f.index[f.tasks[i].Parent]; ok {
			f.tasks[p].Children = append(f.tasks[p].Children, f.tasks[i].ID)
		}
	}
	for i := range f.tasks {
		if f.sites[i].marked && !f.tasks[i].Container() && f.index[f.tasks[i].ID] == i {
			f.note(i, "family", "its title calls it a parent, but it has no subtasks")
		}
	}
}

// adopt makes the tasks that entry i lists its children.
func (f *File) adopt(i int, children []string) {
	t := &f.tasks[i]
	for _, id := range children {
		k, ok := f.index[id]
		switch {
		case f.index[t.ID] != i:
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

// adoptDotted takes 3.1 for a child of 3 if 3 is expanded and nothing else names its children, or with dots. Either way
// it is reported.
func (f *File) adoptDotted(dots bool) {
	taken := map[string]bool{}
	for i := range f.tasks {
		taken[f.tasks[i].Parent] = true
	}
	for i := range f.tasks {
		t := &f.tasks[i]
		up := t.ID[:max(0, strings.LastIndexByte(t.ID, '.'))]
		p, ok := f.index[up]
		switch {
		case !ok || t.Parent != "" || f.index[t.ID] != i:
		case !dots && (f.tasks[p].Status != Expanded || taken[up] || len(f.sites[p].children) > 0):
			f.note(i, "family", fmt.Sprintf(
				"its id looks like that of a subtask of %s, but nothing else says so: it is a task of its own", up))
		default:
			if t.Parent = up; !f.sites[p].marked {
				f.note(i, "family", fmt.Sprintf("taken for a subtask of %s by its id", up))
			}
		}
	}
}

// breakCircles removes the parent of a task that is its own ancestor.
func (f *File) breakCircles() {
	walk := make([]int, len(f.tasks)) // by place: 1 + the task from which it was come by
	for i := range f.tasks {
		k, ok := i, true
		for ok && walk[k] == 0 {
			walk[k] = i + 1
			up := k
			if up, ok = f.index[f.tasks[k].Parent]; ok {
				k = up
			}
		}
		if ok && walk[k] == i+1 {
			f.note(k, "family", "it is among its own ancestors")
			f.tasks[k].Parent = ""
		}
	}
}

// Outcome is the status of a task as others depend on it: a container is done when its status says so or all tasks in
// it are done; until then, expanded means pending. Everything in a done container is done.
func (f *File) Outcome(id string) (Status, bool) {
	t, ok := f.Task(id)
	if !ok {
		return "", false
	}
	for up, ok := f.Task(t.Parent); ok; up, ok = f.Task(up.Parent) {
		if up.Status == Done {
			return Done, true
		}
	}
	switch {
	case t.Container() && (t.Status == Expanded || t.Status == Pending || t.Status == InProgress) && f.isDone(t.ID):
		return Done, true
	case t.Container() && t.Status == Expanded:
		return Pending, true
	}
	return t.Status, true
}

func (f *File) isDone(id string) bool {
	t, _ := f.Task(id)
	if t.Status == Done || !t.Container() {
		return t.Status == Done
	}
	return !slices.ContainsFunc(t.Children, func(c string) bool { return !f.isDone(c) })
}

// maxLinks is how many dependencies the order of a list may make.
const maxLinks = 1_000_000

// queue makes each task wait for the group before its own. The tasks at places are in the order of the list; together
// reports whether two neighbours are in one group. ok is false if that would be too many dependencies.
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
