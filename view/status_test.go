package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/scheduler"
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
	for _, e := range []journal.Event{{Type: journal.LoopStarted},
		{Type: journal.WaveStarted, Unit: journal.Unit{Wave: 1}},
		{Type: journal.TaskStarted, Unit: journal.Unit{Task: "1"}},
		{Type: journal.AttemptStarted, Unit: journal.Unit{Task: "1", Attempt: 1, Slot: 1}},
		{Type: journal.TaskStarted, Unit: journal.Unit{Task: "2"}},
		{Type: journal.AttemptStarted, Unit: journal.Unit{Task: "2", Attempt: 1, Slot: 2}},
		{Type: journal.AgentFinished, Unit: journal.Unit{Task: "2", Attempt: 1},
			Detail: &journal.Detail{Exit: journal.Exit{End: journal.EndFinished}}},
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
	look := func() *Loop {
		t.Helper()
		l, err := Of(root, store.Saved{Path: home.Default(), State: saved})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := look()
	if l.State != "dead" || len(l.Running) != 0 || l.Word != "killed" {
		t.Errorf("nobody runs it: %s, %s, %v", l.State, l.Word, l.Running)
	}
	if got := l.Tasks; got.InProgress != 0 || got.Pending != 3 {
		t.Errorf("nobody runs it: %+v", got)
	}
	if one := l.Task("1"); one.Stand != Interrupted || one.State != "ready" ||
		!strings.Contains(l.Board.Tally(), ": 2 interrupted") {
		t.Errorf("nobody runs it: %+v, %s", one, l.Board.Tally())
	}
	lock := flock.New(home.Default() + ".lock")
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	l = look()
	got, err := json.Marshal(l.Running)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"task_id":1,"attempt":1,"slot":1,"phase":"agent","since":"2026-03-01T12:00:04Z","started_at":"2026-03-01T12:00:04Z"},` +
		`{"task_id":2,"attempt":1,"slot":2,"phase":"verify","since":"2026-03-01T12:00:08Z","started_at":"2026-03-01T12:00:06Z"}]`
	if string(got) != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	if l.Stand != Running || l.Task("2").Last().Doing() != "verify runs" || l.Task("3").Stand != Waiting {
		t.Errorf("somebody runs it: %s, %+v", l.Stand, l.Task("2"))
	}
}

// What git refused to store is not called kept: only a ref that is there keeps something.
func TestKeptWork(t *testing.T) {
	t.Parallel()
	history := &journal.State{Attempts: []*journal.Attempt{
		{Key: journal.Key{Task: "1", Number: 1}, Finish: journal.Finish{Verdict: journal.Verified}},
		{Key: journal.Key{Task: "2", Number: 3}, Progress: journal.Progress{Agent: &journal.Detail{}}},
		{Key: journal.Key{Iteration: 4, Number: 1}}}}
	for _, tt := range []struct {
		refs       []string
		kept, lost string
	}{
		{nil, "", "2, iteration 4 "},
		{[]string{"trunk", "commit", "tasks/22/3", "iteration-4-11"}, "under refs/descartes/x/", "2, iteration 4 "},
		{[]string{"tasks/1/1", "tasks/2/2"}, "under refs/descartes/x/", "2, iteration 4 "},
		{[]string{"trunk", "tasks/2/3"}, "under refs/descartes/x/", "of iteration 4 "},
		{[]string{"tasks/2/3", "iteration-4-1"}, "under refs/descartes/x/", ""},
		{[]string{"trunk", "commit"}, "", "2, iteration 4 "},
	} {
		l := &Loop{Run: Run{ID: "x", History: history}}
		l.ID = "x"
		for _, name := range tt.refs {
			l.Kept = append(l.Kept, gitops.Ref{Name: "refs/descartes/x/" + name})
		}
		kept, lost := l.KeptWork()
		if !strings.Contains(kept, tt.kept) || (kept == "") != (tt.kept == "") || !strings.Contains(lost, tt.lost) ||
			(lost == "") != (tt.lost == "") {
			t.Errorf("%v: kept %q, lost %q", tt.refs, kept, lost)
		}
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	for want, states := range map[string][]string{
		"Complete (3 tasks)": {"done", "done", "done"}, "In Progress (2/4 tasks)": {"done", "ready", "done",
			"waiting"}, "In Progress (0/1 task)": {"running"},
		"Pending (2 tasks)": {"ready", "waiting"}, "Blocked (1/2 tasks)": {"blocked", "done"},
		"Held (0/2 tasks)": {"held", "held"},
	} {
		w := &Wave{Number: 1}
		for _, s := range states {
			w.Tasks = append(w.Tasks, Task{State: s})
		}
		if got := w.Bar().Words(true); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestListGrowsWithItsRuns: a list of twice as many runs of one tag costs about twice as much, not four times.
func TestListGrowsWithItsRuns(t *testing.T) {
	cost := func(n int) float64 {
		root := t.TempDir()
		home := store.NewHome(root)
		write := func(path, text string) {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
				os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		write(filepath.Join(root, ".scud", "tasks", "x.json"),
			`{"tasks":[{"id":1,"title":"First","status":"pending"}]}`)
		for i := range n {
			id := fmt.Sprintf("loop-%04x", i)
			write(home.Named(id), fmt.Sprintf(
				`{"version":"1.0","id":%q,"kind":"tag","tag":"x","config":{"scud":{"tag":"x"}}}`, id))
			if err := os.MkdirAll(home.Run(id), 0o755); err != nil {
				t.Fatal(err)
			}
			j, _, err := journal.Open(atomicfile.OS(), home.Events(id), id, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(j.Append(&journal.Event{Type: journal.LoopStarted}), j.Close()); err != nil {
				t.Fatal(err)
			}
		}
		all, err := home.List()
		if err != nil || len(all) != n {
			t.Fatalf("%d runs, %v", len(all), err)
		}
		return testing.AllocsPerRun(1, func() {
			for _, l := range All(root, all) {
				if l.Err != nil {
					t.Fatal(l.Err)
				}
			}
		})
	}
	if few, many := cost(10), cost(40); many > 6*few {
		t.Errorf("a list of 40 runs allocates %.0f times, one of 10 %.0f times", many, few)
	}
}

// The task list is rewritten while somebody looks: what the run's files then say that it has is not missed.
func TestListWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	home := store.NewHome(root)
	list := filepath.Join(root, ".scud", "tasks", "x.json")
	text := `{"tasks":[{"id": 1, "title": "First", "status": "pending", "dependencies": []}]}`
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(list, text)
	write(home.Default(), `{"version":"1.0","id":"loop-1","kind":"tag","tag":"x","seq":3,"config":{"scud":{"tag":"x"}}}`)
	j, _, err := journal.Open(atomicfile.OS(), home.Events("loop-1"), "loop-1", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, e := range []journal.Event{{Type: journal.LoopStarted}, {Type: journal.TaskStarted, Unit: journal.Unit{Task: "1"}},
		{Type: journal.AttemptStarted, Unit: journal.Unit{Task: "1", Attempt: 1, Slot: 1}}} {
		if err := j.Append(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := home.Listed(atomicfile.OS(), "loop-1", 3); err != nil {
		t.Fatal(err)
	}
	live := flock.New(store.LockOf(home.Default()))
	if err := live.Lock(); err != nil {
		t.Fatal(err)
	}
	defer live.Unlock()

	job, problems := source.Load(root, config.Config{Scud: config.ScudConfig{Tag: "x"}})
	if job == nil {
		t.Fatal(problems)
	}
	write(list, strings.Replace(text, "pending", "in-progress", 1))
	b, err := NewBoard(job)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Graph.State("1"); got != scheduler.StateRunning {
		t.Errorf("its agent is at work, and it is %s", got)
	}
}
