package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"descartes/internal/oneline"
)

// QueueOptions say how a queue chooses among ready tasks.
type QueueOptions struct {
	// Slots is how many tasks can run at once. With one, the remaining path does not count: no order is shorter than
	// another.
	Slots int
	// Barrier finishes each wave before a task of the next one starts.
	Barrier bool
	// Durations are how long tasks took in earlier runs. A task without one is assumed to take the average of the
	// others.
	Durations map[string]time.Duration
	// RespectScope lets a task wait whose scope meets that of a running one; otherwise others are only preferred to
	// it.
	RespectScope bool
}

// Queue chooses among the ready tasks of a graph. The task of the higher priority comes first: its own, or that of a
// task that waits for it. Then comes, with several slots, the one with the longest path of work behind it, then the one
// that stands first in the list. A queue follows the statuses of its graph, and is as little safe for concurrent use.
type Queue struct {
	g      *Graph
	opt    QueueOptions
	order  []string // leaves, the most urgent first
	scopes scopes
}

// Now is what is going on when a queue is asked.
type Now struct {
	Running []string             // tasks that have a slot
	Free    int                  // slots without a task
	Quota   bool                 // no agent can start before a provider's limit resets
	May     func(id string) bool // leaves out ready tasks for reasons of the caller's; nil leaves out none
}

// Queue returns the queue of the graph. Priorities, paths and durations are taken as they are now.
func (g *Graph) Queue(opt QueueOptions) *Queue {
	g.evaluate()
	q := &Queue{g: g, opt: opt, order: g.Leaves(), scopes: g.scopes()}
	priority, path := g.urgency(opt.Durations)
	slices.SortStableFunc(q.order, func(a, b string) int {
		va, vb := g.in[g.index[a]], g.in[g.index[b]]
		if opt.Barrier && g.nodes[va].wave != g.nodes[vb].wave {
			return cmp.Compare(g.nodes[va].wave, g.nodes[vb].wave)
		}
		if c := cmp.Compare(priority[va], priority[vb]); c != 0 {
			return c
		}
		if c := cmp.Compare(path[vb], path[va]); opt.Slots > 1 && c != 0 {
			return c
		}
		return cmp.Compare(g.index[a], g.index[b])
	})
	return q
}

// urgency returns for each vertex its priority, 0 for the highest, and how long the longest path of work from its
// start is.
func (g *Graph) urgency(durations map[string]time.Duration) (priority []int, path []time.Duration) {
	usual := time.Duration(1)
	if len(durations) > 0 {
		var sum time.Duration
		for _, d := range durations {
			sum += d
		}
		usual = max(usual, sum/time.Duration(len(durations)))
	}
	priority, path = make([]int, len(g.nodes)), make([]time.Duration, len(g.nodes))
	for v := range priority {
		priority[v] = lowestPriority
	}
	for _, v := range slices.Backward(g.sorted) {
		for _, s := range g.succ[v] {
			priority[v], path[v] = min(priority[v], priority[s]), max(path[v], path[s])
		}
		n := &g.nodes[v]
		if n.kind != leaf || !n.state.Open() {
			continue
		}
		task := &g.list[n.place]
		priority[v] = min(priority[v], PriorityOf(task.Priority))
		if d, ok := durations[task.ID]; ok {
			path[v] += max(d, 0)
		} else {
			path[v] += usual
		}
	}
	return priority, path
}

const lowestPriority = 3

// PriorityOf ranks a task's priority, 0 for the highest; an unknown word is medium.
func PriorityOf(word string) int {
	switch strings.ToLower(word) {
	case "critical":
		return 0
	case "high":
		return 1
	case "low":
		return lowestPriority
	}
	return 2
}

// Next returns the tasks to start now, the most urgent first: ready ones, at most as many as there are free slots.
func (q *Queue) Next(now Now) []string {
	if now.Quota || now.Free < 1 {
		return nil
	}
	running := slices.Clone(now.Running)
	var start, meeting []string
	for id := range q.ready(now) {
		if now.May != nil && !now.May(id) {
			continue
		}
		if with, _ := q.scopes.meets(id, running); with != "" {
			meeting = append(meeting, id)
			continue
		}
		start, running = append(start, id), append(running, id)
		if len(start) == now.Free {
			return start
		}
	}
	if q.opt.RespectScope {
		return start
	}
	return append(start, meeting[:min(len(meeting), now.Free-len(start))]...)
}

// ready goes through the tasks that may start as far as dependencies and waves are concerned, the most urgent first.
func (q *Queue) ready(now Now) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		wave := 0
		for _, id := range q.order {
			if !q.g.Ready(id) {
				continue
			}
			if q.opt.Barrier {
				if at := q.g.Wave(id); wave == 0 {
					wave = at
				} else if at > wave {
					return
				}
			}
			if !slices.Contains(now.Running, id) && !yield(id) {
				return
			}
		}
	}
}

// WaitReason is why a task waits that is neither done nor running nor out of reach.
type WaitReason string

// The reasons.
const (
	WaitDependency WaitReason = "dependency"
	WaitWave       WaitReason = "wave" // an earlier wave is still running, with QueueOptions.Barrier
	WaitQuota      WaitReason = "quota"
	WaitScope      WaitReason = "scope"
	WaitSlot       WaitReason = "slot"
)

// Wait says why a task has not started.
type Wait struct {
	Task   string     `json:"task"`
	Reason WaitReason `json:"reason"`
	On     []string   `json:"on,omitempty"`   // the tasks that it waits for, or whose scope it meets
	Path   string     `json:"path,omitempty"` // where they meet
}

func (w Wait) String() string {
	switch w.Reason {
	case WaitDependency:
		return "waiting for " + oneline.List(w.On)
	case WaitWave:
		return "waiting for the wave before it"
	case WaitQuota:
		return "waiting for the provider's quota"
	case WaitScope:
		return fmt.Sprintf("waiting because it may change the same files as task %s: %s", oneline.List(w.On), w.Path)
	}
	return "waiting for a free slot"
}

// Waiting says why each task waits that could run in time and has no slot: ready ones, the most urgent first, then
// those that wait for others. Ask it after the tasks of Next were started.
func (q *Queue) Waiting(now Now) []Wait {
	var ready, later []Wait
	startable := map[string]bool{}
	for id := range q.ready(now) {
		startable[id] = true
	}
	for _, id := range q.order {
		if slices.Contains(now.Running, id) {
			continue
		}
		if !q.g.Ready(id) {
			if n, _ := q.g.leaf(id); n.state == StateWaiting {
				later = append(later, Wait{Task: id, Reason: WaitDependency, On: q.g.openDeps(id)})
			}
			continue
		}
		w := Wait{Task: id, Reason: WaitSlot}
		if with, path := q.scopes.meets(id, now.Running); !startable[id] {
			w.Reason = WaitWave
		} else if now.Quota {
			w.Reason = WaitQuota
		} else if with != "" {
			w.Reason, w.On, w.Path = WaitScope, []string{with}, path
		}
		ready = append(ready, w)
	}
	return append(ready, later...)
}
