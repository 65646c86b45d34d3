package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"descartes/internal/oneline"
	"descartes/tasks"

	"github.com/dominikbraun/graph"
)

// Problem is something wrong with a list. The rest of the list runs all the same.
type Problem struct {
	// Kind is "duplicate", "cycle", "missing" (dependency), "self" (dependency), "ancestor" (a dependency or a parent
	// that makes no sense), "ambiguous-expanded" (split, but without subtasks), "unknown-status", "container-done"
	// (done, with open subtasks) or "container-off" (deferred or cancelled, with open subtasks).
	Kind    string   `json:"kind"`
	Tasks   []string `json:"tasks"` // a cycle's in the order of the cycle
	Message string   `json:"message"`
}

// Problems returns everything wrong with the list as it was given to New, sorted by kind and id.
func (g *Graph) Problems() []Problem { return g.problems }

func (g *Graph) problem(kind string, ids []string, format string, args ...any) {
	g.problems = append(g.problems, Problem{Kind: kind, Tasks: ids, Message: fmt.Sprintf(format, args...)})
}

var kinds = []string{"duplicate", "cycle", "missing", "self", "ancestor", "ambiguous-expanded", "unknown-status",
	"container-done", "container-off"}

func (g *Graph) sortProblems() {
	slices.SortStableFunc(g.problems, func(a, b Problem) int {
		return cmp.Or(slices.Index(kinds, a.Kind)-slices.Index(kinds, b.Kind),
			tasks.CompareIDs(a.Tasks[0], b.Tasks[0]), strings.Compare(a.Message, b.Message))
	})
	g.problems = slices.CompactFunc(g.problems, func(a, b Problem) bool {
		return a.Kind == b.Kind && a.Message == b.Message
	})
}

// reviewDuplicates reports whether several tasks have the id of the first one at place i, and says so. Nobody can tell
// which of them is meant, so it is held, and what waits for it: unless all of them are done.
func (g *Graph) reviewDuplicates(i int) (doubled bool) {
	var lines []string
	for _, k := range append([]int{i}, g.duplicates[i]...) {
		lines = append(lines, fmt.Sprint(g.list[k].Line))
		doubled = doubled || g.status[k] != tasks.Done
	}
	then := "all of them are done"
	if doubled {
		then = "it is held until each has its own id"
	}
	id := g.list[i].ID
	g.problem("duplicate", []string{id}, "the id %s is given %s (lines %s), %s", id, moreThanOnce, oneline.List(lines),
		then)
	return doubled
}

const moreThanOnce = "more than once"

// reviewStatuses reports statuses that contradict the shape of the list.
func (g *Graph) reviewStatuses() {
	open := make([]int, len(g.list)) // by place: leaves in it that are not done
	for _, i := range slices.Backward(g.family.inward) {
		if g.nodes[g.in[i]].kind == leaf && g.status[i] != tasks.Done {
			open[i] = 1
		}
		if p := g.family.parent[i]; p >= 0 {
			open[p] += open[i]
		}
	}
	for _, i := range g.order {
		id, status := g.list[i].ID, g.status[i]
		n := &g.nodes[g.in[i]]
		subtasks := fmt.Sprintf("%d of its subtasks are open", open[i])
		if open[i] == 1 {
			subtasks = "1 of its subtasks is open"
		}
		switch {
		case n.covered: // it counts as done, whatever it says
		case n.kind == leaf && status == tasks.Expanded:
			g.problem("ambiguous-expanded", []string{id},
				"task %s is expanded but has no subtasks: it does not run and does not count as done; set it to pending or done", id)
		case n.kind == leaf && !status.Known():
			g.problem("unknown-status", []string{id}, "%s", tasks.UnknownStatus(id, status))
		case n.kind == leaf || open[i] == 0:
		case status == tasks.Done && g.openInDone:
			g.problem("container-done", []string{id}, "task %s is done, but %s: this is work to do", id, subtasks)
		case status == tasks.Done:
			g.problem("container-done", []string{id}, "task %s is done, but %s: they count as done with it", id,
				subtasks)
		case status.SetAside():
			g.problem("container-off", []string{id}, "task %s is %s, but %s: they are held", id, status, subtasks)
		}
	}
}

