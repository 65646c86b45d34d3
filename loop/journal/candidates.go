package journal

// A round is several simultaneous attempts at one task, its candidates, of which one verified candidate is taken. It counts as one attempt at the
// task, but each candidate counts toward the limit of all attempts. The next round starts from the candidate that came furthest.

// finishCandidate records the end of an unverified candidate, as far as it differs from that of a single attempt; true says that the rest is the
// same.
func (s *State) finishCandidate(t *Task, e *Event) bool {
	d := e.Detail
	switch {
	case e.Verdict == Verified:
		t.Tree = e.Tree
		t.count(e)
		return true
	case e.Verdict == Dropped:
		return false
	case !e.Verdict.Counts():
		if s.Iteration--; e.Verdict == Cancelled && t.cut != e.Round {
			t.cut = e.Round
			t.Interruptions++
		}
		return false
	case d != nil && d.Transient():
		return false
	}
	t.Interruptions = 0
	if d == nil || d.End != EndRefused {
		t.count(e)
	}
	if f := t.Failure; f.Round == e.Round {
		if before, now := rank(f.Verdict, f.Result), rank(e.Verdict, d); before > now || before == now && f.Attempt < e.Attempt {
			return false
		}
	}
	t.Failure = s.failure(e)
	if e.Tree != "" {
		t.Tree = e.Tree
	}
	if e.Verdict != Crashed {
		t.OtherEnds = true
	}
	return false
}

// count counts a round once.
func (t *Task) count(e *Event) {
	if t.counted != e.Round {
		t.counted = e.Round
		t.Counted++
	}
}

// rank says how far an unverified attempt came.
func rank(v Verdict, d *Detail) int {
	switch {
	case d != nil && d.Objector() != "": // it was verified
		return 5
	case v == Failed && d != nil && d.Changed > 0 && d.Output != "": // there was something to verify
		return 4
	case v == Failed:
		return 3
	case v == Blocked:
		return 2
	case v == TimedOut:
		return 1
	}
	return 0
}
