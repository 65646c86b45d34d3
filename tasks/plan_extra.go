package tasks

import (
	"fmt"
	"slices"
)

// Extra returns the dependencies that only the plan states, between tasks of the list: by id, what else the task waits for. They are
// meant for scheduler.Options.More. An id is taken for the same task where the plan writes it out ("Task 3", T003), or else where the
// title is the same too: numbers of plans seldom are numbers of tasks. What phases imply is no statement.
//
// A dependency that would close a circle in the list is left out; such are in conflicts.
func (p *PlanTasks) Extra(existing []Task) (more map[string][]string, conflicts []Finding) {
	x := extra{list: existing, index: make(map[string]int, len(existing)), more: map[string][]string{}}
	for i := range existing {
		if _, ok := x.index[existing[i].ID]; !ok {
			x.index[existing[i].ID] = i
		}
	}
	same := map[string]bool{}
	for i := range p.tasks {
		t := &p.tasks[i]
		k, ok := x.index[t.ID]
		same[t.ID] = ok && (!t.made || fold(existing[k].Title) == fold(t.Title))
	}
	for i := range p.tasks {
		t := &p.tasks[i]
		for _, on := range t.said {
			switch {
			case !same[t.ID] || !same[on] || slices.Contains(existing[x.index[t.ID]].DependsOn, on):
			case x.reaches(on, t.ID):
				conflicts = append(conflicts, Finding{Line: t.Line, ID: t.ID, Kind: "dependency",
					Message: fmt.Sprintf("task %s: the plan says that it waits for %s, by the task file %s waits for it: the task file holds", t.ID, on, on)})
			default:
				x.more[t.ID] = append(x.more[t.ID], on)
			}
		}
	}
	return x.more, conflicts
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
