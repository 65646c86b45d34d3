package journal

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// What is going on is known after each event, with several attempts at once.
func TestPhases(t *testing.T) {
	t.Parallel()
	reset := time.Date(2026, 3, 1, 18, 0, 0, 0, time.UTC)
	now := clock()
	s := NewState()
	for _, step := range []struct {
		event Event
		want  string
	}{
		{Event{Type: LoopStarted}, ""},
		{Event{Type: VerifyStarted, Detail: &Detail{Checked: Checked{Baseline: true}}}, "baseline"},
		{Event{Type: VerifyFinished, Detail: &Detail{Checked: Checked{Baseline: true, Passed: true}}}, ""},
		{Event{Type: AttemptStarted, Unit: Unit{Task: "1", Attempt: 1}}, "1/1 agent"},
		{Event{Type: AttemptStarted, Unit: Unit{Task: "2", Attempt: 1}}, "1/1 agent, 2/1 agent"},
		{Event{Type: AgentFinished, Unit: Unit{Task: "1", Attempt: 1}, Detail: &Detail{Exit: Exit{End: EndFinished}}},
			"1/1 agent, 2/1 agent"},
		{Event{Type: VerifyStarted, Unit: Unit{Task: "1", Attempt: 1}}, "1/1 verify, 2/1 agent"},
		{Event{Type: LimitWaiting, Unit: Unit{Task: "3"}, Detail: &Detail{Exit: Exit{Until: &reset},
			Client: Client{Backend: "claude"}}}, "1/1 verify, 2/1 agent, 3 waits"},
		{Event{Type: AttemptFinished, Unit: Unit{Task: "1", Attempt: 1}, Verdict: Verified},
			"1/1 integrating, 2/1 agent, 3 waits"},
		{Event{Type: Integrated, Unit: Unit{Task: "1", Attempt: 1}}, "2/1 agent, 3 waits"},
		{Event{Type: TaskDone, Unit: Unit{Task: "1", Attempt: 1}}, "2/1 agent, 3 waits"},
		{Event{Type: AttemptFinished, Unit: Unit{Task: "2", Attempt: 1}, Verdict: Failed},
			"3 waits, and nothing else"},
		{Event{Type: AttemptStarted, Unit: Unit{Task: "3", Attempt: 1}}, "3/1 agent"},
		{Event{Type: AttemptStarted, Unit: Unit{Task: "2", Attempt: 2}}, "2/2 agent, 3/1 agent"},
		{Event{Type: LoopResumed, Reason: ReasonAnswered, Tasks: []string{"4"}}, "2/2 agent, 3/1 agent"},
		{Event{Type: LoopFinished, Reason: string(Interrupted)}, "2/2 open, 3/1 open"},
		{Event{Type: LoopResumed, Reason: ReasonTakeover}, "2/2 open, 3/1 open"},
		{Event{Type: VerifyStarted, Unit: Unit{Task: "2", Attempt: 2}}, "2/2 verify, 3/1 open"},
		{Event{Type: AttemptFinished, Unit: Unit{Task: "3", Attempt: 1}, Verdict: Cancelled}, "2/2 verify"},
		{Event{Type: AttemptFinished, Unit: Unit{Task: "2", Attempt: 2}, Verdict: Verified}, "2/2 integrating"},
		{Event{Type: TaskDone, Unit: Unit{Task: "2", Attempt: 2}}, ""},
	} {
		e := step.event
		e.TS = now()
		s.Apply(&e)
		if got := going(s, e.TS); got != step.want {
			t.Fatalf("after %s of %s: %q, want %q", e.Type, e.Task, got, step.want)
		}
	}
	if len(s.Attempts) != 4 || len(s.Ended) != 4 {
		t.Errorf("%d attempts, %d ended", len(s.Attempts), len(s.Ended))
	}
}

// An attempt of a fleet waits until a worker has it, and again when that is lost; nothing waits once the run is over.
func TestWaiting(t *testing.T) {
	t.Parallel()
	now := clock()
	s := NewState()
	for _, step := range []struct {
		event Event
		want  string
	}{
		{Event{Type: AttemptStarted, Unit: Unit{Task: "1", Attempt: 1, Slot: 2}}, "slot 2"},
		{Event{Type: AttemptWaiting, Unit: Unit{Task: "1", Attempt: 1}, Reason: "a worker with gpu"},
			"waits for a worker with gpu"},
		{Event{Type: AttemptPlaced, Unit: Unit{Task: "1", Attempt: 1, Host: "a"}, Ref: "r1"}, "on a"},
		{Event{Type: AttemptWaiting, Unit: Unit{Task: "1", Attempt: 1}, Reason: "a free slot"},
			"waits for a free slot"},
		{Event{Type: AttemptPlaced, Unit: Unit{Task: "1", Attempt: 1, Host: "a"}, Ref: "r1"}, "on a"},
		{Event{Type: AttemptWaiting, Unit: Unit{Task: "1", Attempt: 1}, Reason: "quota"}, "waits for quota"},
		{Event{Type: LoopResumed, Reason: ReasonTakeover}, "on a"},
		{Event{Type: AttemptWaiting, Unit: Unit{Task: "1", Attempt: 1}, Reason: "quota"}, "waits for quota"},
		{Event{Type: AttemptFinished, Unit: Unit{Task: "1", Attempt: 1}, Verdict: Cancelled}, "on a"},
	} {
		e := step.event
		e.TS = now()
		s.Apply(&e)
		if got := s.Attempts[0].Place(); got != step.want {
			t.Errorf("after %s: %q, want %q", e.Type, got, step.want)
		}
	}
}

