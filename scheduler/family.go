package scheduler

import "descartes/tasks"

// relate finds each task's container. Lists that were read by package tasks agree with themselves; others are made to.
func (g *Graph) relate() {
	g.parent = make([]int32, len(g.list))
	for i := range g.parent {
		g.parent[i] = -1
	}
	for _, i := range g.order {
		if p, ok := g.index[g.list[i].Parent]; ok && p != i {
			g.parent[i] = p
		}
	}
	for _, i := range g.order {
		for _, id := range g.list[i].Children {
			if c, ok := g.index[id]; ok && c != i && g.parent[c] < 0 {
				g.parent[c] = i
			}
		}
	}
	done := make([]int32, len(g.list)) // by place: the walk that came by, 0 for none
	for w, i := range g.order {
		walk := int32(w + 1)
		k := i
		for k >= 0 && done[k] == 0 {
			done[k] = walk
			k = g.parent[k]
		}
		if k >= 0 && done[k] == walk {
			k = g.lowestAncestor(k)
			g.problem("ancestor", []string{g.list[k].ID}, "task %s is among its own ancestors, it is taken as a task without parent", g.list[k].ID)
			g.parent[k] = -1
		}
	}
}

// lowestAncestor returns the task of the lowest id on the circle of parents that k is on.
func (g *Graph) lowestAncestor(k int32) int32 {
	lowest := k
	for up := g.parent[k]; up != k; up = g.parent[up] {
		if g.rank[up] < g.rank[lowest] {
			lowest = up
		}
	}
	return lowest
}

// tour walks over all families, so that ancestor needs no walk of its own: families may be as deep as the list is long.
func (g *Graph) tour() {
	n := len(g.list)
	next, child := make([]int32, n), make([]int32, n) // sibling and first child, -1 for none
	for i := range n {
		next[i], child[i] = -1, -1
	}
	for _, i := range g.order {
		if p := g.parent[i]; p >= 0 {
			next[i], child[p] = child[p], i
		}
	}
	g.enter, g.leave, g.inward = make([]int32, n), make([]int32, n), make([]int32, 0, n)
	var clock int32
	for _, top := range g.order {
		if g.parent[top] >= 0 {
			continue
		}
		for i := top; i >= 0; {
			g.enter[i] = clock
			g.inward = append(g.inward, i)
			clock++
			if child[i] >= 0 {
				i = child[i]
				continue
			}
			for i >= 0 {
				g.leave[i] = clock
				if next[i] >= 0 {
					i = next[i]
					break
				}
				i = g.parent[i]
			}
		}
	}
}

// ancestor reports whether a is a container around b.
func (g *Graph) ancestor(a, b int32) bool {
	return a != b && g.enter[a] <= g.enter[b] && g.enter[b] < g.leave[a]
}

// cover finds the leaves in containers that are done. It returns the vertices of those for which that is new.
func (g *Graph) cover() []int32 {
	covered := make([]bool, len(g.list))
	g.covered = covered
	if g.open {
		return nil
	}
	var changed []int32
	for _, i := range g.inward {
		if p := g.parent[i]; p >= 0 {
			covered[i] = covered[p] || g.status[p] == tasks.Done && !g.nodes[g.in[p]].doubled
		}
		if n := &g.nodes[g.in[i]]; n.kind == leaf && n.covered != covered[i] {
			n.covered = covered[i]
			changed = append(changed, g.in[i])
		}
	}
	return changed
}

// doneAround is the container that is done around a covered leaf, the innermost of several.
func (g *Graph) doneAround(i int32) string {
	up := g.parent[i]
	for g.status[up] != tasks.Done {
		up = g.parent[up]
	}
	return g.list[up].ID
}
