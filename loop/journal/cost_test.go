package journal

import (
	"testing"
	"time"
)

func TestCostSums(t *testing.T) {
	t.Parallel()
	usd := func(f float64) *float64 { return &f }
	var c Cost
	if c.Dollars() != "unknown" {
		t.Errorf("of nothing: %s", c.Dollars())
	}
	c.Add(nil)
	c.Add(&Detail{Exit: Exit{End: "refused"}}) // never ran
	if c.Runs != 0 {
		t.Errorf("a run that was none counts: %+v", c)
	}
	for _, tt := range []struct {
		d    Detail
		want string
	}{
		{Detail{Spent: Spent{USD: usd(0.1), InputTokens: 1000, OutputTokens: 5}}, "$0.10"},
		{Detail{Spent: Spent{USD: usd(0.2)}}, "$0.30"},
		{Detail{Spent: Spent{USD: usd(0)}}, "$0.30"},
		{Detail{Spent: Spent{USD: usd(0.4), Estimated: true, InputTokens: 11345, OutputTokens: 673}},
			"$0.70 (estimated)"},
		{Detail{Exit: Exit{End: "crashed"}}, "at least $0.70 (estimated), 1 attempt unknown"},
		{Detail{Exit: Exit{End: "limited"}, Spent: Spent{InputTokens: 1}},
			"at least $0.70 (estimated), 2 attempts unknown"},
		{Detail{Exit: Exit{End: "refused"}, Spent: Spent{USD: usd(0.3)}},
			"at least $1.00 (estimated), 2 attempts unknown"},
	} {
		c.Add(&tt.d)
		if got := c.Dollars(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
	part := c
	part.Add(&Detail{Spent: Spent{USD: usd(0.5), InputTokens: 10, OutputTokens: 2, Partial: true}})
	if got := part.Text(); got != "at least $1.50 (estimated), 3 attempts unknown, at least 12356 tokens in, 680 out" {
		t.Errorf("with a part: %s", got)
	}
	if got := c.Text(); got != "at least $1.00 (estimated), 2 attempts unknown, at least 12346 tokens in, 678 out" ||
		c.UnknownTokens != 4 {
		t.Errorf("%s of %+v", got, c)
	}
	if got := (Cost{}).Plus(c).Plus(Cost{USD: usd(1), Runs: 1}); *got.USD != 2 || got.Unknown != 2 ||
		got.Runs != c.Runs+1 || *got.InputTokens != 12346 {
		t.Errorf("plus: %+v", got)
	}
	for n, want := range map[float64]string{0: "$0.00", 0.00001: "$0.0001", 0.0042: "$0.0042", 0.01: "$0.01",
		12.345: "$12.35"} {
		if got := Dollars(n); got != want {
			t.Errorf("%g: %s, want %s", n, got, want)
		}
	}
	sum := 0.0
	for range 10 {
		sum = dollarSum(&sum, 0.1)
	}
	if sum != 1 {
		t.Errorf("ten times $0.10 are %g", sum)
	}
}

// A reviewer that was killed with its run counts as an attempt of unknown cost, in the task, its attempt and the wave.
// One that had answered, or whose run ended otherwise, counts once.
func TestCostOfTheKilledReviewer(t *testing.T) {
	t.Parallel()
	usd := 0.5
	spent := Detail{Exit: Exit{End: EndFinished}, Spent: Spent{USD: &usd, InputTokens: 10, OutputTokens: 2}}
	answer := spent
	answer.Look = LookReview
	asks, prove := &Detail{Look: LookReview}, &Detail{Look: "prove"}
	one, wave := Unit{Wave: 1, Task: "1", Attempt: 1}, Unit{Wave: 1}
	begun := []Event{{Type: AttemptStarted, Unit: one}, {Type: AgentFinished, Unit: one, Detail: &spent}}
	for name, tt := range map[string]struct {
		then []Event
		want string // of the run, the task, the attempt and the wave
	}{
		"killed in a review": {[]Event{{Type: LookStarted, Unit: one, Detail: asks}, {Type: LoopResumed}},
			"at least $0.50, 1 attempt unknown, at least 10 tokens in, 2 out"},
		"and asked again": {[]Event{{Type: LookStarted, Unit: one, Detail: asks}, {Type: LoopResumed},
			{Type: LookStarted, Unit: one, Detail: asks}, {Type: LookAnswered, Unit: one, Detail: &answer}, {Type: LoopResumed}},
			"at least $1.00, 1 attempt unknown, at least 20 tokens in, 4 out"},
		"killed in a wave's review": {[]Event{{Type: LookStarted, Unit: wave, Detail: asks}, {Type: LoopResumed}},
			"at least $0.50, 1 attempt unknown, at least 10 tokens in, 2 out"},
		"killed after the answer": {[]Event{{Type: LookStarted, Unit: one, Detail: asks},
			{Type: LookAnswered, Unit: one, Detail: &answer}, {Type: LoopResumed}}, "$1.00, 20 tokens in, 4 out"},
		"killed in another look": {[]Event{{Type: LookStarted, Unit: one, Detail: prove}, {Type: LoopResumed}},
			"$0.50, 10 tokens in, 2 out"},
		"killed after the attempt": {[]Event{{Type: LookStarted, Unit: one, Detail: asks},
			{Type: AttemptFinished, Unit: one, Verdict: Verified}, {Type: LoopResumed}}, "$0.50, 10 tokens in, 2 out"},
		"an end that was told": {[]Event{{Type: LookStarted, Unit: one, Detail: asks}, {Type: LoopFinished}, {Type: LoopResumed}},
			"$0.50, 10 tokens in, 2 out"},
	} {
		events := append(begun[:len(begun):len(begun)], tt.then...)
		for n := range events {
			events[n].TS = time.Unix(int64(n+1), 0)
		}
		s := Fold(events)
		costs := map[string]Cost{"run": s.Cost, "wave": s.WaveCosts()[1]}
		if name != "killed in a wave's review" {
			costs["task"], costs["attempt"] = s.Task("1").Cost, s.Attempt(Key{Task: "1", Number: 1}).Cost
		}
		for of, got := range costs {
			if got := got.Text(); got != tt.want {
				t.Errorf("%s: %s: got %s, want %s", name, of, got, tt.want)
			}
		}
	}
}

// The agent of an attempt, or an iteration, that was killed with its run could not report its cost. One that had
// reported before counts once.
func TestCostOfTheKilled(t *testing.T) {
	t.Parallel()
	usd, cut := 0.5, &Detail{Exit: Exit{End: EndCancelled, Cause: CauseKilled}}
	ended := Detail{Exit: Exit{End: EndFinished}, Spent: Spent{USD: &usd, InputTokens: 10, OutputTokens: 2}}
	one, two, third := Unit{Task: "1", Attempt: 1}, Unit{Task: "2", Attempt: 1}, Unit{Iteration: 3, Attempt: 1}
	s := Fold([]Event{
		{Type: AttemptStarted, Unit: one}, {Type: AgentFinished, Unit: one, Detail: &ended},
		{Type: AttemptFinished, Unit: one, Verdict: Cancelled, Reason: Killed, Detail: cut},
		{Type: AttemptStarted, Unit: two},
		{Type: AttemptFinished, Unit: two, Verdict: Cancelled, Reason: Killed, Detail: cut},
		{Type: IterationStarted, Unit: third},
		{Type: IterationFinished, Unit: third, Verdict: Cancelled, Reason: Killed, Detail: cut},
	})
	if got, want := s.Cost.Text(), "at least $0.50, 2 attempts unknown, at least 10 tokens in, 2 out"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for task, want := range map[string]string{"1": "$0.50, 10 tokens in, 2 out", "2": "unknown"} {
		if got := s.Task(task).Cost.Text(); got != want {
			t.Errorf("task %s: got %s, want %s", task, got, want)
		}
	}
	if a := s.Attempt(Key{Task: "2", Number: 1}); a.Cost.Unknown != 1 {
		t.Errorf("attempt: %+v", a.Cost)
	}
}
