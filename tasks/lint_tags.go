package tasks

import (
	"slices"
	"strings"
)

// otherTags compares dependencies on tasks of other tags with these.
func (l *linter) otherTags(root string) {
	x := &crossing{linter: l, root: root, files: map[string]*File{l.tag: l.File}}
	for i := range l.tasks {
		t := &l.tasks[i]
		if l.index[t.ID] != i {
			continue
		}
		own, _ := l.outcome(l.File, t.ID)
		for _, id := range t.DependsOn {
			f, rest := x.find(l.File, id)
			if f == nil || f == l.File {
				continue
			}
			switch s, ok := l.outcome(f, rest); {
			case !ok:
			case own != Done && (s == Cancelled || s == Deferred):
				l.say(t, "status", "it depends on %s, which is %s: it is not run until that changes", id, s)
			case own == Done && s != Done:
				l.say(t, "status", "it is done, but depends on %s, which is %s", id, s)
			}
			if x.reaches(f, rest, t.ID) {
				l.say(t, "cycle", "it depends on %s, which waits for this task in turn", id)
			}
		}
	}
}

// crossing follows dependencies from one tag to another.
type crossing struct {
	*linter
	root  string
	files map[string]*File
	work  int
}

// find is the list that an id of a list is in, nil if there is none, and the id in there.
func (x *crossing) find(from *File, id string) (*File, string) {
	if _, ok := from.Task(id); ok {
		return from, ownID(from.tag, id)
	}
	tag, rest, ok := strings.Cut(id, ":")
	if !ok {
		return nil, ""
	}
	f, seen := x.files[tag]
	if !seen {
		f = x.open(tag)
		x.files[tag] = f
	}
	return f, rest
}

// open reads another tag, from the same file if that has it.
func (x *crossing) open(tag string) *File {
	if t, err := load(x.path); err == nil && slices.Contains(t.tags(), tag) {
		if f, err := t.open(tag); err == nil {
			return f
		}
	}
	f, err := Open(x.root, tag)
	if err != nil {
		return nil
	}
	return f
}

// reaches reports whether a task of another list waits for a task of this one, directly or not. What a task waits for are its own
// dependencies, those of its containers, and the tasks in it.
func (x *crossing) reaches(f *File, id, target string) bool {
	const most = 200_000
	type place struct {
		file *File
		id   string
	}
	seen := map[place]bool{}
	var stack []place
	push := func(p place) {
		if p.file != nil && !seen[p] {
			seen[p] = true
			stack = append(stack, p)
		}
	}
	for push(place{f, id}); len(stack) > 0; x.work++ {
		p := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if p.file == x.File && p.id == target || x.work > most {
			return x.work <= most
		}
		t, ok := p.file.Task(p.id)
		if !ok {
			continue
		}
		for _, child := range t.Children {
			push(place{p.file, child})
		}
		for ok {
			for _, on := range t.DependsOn {
				other, rest := x.find(p.file, on)
				push(place{other, rest})
			}
			t, ok = p.file.Task(t.Parent)
		}
	}
	return false
}
