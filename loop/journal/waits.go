package journal

import (
	"strings"
	"time"
)

// Waited is a period in which something waited.
type Waited struct {
	For    WaitFor
	Task   string // the task that waited; "" for a prompt loop, and for a loop without a run
	Since  time.Time
	Ended  time.Time // zero: still waiting
	Reason string
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
func (s *State) wait(w Waited) { s.Waits = append(s.Waits, &w) }

// waited ends a task's waits; "" ends all.
func (s *State) waited(task string, at time.Time) {
	for i := len(s.Waits) - 1; i >= s.waitsOver; i-- {
		if w := s.Waits[i]; w.Ended.IsZero() && (task == "" || w.Task == task) {
			w.Ended = at
		}
	}
	for s.waitsOver < len(s.Waits) && !s.Waits[s.waitsOver].Ended.IsZero() {
		s.waitsOver++
	}
}

// followWaits applies an event; before is the time of the previous one.
func (s *State) followWaits(e *Event, before time.Time) {
	switch e.Type {
	case LimitWaiting:
		s.waited(e.Task, e.TS)
		s.wait(Waited{For: WaitProvider, Task: e.Task, Since: e.TS, Reason: e.Reason})
	case AttemptStarted, TaskDone, TaskBlocked:
		s.waited(e.Task, e.TS)
	case IterationStarted:
		s.waited("", e.TS)
	case IterationFinished, GateSpoke:
		if s.waited("", e.TS); e.Decision == asks {
			s.wait(Waited{For: WaitPerson, Since: e.TS, Reason: e.Message})
		}
	case LoopStarted, LoopResumed:
		switch {
		case e.Reason == ReasonAnswered: // in the middle of a run
			return
		case e.Type == LoopResumed && s.Finished == nil && !before.IsZero():
			s.waited("", before)
			s.wait(Waited{For: WaitRun, Since: before, Reason: "killed"})
		}
		s.waited("", e.TS)
	case LoopPaused, LoopFinished:
		s.waited("", e.TS)
		s.wait(Waited{For: Ending(e.Reason).waitsFor(), Since: e.TS, Reason: strings.TrimPrefix(Ending(e.Reason).Words(), "user ")})
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
