// Package scheduler owns the graph of a task list: what is wrong with it, its waves, what is ready, and what is held by which root
// cause. It runs nothing.
package scheduler

import (
	"hash/maphash"
	"slices"

	"descartes/tasks"
)

// Options are what a graph needs to know beyond its list.
type Options struct {
	// External returns the status of a task of another tag, and false if there is none. A nil External knows no task.
	External func(tag, id string) (tasks.Status, bool)

	// ExternalErr says why External cannot know the tasks of a tag, nil if it can. It may be nil.
	ExternalErr func(tag string) error

	// OpenInDone makes open subtasks of a container that is marked done work to do. Otherwise they count as done with it, as
	// Task Master has it.
	OpenInDone bool

	// More holds dependencies beyond those of the list, as a plan states them: by task, the tasks of the list that it waits for too.
	More map[string][]string
}

// Graph is the dependency graph over the leaves of one task list. It keeps the statuses of a run, beginning with those of the list.
// It is not safe for concurrent use.
//
// Inside, a leaf is one vertex, and a container is two: what its leaves wait for (in) and what waits for its leaves (out). So a
// dependency between containers is one edge, however many leaves they have.
type Graph struct {
	list    []tasks.Task
	status  []tasks.Status
	index   map[string]int32  // id to place in list, first one wins
	parent  []int32           // by place, -1 for none
	enter   []int32           // by place: position in a walk over all families, each container before what is in it
	leave   []int32           // by place: one past the last position of what is in it
	twins   map[int32][]int32 // place of an id's first task to those of the others
	inward  []int32           // places without duplicates, each container before what is in it
	rank    []int32           // by place: position in natural order of ids
	covered []bool            // by place: in a container that is done
	order   []int32           // places in natural order, without duplicates
	in      []int32           // by place: vertex; in == out for a leaf, 0 for a duplicate
	out     []int32

	nodes   []node // by vertex; vertex 0 is none
	ghosts  []ghost
	succ    adjacency
	pred    adjacency
	sorted  []int32 // vertices, dependencies first; leaves on a cycle come before all others
	leaves  int
	open    bool // Options.OpenInDone
	waves   []Wave
	circles []circle

	problems []Problem
	added    []Dependency
	counts   [stateKinds]int
	roots    [][]int32            // by vertex: root causes that hold it; nil when they must be found again
	causes   map[uint64][][]int32 // the lists in roots, by a hash with seed
	seed     maphash.Seed
	seen     []int32 // by vertex: the last walk that met it
	walk     int32
}

type kind uint8

const (
	none kind = iota
	leaf
	containerIn
	containerOut
	outsider // a task that is missing or of another tag
)

// node is a vertex with its state. It is satisfied when what depends on it may run as far as it is concerned, and it holds when
// that will not happen in this run.
type node struct {
	kind      kind
	satisfied bool
	holds     bool
	covered   bool      // a leaf in a container that is done
	state     stateKind // of a leaf
	place     int32     // in list, or in ghosts for an outsider
	doubled   bool      // several tasks have the id, and not all of them are done
	circle    int32     // of a leaf: number of its cycle from 1, 0 for none
	wave      int32
	unready   int32 // predecessors that are not satisfied
	holding   int32 // predecessors that hold
}

// ghost is a dependency outside the list. It does not change during a run.
type ghost struct {
	id     string
	status tasks.Status // "" for a missing one
	err    error        // why it cannot be looked up
}

// adjacency is a list of neighbours for each vertex, end to end in one slice.
type adjacency struct{ from, to []int32 }

func (a *adjacency) of(v int32) []int32 { return a.to[a.from[v]:a.from[v+1]] }

// New builds the graph of a list. It never fails: what is wrong is in Problems, and holds the tasks concerned. The graph keeps the
// list, which must not change; statuses are copied.
func New(list []tasks.Task, opt Options) *Graph {
	g := &Graph{list: list, status: make([]tasks.Status, len(list)), index: make(map[string]int32, len(list)), open: opt.OpenInDone}
	for i := range list {
		g.status[i] = list[i].Status
	}
	g.arrange()
	g.relate()
	g.tour()
	g.number()
	edges := g.connect(opt)
	g.layer(edges)
	g.cover()
	g.evaluate()
	g.reviewStatuses()
	sortProblems(g.problems)
	g.problems = slices.CompactFunc(g.problems, func(a, b Problem) bool { return a.Kind == b.Kind && a.Message == b.Message })
	return g
}

