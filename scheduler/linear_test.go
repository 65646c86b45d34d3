//go:build unix

package scheduler

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"
)

// TestLinear holds that nothing that is decided takes more than linear time in tasks and edges: eight times the tasks
// cost about eight times as much, where a loop in a loop would cost 64 times. The processor's time counts, so that a
// busy machine does not matter.
func TestLinear(t *testing.T) {
	const small, times, most = 400, 8, 28
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for shape, needs := range map[string]func(i, n int) []int{
		"all need one":            func(_, _ int) []int { return []int{0} },
		"six before each":         func(i, _ int) []int { return []int{i - 1, i - 2, i - 3, i - 4, i - 5, i - 6} },
		"circles, and what waits": func(i, n int) []int { return []int{(i + 1) % n} },
	} {
		for _, name := range steps {
			cost := func(n int) time.Duration {
				best := time.Hour
				for range 2 {
					step := prepare(name, n, needs)
					runtime.GC()
					start := spentTime(t)
					step()
					best = min(best, spentTime(t)-start)
				}
				return best
			}
			a, b := cost(small), cost(small*times)
			if ratio := float64(b) / float64(max(a, 100*time.Microsecond)); ratio > most {
				t.Errorf("%s, %s: %v for %d tasks, %v for %d: %.0f times", shape, name, a, small, b, small*times, ratio)
			}
		}
	}
}

// spentTime is how long this process had a processor.
func spentTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var steps = []string{"start", "start after", "next", "commit", "no quota", "changed list", "lowered limits",
	"taken out"}

// prepare makes a run over n tasks that is told or asked something, once.
func prepare(step string, n int, needs func(i, n int) []int) func() {
	list := make([]Listed, n)
	chain := make([]Entry, n)
	for i := range list {
		list[i] = Listed{ID: fmt.Sprint(i), Accounts: []string{"a", "b"}, Scope: []string{fmt.Sprint("file ", i)}}
		chain[i].Task = list[i].ID
		for _, k := range needs(i, n) {
			if k >= 0 && k != i {
				list[i].Needs = append(list[i].Needs, fmt.Sprint(k))
			}
		}
	}
	start := Resumed{List: list, Limits: Limits{Attempts: 3, Total: 3 * n}}
	start.Settings = Settings{Breaker: 3, RespectScope: true}
	for l := range 8 {
		start.Lanes = append(start.Lanes, Lane{Number: l})
	}
	run := func(e Resumed) *Run {
		r := NewRun()
		r.Apply(e)
		return r
	}
	full := start
	full.Chain = chain
	late := time.Unix(100, 0)
	switch step {
	case "start":
		return func() { run(start) }
	case "start after":
		return func() { run(full) }
	case "next":
		r := run(start)
		return func() { r.Next(late) }
	case "commit":
		r := run(full)
		return func() { r.Next(late); r.Apply(Committed{Wave: 1, Tip: n, Result: Passed}); r.Next(late) }
	case "no quota":
		r := run(start)
		r.Apply(LimitMet{Account: "a", Until: time.Unix(1e9, 0)})
		r.Apply(LimitMet{Account: "b", Until: time.Unix(1e9, 0)})
		return func() { r.Next(late); r.Wakes(late) }
	case "changed list":
		r := run(start)
		return func() { r.Apply(ListChanged{list}) }
	case "lowered limits":
		r := run(start)
		return func() { r.Apply(LimitsChanged{}); r.Next(late) }
	}
	full.In, full.Lost = n, []string{"0"}
	r := run(full)
	return func() { r.Next(late); r.Apply(Rewound{}); r.Next(late) }
}
