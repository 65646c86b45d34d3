package scheduler

import (
	"github.com/dominikbraun/graph"
)

// Wave is all leaves at one depth: each depends on at least one of the wave before, and on none of its own or a later one.
type Wave struct {
	Number int      // from 1
	Tasks  []string // in natural order
}

// Waves returns the waves over all leaves, done ones included, so that numbers do not change during or between runs. Leaves on a
// cycle are in none; dependencies on them and on tasks outside the list do not count for the depth.
func (g *Graph) Waves() []Wave { return g.waves }

// Wave returns the number of a leaf's wave; 0 for a container, for a leaf on a cycle and for an unknown id.
func (g *Graph) Wave(id string) int {
	i, ok := g.index[id]
	if !ok || g.in[i] != g.out[i] {
		return 0
	}
	return int(g.nodes[g.in[i]].wave)
}

// layer turns the edges into adjacency lists, finds the cycles and puts every other leaf into its wave.
func (g *Graph) layer(edges []graph.Edge[int]) {
	g.succ = adjacent(len(g.nodes), edges, func(e *graph.Edge[int]) (int, int) { return e.Source, e.Target })
	g.pred = adjacent(len(g.nodes), edges, func(e *graph.Edge[int]) (int, int) { return e.Target, e.Source })
	if !g.kahn() {
		g.findCircles()
		if !g.kahn() {
			panic("scheduler: a cycle without its leaves")
		}
	}
	var deepest int32
	for v := range g.nodes {
		if g.nodes[v].kind == leaf {
			deepest = max(deepest, g.nodes[v].wave)
		}
	}
	g.waves = make([]Wave, deepest)
	for w := range g.waves {
		g.waves[w].Number = w + 1
	}
	for _, i := range g.order {
		if n := &g.nodes[g.in[i]]; n.kind == leaf && n.wave > 0 {
			wave := &g.waves[n.wave-1]
			wave.Tasks = append(wave.Tasks, g.list[i].ID)
		}
	}
}

func adjacent(vertices int, edges []graph.Edge[int], ends func(*graph.Edge[int]) (from, to int)) adjacency {
	a := adjacency{from: make([]int32, vertices+1), to: make([]int32, len(edges))}
	for k := range edges {
		from, _ := ends(&edges[k])
		a.from[from+1]++
	}
	for v := range vertices {
		a.from[v+1] += a.from[v]
	}
	next := make([]int32, vertices)
	copy(next, a.from)
	for k := range edges {
		from, to := ends(&edges[k])
		a.to[next[from]] = int32(to)
		next[from]++
	}
	return a
}

// kahn puts the vertices into g.sorted, dependencies first, and the waves into the nodes. It reports whether it met every vertex:
// not so while cycles are unknown. Every cycle has a leaf, and known cycles are cut at their leaves.
func (g *Graph) kahn() bool {
	open := make([]int32, len(g.nodes)) // predecessors still to come
	g.sorted = g.sorted[:0]
	for v := int32(1); v < int32(len(g.nodes)); v++ {
		open[v] = int32(len(g.pred.of(v)))
		g.nodes[v].wave = 0
		if g.nodes[v].circle > 0 {
			g.sorted = append(g.sorted, v)
		}
	}
	for v := int32(1); v < int32(len(g.nodes)); v++ {
		if open[v] == 0 && g.nodes[v].circle == 0 {
			g.sorted = append(g.sorted, v)
		}
	}
	for k := 0; k < len(g.sorted); k++ {
		v := g.sorted[k]
		n := &g.nodes[v]
		if n.kind == leaf && n.circle == 0 {
			n.wave++ // until now the deepest wave before it
		}
		for _, s := range g.succ.of(v) {
			g.nodes[s].wave = max(g.nodes[s].wave, n.wave)
			if open[s]--; open[s] == 0 && g.nodes[s].circle == 0 {
				g.sorted = append(g.sorted, s)
			}
		}
	}
	for _, v := range g.sorted {
		if g.nodes[v].circle > 0 {
			g.nodes[v].wave = 0
		}
	}
	return len(g.sorted) == len(g.nodes)-1
}
