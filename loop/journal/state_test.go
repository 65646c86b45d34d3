package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"
)

// before are the journals that the version before wrote.
func before(t *testing.T) map[string][]Event {
	t.Helper()
	all, err := filepath.Glob(filepath.Join("testdata", "before", "*.ndjson"))
	if err != nil || len(all) == 0 {
		t.Fatalf("no journals, %v", err)
	}
	out := map[string][]Event{}
	for _, path := range all {
		events, err := ReadEvents(path)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(path)] = events
	}
	return out
}

// random is a run of several attempts at once, in no order that an engine would keep to.
func random(r *rand.Rand, n int) []Event {
	types := []Type{LoopStarted, LoopResumed, WaveStarted, TaskStarted, AttemptStarted, AgentFinished, VerifyStarted,
		VerifyFinished,
		AttemptFinished, Integrated, TaskDone, TaskBlocked, WaveCommitted, LimitWaiting, BreakerOpened, Warning,
		LoopStopping, LoopPaused, LoopFinished, ListChanged,
		IterationStarted, IterationFinished, GateSpoke}
	verdicts := []Verdict{Verified, Failed, Blocked, Crashed, TimedOut, Limited, Cancelled}
	decisions := []Verdict{Continue, Done, "ask", Retry, Limited, Cancelled}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	out := make([]Event, n)
	for i := range out {
		e := Event{Seq: int64(i + 1), TS: at.Add(time.Duration(i) * time.Second), Loop: "x",
			Type: types[r.IntN(len(types))]}
		if r.IntN(8) > 0 {
			e.Task, e.Attempt, e.Wave = fmt.Sprint(1+r.IntN(4)), 1+r.IntN(3), 1+r.IntN(2)
		}
		switch e.Type {
		case IterationStarted, IterationFinished, GateSpoke:
			e.Task, e.Iteration = "", 1+r.IntN(5)
		case AttemptFinished, TaskDone:
			e.Tree = fmt.Sprintf("%040d", r.IntN(100))
		case WaveCommitted, LoopFinished, LoopResumed, ListChanged:
			e.Tasks = []string{"1", "2"}
		}
		switch e.Type {
		case AttemptFinished:
			if e.Verdict = verdicts[r.IntN(len(verdicts))]; e.Verdict == Verified {
				e.Message = "a file"
			} else {
				e.Message = "1 file"
			}
		case AttemptStarted, IterationStarted, TaskStarted:
			e.Commit = "c0"
		case IterationFinished:
			e.Verdict = decisions[r.IntN(len(decisions))]
		}
		if r.IntN(2) == 0 {
			usd := float64(r.IntN(10)) / 10
			e.Detail = &Detail{Exit: Exit{End: []string{"finished", "crashed", "refused"}[r.IntN(3)], Seconds: 1},
				Files: Files{Changed: r.IntN(2)}, Spent: Spent{USD: &usd}, Client: Client{Backend: "claude"}}
		}
		out[i] = e
	}
	return out
}

// Folding all at once is folding event by event, and folding what was written and read again.
func TestFoldLaws(t *testing.T) {
	t.Parallel()
	runs := before(t)
	for seed := range uint64(40) {
		runs[fmt.Sprintf("random %d", seed)] = random(rand.New(rand.NewPCG(seed, 1)), 120)
	}
	for name, events := range runs {
		whole := Fold(events)
		parts := NewState()
		var lines []byte
		for i := range events {
			e := events[i]
			parts.Apply(&e)
			line, err := e.Line()
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, line...)
		}
		if !reflect.DeepEqual(whole, parts) {
			t.Errorf("%s: event by event it is another state", name)
		}
		again, good, err := Recover(name, lines)
		if err != nil || good != len(lines) || len(again) != len(events) {
			t.Fatalf("%s: %d of %d events are read again, %v", name, len(again), len(events), err)
		}
		if !reflect.DeepEqual(whole, Fold(again)) {
			t.Errorf("%s: read again it is another state", name)
		}
		// a torn last line is dropped, a bad one in the middle is damage where events behind it had been synced
		torn, _, err := Recover(name, lines[:len(lines)-3])
		if err != nil || !reflect.DeepEqual(Fold(torn), Fold(events[:len(events)-1])) {
			t.Errorf("%s: torn, %d events, %v", name, len(torn), err)
		}
		bad := bytes.Clone(lines)
		bad[20] ^= 1
		var damage *DamageError
		if _, _, err := Recover(name, bad); !errors.As(err, &damage) || damage.Line != 1 {
			t.Errorf("%s: damaged, %v", name, err)
		}
	}
}

