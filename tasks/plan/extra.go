package plan

import (
	"fmt"
	"slices"

	"descartes/internal/lazyregexp"
	"descartes/tasks"
	"descartes/tasks/prose"
)

// Extra returns the dependencies that only the plan states, between tasks of the list: by id, what else the task
// waits for. They are meant for scheduler.Options.More. An id means the same task where the plan writes it out ("Task
// 3", T003, or "(SCUD Task 3)" behind a title), or where the title is the same too: numbers in plans are seldom
// numbers of tasks. Phases do not count as statements.
//
// A dependency that would close a cycle in the list is left out and returned in conflicts, and so are the
// dependencies of those tasks that name nothing in the plan.
func (d *Document) Extra(existing []tasks.Task) (more map[string][]string, conflicts []tasks.Finding) {
	g := waits{index: map[string]int{}, needs: make([][]int, 2*len(existing))}
	g.fill(existing)
	same := map[string]string{} // id in the plan to id in the list
	for i := range d.tasks {
		if id, ok := d.tasks[i].among(existing, g.index); ok {
			same[d.tasks[i].ID] = id
		}
	}
	more = map[string][]string{}
	for i := range d.tasks {
		t := &d.tasks[i]
		for _, said := range t.said {
			id, known := same[t.ID]
			on, alsoKnown := same[said]
			switch {
			case !known || !alsoKnown || id == on || slices.Contains(existing[g.index[id]].DependsOn, on) || slices.Contains(more[id], on):
			case g.wait(2*g.index[id], 2*g.index[on]+1):
				more[id] = append(more[id], on)
			default:
				conflicts = append(conflicts, tasks.Finding{Line: t.Line, ID: id, Kind: "dependency",
					Message: fmt.Sprintf("task %s: the plan says that it waits for %s, but in the task file %s waits for it: the task file counts", id, on, on)})
			}
		}
	}
	for _, f := range d.findings {
		if id, ok := same[f.ID]; ok && f.Kind == "dependency" {
			f.ID = id
			conflicts = append(conflicts, f)
		}
	}
	return more, conflicts
}

var scudTask = lazyregexp.New(`(?i)scud task`)

// among is the task of a list that a task of the plan is.
func (t *task) among(list []tasks.Task, index map[string]int) (string, bool) {
	if at := scudTask.FindStringIndex(t.Title); at != nil {
		refs, rest := prose.Refs(t.Title[at[0]+len("scud "):])
		if len(refs) != 1 || !prose.IsList(refs, rest) {
			return "", false
		}
		_, ok := index[refs[0].ID]
		return refs[0].ID, ok
	}
	k, ok := index[t.ID]
	return t.ID, ok && (!t.made || prose.Fold(list[k].Title) == prose.Fold(t.Title))
}

// waits is the graph of a task list. A task is two vertices: what it waits for (even), and itself with what is in it (odd).
type waits struct {
	index map[string]int
	needs [][]int // by vertex
	work  int     // vertices visited
}

func (g *waits) fill(list []tasks.Task) {
	for i := range list {
		if _, ok := g.index[list[i].ID]; !ok {
			g.index[list[i].ID] = i
		}
	}
	for i := range list {
		t := &list[i]
		g.needs[2*i+1] = append(g.needs[2*i+1], 2*i)
		for _, id := range t.Children {
			if k, ok := g.index[id]; ok {
				g.needs[2*i+1] = append(g.needs[2*i+1], 2*k+1)
			}
		}
		for _, on := range t.DependsOn {
			if k, ok := g.index[on]; ok {
				g.needs[2*i] = append(g.needs[2*i], 2*k+1)
			}
		}
		if k, ok := g.index[t.Parent]; ok && t.Parent != "" {
			g.needs[2*i] = append(g.needs[2*i], 2*k)
		}
	}
}

// wait makes one vertex need another, unless that closes a circle: unless the other one needs it already. Where that takes too long to find
// out, the scheduler is left to name the circle.
func (g *waits) wait(from, to int) bool {
	const most = 20_000_000
	met := map[int]bool{to: true}
	for open := []int{to}; len(open) > 0 && g.work < most; {
		v := open[len(open)-1]
		open = open[:len(open)-1]
		if g.work++; v == from {
			return false
		}
		for _, u := range g.needs[v] {
			if !met[u] {
				met[u] = true
				open = append(open, u)
			}
		}
	}
	g.needs[from] = append(g.needs[from], to)
	return true
}
