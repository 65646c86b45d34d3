package scheduler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"descartes/tasks"

	"pgregory.net/rapid"
)

// order plays a run in which every task succeeds at once and returns the order of the starts.
func order(g *Graph, opt QueueOptions) []string {
	q := g.Queue(opt)
	var started []string
	for {
		next := q.Next(Now{Free: 1})
		if len(next) == 0 {
			return started
		}
		started = append(started, next[0])
		g.SetStatus(next[0], tasks.Done)
	}
}

// With one slot the order is the author's: of what may run, what stands first in the list, whatever its id and its wave.
func TestOneSlotKeepsTheListsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := lists(t)
		g := New(l, Options{External: external})
		started := order(New(l, Options{External: external}),
			QueueOptions{Slots: 1, Durations: map[string]time.Duration{"1": time.Hour, "3": time.Minute}})
		for _, id := range started {
			first := slices.IndexFunc(l, func(x tasks.Task) bool { return g.Ready(x.ID) })
			if first < 0 || l[first].ID != id {
				t.Fatalf("got %v: before %s the task in place %d could start", started, id, first)
			}
			g.SetStatus(id, tasks.Done)
		}
	})
}

func TestQueueOrder(t *testing.T) {
	t.Parallel()
	const diamond = "1\n2\n3 < 2\n4 < 3\n5"
	tests := []struct {
		name, list string
		opt        QueueOptions
		priority   string // "id word"
		want       string
	}{
		{"one slot: the order of the list", diamond, QueueOptions{Slots: 1}, "", "1 2 3 4 5"},
		{"ids never decide", "3\n1\n2", QueueOptions{Slots: 1}, "", "3 1 2"},
		{"the longest path of tasks first", diamond, QueueOptions{Slots: 2}, "", "2 3 1 4 5"},
		{"the longest path of what was measured first", diamond,
			QueueOptions{Slots: 2, Durations: map[string]time.Duration{"5": time.Hour, "2": 1, "3": 1, "4": 1}}, "",
			"5 1 2 3 4"},
		{"priority before path", diamond, QueueOptions{Slots: 2}, "5 high", "5 2 3 1 4"},
		{"priority reaches what the task waits for", diamond, QueueOptions{Slots: 1}, "4 critical", "2 3 4 1 5"},
		{"an unknown priority is medium", diamond, QueueOptions{Slots: 1}, "1 soon", "1 2 3 4 5"},
		{"low comes last", diamond, QueueOptions{Slots: 1}, "1 low", "2 3 4 5 1"},
		{"barrier before priority", diamond, QueueOptions{Slots: 2, Barrier: true}, "4 critical", "2 1 5 3 4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := list(t, tt.list)
			for i := range l {
				l[i].Priority = "medium"
				if id, word, _ := strings.Cut(tt.priority, " "); id == l[i].ID {
					l[i].Priority = word
				}
			}
			if got := strings.Join(order(New(l, Options{}), tt.opt), " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestQueueWaiting(t *testing.T) {
	t.Parallel()
	l := list(t, "1\n2\n3\n4 < 1\n5 < 6\n6 blocked\n7 < 4")
	for i, scope := range map[int]string{0: "a/b.go", 1: "a/", 3: "a/b.go"} {
		l[i].Scope = []string{scope}
	}
	g := New(l, Options{})
	say := func(opt QueueOptions, now Now) string {
		var b strings.Builder
		q := g.Queue(opt)
		fmt.Fprintf(&b, "start %s\n", strings.Join(q.Next(now), " "))
		for _, w := range q.Waiting(now) {
			fmt.Fprintf(&b, "%s %s: %s\n", w.Task, w.Reason, w)
		}
		return b.String()
	}
	g.SetStatus("1", tasks.InProgress)
	tests := []struct {
		name string
		opt  QueueOptions
		now  Now
		want string
	}{
		{"preferred", QueueOptions{Slots: 2}, Now{Running: []string{"1"}, Free: 1},
			"start 3\n2 scope: waiting because it may change the same files as task 1: a/b.go\n3 slot: waiting for a free slot\n4 dependency: waiting for 1\n7 dependency: waiting for 4\n"},
		{"only preferred", QueueOptions{Slots: 3}, Now{Running: []string{"1"}, Free: 2},
			"start 3 2\n2 scope: waiting because it may change the same files as task 1: a/b.go\n3 slot: waiting for a free slot\n4 dependency: waiting for 1\n7 dependency: waiting for 4\n"},
		{"a rule", QueueOptions{Slots: 3, RespectScope: true}, Now{Running: []string{"1"}, Free: 2},
			"start 3\n2 scope: waiting because it may change the same files as task 1: a/b.go\n3 slot: waiting for a free slot\n4 dependency: waiting for 1\n7 dependency: waiting for 4\n"},
		{"quota", QueueOptions{Slots: 2}, Now{Running: []string{"1", "2"}, Free: 1, Quota: true},
			"start \n3 quota: waiting for the provider's quota\n4 dependency: waiting for 1\n7 dependency: waiting for 4\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := say(tt.opt, tt.now); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
	g.SetStatus("1", tasks.Done)
	got := say(QueueOptions{Slots: 2, Barrier: true}, Now{Running: []string{"2"}, Free: 1})
	if want := "start 3\n3 slot: waiting for a free slot\n4 wave: waiting for the wave before it\n7 dependency: waiting for 4\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A task that the caller leaves out keeps no other one from starting.
func TestQueueMay(t *testing.T) {
	t.Parallel()
	l := list(t, "1\n2\n3")
	l[0].Scope, l[1].Scope = []string{"a/"}, []string{"a/b.go"}
	q := New(l, Options{}).Queue(QueueOptions{Slots: 2, RespectScope: true})
	for _, tt := range []struct{ without, want string }{{"", "1 3"}, {"1", "2 3"}, {"12", "3"}, {"123", ""}} {
		may := func(id string) bool { return !strings.Contains(tt.without, id) }
		if got := strings.Join(q.Next(Now{Free: 3, May: may}), " "); got != tt.want {
			t.Errorf("without %q: got %q, want %q", tt.without, got, tt.want)
		}
	}
}

// simulate runs a graph with some slots by a clock of its own and returns how long it took. Every start is checked.
func simulate(t *rapid.T, g *Graph, opt QueueOptions, durations map[string]time.Duration) time.Duration {
	q := g.Queue(opt)
	ends := map[string]time.Duration{}
	var clock time.Duration
	started := map[string]bool{}
	for {
		running := make([]string, 0, len(ends))
		for id := range ends {
			running = append(running, id)
		}
		slices.Sort(running)
		for _, id := range q.Next(Now{Running: running, Free: opt.Slots - len(running)}) {
			if started[id] || !g.Ready(id) || len(ends) == opt.Slots {
				t.Fatalf("task %s is started: before %v, ready %v, with %d running", id, started[id], g.Ready(id),
					len(ends))
			}
			if opt.RespectScope {
				for other := range ends {
					if where := q.scopes.meet(id, other); len(where) > 0 {
						t.Fatalf("task %s is started and meets %s at %v", id, other, where)
					}
				}
			}
			started[id] = true
			g.SetStatus(id, tasks.InProgress)
			ends[id] = clock + durations[id]
		}
		if len(ends) == 0 {
			break
		}
		next := time.Duration(math.MaxInt64)
		for _, end := range ends {
			next = min(next, end)
		}
		clock = next
		for id, end := range ends {
			if end == clock {
				g.SetStatus(id, tasks.Done)
				delete(ends, id)
			}
		}
	}
	if c := g.Counts(); c.Pending+c.InProgress > 0 {
		t.Fatalf("the run ended with %+v", c)
	}
	return clock
}

// heavyTailed makes a random graph whose tasks last between a minute and hours, most of them short.
func heavyTailed(random *rand.Rand, n int) ([]tasks.Task, map[string]time.Duration) {
	list := make([]tasks.Task, n)
	durations := map[string]time.Duration{}
	for i := range list {
		id := fmt.Sprint(i + 1)
		list[i] = tasks.Task{ID: id, Status: tasks.Pending, Priority: "medium"}
		for range random.IntN(3) {
			if back := 1 + random.IntN(30); i-back >= 0 {
				list[i].DependsOn = append(list[i].DependsOn, fmt.Sprint(i-back+1))
			}
		}
		durations[id] = time.Duration(math.Min(math.Pow(1-random.Float64(), -1/1.5), 200) * float64(time.Minute))
	}
	return list, durations
}

// bounds returns the total work, and the longest path of it.
func bounds(list []tasks.Task, durations map[string]time.Duration) (work, path time.Duration) {
	end := map[string]time.Duration{}
	for _, task := range list {
		for _, d := range task.DependsOn {
			end[task.ID] = max(end[task.ID], end[d])
		}
		end[task.ID] += durations[task.ID]
		work, path = work+durations[task.ID], max(path, end[task.ID])
	}
	return work, path
}

// No schedule of a graph is shorter than its longest path, nor than its work shared among the slots: the queue comes
// close to the larger of both, and no single run is beyond what any list schedule keeps.
func TestMakespan(t *testing.T) {
	t.Parallel()
	var made, bound float64
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		list, durations := heavyTailed(random, rapid.IntRange(20, 150).Draw(t, "tasks"))
		slots := rapid.SampledFrom([]int{2, 3, 4, 8, 16}).Draw(t, "slots")
		took := simulate(t, New(list, Options{}), QueueOptions{Slots: slots, Durations: durations}, durations)
		work, path := bounds(list, durations)
		if limit := (work + time.Duration(slots-1)*path) / time.Duration(slots); took > limit {
			t.Fatalf("%d tasks in %d slots took %v, any list schedule takes at most %v", len(list), slots, took, limit)
		}
		made, bound = made+took.Minutes(), bound+max(path, work/time.Duration(slots)).Minutes()
	})
	t.Logf("makespan %.3f times the lower bound", made/bound)
	if made > 1.05*bound {
		t.Errorf("makespan is %.3f times the lower bound, want at most 1.05", made/bound)
	}
}

// Whatever the priorities, scopes, barriers and unknown durations are, every task is started once and none too early.
func TestEveryReadyTaskIsStarted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := lists(t)
		durations := map[string]time.Duration{}
		for i := range l {
			l[i].Priority = rapid.SampledFrom([]string{"critical", "high", "medium", "low", "?"}).Draw(t, "priority")
			durations[l[i].ID] = time.Duration(rapid.IntRange(1, 9).Draw(t, "duration"))
			l[i].Scope = []string{rapid.SampledFrom([]string{"a", "b/**", "b/c.go", "*.go", "", "d/*"}).Draw(t,
				"scope")}
		}
		opt := QueueOptions{
			Slots: rapid.IntRange(1, 4).Draw(t, "slots"), Barrier: rapid.Bool().Draw(t, "barrier"),
			RespectScope: rapid.Bool().Draw(t, "rule"),
		}
		simulate(t, New(l, Options{External: external}), opt, durations)
	})
}
