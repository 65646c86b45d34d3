package journal

import "testing"

// What attempts in the session of another cost is compared with fresh ones. A session that was gone was a fresh agent's after all.
func TestChains(t *testing.T) {
	s := NewState()
	run := func(task, of string, in, cached int64, anew bool) {
		first := &Event{Type: AttemptStarted, Unit: Unit{Task: task, Attempt: 1}, Detail: &Detail{Client: Client{Dir: "/p"}}}
		if of != "" {
			first.Tasks, first.Detail.Session = []string{of}, s.Task(of).Session.ID
		}
		s.Apply(first)
		id := "s" + task
		if of != "" && !anew {
			id = s.Attempts[len(s.Attempts)-1].From.ID
		}
		s.Apply(&Event{Type: AgentFinished, Unit: Unit{Task: task, Attempt: 1}, Detail: &Detail{Client: Client{Session: id, Backend: "codex", Anew: anew}, Spent: Spent{InputTokens: in, CacheRead: cached, OutputTokens: 1}}})
		s.Apply(&Event{Type: AttemptFinished, Unit: Unit{Task: task, Attempt: 1}, Verdict: Verified, Detail: &Detail{}})
		s.Apply(&Event{Type: TaskDone, Unit: Unit{Task: task, Attempt: 1}})
	}
	if got := s.Chains().String(); got != "" {
		t.Errorf("of nothing: %s", got)
	}
	run("1", "", 3000, 1000, false)
	run("2", "1", 3500, 3000, false)
	if got, want := s.Chains().String(), "1 attempt in the session of the task before, 500 new input tokens, 1,500 fewer than as many fresh agents"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := s.Task("2").Session; got.ID != "s1" || got.Spent != (Tokens{6500, 4000, 0, 2}) || s.Task("1").Session.By != "2" {
		t.Errorf("session %+v", got)
	}
	run("3", "2", 1000, 0, true)
	if got, want := s.Chains().String(), "1 attempt in the session of the task before, 500 new input tokens, 1,000 fewer than as many fresh agents"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := s.Task("3").Session; got.ID != "s3" || got.Spent.Input != 1000 {
		t.Errorf("session %+v", got)
	}
}
