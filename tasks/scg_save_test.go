package tasks

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"descartes/internal/atomicfile"

	"github.com/gofrs/flock"
)

func noon() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 123456789, time.UTC) }

// wantSaved checks what a graph text became, and that f is what reading it anew gives.
func wantSaved(t *testing.T, f *File, text string) {
	t.Helper()
	if got := onDisk(t, f); got != text {
		t.Errorf("got\n%q\nwant\n%q", got, text)
	}
	clock, mirror := f.clock, f.mirror
	f.clock, f.mirror = nil, nil
	wantFresh(t, f)
	f.clock, f.mirror = clock, mirror
}

func saveAtNoon(t *testing.T, f *File, set map[string]Status) {
	t.Helper()
	f.clock = noon
	if err := f.Save(set); err != nil {
		t.Fatal(err)
	}
}

func TestSaveGraphChangesOneLetter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file, tag string
		set       map[string]Status
		changes   []string // old, new, each once
	}{
		{"rust.scg", "river", map[string]Status{"3.2": Done},
			[]string{"Alarm rules | P |", "Alarm rules | D |", "2026-02-14T17:48:11.868135+00:00",
				"2026-05-04T12:00:00Z"}},
		{"rust.scg", "river", map[string]Status{"2": Failed, "river:4": InProgress},
			[]string{"router | I |", "router | B |", "Export | P |", "Export | I |",
				"2026-02-14T17:48:11.868135+00:00", "2026-05-04T12:00:00Z"}},
		{"several.scg", "north", map[string]Status{"2": Blocked},
			[]string{"Second | P |", "Second | B |", "2026-03-01T08:00:00Z", "2026-05-04T12:00:00Z"}},
		{"several.scg", "south", map[string]Status{"2": Pending},
			[]string{"Other second | Q |", "Other second | P |"}},
		{"several.scg", "west", map[string]Status{"1": Cancelled},
			[]string{"Third place | B |", "Third place | C |", "2026-03-02T09:30:00Z", "2026-05-04T12:00:00Z"}},
		{"epic.scg", "auth", map[string]Status{"auth:1.1": Done, "1.2": Review},
			[]string{"Form | R |", "Form | D |", "Token | F |", "Token | R |"}},
		{"odd.scg", "odd", map[string]Status{"c": Deferred, "d": Done},
			[]string{"Two |  |", "Two | F |", "Three | done |", "Three | D |"}},
		{"rust.scg", "river", map[string]Status{"1": Done, "3": Expanded}, nil},
	} {
		f := fixture(t, test.file, test.tag)
		text := onDisk(t, f)
		saveAtNoon(t, f, test.set)
		for k := 0; k < len(test.changes); k += 2 {
			if strings.Count(text, test.changes[k]) != 1 {
				t.Fatalf("%s: %q is not there once", test.file, test.changes[k])
			}
			text = strings.Replace(text, test.changes[k], test.changes[k+1], 1)
		}
		wantSaved(t, f, text)
		for id, status := range test.set {
			if status == Failed {
				status = Blocked
			}
			if task, _ := f.Task(id); task.Status != status {
				t.Errorf("%s: task %s is %s", test.file, id, task.Status)
			}
		}
	}
}

func TestSaveGraphKeepsFailed(t *testing.T) {
	t.Parallel()
	f := fixture(t, "several.scg", "south")
	text := onDisk(t, f)
	saveAtNoon(t, f, map[string]Status{"1": Failed})
	wantSaved(t, f, text)
}

func TestSaveGraphReopensAContainer(t *testing.T) {
	t.Parallel()
	head := "# Phase: x\n@nodes\n"
	f := graphOf(t, head+"1 | a | D | 1 | H\n1.1 | b | D | 1 | H\n1.2 | c | D | 1 | H\n@parents\n1: 1.1, 1.2\n")
	saveAtNoon(t, f, map[string]Status{"1.1": Pending})
	wantSaved(t, f, head+"1 | a | X | 1 | H\n1.1 | b | P | 1 | H\n1.2 | c | D | 1 | H\n@parents\n1: 1.1, 1.2\n")
}

