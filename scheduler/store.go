package scheduler

import "github.com/dominikbraun/graph"

// store keeps a dominikbraun graph of vertices 1 to n, added in that order, in slices. The library's own, of maps in maps, takes four
// times as long for 10,000 tasks and three times the memory. Properties are not kept, and nothing is ever removed.
type store struct {
	out   [][]int32
	wide  map[[2]int32]bool // the edges of vertices with more than wideFrom of them
	edges int
}

const wideFrom = 16

func newStore(vertices int) *store {
	return &store{out: make([][]int32, 1, vertices+1), wide: map[[2]int32]bool{}}
}

func (s *store) known(v int) bool { return v > 0 && v < len(s.out) }

func (s *store) AddVertex(v, _ int, _ graph.VertexProperties) error {
	if s.known(v) {
		return graph.ErrVertexAlreadyExists
	}
	if v != len(s.out) {
		panic("scheduler: vertices are added in order")
	}
	s.out = append(s.out, nil)
	return nil
}

func (s *store) Vertex(v int) (int, graph.VertexProperties, error) {
	if !s.known(v) {
		return 0, graph.VertexProperties{}, graph.ErrVertexNotFound
	}
	return v, graph.VertexProperties{}, nil
}

func (s *store) RemoveVertex(int) error { panic("scheduler: a vertex is removed") }

func (s *store) ListVertices() ([]int, error) {
	list := make([]int, 0, len(s.out))
	for v := 1; v < len(s.out); v++ {
		list = append(list, v)
	}
	return list, nil
}

func (s *store) VertexCount() (int, error) { return len(s.out) - 1, nil }

func (s *store) AddEdge(from, to int, _ graph.Edge[int]) error {
	list := append(s.out[from], int32(to))
	s.out[from] = list
	s.edges++
	switch {
	case len(list) == wideFrom+1:
		for _, t := range list {
			s.wide[[2]int32{int32(from), t}] = true
		}
	case len(list) > wideFrom:
		s.wide[[2]int32{int32(from), int32(to)}] = true
	}
	return nil
}

func (s *store) UpdateEdge(int, int, graph.Edge[int]) error { panic("scheduler: an edge is changed") }

func (s *store) RemoveEdge(int, int) error { panic("scheduler: an edge is removed") }

func (s *store) Edge(from, to int) (graph.Edge[int], error) {
	list := s.out[from]
	if len(list) > wideFrom {
		if s.wide[[2]int32{int32(from), int32(to)}] {
			return graph.Edge[int]{Source: from, Target: to}, nil
		}
		return graph.Edge[int]{}, graph.ErrEdgeNotFound
	}
	for _, t := range list {
		if t == int32(to) {
			return graph.Edge[int]{Source: from, Target: to}, nil
		}
	}
	return graph.Edge[int]{}, graph.ErrEdgeNotFound
}

func (s *store) ListEdges() ([]graph.Edge[int], error) {
	list := make([]graph.Edge[int], 0, s.edges)
	for from, targets := range s.out {
		for _, to := range targets {
			list = append(list, graph.Edge[int]{Source: from, Target: int(to)})
		}
	}
	return list, nil
}
