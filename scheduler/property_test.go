package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"descartes/tasks"

	"pgregory.net/rapid"
)

var allStatuses = []tasks.Status{tasks.Pending, tasks.Pending, tasks.Pending, tasks.Done, tasks.Done, tasks.InProgress,
	tasks.Blocked, tasks.Failed, tasks.Review, tasks.Deferred, tasks.Cancelled, tasks.Expanded, "odd"}

// lists draws a task list: families, cycles, missing and foreign dependencies, every status.
func lists(t *rapid.T) []tasks.Task {
	n := rapid.IntRange(1, 14).Draw(t, "n")
	cyclic := rapid.Bool().Draw(t, "cyclic")
	out := make([]tasks.Task, n)
	for i := range out {
		out[i] = tasks.Task{ID: fmt.Sprint(i), Status: rapid.SampledFrom(allStatuses).Draw(t, "status")}
		if i > 0 && rapid.IntRange(0, 2).Draw(t, "family") == 0 {
			out[i].Parent = fmt.Sprint(rapid.IntRange(0, i-1).Draw(t, "parent"))
		}
		limit := i - 1
		if cyclic {
			limit = n - 1
		}
		for range rapid.IntRange(0, 3).Draw(t, "degree") {
			switch rapid.IntRange(0, 12).Draw(t, "kind") {
			case 0:
				out[i].DependsOn = append(out[i].DependsOn, rapid.SampledFrom(
					[]string{"99", "core:1", "core:2", "core:4"}).Draw(t, "foreign"))
			default:
				if limit >= 0 {
					out[i].DependsOn = append(out[i].DependsOn, fmt.Sprint(rapid.IntRange(0, limit).Draw(t, "dep")))
				}
			}
		}
	}
	return out
}

// model is the same rules written down naively, over leaves only.
type model struct {
	list   map[string]*tasks.Task
	leaves []string
	deps   map[string][]string // leaf to leaves
	bad    map[string]bool     // leaf with a missing dependency, or in a container that is off
	cyclic map[string]bool
}

func newModel(list []tasks.Task) *model {
	m := &model{list: map[string]*tasks.Task{}, deps: map[string][]string{}, bad: map[string]bool{},
		cyclic: map[string]bool{}}
	parents := map[string]bool{}
	for i := range list {
		m.list[list[i].ID] = &list[i]
		parents[list[i].Parent] = true
	}
	for i := range list {
		if id := list[i].ID; !parents[id] {
			m.leaves = append(m.leaves, id)
		}
	}
	slices.SortFunc(m.leaves, tasks.CompareIDs)
	for _, l := range m.leaves {
		for a := l; a != ""; a = m.list[a].Parent {
			m.bad[l] = m.bad[l] || a != l && m.list[a].Status.SetAside()
			for _, d := range m.list[a].DependsOn {
				if m.list[d] == nil {
					m.bad[l] = m.bad[l] || d != "core:1"
				} else if !m.within(a, d) && !m.within(d, a) {
					m.deps[l] = append(m.deps[l], m.below(d)...)
				}
			}
		}
	}
	for _, l := range m.leaves {
		m.cyclic[l] = m.reaches(l, l, map[string]bool{})
	}
	return m
}

// within reports whether a is b or in it.
func (m *model) within(a, b string) bool {
	for ; a != ""; a = m.list[a].Parent {
		if a == b {
			return true
		}
	}
	return false
}

func (m *model) below(d string) []string {
	var out []string
	for _, l := range m.leaves {
		if m.within(l, d) {
			out = append(out, l)
		}
	}
	return out
}

func (m *model) reaches(from, to string, met map[string]bool) bool {
	for _, d := range m.deps[from] {
		if d == to {
			return true
		}
		if !met[d] {
			met[d] = true
			if m.reaches(d, to, met) {
				return true
			}
		}
	}
	return false
}

func (m *model) wave(l string) int {
	if m.cyclic[l] {
		return 0
	}
	depth := 0
	for _, d := range m.deps[l] {
		depth = max(depth, m.wave(d))
	}
	return depth + 1
}

// covered reports whether a container around l is done.
func (m *model) covered(l string) bool {
	for a := m.list[l].Parent; a != ""; a = m.list[a].Parent {
		if m.list[a].Status == tasks.Done {
			return true
		}
	}
	return false
}

func (m *model) done(l string) bool { return m.list[l].Status == tasks.Done || m.covered(l) }

// holds reports whether l never gets done by itself: it is not done and bad, on a cycle, or behind such a one.
func (m *model) holds(l string) bool {
	if m.done(l) {
		return false
	}
	switch m.list[l].Status {
	case tasks.Pending, tasks.InProgress:
		return m.held(l)
	}
	return true
}

func (m *model) held(l string) bool {
	return m.bad[l] || m.cyclic[l] || slices.ContainsFunc(m.deps[l], m.holds)
}

func (m *model) state(l string) State {
	if m.done(l) {
		return StateDone
	}
	switch m.list[l].Status {
	case tasks.Blocked, tasks.Failed:
		return StateBlocked
	case tasks.Pending, tasks.InProgress:
	default:
		return StateOther
	}
	open := func(d string) bool { return !m.done(d) }
	switch {
	case m.held(l):
		return StateHeld
	case slices.ContainsFunc(m.deps[l], open):
		return StateWaiting
	case m.list[l].Status == tasks.InProgress:
		return StateRunning
	}
	return StateReady
}

func TestAgreesWithModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := lists(t)
		g, m := New(list, Options{External: external}), newModel(list)
		if got := g.Leaves(); !slices.Equal(got, m.leaves) {
			t.Fatalf("leaves %v, want %v", got, m.leaves)
		}
		var counts Counts
		for _, l := range m.leaves {
			state, cause := g.State(l), g.Why(l, nil)
			if want := m.state(l); state != want {
				t.Fatalf("task %s is %s (%s), want %s", l, state, cause, want)
			}
			if got, want := g.Wave(l), m.wave(l); got != want {
				t.Fatalf("task %s is in wave %d, want %d", l, got, want)
			}
			deps := slices.Clone(m.deps[l])
			slices.SortFunc(deps, tasks.CompareIDs)
			if got := g.Deps(l); !slices.Equal(got, slices.Compact(deps)) {
				t.Fatalf("task %s depends on %v, want %v", l, got, deps)
			}
			root, held := g.Held(l)
			if held != (state == StateHeld) || held != (len(root) > 0) {
				t.Fatalf("task %s is %s and held: %v by %v", l, state, held, root)
			}
			if g.Ready(l) != (state == StateReady || state == StateRunning) {
				t.Fatalf("task %s is %s and ready: %v", l, state, g.Ready(l))
			}
			counts.count(state)
		}
		if got := g.Counts(); got != counts {
			t.Fatalf("counts %+v, want %+v", got, counts)
		}
	})
}

func TestEachLeafInOneWaveAfterItsDependencies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := New(lists(t), Options{})
		cyclic := map[string]bool{}
		for _, c := range g.cycles {
			for _, id := range c.tasks {
				cyclic[id] = true
			}
		}
		at := map[string]int{}
		for _, w := range g.Waves() {
			if len(w.Tasks) == 0 {
				t.Fatalf("wave %d is empty", w.Number)
			}
			for _, id := range w.Tasks {
				if at[id] != 0 || cyclic[id] {
					t.Fatalf("task %s is in waves %d and %d, on a cycle: %v", id, at[id], w.Number, cyclic[id])
				}
				at[id] = w.Number
			}
		}
		for _, id := range g.Leaves() {
			if (at[id] == 0) != cyclic[id] {
				t.Fatalf("task %s is in wave %d, on a cycle: %v", id, at[id], cyclic[id])
			}
			for _, d := range g.Deps(id) {
				if at[id] > 0 && at[d] >= at[id] {
					t.Fatalf("task %s is in wave %d, but depends on %s in wave %d", id, at[id], d, at[d])
				}
			}
		}
	})
}

// picture is everything that a graph says.
func picture(g *Graph) string {
	var b strings.Builder
	fmt.Fprintln(&b, waves(g))
	for _, p := range g.Problems() {
		fmt.Fprintln(&b, p.Kind, p.Tasks, p.Message)
	}
	fmt.Fprintln(&b, states(g))
	for _, id := range g.Leaves() {
		root, held := g.Held(id)
		fmt.Fprintln(&b, id, root, held, g.Deps(id), g.Status(id))
	}
	fmt.Fprintf(&b, "%+v\n", g.Counts())
	return b.String()
}

func TestInputOrderIsIrrelevant(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := lists(t)
		want := picture(New(list, Options{External: external}))
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		shuffled := slices.Clone(list)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for i := range shuffled {
			shuffled[i].DependsOn = slices.Clone(shuffled[i].DependsOn)
			deps := shuffled[i].DependsOn
			if !strings.Contains(want, "missing") { // their order is that of the file in a message
				random.Shuffle(len(deps), func(i, j int) { deps[i], deps[j] = deps[j], deps[i] })
			}
		}
		if got := picture(New(shuffled, Options{External: external})); got != want {
			t.Fatalf("got\n%swant\n%s", got, want)
		}
	})
}

func TestSetStatusEqualsStartingAnew(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := lists(t)
		g := New(list, Options{External: external})
		now := slices.Clone(list)
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			i := rapid.IntRange(0, len(list)-1).Draw(t, "task")
			now[i].Status = rapid.SampledFrom(allStatuses).Draw(t, "status")
			g.SetStatus(now[i].ID, now[i].Status)
			if rapid.Bool().Draw(t, "look") {
				_, _ = g.Held(now[i].ID)
			}
		}
		fresh := New(now, Options{External: external})
		fresh.problems = g.problems // these stay what they were at the start
		if got, want := picture(g), picture(fresh); got != want {
			t.Fatalf("got\n%swant\n%s", got, want)
		}
	})
}

// TestRunEnds plays a run: whatever succeeds or fails, it ends with every task done, blocked or held, and no pending
// one.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := New(lists(t), Options{External: external})
		for _, w := range g.Waves() {
			for _, id := range w.Tasks {
				if !g.Ready(id) {
					continue
				}
				g.SetStatus(id, tasks.InProgress)
				g.SetStatus(id, rapid.SampledFrom([]tasks.Status{tasks.Done, tasks.Done, tasks.Blocked}).Draw(t,
					"outcome"))
			}
		}
		if c := g.Counts(); c.Pending+c.InProgress > 0 {
			t.Fatalf("after the last wave: %+v\n%s", c, states(g))
		}
	})
}
