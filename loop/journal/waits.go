package journal

import (
	"strings"
	"time"
)

// Wait is a period in which something waited.
type Wait struct {
	For     WaitFor
	Task    string // the task that waited; "" for a prompt loop, and for a loop without a run
	Backend string // of a wait for a provider
	Since   time.Time
	Until   time.Time // when a provider is to work again; zero if unknown
	Ended   time.Time // zero: still waiting
	Reason  string
}

// WaitFor is the reason for a wait.
type WaitFor string

// What a loop waits for.
const (
	WaitProvider WaitFor = "provider" // for quota, or for the provider to work again
	WaitPerson   WaitFor = "person"   // for an answer, or for somebody to resume the loop
	WaitRun      WaitFor = "run"      // for another run after one that was killed or reached its limit
)

// wait starts a wait.
func (s *State) wait(w Wait) { s.Waits = append(s.Waits, &w) }

// waited ends the waits of a task, or all.
func (s *State) waited(of func(*Wait) bool, at time.Time) {
	for _, w := range s.Waits {
		if w.Ended.IsZero() && of(w) {
			w.Ended = at
		}
	}
}

// Waiting are the waits for a provider that a run is in, or was in when it was killed: at most one for each task.
func (s *State) Waiting() (list []*Wait) {
	if s.Finished != nil {
		return nil
	}
	for _, w := range s.Waits {
		if w.For == WaitProvider && w.Ended.IsZero() {
			list = append(list, w)
		}
	}
	return list
}

// WaitOf is a task's wait for a provider, or nil.
func (s *State) WaitOf(task string) *Wait {
	for _, w := range s.Waiting() {
		if w.Task == task {
			return w
		}
	}
	return nil
}

// WaitsUntil returns the wait for a provider that ends first; nil if there is none, or an attempt is at work.
func (s *State) WaitsUntil() (first *Wait) {
	if s.Underway() {
		return nil
	}
	for _, w := range s.Waiting() {
		if first == nil || w.Until.Before(first.Until) {
			first = w
		}
	}
	return first
}

// followWaits applies an event; before is the time of the previous one.
func (s *State) followWaits(e *Event, before time.Time) {
	own, all := func(w *Wait) bool { return w.Task == e.Task }, func(*Wait) bool { return true }
	switch e.Type {
	case LimitWaiting:
		s.waited(own, e.TS)
		w := Wait{For: WaitProvider, Task: e.Task, Since: e.TS, Reason: e.Reason}
		if d := e.Detail; d != nil {
			if w.Backend = d.Backend; d.Until != nil {
				w.Until = *d.Until
			}
		}
		s.wait(w)
	case AttemptStarted, LookAnswered, TaskDone, TaskBlocked:
		s.waited(own, e.TS)
	case IterationStarted:
		s.waited(all, e.TS)
	case IterationFinished, GateSpoke:
		if s.waited(all, e.TS); e.Decision == asks {
			s.wait(Wait{For: WaitPerson, Since: e.TS, Reason: e.Message})
		}
	case LoopStarted, LoopResumed:
		switch {
		case e.Reason == ReasonAnswered: // in the middle of a run
			return
		case e.Type == LoopResumed && s.Finished == nil && !before.IsZero():
			s.waited(all, before)
			s.wait(Wait{For: WaitRun, Since: before, Reason: "killed"})
		}
		s.waited(all, e.TS)
	case LoopPaused, LoopFinished:
		s.waited(all, e.TS)
		s.wait(Wait{For: Ending(e.Reason).waitsFor(), Since: e.TS, Reason: strings.TrimPrefix(Ending(e.Reason).Words(), "user ")})
	}
}

// asks is a gate's decision that a person has to answer.
const asks Decision = "ask"

// waitsFor is what a loop with this ending waits for, if somebody resumes it.
func (e Ending) waitsFor() WaitFor {
	switch e {
	case QuotaUsedUp, ProviderFails:
		return WaitProvider
	case Paused, UserCancelled, GateAsks, GateBlocked, BreakerOpen, TasksBlocked, AllDone, StepDone:
		return WaitPerson
	}
	return WaitRun
}