// An event of the version before is written as it was: other programs read these lines.
func TestLinesStayTheSame(t *testing.T) {
	t.Parallel()
	for name, events := range before(t) {
		data, err := os.ReadFile(filepath.Join("testdata", "before", name))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range bytes.SplitAfter(data, []byte("\n")) {
			if len(line) == 0 {
				continue
			}
			got, err := events[i].Line()
			if err != nil {
				t.Fatal(err)
			}
			var a, b map[string]any
			if json.Unmarshal(line, &a) != nil || json.Unmarshal(got, &b) != nil {
				t.Fatalf("%s: line %d is no object", name, i+1)
			}
			delete(a, "crc")
			delete(b, "crc")
			if !reflect.DeepEqual(a, b) {
				t.Errorf("%s: line %d was\n%s and is\n%s", name, i+1, line, got)
			}
		}
	}
}

// TestAfter: a wave may have several commits, and with early tasks a later one may come before an earlier.
func TestAfter(t *testing.T) {
	commits := func(waves ...int) (out []WaveCommit) {
		for _, w := range waves {
			out = append(out, WaveCommit{Wave: w})
		}
		return out
	}
	for _, c := range []struct {
		waves    []int
		to, left int
	}{
		{[]int{1, 2, 3}, 2, 2}, {[]int{1, 2, 3}, 3, 3}, {[]int{1, 2, 3}, 0, 0}, {[]int{1, 1, 2, 2}, 1, 2},
		{[]int{2, 1, 3}, 1, 0}, {[]int{1, 2, 1}, 1, 1},
		{[]int{1, 3}, 2, 1}, {[]int{3}, 2, 0}, {nil, 0, 0}, {[]int{1}, 7, 1},
	} {
		all := commits(c.waves...)
		if got := len(all) - len(After(all, c.to)); got != c.left {
			t.Errorf("commits of waves %v, back to %d: %d stay, want %d", c.waves, c.to, got, c.left)
		}
	}
}

// With slots several tasks are under way at once, and a verified result becomes part of the state or goes back.
func TestTasksSideBySide(t *testing.T) {
	t.Parallel()
	s := Fold([]Event{
		{Type: TaskStarted, Unit: Unit{Task: "1"}, Base: "T0", Commit: "c0"},
		{Type: AttemptStarted, Unit: Unit{Task: "1", Attempt: 1, Slot: 1}, Tree: "T0"},
		{Type: TaskStarted, Unit: Unit{Task: "2"}, Base: "T0", Commit: "c0"},
		{Type: AttemptStarted, Unit: Unit{Task: "2", Attempt: 1, Slot: 2}, Tree: "T0"},
		{Type: AgentFinished, Unit: Unit{Task: "1"}, Detail: &Detail{}},
	})
	if open := s.Left(); len(open) != 2 || open[0].Slot != 1 || open[1].Slot != 2 {
		t.Fatalf("under way: %+v", open)
	}
	for _, e := range []Event{
		{Type: AttemptFinished, Unit: Unit{Task: "1", Attempt: 1}, Verdict: Verified, Tree: "T1", Detail: &Detail{}},
		{Type: Integrated, Unit: Unit{Task: "1"}, Tree: "T1", Commit: "c0"}, {Type: TaskDone, Unit: Unit{Task: "1"}},
		{Type: AttemptFinished, Unit: Unit{Task: "2", Attempt: 1}, Verdict: Clashed, Base: "T1", Tree: "T2",
			Reason: "its changes conflict", Detail: &Detail{}},
	} {
		s.Apply(&e)
	}
	one, two := s.Task("1"), s.Task("2")
	if v := s.Uncommitted(); !slices.Equal(v, []string{"1"}) || two.Failure.Reason != "its changes conflict" ||
		two.Base != "T1" || two.Tree != "T2" || one.Stand != StandDone {
		t.Errorf("after the integration: verified %v, tasks %+v, %+v", v, one, two)
	}
	s.Apply(&Event{Type: WaveCommitted, Tasks: []string{"1"}, Commit: "c1", Tree: "T1+"})
	if one.Verified != nil || s.WaveCommits[0].Commit != "c1" {
		t.Errorf("after the commit: %v, %v", one.Verified, s.WaveCommits)
	}
	s.TakeChanges(0)
	s.Apply(&Event{Seq: 99, Type: LoopFinished})
	if got := s.TakeChanges(98); len(got) != 1 || got["2"] != "pending" {
		t.Errorf("statuses at the end: %v", got)
	}
}

