package scheduler

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"descartes/tasks"
)

// Held returns the root causes that keep a leaf from ever becoming ready in this run: ids of tasks that are blocked, deferred, on a
// cycle and so on, of missing tasks, of tasks of other tags. It is false unless the state of the leaf is held.
func (g *Graph) Held(id string) (root []string, held bool) {
	i, ok := g.index[id]
	if !ok {
		return nil, false
	}
	v := g.in[i]
	n := &g.nodes[v]
	if n.kind != leaf || n.state != isHeld {
		return nil, false
	}
	if n.circle > 0 {
		return slices.Clone(g.circles[n.circle-1].tasks), true
	}
	if n.doubled {
		return []string{id}, true
	}
	for _, r := range g.rootsOf(v) {
		root = append(root, g.name(r))
	}
	return root, true
}

// name returns the id that a vertex stands for.
func (g *Graph) name(v int32) string {
	n := &g.nodes[v]
	if n.kind == outsider {
		return g.ghosts[n.place].id
	}
	return g.list[n.place].ID
}

// rootsOf returns the vertices that hold v by themselves, in natural order of their ids. They are found for all vertices at once,
// in one pass over the graph, and kept until a status changes: of several tasks in a row, each shares the list of the one before.
func (g *Graph) rootsOf(v int32) []int32 {
	if g.roots == nil {
		g.roots = make([][]int32, len(g.nodes))
		g.causes, g.seed = map[uint64][][]int32{}, maphash.MakeSeed()
		for _, u := range g.sorted {
			if g.nodes[u].holding > 0 {
				g.roots[u] = g.gather(u)
			}
		}
	}
	return g.roots[v]
}

// gather joins the root causes of what v depends on. Vertices with the same causes share one list, which is looked at once: tasks that
// depend on each of many held ones would else take time for all their causes together.
func (g *Graph) gather(v int32) []int32 {
	if g.seen == nil {
		g.seen = make([]int32, len(g.nodes))
	}
	g.walk++
	var all, own []int32
	var lists [][]int32
	for _, p := range g.pred.of(v) {
		if !g.nodes[p].holds {
			continue
		}
		if g.isRoot(p) {
			own = append(own, p)
		} else if r := g.roots[p]; len(r) > 0 && !slices.ContainsFunc(lists[max(0, len(lists)-8):], func(l []int32) bool { return &l[0] == &r[0] }) {
			lists = append(lists, r)
		}
	}
	if len(own) == 0 && len(lists) == 1 {
		return lists[0]
	}
	for _, list := range append(lists, own) {
		for _, r := range list {
			if g.seen[r] != g.walk {
				g.seen[r] = g.walk
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, g.compareNames)
	return g.shared(all)
}

// shared is the list with the same causes that some vertex has, or this one.
func (g *Graph) shared(list []int32) []int32 {
	h := maphash.Hash{}
	h.SetSeed(g.seed)
	for _, r := range list {
		_, _ = h.Write([]byte{byte(r), byte(r >> 8), byte(r >> 16), byte(r >> 24)})
	}
	sum := h.Sum64()
	for _, l := range g.causes[sum] {
		if slices.Equal(l, list) {
			return l
		}
	}
	g.causes[sum] = append(g.causes[sum], list)
	return list
}

func (g *Graph) compareNames(a, b int32) int {
	if g.nodes[a].kind == outsider || g.nodes[b].kind == outsider {
		return tasks.CompareIDs(g.name(a), g.name(b))
	}
	return g.compare(a, b)
}

// isRoot reports whether a vertex that holds does so by itself, not because of what it depends on.
func (g *Graph) isRoot(v int32) bool {
	n := &g.nodes[v]
	switch n.kind {
	case leaf:
		return n.circle > 0 || n.doubled || n.state != isHeld
	case containerIn:
		return off(g.status[n.place]) || n.doubled
	case outsider:
		return true
	}
	return false
}

// heldBecause says in words what holds a leaf.
func (g *Graph) heldBecause(v int32) string {
	if c := g.nodes[v].circle; c > 0 {
		return "on a cycle: " + g.circles[c-1].path
	}
	if g.nodes[v].doubled {
		return "its id is given " + times(1+len(g.twins[g.nodes[v].place]))
	}
	const most = 3
	roots := g.rootsOf(v)
	var reasons []string
	for _, r := range roots[:min(len(roots), most)] {
		reasons = append(reasons, g.because(r))
	}
	if len(roots) > most {
		reasons = append(reasons, fmt.Sprintf("and %d more", len(roots)-most))
	}
	return strings.Join(reasons, ", ")
}

func (g *Graph) because(root int32) string {
	n := &g.nodes[root]
	switch {
	case n.kind == outsider && g.ghosts[n.place].err != nil:
		return fmt.Sprintf("task %s cannot be looked up: %v", g.name(root), g.ghosts[n.place].err)
	case n.kind == outsider && g.ghosts[n.place].status == "":
		return fmt.Sprintf("task %s does not exist", g.name(root))
	case n.kind == outsider:
		return fmt.Sprintf("task %s of another tag is %s", g.name(root), g.ghosts[n.place].status)
	case n.circle > 0:
		return fmt.Sprintf("task %s is on a cycle", g.name(root))
	case n.doubled:
		return fmt.Sprintf("the id %s is given %s", g.name(root), times(1+len(g.twins[n.place])))
	}
	return fmt.Sprintf("task %s is %s", g.name(root), g.status[n.place])
}