// cycle is one knot of tasks that depend on each other.
type cycle struct {
	tasks []string // in the order of path, then the others
	path  string   // "1 -> 2 -> 1"
}

// findCycles marks the leaves on cycles and names each cycle.
func (g *Graph) findCycles() {
	knots, err := graph.StronglyConnectedComponents(g.lib)
	must(err)
	knots = slices.DeleteFunc(knots, func(knot []int) bool { return len(knot) == 1 })
	for _, knot := range knots {
		slices.SortFunc(knot, g.compare)
	}
	slices.SortFunc(knots, func(a, b []int) int { return g.compare(a[0], b[0]) })
	for _, knot := range knots {
		g.nameCycle(knot)
	}
}

// compare orders the vertices of tasks by what they stand for, so that names do not depend on the order of the input.
func (g *Graph) compare(a, b int) int {
	x, y := &g.nodes[a], &g.nodes[b]
	return cmp.Or(g.rank[x.place]-g.rank[y.place], int(x.kind)-int(y.kind))
}

// nameCycle records one strongly connected component, whose vertices are in order.
func (g *Graph) nameCycle(knot []int) {
	member := make(map[int]bool, len(knot))
	first := 0
	for _, v := range knot {
		member[v] = true
		if g.nodes[v].kind == leaf {
			g.nodes[v].cycle = len(g.cycles) + 1
			if first == 0 {
				first = v
			}
		}
	}
	steps := g.declared(g.shortest(first, member))
	c := cycle{path: g.path(steps)}
	for _, s := range steps {
		c.tasks = append(c.tasks, g.list[s.from].ID)
		delete(member, g.in[s.from])
	}
	var others []string
	for _, v := range knot {
		if member[v] && g.nodes[v].kind == leaf {
			others = append(others, g.name(v))
		}
	}
	c.tasks = append(c.tasks, others...)
	g.cycles = append(g.cycles, c)
	also := ""
	if len(others) > 0 {
		also = "; in the same knot: " + oneline.List(others)
	}
	g.problem("cycle", c.tasks, "tasks that depend on each other: %s%s", c.path, also)
}

// shortest returns the shortest way from a vertex through its dependencies back to it; of several, the one of the
// lowest ids.
func (g *Graph) shortest(start int, member map[int]bool) []int {
	from := map[int]int{}
	queue := []int{start}
	for k := 0; ; k++ {
		v := queue[k]
		next := slices.DeleteFunc(slices.Clone(g.pred[v]), func(p int) bool { return !member[p] })
		slices.SortFunc(next, g.compare)
		for _, p := range next {
			if p == start {
				way := []int{v}
				for v != start {
					v = from[v]
					way = append(way, v)
				}
				slices.Reverse(way)
				return way
			}
			if _, met := from[p]; !met {
				from[p] = v
				queue = append(queue, p)
			}
		}
	}
}

// step is one dependency as it is written in the list, by places.
type step struct{ from, to int }

// declared drops the steps between a container and its parts from a way around a cycle, and begins with the lowest id.
func (g *Graph) declared(way []int) []step {
	var steps []step
	lowest := 0
	for k, v := range way {
		a, b := g.nodes[v].place, g.nodes[way[(k+1)%len(way)]].place
		if a == b || g.family.parent[a] == b || g.family.parent[b] == a {
			continue
		}
		steps = append(steps, step{a, b})
		if g.rank[a] < g.rank[steps[lowest].from] {
			lowest = len(steps) - 1
		}
	}
	return append(slices.Clone(steps[lowest:]), steps[:lowest]...)
}

// path writes a cycle down: "1 -> 2 -> 1", where -> means "depends on".
func (g *Graph) path(steps []step) string {
	var b strings.Builder
	b.WriteString(g.list[steps[0].from].ID)
	for k, s := range steps {
		next := steps[(k+1)%len(steps)].from
		to, on := g.list[s.to].ID, g.list[next].ID
		switch {
		case s.to == next:
			fmt.Fprintf(&b, " -> %s", to)
		case g.family.contains(s.to, next):
			fmt.Fprintf(&b, " -> %s (its %s)", to, on)
		default:
			fmt.Fprintf(&b, " -> %s (part of %s)", to, on)
		}
	}
	return b.String()
}
