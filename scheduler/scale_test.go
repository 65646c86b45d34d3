package scheduler

import (
	"fmt"
	"testing"

	"descartes/tasks"

	"github.com/dominikbraun/graph"
)

// TestHostileShapes: lists that would take minutes if anything were quadratic or recursive.
func TestHostileShapes(t *testing.T) {
	t.Parallel()
	const n = 20_000
	shapes := map[string]func(i int, task *tasks.Task){
		"a family as deep as the list": func(i int, task *tasks.Task) {
			if i > 0 {
				task.Parent = fmt.Sprint(i - 1)
			}
			task.DependsOn = []string{"0", fmt.Sprint(i + 1), fmt.Sprint(i / 2)}
		},
		"a deep family of containers with one leaf each": func(i int, task *tasks.Task) {
			if i > 0 {
				task.Parent = fmt.Sprint((i - 1) / 2 * 2)
			}
			task.Status = tasks.Done
		},
		"half of the list depends on a container of the other half": func(i int, task *tasks.Task) {
			if i > 1 && i%2 == 0 {
				task.Parent = "0"
			}
			if i%2 == 1 {
				task.DependsOn = []string{"0"}
			}
		},
		"everything depends on one": func(i int, task *tasks.Task) {
			if i > 0 {
				task.DependsOn = []string{"0"}
			}
		},
		"one depends on everything": func(i int, task *tasks.Task) {
			if i == 0 {
				for k := 1; k < n; k++ {
					task.DependsOn = append(task.DependsOn, fmt.Sprint(k))
				}
			}
		},
		"one circle of parents": func(i int, task *tasks.Task) { task.Parent = fmt.Sprint((i + 1) % n) },
		"one cycle":             func(i int, task *tasks.Task) { task.DependsOn = []string{fmt.Sprint((i + 1) % n)} },
		"many cycles":           func(i int, task *tasks.Task) { task.DependsOn = []string{fmt.Sprint(i ^ 1)} },
		"one id":                func(_ int, task *tasks.Task) { task.ID = "1" },
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := make([]tasks.Task, n)
			for i := range list {
				list[i] = tasks.Task{ID: fmt.Sprint(i), Status: tasks.Pending}
				shape(i, &list[i])
			}
			g := New(list, Options{})
			for _, w := range g.Waves() {
				for _, id := range w.Tasks {
					if g.Ready(id) {
						g.SetStatus(id, tasks.Done)
					}
				}
			}
			if c := g.Counts(); c.Pending > 0 {
				t.Errorf("after the last wave: %+v", c)
			}
		})
	}
}

// TestLibraryLosesTheZeroVertex documents why our vertices count from 1. If this fails, the library was mended and the reason is gone.
func TestLibraryLosesTheZeroVertex(t *testing.T) {
	t.Parallel()
	g := graph.New(graph.IntHash, graph.Directed())
	for v := range 2 {
		if err := g.AddVertex(v); err != nil {
			t.Fatal(err)
		}
	}
	for v := range 2 {
		if err := g.AddEdge(v, 1-v); err != nil {
			t.Fatal(err)
		}
	}
	wrong := 0
	for range 100 { // it depends on where the search begins, which is random
		components, err := graph.StronglyConnectedComponents(g)
		if err != nil {
			t.Fatal(err)
		}
		if len(components) != 1 || len(components[0]) != 2 {
			wrong++
		}
	}
	if wrong == 0 {
		t.Error("the cycle of vertices 0 and 1 was always found")
	}
}
