package scheduler

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"descartes/tasks"

	"github.com/dominikbraun/graph"
)

// Options are what a graph needs to know beyond its list.
type Options struct {
	// External returns the status of a task of another tag; ok is false if there is none. A nil External knows no
	// task.
	External func(tag, id string) (tasks.Status, bool)

	// ExternalErr says why External cannot know the tasks of a tag, nil if it can. It may be nil.
	ExternalErr func(tag string) error

	// OpenInDone makes open subtasks of a container that is marked done work to do. Otherwise they count as done with
	// it, as Task Master has it.
	OpenInDone bool

	// More holds dependencies beyond those of the list, for example from a plan: for each task, the tasks of the list
	// that it also waits for.
	More map[string][]string

	// InOrder says that the list has its author's order, as a plan does, which counts in place of the natural one: of
	// what may run the next one in it is next, by priority, and no task is in an earlier wave than those that come
	// before it so.
	InOrder bool
}

// Graph is the dependency graph over the leaves of one task list. It keeps the statuses of a run, beginning with those
// of the list. It is not safe for concurrent use.
//
// Inside, a leaf is one vertex, and a container is two: what its leaves wait for (in) and what waits for its leaves
// (out). So a dependency between containers is one edge, however many leaves they have. A task is known by its place
// in the list.
type Graph struct {
	list       []tasks.Task
	status     []tasks.Status
	index      map[string]int // id to place, the first task of an id
	duplicates map[int][]int  // first place of an id to the others
	order      []int          // first places in natural order of ids, or in that of the list
	rank       []int          // by place: position in order
	family     family
	in, out    []int // by place: vertices, the same for a leaf

	nodes      []node                // by vertex; vertex 0 is none
	lib        graph.Graph[int, int] // nil when New is done
	succ, pred [][]int
	sorted     []int // vertices, dependencies first; leaves on a cycle come before all others
	earliest   []int // by place: the first wave that a task may be in, nil for any
	waves      []Wave
	cycles     []cycle
	problems   []Problem
	added      []Dependency

	openInDone bool
	stale      bool // a status has changed since evaluate
	counts     Counts
}

type kind uint8

const (
	none kind = iota
	leaf
	containerIn
	containerOut
	externalTask // a task that is missing or of another tag
)

// node is a vertex. What follows from statuses is set by Graph.evaluate.
type node struct {
	kind    kind
	place   int        // of a task in the list
	outside *otherTask // of an externalTask
	doubled bool       // several tasks have the id, and not all of them are done
	cycle   int        // of a leaf: number of its cycle from 1, 0 for none
	wave    int

	covered   bool // a leaf in a container that is done
	satisfied bool // what depends on it may run as far as it is concerned
	waits     bool // something that it depends on is not satisfied
	holds     bool // it will not be satisfied in this run
	behind    bool // something that it depends on holds
	state     State
}

// otherTask is a dependency outside the list. It does not change during a run.
type otherTask struct {
	id     string
	status tasks.Status // "" for a missing one
	err    error        // why it cannot be looked up
}

// New builds the graph of a list. It never fails: what is wrong is in Problems, and holds the tasks concerned. The
// graph keeps the list, which must not change; statuses are copied.
func New(list []tasks.Task, opt Options) *Graph {
	g := &Graph{list: list, status: make([]tasks.Status, len(list)), index: make(map[string]int, len(list)),
		openInDone: opt.OpenInDone, stale: true, lib: graph.New(graph.IntHash, graph.Directed())}
	for i := range list {
		g.status[i] = list[i].Status
	}
	g.arrange(opt.InOrder)
	g.relate()
	g.number()
	g.connect(opt)
	g.Number(nil)
	if len(g.sorted) < len(g.nodes)-1 {
		g.findCycles()
		g.Number(nil)
	}
	if opt.InOrder {
		g.follow()
		g.Number(nil)
	}
	g.evaluate()
	g.reviewStatuses()
	g.sortProblems()
	g.lib = nil
	return g
}

// arrange finds the first task of each id and their order.
func (g *Graph) arrange(inOrder bool) {
	g.duplicates = map[int][]int{}
	for i := range g.list {
		id := g.list[i].ID
		if first, ok := g.index[id]; ok {
			g.duplicates[first] = append(g.duplicates[first], i)
			continue
		}
		g.index[id] = i
		g.order = append(g.order, i)
	}
	if !inOrder {
		slices.SortFunc(g.order, func(a, b int) int { return tasks.CompareIDs(g.list[a].ID, g.list[b].ID) })
	}
	g.rank = make([]int, len(g.list))
	for r, i := range g.order {
		g.rank[i] = r
	}
}

