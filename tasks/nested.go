package tasks

import (
	"cmp"
	"slices"
	"strings"

	"descartes/tasks/prose"
)

// kin names a task by its container, as 1 + its place, and by its id as the file has it.
type kin struct {
	up int32
	id string
}

// settle completes what was read: ids of nested tasks get the ids of their containers before them, dependencies between these are
// found, and families are made to agree.
func (r *reader) settle() *problem {
	f := r.file
	nested := len(r.levels) > 1
	var byKin map[kin]string
	var own []string // ids as the file has them
	if nested {
		byKin, own = make(map[kin]string, len(f.tasks)), make([]string, len(f.tasks))
	}
	slices.SortStableFunc(r.notes, func(a, b note) int { return cmp.Compare(a.task, b.task) })
	notes := r.notes
	for i := range f.tasks {
		t, s := &f.tasks[i], &f.sites[i]
		if nested {
			own[i] = t.ID
		}
		if s.up > 0 {
			t.Parent = f.tasks[s.up-1].ID
			byKin[kin{s.up, t.ID}] = nestedID(t.Parent, own[s.up-1], t.ID)
			t.ID = byKin[kin{s.up, t.ID}]
			if len(t.ID) > prose.MaxID {
				return &problem{int(s.at), prose.IDProblem(t.ID)}
			}
		}
		f.enter(i)
		for len(notes) > 0 && notes[0].task == i {
			f.note(i, notes[0].kind, notes[0].message)
			notes = notes[1:]
		}
	}
	if nested {
		f.resolveNested(byKin)
	}
	f.relate(&r.family)
	return nil
}

// nestedID is the complete id of a task in a container: 12 and 3 is 12.3. Some files repeat the container's id, whole (12.3, also as
// the number 12.3) or its last part (in 1.2, 2.3 is 1.2.3).
func nestedID(parent, ownParent, id string) string {
	if strings.HasPrefix(id, parent+".") {
		return id
	}
	if rest, ok := strings.CutPrefix(id, ownParent+"."); ok {
		id = rest
	}
	return parent + "." + id
}

// resolveNested finds what the dependencies of nested tasks mean: a task in the same container, else one in a container around that,
// else one of the list.
func (f *File) resolveNested(byKin map[kin]string) {
	for i := range f.tasks {
		up := f.sites[i].up
		if up == 0 {
			continue
		}
		changed := false
		list := f.tasks[i].DependsOn
		for k, id := range list {
			for u := up; u > 0; u = f.sites[u-1].up {
				if full, ok := byKin[kin{u, id}]; ok {
					changed = changed || full != id
					list[k] = full
					break
				}
			}
		}
		if changed {
			f.tasks[i].DependsOn = unique(list)
		}
	}
}

// unique drops what comes a second time.
func unique(list []string) []string {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
}
