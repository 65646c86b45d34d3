package scheduler

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"descartes/tasks"
)

// layered makes n tasks in layers of 100, each with three dependencies in the layer before.
func layered(n int) []tasks.Task {
	list := make([]tasks.Task, n)
	for i := range list {
		list[i] = tasks.Task{ID: fmt.Sprint(i + 1), Status: tasks.Pending}
		if i >= 100 {
			for k := range 3 {
				list[i].DependsOn = append(list[i].DependsOn, fmt.Sprint(i-i%100-100+(i*7+k*31)%100+1))
			}
		}
	}
	return list
}

func chain(n int) []tasks.Task {
	list := make([]tasks.Task, n)
	for i := range list {
		list[i] = tasks.Task{ID: fmt.Sprint(i + 1), Status: tasks.Pending}
		if i > 0 {
			list[i].DependsOn = []string{fmt.Sprint(i)}
		}
	}
	return list
}

func BenchmarkNew(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			list := layered(n)
			b.ReportAllocs()
			for b.Loop() {
				if g := New(list, Options{}); len(g.Waves()) != (n+99)/100 {
					b.Fatal(len(g.Waves()))
				}
			}
		})
	}
}

// BenchmarkLoad is what every command does first: read the file, build the graph, find the waves.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "x.json")
			if err := os.WriteFile(path, []byte(asFile(layered(n))), 0o644); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				f, err := tasks.OpenPath(path, "x")
				if err != nil {
					b.Fatal(err)
				}
				if g := New(f.Tasks(), Options{}); g.Counts().Pending != n {
					b.Fatal(g.Counts())
				}
			}
		})
	}
}

// asFile writes a list as a task file of 290 bytes per task.
func asFile(list []tasks.Task) string {
	var text strings.Builder
	text.WriteString(`{"tag": "x", "tasks": [`)
	for i, t := range list {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, "\n  {\"id\": %s, \"title\": \"Task number %s\", \"description\": %q, \"status\": \"pending\", \"depends_on\": [%s]}",
			t.ID, t.ID, strings.Repeat("What is to be done. ", 8)+"\n", strings.Join(t.DependsOn, ", "))
	}
	text.WriteString("\n]}\n")
	return text.String()
}

// BenchmarkRun sets every task done in turn, asking what a run asks, and then every task pending again.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := New(layered(n), Options{})
			for b.Loop() {
				for _, w := range g.Waves() {
					for _, id := range w.Tasks {
						if !g.Ready(id) {
							b.Fatal(id)
						}
						g.SetStatus(id, tasks.InProgress)
						g.SetStatus(id, tasks.Done)
						g.Counts()
					}
				}
				for _, id := range g.Leaves() {
					g.SetStatus(id, tasks.Pending)
				}
			}
		})
	}
}

// BenchmarkAllStates is what waves and status print, in the worst case: everything is held by the first task.
func BenchmarkAllStates(b *testing.B) {
	for name, list := range map[string][]tasks.Task{"chain": chain(10_000), "layered": layered(10_000)} {
		list[0].Status = tasks.Blocked
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				g := New(list, Options{})
				for _, id := range g.Leaves() {
					g.State(id)
				}
			}
		})
	}
}

// BenchmarkCycles: ten thousand tasks, all on one cycle.
func BenchmarkCycles(b *testing.B) {
	list := chain(10_000)
	list[0].DependsOn = []string{"10000"}
	for b.Loop() {
		if g := New(list, Options{}); len(g.Problems()) != 1 || len(g.Waves()) != 0 {
			b.Fatal(g.Problems())
		}
	}
}

func TestMemory(t *testing.T) {
	list := layered(10_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	g := New(list, Options{})
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	made := after.TotalAlloc - before.TotalAlloc
	t.Logf("10,000 tasks: %d KiB kept, %d KiB allocated on the way", kept>>10, made>>10)
	if kept > 8<<20 {
		t.Errorf("a graph of 10,000 tasks keeps %d bytes, want at most 8 MiB", kept)
	}
	runtime.KeepAlive(g)
}