// family is which task contains which.
type family struct {
	parent   []int   // by place, -1 for none
	children [][]int // by place
	depth    []int   // by place
	inward   []int   // first places, each container before what is in it
}

// relate finds each task's container. Package tasks reads no circle of parents.
func (g *Graph) relate() {
	f := family{parent: slices.Repeat([]int{-1}, len(g.list)), children: make([][]int, len(g.list)),
		depth: make([]int, len(g.list))}
	for _, i := range g.order {
		if p, ok := g.index[g.list[i].Parent]; ok {
			f.parent[i], f.children[p] = p, append(f.children[p], i)
		} else {
			f.inward = append(f.inward, i)
		}
	}
	for k := 0; k < len(f.inward); k++ {
		for _, c := range f.children[f.inward[k]] {
			f.depth[c] = f.depth[f.inward[k]] + 1
			f.inward = append(f.inward, c)
		}
	}
	g.family = f
}

// contains reports whether a is a container around b.
func (f *family) contains(a, b int) bool {
	for f.depth[b] > f.depth[a] {
		if b = f.parent[b]; b == a {
			return true
		}
	}
	return false
}

// number gives every task its vertices.
func (g *Graph) number() {
	g.in, g.out = make([]int, len(g.list)), make([]int, len(g.list))
	g.nodes = make([]node, 1, len(g.list)+2)
	for _, i := range g.order {
		doubled := len(g.duplicates[i]) > 0 && g.reviewDuplicates(i)
		if len(g.family.children[i]) == 0 {
			g.in[i] = g.vertex(node{kind: leaf, place: i, doubled: doubled})
			g.out[i] = g.in[i]
			continue
		}
		g.in[i] = g.vertex(node{kind: containerIn, place: i, doubled: doubled})
		g.out[i] = g.vertex(node{kind: containerOut, place: i})
	}
}

func (g *Graph) vertex(n node) int {
	g.nodes = append(g.nodes, n)
	must(g.lib.AddVertex(len(g.nodes) - 1))
	return len(g.nodes) - 1
}

// Dependency is one edge: a task, and what it waits for.
type Dependency struct {
	Task string `json:"task"`
	On   string `json:"on"`
}

// Added returns the dependencies that Options.More brought, in natural order of their tasks.
func (g *Graph) Added() []Dependency { return g.added }

// connect gives the library's graph its edges, from what is depended on to what depends on it, and takes from it the
// neighbours of each vertex.
func (g *Graph) connect(opt Options) {
	outsiders := map[string]int{}
	for _, i := range g.order {
		if p := g.family.parent[i]; p >= 0 {
			g.edge(g.in[p], g.in[i])
			g.edge(g.out[i], g.out[p])
		}
		for _, id := range g.list[i].DependsOn {
			if j, ok := g.index[id]; ok {
				if g.sensible(i, j) {
					g.edge(g.out[j], g.in[i])
				}
				continue
			}
			v, ok := outsiders[id]
			if !ok {
				v = g.vertex(node{kind: externalTask, outside: lookUp(id, opt)})
				outsiders[id] = v
			}
			g.edge(v, g.in[i])
			if other := g.nodes[v].outside; other.status == "" {
				g.problem("missing", []string{g.list[i].ID}, "task %s depends on %s, which %s", g.list[i].ID, id,
					other.because())
			}
		}
		for _, j := range g.extra(i, opt.More) {
			g.edge(g.out[j], g.in[i])
		}
	}
	before, err := g.lib.PredecessorMap()
	must(err)
	after, err := g.lib.AdjacencyMap()
	must(err)
	g.pred, g.succ = make([][]int, len(g.nodes)), make([][]int, len(g.nodes))
	for v := 1; v < len(g.nodes); v++ {
		g.pred[v], g.succ[v] = slices.Sorted(maps.Keys(before[v])), slices.Sorted(maps.Keys(after[v]))
	}
}

// edge adds an edge that may be there already: a list may name a dependency twice.
func (g *Graph) edge(from, to int) {
	if err := g.lib.AddEdge(from, to); !errors.Is(err, graph.ErrEdgeAlreadyExists) {
		must(err)
	}
}

