package view

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// A status names everything that is worked on, and what each attempt is doing.
func TestStatusOfSeveralAttempts(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	home := store.NewHome(root)
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(root, ".scud", "tasks", "x.json"), `{"tasks":[
  {"id": 1, "title": "First", "status": "in-progress", "dependencies": []},
  {"id": 2, "title": "Second", "status": "in-progress", "dependencies": []},
  {"id": 3, "title": "Third", "status": "pending", "dependencies": [1]}
]}`)
	write(home.Default(), `{"version":"1.0","id":"loop-1","kind":"tag","tag":"x","config":{"scud":{"tag":"x"}}}`)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { at = at.Add(time.Second); return at }
	j, _, err := journal.Open(atomicfile.OS(), home.Events("loop-1"), "loop-1", now)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []journal.Event{{Type: journal.LoopStarted}, {Type: journal.WaveStarted, Unit: journal.Unit{Wave: 1}},
		{Type: journal.TaskStarted, Unit: journal.Unit{Task: "1"}}, {Type: journal.AttemptStarted, Unit: journal.Unit{Task: "1", Attempt: 1, Slot: 1}},
		{Type: journal.TaskStarted, Unit: journal.Unit{Task: "2"}}, {Type: journal.AttemptStarted, Unit: journal.Unit{Task: "2", Attempt: 1, Slot: 2}},
		{Type: journal.AgentFinished, Unit: journal.Unit{Task: "2", Attempt: 1}, Detail: &journal.Detail{Exit: journal.Exit{End: journal.EndFinished}}},
		{Type: journal.VerifyStarted, Unit: journal.Unit{Task: "2", Attempt: 1}}} {
		if err := j.Append(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	saved, err := store.LoadState(home.Default())
	if err != nil {
		t.Fatal(err)
	}
	st, err := NewStatus(root, store.Saved{Path: home.Default(), State: saved})
	if err != nil {
		t.Fatal(err)
	}
	if got := st.Report(false); got.State != "dead" || len(got.Running) != 0 {
		t.Errorf("nobody runs it: %s, %v", got.State, got.Running)
	}
	if got := st.Report(false).Tasks; got.InProgress != 0 || got.Pending != 3 {
		t.Errorf("nobody runs it: %+v", got)
	}
	if text := st.Board.Text(false, 0); !strings.Contains(text, ": 2 interrupted\n") || strings.Contains(text, "in progress") {
		t.Errorf("nobody runs it:\n%s", text)
	}
	if text := st.Text(false, false, false); strings.Contains(text, "In Progress") || strings.Contains(text, "in-progress") {
		t.Errorf("nobody runs it:\n%s", text)
	}
	st.View.Live, st.Board.view.Live = true, true // a lock says so otherwise
	got, err := json.Marshal(st.Report(false).Running)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"task_id":1,"attempt":1,"slot":1,"phase":"agent","since":"2026-03-01T12:00:04Z","started_at":"2026-03-01T12:00:04Z"},` +
		`{"task_id":2,"attempt":1,"slot":2,"phase":"verify","since":"2026-03-01T12:00:08Z","started_at":"2026-03-01T12:00:06Z"}]`
	if string(got) != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	text := st.Text(false, false, false)
	for _, line := range []string{"  Wave 1: ░░░░░░░░░░░░░░░░ In Progress (0/2 tasks)", "  Current Task: First", "  Current Task: Second", "  State: Running, verifying for ", "\n  1\n    attempt 1: the agent works for ", "\n  2\n    attempt 1: verify runs for ", ", slot 2\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}
