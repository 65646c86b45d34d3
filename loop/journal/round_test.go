package journal

import "testing"

// A round of candidates counts as one attempt of its task, and each of them toward the limit of all. The next one is
// given the one that came furthest, whichever ended last.
func TestRound(t *testing.T) {
	s := NewState()
	s.Apply(&Event{Type: TaskStarted, Unit: Unit{Task: "1"}, Base: "base"})
	begin := func(number, round int) {
		s.Apply(&Event{Type: AttemptStarted, Unit: Unit{Task: "1", Attempt: number, Round: round, Slot: number},
			Tree: "base", Detail: &Detail{}})
	}
	end := func(number, round int, v Verdict, tree string, d Detail) {
		s.Apply(&Event{Type: AttemptFinished, Unit: Unit{Task: "1", Attempt: number, Round: round}, Verdict: v,
			Tree: tree, Detail: &d})
	}
	want := func(what string, counted, all, best int, tree string) {
		t.Helper()
		if u := s.Task("1"); u.Counted != counted || s.Iteration != all || u.Failure.Attempt != best ||
			u.Tree != tree {
			t.Errorf("%s: counted %d, in all %d, best %d, tree %s; want %d, %d, %d, %s", what, u.Counted, s.Iteration,
				u.Failure.Attempt, u.Tree, counted, all, best, tree)
		}
	}
	begin(2, 1)
	begin(1, 1)
	begin(3, 1)
	want("begun", 0, 3, 0, "base")
	if open := s.Left(); len(open) != 3 || s.Task("1").Attempts != 3 {
		t.Errorf("open %+v, begun %d", open, s.Task("1").Attempts)
	}
	end(3, 1, Crashed, "three", Detail{Exit: Exit{End: EndCrashed}})
	want("crashed", 1, 3, 3, "three")
	end(1, 1, Failed, "one", Detail{Exit: Exit{End: EndFinished}, Files: Files{Changed: 1},
		Checked: Checked{Output: "FAIL"}})
	want("failed", 1, 3, 1, "one")
	end(2, 1, TimedOut, "two", Detail{Exit: Exit{End: EndTimedOut}})
	want("timed out", 1, 3, 1, "one")

	begin(4, 4)
	begin(5, 4)
	end(4, 4, Cancelled, "four", Detail{Exit: Exit{End: EndCancelled}})
	end(5, 4, Cancelled, "five", Detail{Exit: Exit{End: EndCancelled}})
	want("interrupted", 1, 3, 1, "one")
	if s.Task("1").Interruptions != 1 {
		t.Errorf("%d interruptions", s.Task("1").Interruptions)
	}

	begin(6, 6)
	begin(7, 6)
	end(7, 6, Dropped, "seven", Detail{Exit: Exit{End: EndCancelled}})
	end(6, 6, Verified, "six", Detail{Exit: Exit{End: EndFinished}})
	want("verified", 2, 5, 1, "six")
	if v := s.Verified(); len(v) != 1 || v[0].Attempt != 6 || v[0].Tree != "six" || len(s.Left()) != 0 {
		t.Errorf("verified %+v, open %+v", v, s.Left())
	}
	if a := s.Attempts[0]; a.Candidate() != 2 || a.Number != 2 {
		t.Errorf("the first that began: %+v", a)
	}
}