// must is for errors of the library that no list can bring about: each edge joins vertices that it has.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// extra returns the tasks that task i waits for by more and not by the list, and notes them as added.
func (g *Graph) extra(i int, more map[string][]string) []int {
	task := &g.list[i]
	var places []int
	for _, id := range more[task.ID] {
		if j, ok := g.index[id]; ok && !slices.Contains(task.DependsOn, id) && !slices.Contains(places, j) &&
			g.sensible(i, j) {
			places = append(places, j)
			g.added = append(g.added, Dependency{task.ID, id})
		}
	}
	return places
}

// sensible reports whether task i can depend on task j of the list; if not, the dependency is a problem and no edge.
func (g *Graph) sensible(i, j int) bool {
	a, b := g.list[i].ID, g.list[j].ID
	switch {
	case i == j:
		g.problem("self", []string{a}, "task %s depends on itself: ignored", a)
	case g.family.contains(j, i):
		g.problem("ancestor", []string{a, b}, "task %s depends on task %s, which contains it: ignored", a, b)
	case g.family.contains(i, j):
		g.problem("ancestor", []string{a, b}, "task %s depends on its own subtask %s: ignored", a, b)
	default:
		return true
	}
	return false
}

// because says why what depends on it has to wait.
func (o *otherTask) because() string {
	switch {
	case o.err != nil:
		return fmt.Sprintf("cannot be looked up: %v", o.err)
	case o.status == "":
		return "does not exist"
	}
	return "of another tag is " + string(o.status)
}

// lookUp finds out about an id that is not in the list.
func lookUp(id string, opt Options) *otherTask {
	other := &otherTask{id: id}
	if tag, rest, ok := strings.Cut(id, ":"); ok && opt.External != nil {
		if status, known := opt.External(tag, rest); known {
			other.status = status
			if status == "" {
				other.status = tasks.Pending
			}
		} else if opt.ExternalErr != nil {
			other.err = opt.ExternalErr(tag)
		}
	}
	return other
}

// Wave is all leaves at one depth: each depends on at least one of the wave before, and on none of its own or a later
// one.
type Wave struct {
	Number int      // from 1
	Tasks  []string // in natural order, or in that of the list
}

// Waves returns the waves over all leaves, done ones included, so that numbers do not change during or between runs.
// Leaves on a cycle are in none; dependencies on them and on tasks outside the list do not count for the depth.
func (g *Graph) Waves() []Wave { return g.waves }

// Wave returns the number of a leaf's wave; 0 for a container, for a leaf on a cycle and for an unknown id.
func (g *Graph) Wave(id string) int {
	n, ok := g.leaf(id)
	if !ok {
		return 0
	}
	return n.wave
}

// leaf returns the vertex of a task that can run.
func (g *Graph) leaf(id string) (*node, bool) {
	i, ok := g.index[id]
	if !ok || g.in[i] != g.out[i] {
		return nil, false
	}
	return &g.nodes[g.in[i]], true
}

// Number numbers the waves anew: a leaf's wave is at least least[id], and still after those of all that it depends on.
// A wave may then be empty.
//
// It sorts the vertices, dependencies first, and puts every leaf that is on no cycle into its wave. Every cycle has a
// leaf, and cycles are cut at their leaves, once they are known: until then what is on or behind a cycle is left out.
func (g *Graph) Number(least map[string]int) {
	g.sorted, g.waves = make([]int, 0, len(g.nodes)), nil
	open := make([]int, len(g.nodes)) // predecessors still to come
	for v := 1; v < len(g.nodes); v++ {
		n := &g.nodes[v]
		open[v], n.wave = len(g.pred[v]), 0
		if n.cycle > 0 {
			g.sorted = append(g.sorted, v)
		}
	}
	for v := 1; v < len(g.nodes); v++ {
		if open[v] == 0 && g.nodes[v].cycle == 0 {
			g.sorted = append(g.sorted, v)
		}
	}
	for k := 0; k < len(g.sorted); k++ {
		n := &g.nodes[g.sorted[k]]
		if n.kind == leaf && n.cycle == 0 { // until now the deepest wave before it
			n.wave = max(n.wave+1, least[g.list[n.place].ID])
			if g.earliest != nil {
				n.wave = max(n.wave, g.earliest[n.place])
			}
		}
		for _, s := range g.succ[g.sorted[k]] {
			if open[s]--; g.nodes[s].cycle > 0 {
				continue
			}
			g.nodes[s].wave = max(g.nodes[s].wave, n.wave)
			if open[s] == 0 {
				g.sorted = append(g.sorted, s)
			}
		}
	}
	for _, i := range g.order {
		n := &g.nodes[g.in[i]]
		if n.kind != leaf || n.wave == 0 {
			continue
		}
		for len(g.waves) < n.wave {
			g.waves = append(g.waves, Wave{Number: len(g.waves) + 1})
		}
		g.waves[n.wave-1].Tasks = append(g.waves[n.wave-1].Tasks, g.list[i].ID)
	}
}

