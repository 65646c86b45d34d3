package journal

import (
	"strings"
	"time"
)

// Waited is a time in which something waited.
type Waited struct {
	For    WaitFor
	Task   string // that waited; "" for a prompt loop, and for a loop that nobody ran
	Since  time.Time
	Ended  time.Time // zero: it has not
	Reason string
}

// WaitFor is what was waited for.
type WaitFor string

// What a loop waits for, as its journal tells.
const (
	WaitProvider WaitFor = "provider" // its quota, or that it works again
	WaitPerson   WaitFor = "person"   // an answer, or that somebody resumes the loop
	WaitRun      WaitFor = "run"      // a run that was killed or reached its limit, until another went on
)

// wait begins a wait.
func (s *State) wait(w Waited) { s.Waits = append(s.Waits, &w) }

// waited ends the waits of a task; "" ends all of them.
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

// followWaits takes an event into account; before is when the one before it happened.
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

// asks is the decision of a gate that a person has to answer.
const asks Decision = "ask"

// waitsFor is what a loop with this end waits for, if somebody resumes it.
func (e Ending) waitsFor() WaitFor {
	switch e {
	case QuotaUsedUp, ProviderFails:
		return WaitProvider
	case Paused, UserCancelled, GateAsks, GateBlocked, BreakerOpen, TasksBlocked, AllDone, StepDone:
		return WaitPerson
	}
	return WaitRun
}
