package scheduler

import (
	"fmt"

	"descartes/tasks"
)

// State is where a task stands in a run.
//
//	done     its status is done, or that of a container around it, see Options.OpenInDone
//	ready    pending, and everything it depends on is done
//	waiting  pending or in-progress, some dependency is still to be done
//	running  in-progress, and everything it depends on is done; what a dead run left so may be started again, see Ready
//	held     some dependency is out of reach, directly or through others, or the task is on a cycle, or shares its id
//	blocked  its status is blocked or failed
//	other    any other status: review, deferred, cancelled, expanded without subtasks, an unknown word
//
// A container is done when all its leaves are, otherwise the first of running, ready, waiting, blocked, held, other that a leaf of it is.
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

// stateKind is a State as it is stored and counted.
type stateKind uint8

const (
	isRunning stateKind = iota
	isReady
	isWaiting
	isBlocked
	isHeld
	isOther
	isDone
	stateKinds
)

func (k stateKind) State() State {
	return [stateKinds]State{StateRunning, StateReady, StateWaiting, StateBlocked, StateHeld, StateOther, StateDone}[k]
}

// Counts are numbers of leaves by state; all but Total add up to Total. Pending are ready or waiting, InProgress are running.
type Counts struct{ Total, Done, Blocked, InProgress, Pending, Held, Other int }

// Counts returns how many leaves are in which state now.
func (g *Graph) Counts() Counts {
	c := &g.counts
	return Counts{Total: g.leaves, Done: c[isDone], Blocked: c[isBlocked], InProgress: c[isRunning], Pending: c[isReady] + c[isWaiting], Held: c[isHeld], Other: c[isOther]}
}

// off reports whether a container with that status takes its leaves out of the run.
func off(s tasks.Status) bool { return s == tasks.Cancelled || s == tasks.Deferred }

// evaluate sets satisfied, holds and state of every vertex for the statuses of the list.
func (g *Graph) evaluate() {
	for v := range g.nodes {
		g.nodes[v].unready = int32(len(g.pred.of(int32(v))))
	}
	for _, v := range g.sorted {
		n := &g.nodes[v]
		n.satisfied, n.holds = g.judge(n)
		for _, s := range g.succ.of(v) {
			if n.satisfied {
				g.nodes[s].unready--
			}
			if n.holds {
				g.nodes[s].holding++
			}
		}
	}
	for v := range g.nodes {
		if n := &g.nodes[v]; n.kind == leaf {
			n.state = g.stateOf(n)
			g.counts[n.state]++
		}
	}
}

// judge works out what a vertex means to those that depend on it.
func (g *Graph) judge(n *node) (satisfied, holds bool) {
	switch n.kind {
	case leaf:
		if n.covered {
			return true, false
		}
		if n.doubled {
			return false, true
		}
		switch status := g.status[n.place]; status {
		case tasks.Done:
			return true, false
		case tasks.Pending, tasks.InProgress:
			return false, n.circle > 0 || n.holding > 0
		}
		return false, true
	case containerIn:
		if off(g.status[n.place]) || n.doubled {
			return false, true
		}
		return n.unready == 0, n.holding > 0
	case containerOut:
		return n.unready == 0, n.holding > 0
	case outsider:
		done := g.ghosts[n.place].status == tasks.Done
		return done, !done
	}
	return false, false
}

// stateOf works out the state of a leaf.
func (g *Graph) stateOf(n *node) stateKind {
	status := g.status[n.place]
	if n.covered {
		return isDone
	}
	if n.doubled {
		return isHeld
	}
	switch status {
	case tasks.Done:
		return isDone
	case tasks.Blocked, tasks.Failed:
		return isBlocked
	case tasks.Pending, tasks.InProgress:
	default:
		return isOther
	}
	switch {
	case n.circle > 0 || n.holding > 0:
		return isHeld
	case n.unready > 0:
		return isWaiting
	case status == tasks.InProgress:
		return isRunning
	}
	return isReady
}

// SetStatus changes the status of a task, and with it the state of those that depend on it. It takes time for the tasks whose state
// changes and for the direct dependants of these. An unknown id is ignored.
func (g *Graph) SetStatus(id string, s tasks.Status) {
	i, ok := g.index[id]
	if !ok || g.status[i] == s {
		return
	}
	was := g.status[i]
	g.status[i] = s
	v := g.in[i]
	g.restate(&g.nodes[v])
	changed := []int32{v}
	if g.nodes[v].kind != leaf && (was == tasks.Done) != (s == tasks.Done) {
		for _, u := range g.cover() {
			g.restate(&g.nodes[u])
			changed = append(changed, u)
		}
	}
	for len(changed) > 0 {
		v := changed[len(changed)-1]
		changed = changed[:len(changed)-1]
		n := &g.nodes[v]
		satisfied, holds := g.judge(n)
		if satisfied == n.satisfied && holds == n.holds {
			continue
		}
		ready, held := step01(n.satisfied, satisfied), step01(n.holds, holds)
		n.satisfied, n.holds = satisfied, holds
		for _, s := range g.succ.of(v) {
			g.nodes[s].unready -= ready
			g.nodes[s].holding += held
			g.restate(&g.nodes[s])
			changed = append(changed, s)
		}
	}
	g.roots = nil
}

// step01 is the change of a number that counts how often a fact is true.
func step01(before, after bool) int32 {
	switch {
	case after && !before:
		return 1
	case before && !after:
		return -1
	}
	return 0
}

func (g *Graph) restate(n *node) {
	if n.kind != leaf {
		return
	}
	g.counts[n.state]--
	n.state = g.stateOf(n)
	g.counts[n.state]++
}

// Status returns the status of a task now, "" for an unknown id.
func (g *Graph) Status(id string) tasks.Status {
	i, ok := g.index[id]
	if !ok {
		return ""
	}
	return g.status[i]
}

// Ready reports whether a leaf may be started: it is pending or in-progress, and everything it depends on is done.
func (g *Graph) Ready(id string) bool {
	i, ok := g.index[id]
	if !ok {
		return false
	}
	n := &g.nodes[g.in[i]]
	return n.kind == leaf && (n.state == isReady || n.state == isRunning)
}

// State returns where a task stands, and why where that needs a reason: what it waits for, what holds it, or its odd status.
// An unknown id is "other".
func (g *Graph) State(id string) (State, string) {
	i, ok := g.index[id]
	if !ok {
		return StateOther, "no such task"
	}
	n := &g.nodes[g.in[i]]
	if n.kind != leaf {
		return g.containerState(i), ""
	}
	switch n.state {
	case isWaiting:
		return StateWaiting, "waits for " + enumerate(g.ids(g.behind(g.in[i], func(p *node) bool { return !p.satisfied })))
	case isHeld:
		return StateHeld, g.heldBecause(g.in[i])
	case isOther:
		return StateOther, otherBecause(g.status[i])
	case isDone:
		if g.status[i] != tasks.Done {
			return StateDone, fmt.Sprintf("task %s, which contains it, is done", g.doneAround(i))
		}
	}
	return n.state.State(), ""
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

func (g *Graph) containerState(i int32) State {
	best := isDone
	for _, k := range g.behind(g.out[i], func(*node) bool { return true }) {
		best = min(best, g.nodes[g.in[k]].state)
	}
	return best.State()
}
