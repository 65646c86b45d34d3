package scheduler

import (
	"errors"
	"slices"
	"strings"

	"descartes/tasks"

	"github.com/dominikbraun/graph"
)

// connect adds all vertices and edges to a dominikbraun graph and returns its edges, each once: from what is depended on to what
// depends on it.
func (g *Graph) connect(opt Options) []graph.Edge[int] {
	lib := graph.NewWithStore[int, int](graph.IntHash, newStore(len(g.nodes)), graph.Directed())
	for v := 1; v < len(g.nodes); v++ {
		must(lib.AddVertex(v))
	}
	link := func(from, to int32) {
		// A dependency that is named twice is no problem.
		if err := lib.AddEdge(int(from), int(to)); err != nil && !errors.Is(err, graph.ErrEdgeAlreadyExists) {
			panic(err)
		}
	}
	outsiders := map[string]int32{}
	for _, i := range g.order {
		if p := g.parent[i]; p >= 0 {
			link(g.in[p], g.in[i])
			link(g.out[i], g.out[p])
		}
		var missing []string
		for _, id := range g.list[i].DependsOn {
			if j, ok := g.index[id]; ok {
				if g.sensible(i, j) {
					link(g.out[j], g.in[i])
				}
				continue
			}
			v, ok := outsiders[id]
			if !ok {
				v = g.outsider(id, opt)
				must(lib.AddVertex(int(v)))
				outsiders[id] = v
			}
			link(v, g.in[i])
			switch stranger := &g.ghosts[g.nodes[v].place]; {
			case stranger.err != nil:
				g.problem("missing", []string{g.list[i].ID}, "task %s depends on %s, which cannot be looked up: %v", g.list[i].ID, id, stranger.err)
			case stranger.status == "":
				missing = append(missing, id)
			}
		}
		g.reportMissing(i, missing)
		for _, j := range g.extra(i, opt.More) {
			link(g.out[j], g.in[i])
		}
	}
	edges, err := lib.Edges()
	must(err)
	return edges
}

// Dependency is one edge: a task, and what it waits for.
type Dependency struct {
	Task string `json:"task"`
	On   string `json:"on"`
}

// Added returns the dependencies that Options.More brought, in natural order of their tasks.
func (g *Graph) Added() []Dependency { return g.added }

// extra returns the tasks that task i waits for by more and not by the list, and notes them as added.
func (g *Graph) extra(i int32, more map[string][]string) []int32 {
	task := &g.list[i]
	var places []int32
	for _, id := range more[task.ID] {
		if j, ok := g.index[id]; ok && !slices.Contains(task.DependsOn, id) && !slices.Contains(places, j) && g.sensible(i, j) {
			places = append(places, j)
			g.added = append(g.added, Dependency{task.ID, id})
		}
	}
	return places
}

// must is for errors that the library documents for cases that cannot be here.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// sensible reports whether task i can depend on task j of the list; if not, the dependency is a problem and no edge.
func (g *Graph) sensible(i, j int32) bool {
	a, b := g.list[i].ID, g.list[j].ID
	switch {
	case i == j:
		g.problem("self", []string{a}, "task %s depends on itself, this is ignored", a)
	case g.ancestor(j, i):
		g.problem("ancestor", []string{a, b}, "task %s depends on task %s, which contains it, this is ignored", a, b)
	case g.ancestor(i, j):
		g.problem("ancestor", []string{a, b}, "task %s depends on its own subtask %s, this is ignored", a, b)
	default:
		return true
	}
	return false
}

// outsider makes a vertex of an id that is not in the list.
func (g *Graph) outsider(id string, opt Options) int32 {
	stranger := ghost{id: id}
	if tag, rest, ok := strings.Cut(id, ":"); ok && opt.External != nil {
		if status, known := opt.External(tag, rest); known {
			stranger.status = status
			if status == "" {
				stranger.status = tasks.Pending
			}
		} else if opt.ExternalErr != nil {
			stranger.err = opt.ExternalErr(tag)
		}
	}
	g.ghosts = append(g.ghosts, stranger)
	return g.vertex(node{kind: outsider, place: int32(len(g.ghosts) - 1)})
}

// reportMissing names what task i depends on in vain.
func (g *Graph) reportMissing(i int32, missing []string) {
	if len(missing) == 0 {
		return
	}
	verb := "which does not exist"
	if len(missing) > 1 {
		verb = "which do not exist"
	}
	g.problem("missing", []string{g.list[i].ID}, "task %s depends on %s, %s", g.list[i].ID, enumerate(missing), verb)
}