// follow finds the earliest wave of each leaf of a list that has its author's order. One lane takes the most urgent of
// what may run, the first of these in the list, and a wave begins where that depends on one of the wave at hand.
func (g *Graph) follow() {
	g.earliest = make([]int, len(g.list))
	open, wave := make([]int, len(g.nodes)), make([]int, len(g.nodes))
	var free, ready []int // vertices with nothing open before them; the leaves of these, the next one last
	for v := 1; v < len(g.nodes); v++ {
		if open[v] = len(g.pred[v]); open[v] == 0 || g.nodes[v].cycle > 0 {
			free = append(free, v)
		}
	}
	later := func(a, b int) int {
		x, y := &g.list[g.nodes[a].place], &g.list[g.nodes[b].place]
		return cmp.Or(PriorityOf(y.Priority)-PriorityOf(x.Priority), g.nodes[b].place-g.nodes[a].place)
	}
	for now := 0; len(free)+len(ready) > 0; {
		v := 0
		if last := len(free) - 1; last >= 0 {
			v, free = free[last], free[:last]
			if n := &g.nodes[v]; n.kind == leaf && n.cycle == 0 {
				at, _ := slices.BinarySearchFunc(ready, v, later)
				ready = slices.Insert(ready, at, v)
				continue
			}
		} else {
			last = len(ready) - 1
			v, ready = ready[last], ready[:last]
			now = max(now, wave[v]+1)
			wave[v], g.earliest[g.nodes[v].place] = now, now
		}
		for _, s := range g.succ[v] {
			if open[s]--; g.nodes[s].cycle > 0 {
				continue
			}
			if wave[s] = max(wave[s], wave[v]); open[s] == 0 {
				free = append(free, s)
			}
		}
	}
}

// Earliest is the first wave that the order of the list lets a task be in, 0 for any.
func (g *Graph) Earliest(id string) int {
	if i, ok := g.index[id]; ok && g.earliest != nil {
		return g.earliest[i]
	}
	return 0
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
	ids := make([]string, 0, len(g.order))
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
	for up := g.family.parent[i]; up >= 0; up = g.family.parent[up] {
		around = append(around, g.list[up])
	}
	slices.Reverse(around)
	return around
}

// Deps returns the leaves that a task depends on directly, itself or through the containers around it; where it
// depends on a container, its leaves. In natural order, without missing tasks and tasks of other tags.
func (g *Graph) Deps(id string) []string {
	i, ok := g.index[id]
	if !ok {
		return nil
	}
	return g.ids(g.leavesBefore(g.in[i], nil))
}

// walk goes from v where next leads, by each vertex once, and returns those that visit finds; it goes on behind those
// where visit says so.
func walk(v int, next [][]int, visit func(v int) (found, on bool)) (list []int) {
	met := map[int]bool{}
	for stack := []int{v}; len(stack) > 0; {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, n := range next[top] {
			if met[n] {
				continue
			}
			met[n] = true
			found, on := visit(n)
			if found {
				list = append(list, n)
			}
			if on {
				stack = append(stack, n)
			}
		}
	}
	return list
}

// leavesBefore returns the places of the leaves before a vertex that match, walking through containers that match; a
// nil match is all.
func (g *Graph) leavesBefore(v int, match func(*node) bool) (places []int) {
	walk(v, g.pred, func(p int) (found, on bool) {
		n := &g.nodes[p]
		ok := match == nil || match(n)
		if ok && n.kind == leaf {
			places = append(places, n.place)
		}
		return false, ok && (n.kind == containerIn || n.kind == containerOut)
	})
	return places
}

// ids sorts places and names them.
func (g *Graph) ids(places []int) []string {
	slices.SortFunc(places, func(a, b int) int { return g.rank[a] - g.rank[b] })
	names := make([]string, len(places))
	for k, i := range places {
		names[k] = g.list[i].ID
	}
	return names
}
