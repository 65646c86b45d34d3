package print

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
)

// TestLines holds what a line says of an event, in the order of a run: who reads on a terminal has nothing else.
func TestLines(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	usd := func(n float64) *journal.Detail {
		return &journal.Detail{Spent: journal.Spent{USD: &n}}
	}
	until := start.Add(90 * time.Second)
	p := NewEvents(false)
	p.Usual = "claude"
	for n, c := range []struct {
		e    journal.Event
		says []string // each is in the line; none: no line
	}{
		{journal.Event{Type: journal.LoopStarted, Loop: "start-1a2b"}, []string{"start-1a2b"}},
		{journal.Event{Type: journal.AttemptStarted, Unit: journal.Unit{Attempt: 1},
			Detail: &journal.Detail{Client: journal.Client{Backend: "claude"}}},
			[]string{"3 Add users", "started"}},
		{journal.Event{Type: journal.AgentFinished, Unit: journal.Unit{Attempt: 1}, Detail: usd(0.25)}, nil},
		{journal.Event{Type: journal.AttemptFinished, Unit: journal.Unit{Attempt: 1}, Verdict: journal.Failed,
			Reason: "test: exit status 1"}, []string{"3 Add users", "attempt 1", "failed", "test: exit status 1"}},
		{journal.Event{Type: journal.AttemptStarted, Unit: journal.Unit{Attempt: 2},
			Detail: &journal.Detail{Client: journal.Client{Backend: "codex"}}},
			[]string{"3 Add users", "attempt 2 started", "with codex"}},
		{journal.Event{Type: journal.AgentFinished, Unit: journal.Unit{Attempt: 2}, Detail: usd(0.5)}, nil},
		{journal.Event{Type: journal.AttemptFinished, Unit: journal.Unit{Attempt: 2}, Verdict: journal.Verified,
			Reason: "verify passed"},
			nil}, // the task's own line follows
		{journal.Event{Type: journal.TaskDone, Unit: journal.Unit{Attempt: 2}, Reason: "verify passed",
			TS: start.Add(time.Minute)},
			[]string{"3 Add users", "done in 1m", "$0.75", "(attempt 2)", "verify passed"}},
		// rewound, it begins anew
		{journal.Event{Type: journal.AttemptStarted, Unit: journal.Unit{Attempt: 1}, TS: start.Add(2 * time.Minute)},
			[]string{"started"}},
		{journal.Event{Type: journal.AttemptFinished, Unit: journal.Unit{Attempt: 1}, Verdict: journal.Crashed,
			Reason: journal.Killed,
			Ref:    "refs/descartes/x/tasks/3/1", Detail: &journal.Detail{Exit: journal.Exit{Cause: journal.CauseKilled},
				Speech: journal.Speech{Denied: []string{"writing to .git"}}}},
			[]string{"crashed", "refs/descartes/x/tasks/3/1", "refused writing to .git"}},
		{journal.Event{Type: journal.LimitWaiting, Unit: journal.Unit{Attempt: 1},
			Reason: "claude's weekly limit is used up",
			Detail: &journal.Detail{Exit: journal.Exit{Until: &until}}},
			[]string{"3 Add users", "waits until", "weekly limit"}},
		{journal.Event{Type: journal.LimitWaiting, Unit: journal.Unit{Attempt: 1}, TS: start,
			Detail: &journal.Detail{Exit: journal.Exit{Until: &until, Cause: "x"}}}, []string{"tries again in 1m30s"}},
		{journal.Event{Type: journal.TaskDone, Unit: journal.Unit{Attempt: 1}, TS: start.Add(3 * time.Minute)},
			[]string{"done in 1m"}},
		{journal.Event{Type: journal.TaskBlocked, Unit: journal.Unit{Attempt: 3}, Reason: "no key"},
			[]string{"3 Add users", "blocked", "3 attempts", "no key"}},
		{journal.Event{Type: journal.TaskBlocked, Unit: journal.Unit{Attempt: 1}, Reason: "no key"},
			[]string{"after 1 attempt:"}},
		{journal.Event{Type: journal.TaskHeld, Reason: "blocked by 2"}, []string{"3 Add users", "held", "by 2"}},
		{journal.Event{Type: journal.Integrated}, nil},
		{journal.Event{Type: journal.AttemptFinished, Verdict: journal.Clashed, Reason: "a.go met task 2"},
			[]string{"3 Add users", "was not merged", "a.go met task 2"}},
		{journal.Event{Type: journal.Warning, Message: "the disk is nearly full"},
			[]string{"warning:", "task 3", "nearly full"}},
		{journal.Event{Type: journal.IterationStarted, Loop: "p", Unit: journal.Unit{Iteration: 2, Of: 9},
			Lines: []string{"go\x1b[2J on"}},
			[]string{"[loop p iteration 2/9]", "go"}},
		{journal.Event{Type: journal.BreakerOpened, Reason: "5 times the same error"}, []string{"5 times the same"}},
	} {
		c.e.Task, c.e.Title = "3", "Add users"
		if c.e.TS.IsZero() {
			c.e.TS = start
		}
		got := p.Line(&c.e)
		if (got == "") != (len(c.says) == 0) || strings.Contains(got, "\x1b") {
			t.Errorf("%d, %s: %q", n, c.e.Type, got)
		}
		for _, s := range c.says {
			if !strings.Contains(got, s) {
				t.Errorf("%d, %s: %q is not in %q", n, c.e.Type, s, got)
			}
		}
	}
	if done := p.Line(&journal.Event{Type: journal.TaskDone, Unit: journal.Unit{Task: "9"}}); strings.Contains(done,
		"$") {
		t.Errorf("a task has the cost of another: %q", done)
	}
}