// Whatever the events are, folding them panics for none of them.
func FuzzFold(f *testing.F) {
	all, err := filepath.Glob(filepath.Join("testdata", "before", "*.ndjson"))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range all {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"type":"wave_committed","wave":2}` + "\n" + `{"type":"loop_rewound","wave":1,"tasks":["1"]}` +
		"\n" + `{"type":"attempt_finished","verdict":"verified"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var events []Event
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			var e Event
			if json.Unmarshal(line, &e) == nil {
				events = append(events, e)
			}
		}
		s := Fold(events)
		s.Underway()
		s.Verifying()
		s.WaitsUntil()
		s.TakeChanges(0)
	})
}

// BenchmarkFold folds the journal of a tag of 10,000 tasks.
func BenchmarkFold(b *testing.B) {
	events := make([]Event, 0, 60_001)
	add := func(e Event) {
		e.Seq = int64(len(events) + 1)
		events = append(events, e)
	}
	add(Event{Type: LoopStarted})
	var wave []string
	for i := range 10_000 {
		id := fmt.Sprint(i)
		wave = append(wave, id)
		add(Event{Type: TaskStarted, Unit: Unit{Task: id}})
		add(Event{Type: AttemptStarted, Unit: Unit{Task: id, Attempt: 1}})
		add(Event{Type: AgentFinished, Unit: Unit{Task: id, Attempt: 1},
			Detail: &Detail{Exit: Exit{End: EndFinished}, Speech: Speech{Words: "done"}}})
		add(Event{Type: VerifyStarted, Unit: Unit{Task: id, Attempt: 1}})
		add(Event{Type: AttemptFinished, Unit: Unit{Task: id, Attempt: 1}, Verdict: Verified,
			Detail: &Detail{Exit: Exit{End: EndFinished}, Files: Files{Changed: 1}}})
		add(Event{Type: TaskDone, Unit: Unit{Task: id, Attempt: 1}})
		if i%100 == 99 {
			add(Event{Type: WaveCommitted, Unit: Unit{Wave: i / 100}, Tasks: wave})
			wave = nil
		}
	}
	for b.Loop() {
		Fold(events)
	}
}

// What does not merge is neither verified nor failed, and costs nothing; where it merges by now the same attempt is checked.
func TestClash(t *testing.T) {
	s := NewState()
	unit := Unit{Task: "1", Attempt: 1}
	apply := func(events ...Event) {
		for _, e := range events {
			s.Apply(&e)
		}
	}
	apply(Event{Type: TaskStarted, Unit: unit, Base: "T0"}, Event{Type: AttemptStarted, Unit: unit, Tree: "T0"},
		Event{Type: AgentFinished, Unit: unit, Detail: &Detail{}},
		Event{Type: AttemptFinished, Unit: unit, Verdict: Clashed, Reason: "merge conflict", Base: "T1", Tree: "T2", Ref: "r",
			Paths: []string{"f"}, Detail: &Detail{}})
	task, a := s.Task("1"), s.Attempts[0]
	if task.Counted != 0 || task.Failure.Verdict != Clashed || task.Failure.Reason != "merge conflict" || task.Base != "T1" ||
		task.Verified != nil || task.Worked || len(s.Running) > 0 || s.Iteration != 1 ||
		s.VerifiedBy("1", a.Ended) != nil {
		t.Errorf("after the clash: %+v, running %v, %d iterations", task, s.Running, s.Iteration)
	}
	apply(Event{Type: VerifyStarted, Unit: unit}, Event{Type: VerifyFinished, Unit: unit, Detail: &Detail{Checked: Checked{Passed: true}}},
		Event{Type: AttemptFinished, Unit: unit, Verdict: Verified, Tree: "T3", Ref: "r", Detail: &Detail{}},
		Event{Type: Integrated, Unit: unit, Tree: "T3"})
	if len(s.Attempts) != 1 || len(s.Ended) != 1 || len(s.Running) > 0 || a.Verdict != Verified || a.Begin == nil ||
		task.Verified == nil || task.Counted != 1 {
		t.Errorf("after the merge: %+v, %d attempts, %d ended, task %+v", a, len(s.Attempts), len(s.Ended), task)
	}
}

// The branch that gets a run's commits is the one of its first line, which is that of a resume where all before it was
// lost.
func TestBranch(t *testing.T) {
	t.Parallel()
	s := Fold([]Event{{Type: LoopResumed}, {Type: LoopResumed, Branch: "refs/heads/a"}, {Type: LoopResumed, Branch: "refs/heads/b"}})
	if s.Branch != "refs/heads/a" {
		t.Errorf("got %q", s.Branch)
	}
}
