package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"descartes/internal/oneline"
	"descartes/tasks"
)

// State is the state of a task in a run.
//
//	done     its status is done, or that of a container around it, see Options.OpenInDone
//	ready    pending, and everything it depends on is done
//	waiting  pending or in-progress, some dependency is still to be done
//	running  in-progress, and everything it depends on is done; what a dead run left so may be started again, see Ready
//	held     some dependency is out of reach, directly or through others, or the task is on a cycle, or shares its id
//	blocked  its status is blocked or failed
//	other    any other status: review, deferred, cancelled, expanded without subtasks, an unknown word
//
// A container is done when all its leaves are, otherwise the first of running, ready, waiting, blocked, held, other
// that a leaf of it is.
type State string

// The states.
const (
	StateDone    State = "done"
	StateReady   State = "ready"
	StateWaiting State = "waiting"
	StateHeld    State = "held"
	StateBlocked State = "blocked"
	StateRunning State = "running"
	StateOther   State = "other"
)

// Open reports whether a task in that state can still run, now or once others are done.
func (s State) Open() bool { return s == StateReady || s == StateWaiting || s == StateRunning }

// Counts are numbers of leaves by state; all but Total add up to Total. Pending are ready or waiting, InProgress are
// running.
type Counts struct{ Total, Done, Blocked, InProgress, Pending, Held, Other int }

func (c *Counts) count(s State) {
	c.Total++
	switch s {
	case StateDone:
		c.Done++
	case StateReady, StateWaiting:
		c.Pending++
	case StateHeld:
		c.Held++
	case StateBlocked:
		c.Blocked++
	case StateRunning:
		c.InProgress++
	case StateOther:
		c.Other++
	}
}

// Counts returns how many leaves are in which state now.
func (g *Graph) Counts() Counts {
	g.evaluate()
	return g.counts
}

// SetStatus changes the status of a task, and with it the state of those that depend on it. An unknown id is ignored.
// The first question after a change takes time for the whole graph, 0.1 ms for 10,000 tasks.
func (g *Graph) SetStatus(id string, s tasks.Status) {
	if i, ok := g.index[id]; ok && g.status[i] != s {
		g.status[i] = s
		g.stale = true
	}
}

// Status returns the status of a task now, "" for an unknown id.
func (g *Graph) Status(id string) tasks.Status {
	i, ok := g.index[id]
	if !ok {
		return ""
	}
	return g.status[i]
}

// evaluate works out what follows from the statuses of the list, for every vertex, where one has changed.
func (g *Graph) evaluate() {
	if !g.stale {
		return
	}
	g.stale, g.counts = false, Counts{}
	for _, i := range g.family.inward {
		n := &g.nodes[g.in[i]]
		p := g.family.parent[i]
		n.covered = p >= 0 && !g.openInDone && (g.nodes[g.in[p]].covered || g.status[p] == tasks.Done &&
			!g.nodes[g.in[p]].doubled)
	}
	for _, v := range g.sorted {
		n := &g.nodes[v]
		n.waits, n.behind = false, false
		for _, p := range g.pred[v] {
			n.waits = n.waits || !g.nodes[p].satisfied
			n.behind = n.behind || g.nodes[p].holds
		}
		n.satisfied, n.holds = g.effect(n)
	}
	for v := range g.nodes {
		n := &g.nodes[v]
		if n.kind != leaf {
			continue
		}
		if n.cycle > 0 { // its effect was worked out before its dependencies
			n.waits = slices.ContainsFunc(g.pred[v], func(p int) bool { return !g.nodes[p].satisfied })
		}
		n.state = g.stateOf(n)
		g.counts.count(n.state)
	}
}

// effect works out what a vertex means for those that depend on it.
func (g *Graph) effect(n *node) (satisfied, holds bool) {
	if n.kind == externalTask {
		done := n.outside.status == tasks.Done
		return done, !done
	}
	status := g.status[n.place]
	switch {
	case n.kind == containerOut:
		return !n.waits, n.behind
	case n.kind == containerIn && (status.SetAside() || n.doubled):
		return false, true
	case n.kind == containerIn:
		return !n.waits, n.behind
	case n.covered:
		return true, false
	case n.doubled:
		return false, true
	case status == tasks.Done:
		return true, false
	case status == tasks.Pending || status == tasks.InProgress:
		return false, n.cycle > 0 || n.behind
	}
	return false, true
}

// stateOf works out the state of a leaf.
func (g *Graph) stateOf(n *node) State {
	status := g.status[n.place]
	switch {
	case n.covered:
		return StateDone
	case n.doubled:
		return StateHeld
	case status == tasks.Done:
		return StateDone
	case status == tasks.Blocked || status == tasks.Failed:
		return StateBlocked
	case status != tasks.Pending && status != tasks.InProgress:
		return StateOther
	case n.cycle > 0 || n.behind:
		return StateHeld
	case n.waits:
		return StateWaiting
	case status == tasks.InProgress:
		return StateRunning
	}
	return StateReady
}

// Ready reports whether a leaf may be started: it is pending or in-progress, and everything it depends on is done.
func (g *Graph) Ready(id string) bool {
	g.evaluate()
	n, ok := g.leaf(id)
	return ok && (n.state == StateReady || n.state == StateRunning)
}