func graphOf(t *testing.T, text string) *File {
	t.Helper()
	f, err := Open(project(t, map[string]string{"tasks.scg": text}), "x")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const smallGraph = "# SCUD Graph v1\n# Phase: x\n\n@nodes\n1 | a | P | 1 | H\n2 | b | P | 1 | H\n"

func TestSaveGraphOverOthersChanges(t *testing.T) {
	t.Parallel()
	f := graphOf(t, smallGraph)
	theirs := strings.Replace(smallGraph, "2 | b | P", "7 | new | P | 1 | H\n2 | b | D", 1) + "\n@edges\n2 -> 1\n"
	write(t, f.Path(), theirs)
	saveAtNoon(t, f, map[string]Status{"1": InProgress})
	wantSaved(t, f, strings.Replace(theirs, "1 | a | P", "1 | a | I", 1))
	if len(f.Tasks()) != 3 {
		t.Errorf("got %v", f.Tasks())
	}
	write(t, f.Path(), "{}")
	var format *FormatError
	if err := f.Save(map[string]Status{"1": Done}); !errors.As(err, &format) || onDisk(t, f) != "{}" {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(f.Path()); err != nil {
		t.Fatal(err)
	}
	saveAtNoon(t, f, map[string]Status{"1": Done})
	wantSaved(t, f, strings.Replace(theirs, "1 | a | P", "1 | a | D", 1))
}

func TestSaveGraphReadOnly(t *testing.T) {
	t.Parallel()
	f := graphOf(t, smallGraph)
	if err := os.Chmod(f.Path(), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(map[string]Status{"1": Done}); !errors.Is(err, fs.ErrPermission) || onDisk(t, f) != smallGraph {
		t.Errorf("got %v", err)
	}
}

func TestSaveGraphWaitsForTheLock(t *testing.T) {
	t.Parallel()
	f := graphOf(t, smallGraph)
	theirs := flock.New(f.Path(), flock.SetFlag(os.O_RDWR))
	if ok, err := theirs.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := lockList(f.Path(), true, []time.Duration{time.Microsecond}); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v", err)
	}
	done := make(chan error)
	go func() { done <- f.Save(map[string]Status{"1": Done}) }()
	// As scud writes: truncated first, then in place.
	write(t, f.Path(), "")
	write(t, f.Path(), strings.Replace(smallGraph, "2 | b | P", "2 | b | R", 1))
	if err := theirs.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantSaved(t, f, "# SCUD Graph v1\n# Phase: x\n\n@nodes\n1 | a | D | 1 | H\n2 | b | R | 1 | H\n")
	release, err := lockList(f.Path(), true, nil)
	if err != nil {
		t.Fatalf("the lock is still held: %v", err)
	}
	release()
}

func TestLockGraph(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.scg")
	release, err := lockList(path, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := os.Lstat(path); err == nil {
		t.Error("the lock made the file")
	}
	write(t, path, "")
	if release, err = lockList(path, true, []time.Duration{0, 0}); err != nil {
		t.Errorf("a file that stays empty: %v", err)
	}
	release()
	var total time.Duration
	for _, wait := range lockWaits() {
		if wait < 10*time.Millisecond || wait > time.Second {
			t.Errorf("waits %v", wait)
		}
		total += wait
	}
	if len(lockWaits()) != 9 || total > 5*time.Second {
		t.Errorf("waits %v", lockWaits())
	}
}

const smallMirror = `{
  "other": {"name": "other", "tasks": []},
  "x": {"name": "x", "tasks": [
    {"id": "1", "title": "a", "status": "pending", "dependencies": []},
    {"id": "2", "title": "b", "status": "pending", "dependencies": []}
  ]}
}
`

func TestMirrorFollows(t *testing.T) {
	t.Parallel()
	root := project(t, map[string]string{"tasks.scg": smallGraph, "tasks.json": smallMirror})
	f, err := Open(root, "x")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(found(f), "source the tag is in .scud/tasks/tasks.json too; .scud/tasks/tasks.scg is read") {
		t.Errorf("findings %s", found(f))
	}
	saveAtNoon(t, f, map[string]Status{"1": Failed})
	saveAtNoon(t, f, map[string]Status{"2": InProgress})
	if got, want := onDisk(t, f), strings.NewReplacer("a | P", "a | B", "b | P",
		"b | I").Replace(smallGraph); got != want {
		t.Errorf("graph %q", got)
	}
	m, ok := f.Mirror()
	if !ok || m.Path() != filepath.Join(root, ".scud", "tasks", "tasks.json") {
		t.Fatalf("got %v %v", m, ok)
	}
	followed := strings.Replace(strings.Replace(smallMirror, "pending", "blocked", 1), "pending", "in-progress", 1)
	if got := onDisk(t, m); got != followed || string(m.Bytes()) != followed {
		t.Errorf("mirror %s", got)
	}

	// From here on another program changes the mirror alone: it is left as it is.
	stale := strings.Replace(followed, "in-progress", "done", 1)
	write(t, m.Path(), stale)
	saveAtNoon(t, f, map[string]Status{"1": Done})
	if got := onDisk(t, m); got != stale {
		t.Errorf("mirror %s", got)
	}
	if _, ok := f.Mirror(); ok {
		t.Error("the mirror is in step")
	}
	if err := os.Remove(m.Path()); err != nil {
		t.Fatal(err)
	}
	saveAtNoon(t, f, map[string]Status{"2": Done})
	if _, err := os.Lstat(m.Path()); err == nil {
		t.Error("the mirror is back")
	}
}

func TestMirrorOutOfStep(t *testing.T) {
	t.Parallel()
	for name, mirror := range map[string]string{
		"another status": strings.Replace(smallMirror, "pending", "done", 1),
		"a task more":    strings.Replace(smallMirror, "\n  ]}", ",\n{\"id\": 3}\n  ]}", 1),
		"a task less":    `{"x":{"tasks":[{"id":"1","status":"pending"}]}}`,
		"other ids":      `{"x":{"tasks":[{"id":"1","status":"pending"},{"id":"3","status":"pending"}]}}`,
		"not the tag":    `{"y":{"tasks":[{"id":"1","status":"pending"},{"id":"2","status":"pending"}]}}`,
		"broken":         `{`,
		"empty":          ``,
	} {
		root := project(t, map[string]string{"tasks.scg": smallGraph, "tasks.json": mirror})
		f, err := Open(root, "x")
		if err != nil {
			t.Fatal(err)
		}
		saveAtNoon(t, f, map[string]Status{"1": Done, "2": Done})
		text, err := os.ReadFile(filepath.Join(root, ".scud", "tasks", "tasks.json"))
		if err != nil || string(text) != mirror {
			t.Errorf("%s: the mirror became %q, %v", name, text, err)
		}
	}
}

// noMirror is a file system with no room for tasks.json.
type noMirror struct{ atomicfile.FS }

func (n noMirror) OpenFile(name string, flag int, perm os.FileMode) (atomicfile.File, error) {
	if strings.Contains(name, "tasks.json") {
		return nil, fs.ErrInvalid
	}
	return n.FS.OpenFile(name, flag, perm)
}

func TestMirrorThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	root := project(t, map[string]string{"tasks.scg": smallGraph, "tasks.json": smallMirror})
	f, err := Open(root, "x")
	if err != nil {
		t.Fatal(err)
	}
	f.SetReplace(atomicfile.Replacer(noMirror{atomicfile.OS()}))
	if err := f.Save(map[string]Status{"1": Done}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(found(f), "tasks.json no longer matches tasks.scg") ||
		!strings.Contains(onDisk(t, f), "a | D") {
		t.Errorf("findings %s", found(f))
	}
}

func TestSaveGraphEveryFault(t *testing.T) {
	t.Parallel()
	for k := 1; ; k++ {
		f := graphOf(t, smallGraph)
		f.SetReplace(atomicfile.Replacer(&faultFS{FS: atomicfile.OS(), at: k, err: fs.ErrInvalid}))
		err := f.Save(map[string]Status{"1": Done})
		if err == nil {
			if k != 6 {
				t.Errorf("%d operations can fail, want 5", k-1)
			}
			return
		}
		if got := onDisk(t, f); k < 5 && got != smallGraph {
			t.Errorf("operation %d: the file became %q", k, got)
		}
		if string(f.Bytes()) != smallGraph {
			t.Errorf("operation %d: f changed", k)
		}
		saveAtNoon(t, f, map[string]Status{"1": Done})
	}
}

// A mirror that cannot follow keeps the graph as it is, unless it was out of step already.
func TestMirrorReadOnly(t *testing.T) {
	t.Parallel()
	root := project(t, map[string]string{"tasks.scg": smallGraph, "tasks.json": smallMirror})
	f, err := Open(root, "x")
	if err != nil {
		t.Fatal(err)
	}
	mirror := filepath.Join(root, ".scud", "tasks", "tasks.json")
	if err := os.Chmod(mirror, 0o444); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"save": f.Save(map[string]Status{"1": Done}), "writable": f.Writable()} {
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), mirror) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if got := onDisk(t, f); got != smallGraph {
		t.Errorf("graph %q", got)
	}
	if err := f.Save(map[string]Status{"1": Pending}); err != nil {
		t.Errorf("nothing to write: %v", err)
	}
	if err := os.Chmod(mirror, 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, mirror, strings.Replace(smallMirror, "pending", "done", 1))
	if err := os.Chmod(mirror, 0o444); err != nil {
		t.Fatal(err)
	}
	saveAtNoon(t, f, map[string]Status{"1": Blocked})
	if got := onDisk(t, f); !strings.Contains(got, "a | B") {
		t.Errorf("graph %q", got)
	}
}
