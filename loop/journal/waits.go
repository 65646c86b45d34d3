package journal

import "time"

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

// endWaits ends all waits.
func (s *State) endWaits(at time.Time) {
	for _, w := range s.Waits {
		if w.Ended.IsZero() {
			w.Ended = at
		}
	}
}

// endWaitsOf ends those of an event's task.
func (s *State) endWaitsOf(e *Event) {
	for _, w := range s.Waits {
		if w.Ended.IsZero() && w.Task == e.Task {
			w.Ended = e.TS
		}
	}
}

// waitForAnswer waits for a person if an iteration or a gate asks one.
func (s *State) waitForAnswer(e *Event) {
	if s.endWaits(e.TS); e.Verdict == Asks {
		s.wait(Wait{For: WaitPerson, Since: e.TS, Reason: e.Message})
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
