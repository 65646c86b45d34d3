package tasks

import (
	"fmt"
	"strings"
)

// relate turns what the entries say about parents and subtasks into Parent and Children that agree, name only tasks of the list and
// have no cycle. A parent that a task names itself counts more than a list that names the task.
func (f *File) relate(listed map[int][]string) {
	f.dropStrangers()
	for i := range f.tasks {
		f.adopt(i, listed[i])
	}
	f.adoptDotted(listed)
	f.breakCircles()
	for i := range f.tasks {
		t := &f.tasks[i]
		if t.Parent != "" {
			p := &f.tasks[f.index[t.Parent]]
			p.Children = append(p.Children, t.ID)
		}
	}
	for i, list := range listed {
		f.tasks[i].Children = inOrder(f.tasks[i].Children, list)
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
			f.note(t, "family", fmt.Sprintf("its parent %s is not in the list", t.Parent))
			t.Parent = ""
		} else if t.Parent == t.ID {
			f.note(t, "family", "it is its own parent")
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
			f.note(t, "family", fmt.Sprintf("its subtask %s is not in the list", short(id)))
		case id == t.ID:
			f.note(t, "family", "it lists itself as a subtask")
		case f.tasks[k].Parent == "":
			f.tasks[k].Parent = t.ID
		case f.tasks[k].Parent != t.ID:
			f.note(t, "family", fmt.Sprintf("it lists subtask %s, which belongs to task %s", id, f.tasks[k].Parent))
		}
	}
}

// adoptDotted takes 3.1 for a child of 3 where 3 is expanded and nothing else names its children.
func (f *File) adoptDotted(listed map[int][]string) {
	taken := map[string]bool{}
	for i := range f.tasks {
		taken[f.tasks[i].Parent] = true
	}
	for i := range f.tasks {
		t := &f.tasks[i]
		dot := strings.LastIndexByte(t.ID, '.')
		if dot <= 0 || t.Parent != "" || f.index[t.ID] != i {
			continue
		}
		p, ok := f.index[t.ID[:dot]]
		if !ok || f.tasks[p].Status != Expanded || taken[t.ID[:dot]] || len(listed[p]) > 0 {
			continue
		}
		t.Parent = t.ID[:dot]
		f.note(t, "family", fmt.Sprintf("taken for a subtask of %s by its id", t.Parent))
	}
}

// breakCircles makes a task that is among its own ancestors a task without parent.
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
			f.note(&f.tasks[k], "family", "it is among its own ancestors")
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
