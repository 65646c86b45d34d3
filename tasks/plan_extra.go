package tasks

import (
	"fmt"
	"slices"
	"strings"
)

// Extra returns the dependencies that only the plan states, between tasks of the list: by id, what else the task waits for. They are
// meant for scheduler.Options.More. An id is taken for the same task where the plan writes it out ("Task 3", T003, or "(SCUD Task 3)" behind
// a title), or else where the title is the same too: numbers of plans seldom are numbers of tasks. What phases imply is no statement.
//
// A dependency that would close a circle in the list is left out; such are in conflicts, as are the dependencies of those tasks that
// name nothing in the plan, and a limit that the plan is beyond.
func (p *PlanTasks) Extra(existing []Task) (more map[string][]string, conflicts []Finding) {
	x := extra{list: existing, index: make(map[string]int, len(existing)), more: map[string][]string{}}
	for i := range existing {
		if _, ok := x.index[existing[i].ID]; !ok {
			x.index[existing[i].ID] = i
		}
	}
	if p.limit != nil && len(p.tasks) == 0 {
		return x.more, []Finding{{Kind: "plan", Message: p.limit.Reason}}
	}
	same := map[string]string{} // id in the plan to id in the list
	for i := range p.tasks {
		if id, ok := x.find(&p.tasks[i]); ok {
			same[p.tasks[i].ID] = id
		}
	}
	for i := range p.tasks {
		t := &p.tasks[i]
		for _, said := range t.said {
			id, known := same[t.ID]
			on, alsoKnown := same[said]
			switch {
			case !known || !alsoKnown || id == on || slices.Contains(existing[x.index[id]].DependsOn, on) || slices.Contains(x.more[id], on):
			case x.reaches(on, id):
				conflicts = append(conflicts, Finding{Line: t.Line, ID: id, Kind: "dependency",
					Message: fmt.Sprintf("task %s: the plan says that it waits for %s, by the task file %s waits for it: the task file holds", id, on, on)})
			default:
				x.more[id] = append(x.more[id], on)
			}
		}
	}
	for _, f := range p.findings {
		if id, ok := same[f.ID]; ok && f.Kind == "dependency" {
			f.ID = id
			conflicts = append(conflicts, f)
		}
	}
	return x.more, conflicts
}

// find is the task of the list that a task of the plan is.
func (x *extra) find(t *planTask) (string, bool) {
	if at := strings.Index(lowerASCII(t.Title), "scud task"); at >= 0 {
		refs, rest := refsIn(t.Title[at+len("scud "):])
		if len(refs) != 1 || !isList(refs, rest) {
			return "", false
		}
		_, ok := x.index[refs[0].id]
		return refs[0].id, ok
	}
	k, ok := x.index[t.ID]
	return t.ID, ok && (!t.made || fold(x.list[k].Title) == fold(t.Title))
}

// extra is a task list with the dependencies added to it.
type extra struct {
	list  []Task
	index map[string]int
	more  map[string][]string
}

// reaches reports whether a task waits for another, directly or not, through containers too.
func (x *extra) reaches(from, to string) bool {
	seen := map[string]bool{from: true}
	stack := []string{from}
	visit := func(ids []string) {
		for _, id := range ids {
			if _, ok := x.index[id]; ok && !seen[id] {
				seen[id] = true
				stack = append(stack, id)
			}
		}
	}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		t := &x.list[x.index[id]]
		visit(t.Children)
		for {
			if t.ID == to {
				return true
			}
			visit(t.DependsOn)
			visit(x.more[t.ID])
			up, ok := x.index[t.Parent]
			if !ok || t.Parent == "" {
				break
			}
			t = &x.list[up]
		}
	}
	return false
}
