package scheduler

import (
	"fmt"
	"strconv"
	"testing"

	"descartes/tasks"
)

// shapes are lists of n tasks that would take minutes if anything were quadratic or recursive.
func shapes(n int) map[string][]tasks.Task {
	made := map[string][]tasks.Task{}
	for name, shape := range map[string]func(i int, task *tasks.Task){
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
		"one cycle":   func(i int, task *tasks.Task) { task.DependsOn = []string{fmt.Sprint((i + 1) % n)} },
		"many cycles": func(i int, task *tasks.Task) { task.DependsOn = []string{fmt.Sprint(i ^ 1)} },
		"one id":      func(_ int, task *tasks.Task) { task.ID = "1" },
	} {
		list := make([]tasks.Task, n)
		for i := range list {
			list[i] = tasks.Task{ID: fmt.Sprint(i), Status: tasks.Pending}
			shape(i, &list[i])
		}
		made[name] = list
	}
	return made
}

// complete runs a list to its end.
func complete(t testing.TB, list []tasks.Task) {
	g := New(list, Options{})
	for _, w := range g.Waves()[:min(100, len(g.Waves()))] {
		if id := w.Tasks[0]; g.Ready(id) {
			g.SetStatus(id, tasks.Done)
		}
		g.State(w.Tasks[len(w.Tasks)-1])
	}
	for _, id := range g.Leaves() {
		g.SetStatus(id, tasks.Done)
	}
	if c := g.Counts(); c.Pending > 0 {
		t.Errorf("when all is done: %+v", c)
	}
}

func TestShapes(t *testing.T) {
	t.Parallel()
	for _, list := range shapes(100) {
		complete(t, list)
	}
}

func BenchmarkShapes(b *testing.B) {
	for name, list := range shapes(20_000) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				complete(b, list)
			}
		})
	}
}

// Hundreds of tasks with hundreds of causes each are no trouble, nor is a knot in which each task depends on all others.
func TestDenseGraphs(t *testing.T) {
	t.Parallel()
	var list []tasks.Task
	for i := range 300 {
		task := tasks.Task{ID: strconv.Itoa(i), Status: tasks.Pending}
		from, to := 0, 0
		switch {
		case i < 100:
			task.Status = tasks.Blocked
		case i < 200:
			to = 100
		default:
			from, to = 100, 200
		}
		for on := from; on < to; on++ {
			task.DependsOn = append(task.DependsOn, strconv.Itoa(on))
		}
		list = append(list, task)
	}
	g := New(list, Options{})
	if root, held := g.Held("299"); !held || len(root) != 100 {
		t.Fatalf("%d causes, %v, want 100", len(root), held)
	}

	var knot []tasks.Task
	for i := range 60 {
		task := tasks.Task{ID: strconv.Itoa(i), Status: tasks.Pending}
		for on := range 60 {
			if on != i {
				task.DependsOn = append(task.DependsOn, strconv.Itoa(on))
			}
		}
		knot = append(knot, task)
	}
	g = New(knot, Options{})
	if len(g.cycles) != 1 || len(g.cycles[0].tasks) != 60 || g.cycles[0].path != "0 -> 1 -> 0" {
		t.Errorf("circles: %d", len(g.cycles))
	}
}
