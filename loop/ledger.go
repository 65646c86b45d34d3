package loop

import (
	"fmt"
	"slices"
	"time"
)

// ledger is what a loop's journal says of its tasks. Replay and the run itself fill it through
// apply alone, so that a resumed loop knows exactly what the first one knew.
type ledger struct {
	begun       map[string]int // attempts begun, for numbering; a task's attempts are numbered for the whole loop
	used        map[string]int // attempts that count against the limit; --retry-blocked starts anew
	cutOff      map[string]int // attempts in a row that a person, a reboot or a kill ended
	failures    map[string]Event
	otherEnds   map[string]bool // tasks with an attempt that failed otherwise than by a crash of the agent
	blocked     []Event
	kept        map[string]string // the last ref of each task's attempts
	delivered   map[string]string
	verified    []Event // attempt_finished of tasks whose work is not committed yet
	gaveUp      []Event // task_blocked of tasks whose status no commit holds yet
	work        []workDone
	undone      []Undone
	commits     []Event
	open        *Event               // attempt_started without attempt_finished
	agent       *Event               // agent_finished of the open attempt
	bases       map[string]string    // the tree before each running task's first attempt
	heads       map[string]string    // and the commit that HEAD stood at
	starts      map[string]time.Time // and when that was
	reviewed    map[string]int       // the failed attempt of each task that was reviewed last
	refinements map[string][]string
	current     string // task last started and neither done nor blocked
	shelved     bool   // the run was stopped in the middle of that task: the task file calls it pending
	wave        int
	iteration   int
	tree        string
	userPaths   []string
	started     time.Time
	cost        Cost
	costs       Costs
	finished    *Event
	changes     []statusChange
	turns       turns // of a prompt loop
	pace        pace
	cut         map[string]Event // the last attempt of a task that its provider cut short, and that had changed something
	agents      []AgentUse
	checked     string // the verify command of the attempt under way
	passed      pass   // the last one
	streak      streak
	retried     []Event  // blocked tasks that this run tries again, from where they stand until an attempt begins
	left        []string // files that only verifications made
}

// statusChange is one task's new status, and the event that made it so.
type statusChange struct {
	task, status string
	seq          int64
}

func newLedger() *ledger {
	return &ledger{begun: map[string]int{}, used: map[string]int{}, cutOff: map[string]int{}, failures: map[string]Event{}, otherEnds: map[string]bool{}, kept: map[string]string{},
		delivered: map[string]string{}, bases: map[string]string{}, heads: map[string]string{}, starts: map[string]time.Time{},
		reviewed: map[string]int{}, refinements: map[string][]string{}, cut: map[string]Event{}, pace: newPace()}
}

// apply takes one event into account.
func (l *ledger) apply(e *Event) {
	if e.Tree != "" {
		l.tree = e.Tree
	}
	l.pace.apply(e)
	if e.Iteration > 0 {
		l.iteration = e.Iteration
		l.turns.apply(e)
		if e.Type == IterationFinished && e.Commit != "" && l.turns.base != "" {
			l.work = append(l.work, workDone{name: fmt.Sprintf("iteration %d", e.Iteration), base: l.turns.base, tree: e.Tree, left: l.left, committed: true})
		}
	}
	if e.Type == GateSpoke {
		l.turns.hear(e)
	}
	switch e.Type {
	case Warning:
		if e.Reason == reasonUndone {
			l.undo(e)
		}
	case LoopStarted:
		l.started, l.userPaths = e.TS, e.Paths
		l.noteLeavings(e.Detail)
		l.resume(e)
	case LoopResumed:
		l.turns.failed = 0
		if len(e.Paths) > 0 { // of a prompt loop
			l.userPaths = e.Paths
		}
		l.resume(e)
	case WaveStarted:
		l.wave = e.Wave
	case TaskStarted:
		l.current, l.bases[e.Task], l.heads[e.Task], l.starts[e.Task] = e.Task, e.Base, e.Commit, e.TS
		l.change(e, "in-progress")
	case SpecRefined:
		l.reviewed[e.Task] = l.failures[e.Task].Attempt
		if e.Message != "" {
			l.refinements[e.Task] = append(l.refinements[e.Task], e.Message)
		}
		l.spend(e)
	case AttemptStarted:
		l.begun[e.Task], l.open, l.agent, l.retried = e.Attempt, e, nil, nil
		l.used[e.Task]++
		l.iteration++
		if l.shelved {
			l.change(e, "in-progress")
		}
		l.shelved = false
	case AgentFinished:
		l.agent = e
		l.spend(e)
		l.addUse(e.Detail)
	case VerifyFinished:
		if d := e.Detail; d != nil && d.Command != "" {
			l.noteLeavings(d)
			switch l.checked = d.Command; {
			case d.Baseline && d.Passed:
				l.passed = pass{e.Tree, d.Command}
			case d.Baseline:
				l.passed = pass{}
			}
		}
	case IterationFinished:
		l.noteLeavings(e.Detail)
	case AttemptFinished:
		l.finishAttempt(e)
		l.streak.apply(e)
	case BreakerOpened:
		l.streak.half, l.streak.tasks = true, nil
	case TaskDone:
		l.close(e, "done")
		l.blocked = slices.DeleteFunc(l.blocked, func(b Event) bool { return b.Task == e.Task })
	case TaskBlocked:
		l.close(e, "blocked")
		l.blocked = slices.DeleteFunc(l.blocked, func(b Event) bool { return b.Task == e.Task }) // answered, and blocked again
		l.blocked, l.gaveUp = append(l.blocked, *e), append(l.gaveUp, *e)
	case WaveCommitted:
		l.commits, l.gaveUp = append(l.commits, *e), nil // every commit holds the whole task file
		l.userPaths = slices.DeleteFunc(slices.Clone(l.userPaths), func(p string) bool { return slices.Contains(e.Paths, p) })
		l.verified = slices.DeleteFunc(l.verified, func(v Event) bool { return slices.Contains(e.Tasks, v.Task) })
	case LoopPaused, LoopFinished:
		l.finished = e
		l.notRetried(e)
		for _, id := range e.Tasks {
			if l.open != nil && l.open.Task == id {
				continue // an attempt is under way: the next run settles it, and needs the task's base for that
			}
			l.close(&Event{Task: id, Seq: e.Seq}, "pending")
		}
		if l.current != "" { // nobody works on it now
			l.change(&Event{Task: l.current, Seq: e.Seq}, "pending")
			l.shelved = true
		}
	}
}

