package loop

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/atomicfile/disktest"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
)

// scriptedEvents is a run of n tasks, some of which fail first and one of which is given up.
func scriptedEvents(n int) [][]*journal.Event {
	out := [][]*journal.Event{{{Type: journal.LoopStarted, Tree: "t0"}}}
	for i := range n {
		id := fmt.Sprint(i + 1)
		out = append(out, []*journal.Event{{Type: journal.TaskStarted, Unit: journal.Unit{Task: id}, Base: "b"},
			{Type: journal.AttemptStarted, Unit: journal.Unit{Task: id, Attempt: 1}}},
			[]*journal.Event{{Type: journal.AgentFinished, Unit: journal.Unit{Task: id, Attempt: 1}}},
			[]*journal.Event{{Type: journal.VerifyFinished, Unit: journal.Unit{Task: id, Attempt: 1}}})
		if i%4 == 3 {
			out = append(out, []*journal.Event{{Type: journal.AttemptFinished,
				Unit: journal.Unit{Task: id, Attempt: 1}, Verdict: "failed"}},
				[]*journal.Event{{Type: journal.TaskBlocked, Unit: journal.Unit{Task: id}, Verdict: "failed"}})
			continue
		}
		out = append(out, []*journal.Event{{Type: journal.AttemptFinished, Unit: journal.Unit{Task: id, Attempt: 1},
			Verdict: journal.Verified, Tree: "t" + id}, {Type: journal.TaskDone, Unit: journal.Unit{Task: id}}})
	}
	return append(out, []*journal.Event{{Type: journal.WaveCommitted, Unit: journal.Unit{Wave: 1}, Commit: "c"}},
		[]*journal.Event{{Type: journal.LoopFinished, Reason: string(journal.AllDone)}})
}

// TestPowerCut plays a run's writes, cuts the power at every moment in every way that the disk may
// take it, and holds what is left against what somebody had been told.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	const n = 16
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, `%s{"id": %d, "title": "T", "status": "pending"}`,
			map[bool]string{true: "", false: ", "}[i == 0], i+1)
	}
	text := `{"tag": "x", "tasks": [` + list.String() + "]}\n"
	dir := t.TempDir()
	taskPath := filepath.Join(dir, ".scud", "tasks", "x.json")
	if err := os.MkdirAll(filepath.Dir(taskPath), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(taskPath, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	rec := &disktest.Recorder{FS: atomicfile.OS()}
	home := store.NewHome(dir)
	l := recordedLoop(t, dir, rec)
	for i, events := range scriptedEvents(n) {
		if err := l.record(events...); err != nil {
			t.Fatal(err)
		}
		if i%5 == 4 {
			if err := l.flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d := disktest.NewDisk(map[string]string{taskPath: text})
	journalPath, listedPath := home.Events("x"), filepath.Join(home.Run("x"), "listed")
	states := 0
	told := int64(0)
	for i, op := range rec.Ops() {
		if op.Kind == "told" {
			told = op.Seq
			continue
		}
		d.Do(op)
		d.After([]string{journalPath, listedPath, taskPath}, func(files map[string]string) {
			states++
			if err := survived(files, journalPath, listedPath, taskPath, told); err != nil {
				t.Fatalf("after operation %d (%s %s): %v", i, op.Kind, filepath.Base(op.Name), err)
			}
		})
	}
	if states < 10000 {
		t.Errorf("%d states, want at least 10000", states)
	}
	t.Logf("%d states after %d operations", states, len(rec.Ops()))
}

// recordedLoop is a loop whose files are recorded; it has no repository and runs nothing.
func recordedLoop(t *testing.T, dir string, rec *disktest.Recorder) *Loop {
	t.Helper()
	j, problems := source.Load(dir, Config{Scud: ScudConfig{Tag: "x"}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	home := store.NewHome(dir)
	l := &Loop{root: dir, home: home, history: journal.NewState(),
		state: &store.State{Version: store.StateVersion, ID: "x", Kind: store.KindTag, Tag: "x"}, lanes: &lanes{},
		locks: &locks{}}
	l.work = Tag{j}.begin(l, StartOptions{})
	l.tools = Tools{FS: rec, Now: clock(), Observe: func(e journal.Event) {
		if e.Type.Durable() {
			rec.Note(disktest.Op{Kind: "told", Seq: e.Seq})
		}
	}}
	var err error
	if l.journal, _, err = journal.Open(rec, home.Events("x"), "x", l.tools.Now); err != nil {
		t.Fatal(err)
	}
	l.saver = &saver{fs: rec, file: j.File, own: &OwnState{FS: rec, Path: home.Default()}, sync: l.journal.Sync,
		state: l.State, pending: map[string]tasks.Status{},
		listed: func(seq int64) error { return home.Listed(rec, "x", seq) }}
	return l
}

// survived says what is wrong with the files that a power cut left.
func survived(files map[string]string, journalPath, listedPath, taskPath string, told int64) error {
	events, _, err := journal.Recover("journal", []byte(files[journalPath]))
	if err != nil {
		return err
	}
	if n := int64(len(events)); n < told {
		return fmt.Errorf("%d events are left, %d had been told", n, told)
	}
	seq := int64(0)
	if text, ok := files[listedPath]; ok {
		if seq, err = strconv.ParseInt(text, 10, 64); err != nil {
			return err
		}
		if seq > int64(len(events)) {
			return fmt.Errorf("the list is at %d, the journal ends at %d", seq, len(events))
		}
	}
	if text, ok := files[taskPath]; !ok || !strings.HasSuffix(text, "]}\n") {
		return fmt.Errorf("task file: %q", text)
	}
	// what is noted as in the task file must be there
	want := journal.NewState()
	for i := range events {
		if events[i].Seq <= seq {
			want.Apply(&events[i])
		}
	}
	for id, st := range want.TakeChanges(0) {
		if st != "in-progress" && !strings.Contains(files[taskPath],
			fmt.Sprintf(`{"id": %s, "title": "T", "status": %q}`, id, st)) {
			return fmt.Errorf("the list is at %d, but task %s is not %s in %s", seq, id, st, files[taskPath])
		}
	}
	return nil
}

func clock() func() time.Time {
	t := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return func() time.Time { t = t.Add(time.Second); return t }
}
