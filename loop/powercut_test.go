package loop

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
)

// diskOp is one thing that was asked of the disk, or the moment at which somebody was told of events.
type diskOp struct {
	kind     string // create, write, sync, rename, remove, syncdir, told
	name, to string
	data     string
	seq      int64
}

// recorder is the real file system, and writes down everything that is asked of it.
type recorder struct {
	atomicfile.FS
	ops []diskOp
}

type recordedFile struct {
	atomicfile.File
	r    *recorder
	name string
}

func (r *recorder) OpenFile(name string, flag int, perm os.FileMode) (atomicfile.File, error) {
	_, err := os.Lstat(name)
	fresh := err != nil
	f, err := r.FS.OpenFile(name, flag, perm)
	if err == nil && fresh {
		r.ops = append(r.ops, diskOp{kind: "create", name: name})
	}
	return &recordedFile{f, r, name}, err
}

func (r *recorder) Rename(from, to string) error {
	r.ops = append(r.ops, diskOp{kind: "rename", name: from, to: to})
	return r.FS.Rename(from, to)
}

func (r *recorder) Remove(name string) error {
	r.ops = append(r.ops, diskOp{kind: "remove", name: name})
	return r.FS.Remove(name)
}

func (r *recorder) SyncDir(dir string) error {
	r.ops = append(r.ops, diskOp{kind: "syncdir", name: dir})
	return r.FS.SyncDir(dir)
}

func (f *recordedFile) Write(b []byte) (int, error) {
	f.r.ops = append(f.r.ops, diskOp{kind: "write", name: f.name, data: string(b)})
	return f.File.Write(b)
}

func (f *recordedFile) Sync() error {
	f.r.ops = append(f.r.ops, diskOp{kind: "sync", name: f.name})
	return f.File.Sync()
}

// inode is a file's bytes on a disk that loses power: those that are certain, and what may be there instead.
type inode struct {
	now, sure string
	maybe     []string
}

// tears is at how many places a write may be torn.
const tears = 70

// disk is what a legal but unkind file system holds: unsynced bytes may be missing, torn or zeros,
// and each change of a directory that was not synced may be missing, independently of the others.
type disk struct {
	live    map[string]*inode
	durable map[string]*inode
	pending []dirChange
}

type dirChange struct {
	dir     string
	applies func(map[string]*inode)
}

func (d *disk) do(op diskOp) {
	switch op.kind {
	case "create":
		n := &inode{}
		d.live[op.name] = n
		d.change(op.name, func(m map[string]*inode) { m[op.name] = n })
	case "write":
		n := d.live[op.name]
		for c := range tears {
			n.maybe = append(n.maybe, n.now+op.data[:len(op.data)*(c+1)/tears])
		}
		n.maybe = append(n.maybe, n.now+strings.Repeat("\x00", len(op.data)), // allocated, not written
			n.sure+strings.Repeat("\x00", len(n.now)-len(n.sure))+op.data) // written, and what came before it not
		n.now += op.data
	case "sync":
		n := d.live[op.name]
		n.sure, n.maybe = n.now, nil
	case "rename":
		n := d.live[op.name]
		d.live[op.to] = n
		delete(d.live, op.name)
		d.change(op.to, func(m map[string]*inode) {
			m[op.to] = n
			if m[op.name] == n {
				delete(m, op.name)
			}
		})
	case "remove":
		delete(d.live, op.name)
		d.change(op.name, func(m map[string]*inode) { delete(m, op.name) })
	case "syncdir":
		d.pending = slices.DeleteFunc(d.pending, func(c dirChange) bool {
			if c.dir == op.name {
				c.applies(d.durable)
			}
			return c.dir == op.name
		})
	}
}

func (d *disk) change(name string, f func(map[string]*inode)) {
	d.pending = append(d.pending, dirChange{dir: filepath.Dir(name), applies: f})
}

// after calls f with every state that the files of interest may have after a power cut now.
func (d *disk) after(interest []string, f func(map[string]string)) {
	for mask := range 1 << len(d.pending) {
		names := maps.Clone(d.durable)
		for b, c := range d.pending {
			if mask>>b&1 == 1 {
				c.applies(names)
			}
		}
		states := []map[string]string{{}}
		for _, name := range interest {
			n, ok := names[name]
			if !ok {
				continue
			}
			var next []map[string]string
			for _, s := range states {
				for _, text := range append([]string{n.sure}, n.maybe...) {
					t := maps.Clone(s)
					t[name] = text
					next = append(next, t)
				}
			}
			states = next
		}
		for _, s := range states {
			f(s)
		}
	}
}

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
	rec := &recorder{FS: atomicfile.OS()}
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
	base := &inode{now: text, sure: text}
	d := &disk{live: map[string]*inode{taskPath: base}, durable: map[string]*inode{taskPath: base}}
	journalPath, listedPath := home.Events("x"), filepath.Join(home.Run("x"), "listed")
	states := 0
	told := int64(0)
	for i, op := range rec.ops {
		if op.kind == "told" {
			told = op.seq
			continue
		}
		d.do(op)
		d.after([]string{journalPath, listedPath, taskPath}, func(files map[string]string) {
			states++
			if err := survived(files, journalPath, listedPath, taskPath, told); err != nil {
				t.Fatalf("after operation %d (%s %s): %v", i, op.kind, filepath.Base(op.name), err)
			}
		})
	}
	if states < 10000 {
		t.Errorf("%d states, want at least 10000", states)
	}
	t.Logf("%d states after %d operations", states, len(rec.ops))
}

// recordedLoop is a loop whose files are recorded; it has no repository and runs nothing.
func recordedLoop(t *testing.T, dir string, rec *recorder) *Loop {
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
			rec.ops = append(rec.ops, diskOp{kind: "told", seq: e.Seq})
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