// arrange finds the first task of each id and the natural order.
func (g *Graph) arrange() {
	g.order = make([]int32, 0, len(g.list))
	for i := range g.list {
		id := g.list[i].ID
		if first, ok := g.index[id]; ok {
			if g.twins == nil {
				g.twins = map[int32][]int32{}
			}
			g.twins[first] = append(g.twins[first], int32(i))
			continue
		}
		g.index[id] = int32(i)
		g.order = append(g.order, int32(i))
	}
	byID := func(a, b int32) int { return tasks.CompareIDs(g.list[a].ID, g.list[b].ID) }
	if !slices.IsSortedFunc(g.order, byID) {
		slices.SortFunc(g.order, byID)
	}
	g.rank = make([]int32, len(g.list))
	for r, i := range g.order {
		g.rank[i] = int32(r)
	}
}

// number gives every task its vertices.
func (g *Graph) number() {
	container := make([]bool, len(g.list))
	for _, p := range g.parent {
		if p >= 0 {
			container[p] = true
		}
	}
	g.in, g.out = make([]int32, len(g.list)), make([]int32, len(g.list))
	// Vertices count from 1: 0 is none.
	g.nodes = make([]node, 1, len(g.list)+2)
	for _, i := range g.order {
		doubled := g.doubled(i)
		if !container[i] {
			g.in[i] = g.vertex(node{kind: leaf, place: i, doubled: doubled})
			g.out[i] = g.in[i]
			g.leaves++
			continue
		}
		g.in[i] = g.vertex(node{kind: containerIn, place: i, doubled: doubled})
		g.out[i] = g.vertex(node{kind: containerOut, place: i})
	}
}

func (g *Graph) vertex(n node) int32 {
	g.nodes = append(g.nodes, n)
	return int32(len(g.nodes) - 1)
}

// Task returns the first task of that id.
func (g *Graph) Task(id string) (*tasks.Task, bool) {
	i, ok := g.index[id]
	if !ok {
		return nil, false
	}
	return &g.list[i], true
}

// Leaves returns the ids of all tasks that can run, in natural order.
func (g *Graph) Leaves() []string {
	ids := make([]string, 0, g.leaves)
	for _, i := range g.order {
		if g.in[i] == g.out[i] {
			ids = append(ids, g.list[i].ID)
		}
	}
	return ids
}

// Parents returns the containers around a task, outermost first.
func (g *Graph) Parents(id string) []tasks.Task {
	i, ok := g.index[id]
	if !ok {
		return nil
	}
	var around []tasks.Task
	for up := g.parent[i]; up >= 0; up = g.parent[up] {
		around = append(around, g.list[up])
	}
	slices.Reverse(around)
	return around
}

// Deps returns the leaves that a task depends on directly, itself or through the containers around it; where it depends on a
// container, its leaves. In natural order, without missing tasks and tasks of other tags.
func (g *Graph) Deps(id string) []string {
	i, ok := g.index[id]
	if !ok {
		return nil
	}
	return g.ids(g.behind(g.in[i], func(*node) bool { return true }))
}

// behind returns the leaves behind a vertex that match, walking through containers.
func (g *Graph) behind(v int32, match func(*node) bool) []int32 {
	if g.seen == nil {
		g.seen = make([]int32, len(g.nodes))
	}
	g.walk++
	stack := []int32{v}
	var places []int32
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, p := range g.pred.of(top) {
			n := &g.nodes[p]
			if g.seen[p] == g.walk || !match(n) {
				continue
			}
			g.seen[p] = g.walk
			switch n.kind {
			case leaf:
				places = append(places, n.place)
			case containerIn, containerOut:
				stack = append(stack, p)
			}
		}
	}
	return places
}

// ids sorts places and names them.
func (g *Graph) ids(places []int32) []string {
	slices.SortFunc(places, func(a, b int32) int { return int(g.rank[a] - g.rank[b]) })
	names := make([]string, len(places))
	for k, i := range places {
		names[k] = g.list[i].ID
	}
	return names
}
