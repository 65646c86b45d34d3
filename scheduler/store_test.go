package scheduler

import (
	"errors"
	"slices"
	"testing"

	"github.com/dominikbraun/graph"
	"pgregory.net/rapid"
)

// TestStoreEqualsTheLibrarys builds the same graph twice, one of its vertices with many neighbours.
func TestStoreEqualsTheLibrarys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		ours := graph.NewWithStore[int, int](graph.IntHash, newStore(n), graph.Directed())
		theirs := graph.New(graph.IntHash, graph.Directed())
		for v := range n {
			if err := errors.Join(ours.AddVertex(v+1), theirs.AddVertex(v+1)); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(0, 120).Draw(t, "edges") {
			from, to := rapid.IntRange(0, n+1).Draw(t, "from"), rapid.IntRange(0, n+1).Draw(t, "to")
			if rapid.Bool().Draw(t, "hub") {
				from = 1
			}
			a, b := ours.AddEdge(from, to), theirs.AddEdge(from, to)
			for _, known := range []error{nil, graph.ErrEdgeAlreadyExists, graph.ErrVertexNotFound} {
				if errors.Is(a, known) != errors.Is(b, known) {
					t.Fatalf("edge %d to %d: %v, want %v", from, to, a, b)
				}
			}
		}
		if err := ours.AddVertex(n); !errors.Is(err, graph.ErrVertexAlreadyExists) {
			t.Fatalf("vertex %d again: %v", n, err)
		}
		if got, want := pairs(t, ours), pairs(t, theirs); !slices.Equal(got, want) {
			t.Fatalf("edges %v, want %v", got, want)
		}
		order, _ := ours.Order()
		map1, err := ours.AdjacencyMap()
		if err != nil || order != n || len(map1) != n {
			t.Fatalf("%d vertices, %d in the map, %v, want %d", order, len(map1), err, n)
		}
	})
}

func pairs(t *rapid.T, g graph.Graph[int, int]) [][2]int {
	edges, err := g.Edges()
	if err != nil {
		t.Fatal(err)
	}
	list := make([][2]int, len(edges))
	for i, e := range edges {
		list[i] = [2]int{e.Source, e.Target}
	}
	slices.SortFunc(list, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	return list
}
