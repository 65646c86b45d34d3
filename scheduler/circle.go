package scheduler

import (
	"fmt"
	"slices"
	"strings"
)

// circle is one knot of tasks that depend on each other.
type circle struct {
	tasks []string // in the order of path, then the others
	path  string   // "1 -> 2 -> 1"
}

// findCircles marks the leaves on cycles and names each cycle. g.kahn has put everything else before it into g.sorted.
func (g *Graph) findCircles() {
	knots := g.knots(g.residue())
	slices.SortFunc(knots, func(a, b []int32) int { return g.compare(a[0], b[0]) })
	for _, knot := range knots {
		g.nameCircle(knot)
	}
}

// knots returns the strongly connected components of more than one vertex among some vertices, each in order: Tarjan's algorithm with a
// stack of its own, for as deep as a list is long. The library's took 700 MB for a thousand tasks that all depend on each other.
func (g *Graph) knots(among []int32) (knots [][]int32) {
	const unseen, over = 0, -1
	mark := make([]int32, len(g.nodes)) // over; else by when it was met, from 1
	low := make([]int32, len(g.nodes))
	for v := range mark {
		mark[v] = over
	}
	for _, v := range among {
		mark[v] = unseen
	}
	type visit struct{ v, next int32 }
	var walk []visit
	var open []int32 // met, and in no component yet
	met := int32(0)
	enter := func(v int32) {
		met++
		mark[v], low[v] = met, met
		walk, open = append(walk, visit{v, 0}), append(open, v)
	}
	for _, start := range among {
		if mark[start] == unseen {
			enter(start)
		}
		for len(walk) > 0 {
			at := &walk[len(walk)-1]
			if to := g.succ.of(at.v); int(at.next) < len(to) {
				s := to[at.next]
				at.next++
				switch {
				case mark[s] == unseen:
					enter(s)
				case mark[s] != over:
					low[at.v] = min(low[at.v], mark[s])
				}
				continue
			}
			v := at.v
			walk = walk[:len(walk)-1]
			if len(walk) > 0 {
				up := walk[len(walk)-1].v
				low[up] = min(low[up], low[v])
			}
			if low[v] != mark[v] {
				continue
			}
			from := len(open) - 1
			for open[from] != v {
				from--
			}
			knot := slices.Clone(open[from:])
			open = open[:from]
			for _, k := range knot {
				mark[k] = over
			}
			if len(knot) > 1 {
				slices.SortFunc(knot, g.compare)
				knots = append(knots, knot)
			}
		}
	}
	return knots
}

// residue returns the vertices that kahn did not reach, without those that merely follow a cycle.
func (g *Graph) residue() []int32 {
	gone := make([]bool, len(g.nodes))
	gone[0] = true
	for _, v := range g.sorted {
		gone[v] = true
	}
	open := make([]int32, len(g.nodes)) // successors among the rest
	var ends []int32
	for v := int32(1); v < int32(len(g.nodes)); v++ {
		for _, s := range g.succ.of(v) {
			if !gone[s] {
				open[v]++
			}
		}
		if !gone[v] && open[v] == 0 {
			ends = append(ends, v)
		}
	}
	for k := 0; k < len(ends); k++ {
		gone[ends[k]] = true
		for _, p := range g.pred.of(ends[k]) {
			if open[p]--; open[p] == 0 && !gone[p] {
				ends = append(ends, p)
			}
		}
	}
	var rest []int32
	for v := range gone {
		if !gone[v] {
			rest = append(rest, int32(v))
		}
	}
	return rest
}

// compare orders vertices by what they stand for, so that names do not depend on the order of the input.
func (g *Graph) compare(a, b int32) int {
	x, y := &g.nodes[a], &g.nodes[b]
	if x.kind == outsider || y.kind == outsider {
		return int(a - b) // never on a cycle
	}
	if c := g.rank[x.place] - g.rank[y.place]; c != 0 {
		return int(c)
	}
	return int(x.kind) - int(y.kind)
}

// nameCircle records one strongly connected component, whose vertices are in order.
func (g *Graph) nameCircle(knot []int32) {
	number := int32(len(g.circles) + 1)
	member := make(map[int32]bool, len(knot))
	var first int32
	for _, v := range knot {
		member[v] = true
		if g.nodes[v].kind == leaf {
			g.nodes[v].circle = number
			if first == 0 {
				first = v
			}
		}
	}
	steps := g.declared(g.shortest(first, member))
	c := circle{path: g.path(steps)}
	named := map[string]bool{}
	for _, s := range steps {
		id := g.list[s.from].ID
		named[id] = true
		c.tasks = append(c.tasks, id)
	}
	var others []string
	for _, v := range knot {
		if id := g.list[g.nodes[v].place].ID; g.nodes[v].kind == leaf && !named[id] {
			others = append(others, id)
		}
	}
	c.tasks = append(c.tasks, others...)
	g.circles = append(g.circles, c)
	also := ""
	if len(others) > 0 {
		also = "; in the same knot: " + enumerate(others)
	}
	g.problem("cycle", c.tasks, "tasks that depend on each other: %s%s", c.path, also)
}

// shortest returns the shortest way from a vertex through its dependencies back to it; of several, the one of the lowest ids.
func (g *Graph) shortest(start int32, member map[int32]bool) []int32 {
	from := map[int32]int32{}
	queue := []int32{start}
	for k := 0; ; k++ {
		v := queue[k]
		next := slices.Clone(g.pred.of(v))
		slices.SortFunc(next, g.compare)
		for _, p := range next {
			if p == start {
				way := []int32{v}
				for v != start {
					v = from[v]
					way = append(way, v)
				}
				slices.Reverse(way)
				return way
			}
			if _, met := from[p]; member[p] && !met {
				from[p] = v
				queue = append(queue, p)
			}
		}
	}
}

// step is one dependency as it is written in the list, by places.
type step struct{ from, to int32 }

// declared drops the steps between a container and its parts from a way around a cycle, and begins with the lowest id.
func (g *Graph) declared(way []int32) []step {
	var steps []step
	for k, v := range way {
		a, b := g.nodes[v].place, g.nodes[way[(k+1)%len(way)]].place
		if a != b && g.parent[a] != b && g.parent[b] != a {
			steps = append(steps, step{a, b})
		}
	}
	lowest := 0
	for k := range steps {
		if g.rank[steps[k].from] < g.rank[steps[lowest].from] {
			lowest = k
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
		case g.ancestor(s.to, next):
			fmt.Fprintf(&b, " -> %s (its %s)", to, on)
		default:
			fmt.Fprintf(&b, " -> %s (part of %s)", to, on)
		}
	}
	return b.String()
}