// TestLoops holds the list of runs: the newest last, ten of those that ended, and every one that did not.
func TestLoops(t *testing.T) {
	t.Parallel()
	listed := func(id, state string) view.Listed {
		l := view.Listed{Loop: &view.Loop{Run: view.Run{State: &store.State{}}}}
		l.ID, l.State, l.Word, l.Tag, l.Kind = id, state, state, "t", "tag"
		return l
	}
	var list []view.Listed
	list = append(list, listed("alive", "running"), view.Listed{Called: "torn.json", Err: errors.New("torn")})
	for n := range 12 {
		list = append(list, listed(fmt.Sprintf("old-%02d", n), "finished"))
	}
	few, all := Loops(list, false), Loops(list, true)
	for _, c := range []struct {
		text, id string
		shown    bool
	}{
		{few, "alive", true}, {few, "torn.json", true}, {few, "old-11", true}, {few, "old-02", true},
		{few, "old-01", false}, {few, "old-00", false}, {few, "2 runs that ended before", true},
		{all, "old-00", true}, {all, "ended before", false},
	} {
		if strings.Contains(c.text, c.id) != c.shown {
			t.Errorf("%q, shown %v:\n%s", c.id, c.shown, c.text)
		}
	}
	if strings.Index(all, "old-11") < strings.Index(all, "old-10") {
		t.Errorf("the newest is not last, where a person looks:\n%s", all)
	}
	if got := Loops(nil, false); !strings.Contains(got, "no run") {
		t.Errorf("none: %q", got)
	}
}

// TestTable: columns stand below each other, also where characters are wide or a cell is empty.
func TestTable(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"RUN", "TAG", "STATE"}, {"日本語", "x", "ok"}, {"a-long-name", "", "ok"}, {"é", "tag", "ok"}}
	at := -1
	for line := range strings.Lines(table(rows)) {
		before, _, found := strings.Cut(line, "ok\n")
		if !found {
			continue
		}
		if width := terminal.Width(before); at >= 0 && width != at {
			t.Errorf("column %d, not %d: %q", width, at, line)
		} else {
			at = width
		}
	}
}
