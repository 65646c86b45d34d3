package plan

import (
	"fmt"
	"slices"

	"descartes/internal/lazyregexp"
	"descartes/tasks/prose"

	"descartes/tasks"
)

// Extra returns the dependencies that only the plan states, between tasks of the list: by id, what else the task
// waits for. They are meant for scheduler.Options.More. An id means the same task where the plan writes it out ("Task
// 3", T003, or "(SCUD Task 3)" behind a title), or where the title is the same too: numbers in plans are seldom
// numbers of tasks. Phases do not count as statements.
//
// A dependency that would close a cycle in the list is left out and returned in conflicts, and so are the
// dependencies of those tasks that name nothing in the plan.
func (p *Plan) Extra(existing []tasks.Task) (more map[string][]string, conflicts []tasks.Finding) {
	x := newExtra(existing)
	same := map[string]string{} // id in the plan to id in the list
	for i := range p.tasks {
		if id, ok := x.find(&p.tasks[i]); ok {
			same[p.tasks[i].ID] = id
		}
	}
	more = map[string][]string{}
	for i := range p.tasks {
		t := &p.tasks[i]
		for _, said := range t.said {
			id, known := same[t.ID]
			on, alsoKnown := same[said]
			switch {
			case !known || !alsoKnown || id == on || slices.Contains(existing[x.index[id]].DependsOn, on) || slices.Contains(more[id], on):
			case x.wait(id, on):
				more[id] = append(more[id], on)
			default:
				conflicts = append(conflicts, tasks.Finding{Line: t.Line, ID: id, Kind: "dependency",
					Message: fmt.Sprintf("task %s: the plan says that it waits for %s, but in the task file %s waits for it: the task file counts", id, on, on)})
			}
		}
	}
	for _, f := range p.findings {
		if id, ok := same[f.ID]; ok && f.Kind == "dependency" {
			f.ID = id
			conflicts = append(conflicts, f)
		}
	}
	return more, conflicts
}

var scudTask = lazyregexp.New(`(?i)scud task`)

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

// extra is the graph of a task list with the dependencies added to it. A task is two vertices: what it waits for (even), and itself with
// what is in it (odd).
type extra struct {
	list   []tasks.Task
	index  map[string]int
	waits  []int   // by vertex: for how many others
	before [][]int // by vertex: what waits for it
	rank   []int   // by vertex: its place behind what it waits for, -1 on a circle or behind one
	sorted int     // how many have a place
	work   int
}

func newExtra(list []tasks.Task) *extra {
	x := &extra{list: list, index: make(map[string]int, len(list)), waits: make([]int, 2*len(list)), before: make([][]int, 2*len(list))}
	for i := range list {
		if _, ok := x.index[list[i].ID]; !ok {
			x.index[list[i].ID] = i
		}
	}
	for i := range list {
		t := &list[i]
		x.edge(2*i+1, 2*i)
		for _, id := range t.Children {
			if k, ok := x.index[id]; ok {
				x.edge(2*i+1, 2*k+1)
			}
		}
		for _, on := range t.DependsOn {
			if k, ok := x.index[on]; ok {
				x.edge(2*i, 2*k+1)
			}
		}
		if k, ok := x.index[t.Parent]; ok && t.Parent != "" {
			x.edge(2*i, 2*k)
		}
	}
	x.rank, x.sorted = x.sort()
	return x
}

func (x *extra) edge(from, to int) {
	x.waits[from]++
	x.before[to] = append(x.before[to], from)
}

// maxExtraWork bounds the sorting anew, in vertices.
const maxExtraWork = 20_000_000

// wait makes one task wait for another, unless that closes a circle. Where so many dependencies go against the order of the list that
// looking takes too long, the rest of these are taken to close one.
func (x *extra) wait(id, on string) bool {
	from, to := 2*x.index[id], 2*x.index[on]+1
	inOrder := x.rank[to] >= 0 && x.rank[to] < x.rank[from]
	if !inOrder && x.work > maxExtraWork {
		return false
	}
	x.edge(from, to)
	if inOrder {
		return true
	}
	rank, sorted := x.sort()
	if sorted < x.sorted && x.rank[to] >= 0 {
		x.waits[from]--
		x.before[to] = x.before[to][:len(x.before[to])-1]
		return false
	}
	x.rank, x.sorted = rank, sorted
	return true
}

// sort gives each vertex its place behind what it waits for.
func (x *extra) sort() (rank []int, sorted int) {
	x.work += len(x.waits)
	open := slices.Clone(x.waits)
	rank = slices.Repeat([]int{-1}, len(open))
	for v := range open {
		stack := []int{v}
		if open[v] > 0 || rank[v] >= 0 {
			continue
		}
		for len(stack) > 0 {
			top := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			rank[top] = sorted
			sorted++
			for _, u := range x.before[top] {
				if open[u]--; open[u] == 0 {
					stack = append(stack, u)
				}
			}
		}
	}
	return rank, sorted
}