// A worker of a fleet that is lost takes back what it reported, whatever that was; one that is still there after the
// run was resumed does not.
func TestPlaced(t *testing.T) {
	t.Parallel()
	now := clock()
	s := NewState()
	one := func(typ Type, step int, d *Detail) *Event {
		return &Event{TS: now(), Type: typ, Unit: Unit{Task: "1", Attempt: 1, Step: step}, Detail: d}
	}
	placed := func(ref string) *Event {
		e := one(AttemptPlaced, 0, nil)
		e.Host, e.Ref = "b", ref
		return e
	}
	usd := 1.0
	for _, step := range []struct {
		event *Event
		want  string
	}{
		{&Event{TS: now(), Type: TaskStarted, Unit: Unit{Task: "1"}, Base: "t"}, ""},
		{one(AttemptStarted, 0, &Detail{}), "agent 0 steps 0 checks"},
		{placed("r1"), "agent 0 steps 0 checks"},
		{one(AgentFinished, 2, &Detail{Exit: Exit{End: EndFinished}, Client: Client{Backend: "claude"},
			Spent: Spent{USD: &usd}}), "agent 2 steps 0 checks, answered"},
		{one(VerifyStarted, 3, nil), "verify 3 steps 0 checks, answered"},
		{one(VerifyFinished, 4, &Detail{Checked: Checked{Command: "true", Passed: true}}),
			"verify 4 steps 1 checks, answered"},
		{&Event{TS: now(), Type: LoopResumed}, "open 4 steps 1 checks, answered"},
		{placed("r1"), "verify 4 steps 1 checks, answered"},
		{placed("r2"), "agent 0 steps 0 checks"},
		{one(AgentFinished, 2, &Detail{Exit: Exit{End: EndFinished}, Client: Client{Backend: "claude"},
			Spent: Spent{USD: &usd}}), "agent 2 steps 0 checks, answered"},
		{one(AttemptFinished, 0, &Detail{Client: Client{Backend: "claude"}}), ""},
	} {
		if step.event.Type == AttemptFinished {
			step.event.Verdict = Failed
		}
		s.Apply(step.event)
		got := ""
		for _, a := range s.Running {
			if got = fmt.Sprintf("%s %d steps %d checks", a.Phase, a.Steps, len(a.Checks)); a.Agent != nil {
				got += ", answered"
			}
		}
		if got != step.want {
			t.Fatalf("after %s: %q, want %q", step.event.Type, got, step.want)
		}
	}
	if len(s.Ended) != 1 || s.Task("1").Counted != 1 || *s.Cost.USD != 2 {
		t.Errorf("%d ended, %d counted, cost %v", len(s.Ended), s.Task("1").Counted, *s.Cost.USD)
	}
}

func going(s *State, now time.Time) string {
	var out []string
	for _, a := range s.Running {
		out = append(out, fmt.Sprintf("%s/%d %s", a.Task, a.Number, a.Phase))
	}
	slices.Sort(out)
	if !s.Baseline.IsZero() {
		out = append(out, "baseline")
	}
	for _, w := range s.Waiting() {
		line := w.Task + " waits"
		if w := s.WaitsUntil(); w != nil && w.Until.After(now) {
			line += ", and nothing else"
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

// TestIterationInSlot has an iteration whose work is integrated before it ends: that is one attempt.
func TestIterationInSlot(t *testing.T) {
	s := Fold([]Event{
		{Type: LoopStarted}, {Type: IterationStarted, Unit: Unit{Iteration: 1, Attempt: 1, Slot: 1}},
		{Type: AgentFinished, Unit: Unit{Iteration: 1, Attempt: 1}, Detail: &Detail{Exit: Exit{End: EndFinished}}},
		{Type: Integrated, Unit: Unit{Iteration: 1, Attempt: 1}, Commit: "c"},
		{Type: IterationFinished, Unit: Unit{Iteration: 1, Attempt: 1}, Verdict: Done, Commit: "c",
			Detail: &Detail{Exit: Exit{End: EndFinished, Seconds: 2}}},
	})
	if len(s.Attempts) != 1 || len(s.Ended) != 1 || len(s.Running) != 0 || s.Attempts[0].Slot != 1 ||
		s.Attempts[0].Seconds() != 2 {
		t.Errorf("got %d attempts, %d ended, %d running", len(s.Attempts), len(s.Ended), len(s.Running))
	}
}
