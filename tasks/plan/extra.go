package plan

import (
	"fmt"
	"regexp"
	"slices"

	"descartes/tasks/prose"

	"descartes/tasks"
)

// Extra returns the dependencies that only the plan states, between tasks of the list: by id, what else the task waits for. They are
// meant for scheduler.Options.More. An id is taken for the same task where the plan writes it out ("Task 3", T003, or "(SCUD Task 3)" behind
// a title), or else where the title is the same too: numbers of plans seldom are numbers of tasks. What phases imply is no statement.
//
// A dependency that would close a circle in the list is left out; such are in conflicts, as are the dependencies of those tasks that
// name nothing in the plan.
func (p *Plan) Extra(existing []tasks.Task) (more map[string][]string, conflicts []tasks.Finding) {
	x := extra{list: existing, index: make(map[string]int, len(existing)), more: map[string][]string{}}
	for i := range existing {
		if _, ok := x.index[existing[i].ID]; !ok {
			x.index[existing[i].ID] = i
		}
	}
	same := map[string]string{} // id in the plan to id in the list
	for i := range p.tasks {
		if id, ok := x.find(&p.tasks[i]); ok {
			same[p.tasks[i].ID] = id
		}
	}
	x.findCore(p, same)
	for i := range p.tasks {
		t := &p.tasks[i]
		for _, said := range t.said {
			id, known := same[t.ID]
			on, alsoKnown := same[said]
			switch {
			case !known || !alsoKnown || id == on || slices.Contains(existing[x.index[id]].DependsOn, on) || slices.Contains(x.more[id], on):
			case x.work > maxExtraWork:
				if !x.tired {
					x.tired = true
					conflicts = append(conflicts, tasks.Finding{Kind: "plan", Message: "the list or the plan has so many circles that not all dependencies of the plan can be checked: the rest is not used"})
				}
			case x.mayCircle(id, on) && x.reaches(on, id):
				conflicts = append(conflicts, tasks.Finding{Line: t.Line, ID: id, Kind: "dependency",
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

var scudTask = regexp.MustCompile(`(?i)scud task`)

// find is the task of the list that a task of the plan is.
func (x *extra) find(t *planTask) (string, bool) {
	if at := scudTask.FindStringIndex(t.Title); at != nil {
		refs, rest := prose.Refs(t.Title[at[0]+len("scud "):])
		if len(refs) != 1 || !prose.IsList(refs, rest) {
			return "", false
		}
		_, ok := x.index[refs[0].ID]
		return refs[0].ID, ok
	}
	k, ok := x.index[t.ID]
	return t.ID, ok && (!t.made || prose.Fold(x.list[k].Title) == prose.Fold(t.Title))
}

// maxExtraWork bounds the search for circles, in tasks looked at.
const maxExtraWork = 10_000_000

// extra is a task list with the dependencies added to it.
type extra struct {
	list  []tasks.Task
	index map[string]int
	more  map[string][]string
	core  []bool // by vertex, if all that the plan states were added: it may be on a circle
	work  int
	tired bool
}

// mayCircle reports whether a dependency may be on a circle of the list and all that the plan states. Nearly none is.
func (x *extra) mayCircle(id, on string) bool {
	return x.core[2*x.index[id]] && x.core[2*x.index[on]+1]
}

// findCore finds what is left of the graph when all that waits for nothing left is taken away, again and again. A task is two vertices:
// what it waits for (even), and itself with what is in it (odd).
func (x *extra) findCore(p *Plan, same map[string]string) {
	waiting := make([]int32, 2*len(x.list)) // for how many
	before := make([][]int32, 2*len(x.list))
	edge := func(from, to int) {
		waiting[from]++
		before[to] = append(before[to], int32(from))
	}
	depend := func(i int, on string) {
		if k, ok := x.index[on]; ok {
			edge(2*i, 2*k+1)
		}
	}
	for i := range x.list {
		t := &x.list[i]
		edge(2*i+1, 2*i)
		for _, id := range t.Children {
			if k, ok := x.index[id]; ok {
				edge(2*i+1, 2*k+1)
			}
		}
		for _, on := range t.DependsOn {
			depend(i, on)
		}
		if k, ok := x.index[t.Parent]; ok && t.Parent != "" {
			edge(2*i, 2*k)
		}
	}
	for i := range p.tasks {
		if id, ok := same[p.tasks[i].ID]; ok {
			for _, said := range p.tasks[i].said {
				if on, ok := same[said]; ok && on != id {
					depend(x.index[id], on)
				}
			}
		}
	}
	var free []int32
	x.core = make([]bool, len(waiting))
	for v, n := range waiting {
		if x.core[v] = n > 0; n == 0 {
			free = append(free, int32(v))
		}
	}
	for len(free) > 0 {
		v := free[len(free)-1]
		free = free[:len(free)-1]
		for _, u := range before[v] {
			if waiting[u]--; waiting[u] == 0 {
				x.core[u] = false
				free = append(free, u)
			}
		}
	}
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
		x.work++
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