func (l *ledger) resume(e *Event) {
	l.finished, l.retried = nil, nil
	if e.Reason != reasonRetry && e.Reason != reasonAnswered {
		return
	}
	for _, id := range e.Tasks {
		delete(l.used, id)
		delete(l.cutOff, id)
		delete(l.otherEnds, id)
		delete(l.costs.fresh, id)
		l.changes = append(l.changes, statusChange{id, "pending", e.Seq})
		if e.Reason == reasonRetry {
			l.retried = append(l.retried, l.blockedAs(id))
		}
	}
	l.blocked = slices.DeleteFunc(l.blocked, func(b Event) bool { return slices.Contains(e.Tasks, b.Task) })
}

// blockedAs is the event that blocked a task; of one that an earlier loop blocked only its id is known.
func (l *ledger) blockedAs(id string) Event {
	if at := slices.IndexFunc(l.blocked, func(b Event) bool { return b.Task == id }); at >= 0 {
		return l.blocked[at]
	}
	return Event{Task: id}
}

// notRetried blocks the tasks again that were to be tried once more, where the run was refused before any attempt.
func (l *ledger) notRetried(e *Event) {
	if Ending(e.Reason) != BaselineFails {
		return
	}
	for _, b := range l.retried {
		l.change(&Event{Task: b.Task, Seq: e.Seq}, "blocked")
		if b.Type != "" {
			l.blocked = append(l.blocked, b)
		}
	}
}

func (l *ledger) finishAttempt(e *Event) {
	l.open, l.agent = nil, nil
	l.noteLeavings(e.Detail)
	if e.Ref != "" {
		l.kept[e.Task] = e.Ref
	}
	if e.Verdict != verdictCancelled {
		delete(l.cutOff, e.Task)
	}
	switch e.Verdict {
	case verdictVerified:
		v := *e
		v.Base, v.Commit, v.Paths = l.bases[e.Task], l.heads[e.Task], slices.Clone(l.left)
		l.passed = pass{e.Tree, l.checked}
		l.verified = append(l.verified, v)
		l.work = append(l.work, workDone{name: taskWork(e.Task), base: v.Base, tree: v.Tree, left: v.Paths})
		if e.Message != "" {
			l.delivered[e.Task] = e.Message
		}
	case verdictCancelled: // not an attempt
		l.cutOff[e.Task]++
		l.used[e.Task]--
		l.iteration--
		l.cutShort(e)
		return
	case verdictLimited: // nor is this
		l.used[e.Task]--
		l.iteration--
		l.cutShort(e)
		return
	default:
		if e.Detail != nil && e.Detail.End == endRefused { // not the task's fault
			l.used[e.Task]--
		}
		if e.Detail != nil && passing(e.Detail) { // nor this, though it may have cost something
			l.used[e.Task]--
			l.cutShort(e)
			return
		}
		l.failures[e.Task] = *e
		if e.Verdict != verdictCrashed {
			l.otherEnds[e.Task] = true
		}
	}
	delete(l.cut, e.Task)
}

// cutShort notes an attempt that is none, whose work lies in the tree all the same.
func (l *ledger) cutShort(e *Event) {
	if e.Detail != nil && e.Detail.Changed > 0 {
		l.cut[e.Task] = *e
	}
}

// addUse counts an attempt with what it was run with.
func (l *ledger) addUse(d *Detail) {
	if d == nil {
		return
	}
	at := slices.IndexFunc(l.agents, func(u AgentUse) bool { return u.Backend == d.Backend && u.Model == d.Model })
	if at < 0 {
		at = len(l.agents)
		l.agents = append(l.agents, AgentUse{Backend: d.Backend, Model: d.Model})
	}
	l.agents[at].Attempts++
}

func (l *ledger) close(e *Event, status string) {
	l.change(e, status)
	if status == "done" { // a task that is tried again later is told what failed
		delete(l.failures, e.Task)
	}
	delete(l.cut, e.Task)
	delete(l.bases, e.Task)
	delete(l.heads, e.Task)
	delete(l.starts, e.Task)
	if l.current == e.Task {
		l.current = ""
	}
}

func (l *ledger) change(e *Event, status string) {
	l.changes = append(l.changes, statusChange{e.Task, status, e.Seq})
}

// takeChanges returns the status changes since the last call that the events after seq made, the
// last one for each task.
func (l *ledger) takeChanges(seq int64) map[string]string {
	out := make(map[string]string, len(l.changes))
	for _, c := range l.changes {
		if c.seq > seq {
			out[c.task] = c.status
		}
	}
	l.changes = l.changes[:0]
	return out
}

// Verdicts and reasons as the journal spells them.
const (
	verdictVerified = "verified"
	verdictLimited  = "limited"
	verdictCrashed  = "crashed"
	verdictBlocked  = "blocked"
	verdictFailed   = "failed"
	endRefused      = "refused"
	reasonAnswered  = "questions were answered"
	reasonRetry     = "retry blocked tasks"
	reasonTakeover  = "the loop had been interrupted"
)