// State returns where a task stands. An unknown id is "other".
func (g *Graph) State(id string) State {
	g.evaluate()
	if n, ok := g.leaf(id); ok {
		return n.state
	}
	i, ok := g.index[id]
	if !ok {
		return StateOther
	}
	return g.containerState(i)
}

// Why says what a task waits for, what holds it, or its odd status; "" where its state needs no reason. asks reports
// whether a blocked task waits for a person's answer; nil: none does.
func (g *Graph) Why(id string, asks func(id string) bool) string {
	g.evaluate()
	i, ok := g.index[id]
	if !ok {
		return "no such task"
	}
	switch n, _ := g.leaf(id); {
	case n == nil:
	case n.state == StateWaiting:
		return "waits for " + oneline.List(g.openDeps(id))
	case n.state == StateHeld:
		return g.heldBecause(g.in[i], asks)
	case n.state == StateOther:
		return otherBecause(g.status[i])
	case n.state == StateDone && g.status[i] != tasks.Done:
		up := g.family.parent[i]
		for g.status[up] != tasks.Done {
			up = g.family.parent[up]
		}
		return fmt.Sprintf("task %s, which contains it, is done", g.list[up].ID)
	}
	return ""
}

// openDeps returns the leaves that a leaf waits for.
func (g *Graph) openDeps(id string) []string {
	return g.ids(g.leavesBefore(g.in[g.index[id]], func(p *node) bool { return !p.satisfied }))
}

func otherBecause(s tasks.Status) string {
	switch {
	case s == tasks.Expanded:
		return "expanded, but without subtasks"
	case !s.Known():
		return fmt.Sprintf("unknown status %q", string(s))
	}
	return "its status is " + string(s)
}

func (g *Graph) containerState(i int) State {
	urgent := []State{StateRunning, StateReady, StateWaiting, StateBlocked, StateHeld, StateOther, StateDone}
	best := len(urgent) - 1
	for _, k := range g.leavesBefore(g.out[i], nil) {
		best = min(best, slices.Index(urgent, g.nodes[g.in[k]].state))
	}
	return urgent[best]
}

// Held returns the root causes that keep a leaf from ever becoming ready in this run: ids of tasks that are blocked,
// deferred, on a cycle and so on, of missing tasks, of tasks of other tags. It is false unless the state of the leaf
// is held.
func (g *Graph) Held(id string) (root []string, held bool) {
	g.evaluate()
	n, ok := g.leaf(id)
	switch {
	case !ok || n.state != StateHeld:
		return nil, false
	case n.cycle > 0:
		return slices.Clone(g.cycles[n.cycle-1].tasks), true
	case n.doubled:
		return []string{id}, true
	}
	for _, r := range g.rootsOf(g.in[n.place]) {
		root = append(root, g.name(r))
	}
	return root, true
}

// name returns the id that a vertex stands for.
func (g *Graph) name(v int) string {
	if n := &g.nodes[v]; n.kind != externalTask {
		return g.list[n.place].ID
	}
	return g.nodes[v].outside.id
}

// rootsOf returns the vertices that hold v by themselves, in natural order of their ids.
func (g *Graph) rootsOf(v int) []int {
	roots := walk(v, g.pred, func(p int) (found, on bool) {
		return g.nodes[p].holds && g.isRoot(p), g.nodes[p].holds && !g.isRoot(p)
	})
	slices.SortFunc(roots, func(a, b int) int { return tasks.CompareIDs(g.name(a), g.name(b)) })
	return roots
}

// isRoot reports whether a vertex that holds does so by itself, not because of what it depends on.
func (g *Graph) isRoot(v int) bool {
	n := &g.nodes[v]
	switch n.kind {
	case leaf:
		return n.cycle > 0 || n.doubled || n.state != StateHeld
	case containerIn:
		return g.status[n.place].SetAside() || n.doubled
	}
	return n.kind == externalTask
}

// heldBecause says in words what holds a leaf.
func (g *Graph) heldBecause(v int, asks func(id string) bool) string {
	n := &g.nodes[v]
	if n.cycle > 0 {
		return "on a cycle: " + g.cycles[n.cycle-1].path
	}
	if n.doubled {
		return "its id is given " + moreThanOnce
	}
	const most = 3
	roots := g.rootsOf(v)
	var reasons []string
	for _, r := range roots[:min(len(roots), most)] {
		reasons = append(reasons, g.rootBecause(r, asks))
	}
	if len(roots) > most {
		reasons = append(reasons, fmt.Sprintf("and %d more", len(roots)-most))
	}
	return strings.Join(reasons, ", ")
}

func (g *Graph) rootBecause(root int, asks func(id string) bool) string {
	n, id := &g.nodes[root], g.name(root)
	switch {
	case n.kind == externalTask:
		return fmt.Sprintf("task %s %s", id, n.outside.because())
	case n.cycle > 0:
		return fmt.Sprintf("task %s is on a cycle", id)
	case n.doubled:
		return fmt.Sprintf("the id %s is given %s", id, moreThanOnce)
	case asks != nil && asks(id):
		return fmt.Sprintf("task %s waits for your answer", id)
	}
	return fmt.Sprintf("task %s is %s", id, g.status[n.place])
}
