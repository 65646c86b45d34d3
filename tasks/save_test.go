package tasks

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"descartes/internal/atomicfile"
)

func save(t *testing.T, f *File, set map[string]Status) {
	t.Helper()
	if err := f.Save(set); err != nil {
		t.Fatal(err)
	}
	wantFresh(t, f)
}

// wantFresh checks that f is what reading its file anew gives.
func wantFresh(t *testing.T, f *File) {
	t.Helper()
	again, err := OpenPath(f.Path(), f.Tag())
	if err != nil {
		t.Fatal(err)
	}
	f.replace = nil
	if !reflect.DeepEqual(f, again) {
		t.Errorf("after saving:\n%+v\nread anew:\n%+v", f, again)
	}
}

func onDisk(t *testing.T, f *File) string {
	t.Helper()
	text, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSaveKeepsEveryOtherByte(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, before, after string }{ // 1 becomes done, 2 blocked
		{"pretty", "{\n  \"tasks\": [\n    {\n      \"status\" : \"pending\",\n      \"id\": 1\n    },\n    {\"id\": 2, \"status\": \"in-progress\"}\n  ],\n  \"z\": 1.50e+3, \"a\": null\n}\n",
			"{\n  \"tasks\": [\n    {\n      \"status\" : \"done\",\n      \"id\": 1\n    },\n    {\"id\": 2, \"status\": \"blocked\"}\n  ],\n  \"z\": 1.50e+3, \"a\": null\n}\n"},
		{"no final newline, tabs, odd spaces",
			"{\t\"tasks\":[{\"id\":1 ,\"status\":\t\"todo\"} , {\"id\":2,\"status\":\"todo\" }]\t}",
			"{\t\"tasks\":[{\"id\":1 ,\"status\":\t\"done\"} , {\"id\":2,\"status\":\"blocked\" }]\t}"},
		{"CRLF and BOM", "\ufeff{\"tasks\":[\r\n{\"id\":1,\"status\":\"pending\"},\r\n{\"id\":2,\"status\":\"review\"}]}\r\n", "\ufeff{\"tasks\":[\r\n{\"id\":1,\"status\":\"done\"},\r\n{\"id\":2,\"status\":\"blocked\"}]}\r\n"},
		{"escapes and foreign values",
			`{"tasks":[{"id":1,"status":"p\u0065nding","title":"\"status\": \"pending\""},{"id":2,"status":null}]}`,
			`{"tasks":[{"id":1,"status":"done","title":"\"status\": \"pending\""},{"id":2,"status":"blocked"}]}`},
		{"status twice: the last counts",
			`{"tasks":[{"id":1,"status":"done","status":"pending"},{"id":2,"status":7}]}`,
			`{"tasks":[{"id":1,"status":"done","status":"done"},{"id":2,"status":"blocked"}]}`},
		{"a status in a nested object",
			`{"tasks":[{"id":1,"meta":{"status":"x"},"status":"pending"},{"id":2,"status":"failed","previousStatus":"pending"}]}`, `{"tasks":[{"id":1,"meta":{"status":"x"},"status":"done"},{"id":2,"status":"blocked","previousStatus":"pending"}]}`},
		{"missing, one line", `{"tasks": [{"id": 1, "title": "a"}, {"title": "b", "id": 2}]}`,
			`{"tasks": [{"id": 1, "status": "done", "title": "a"}, {"title": "b", "id": 2, "status": "blocked"}]}`},
		{"missing, own lines", "{\"tasks\": [\r\n  {\r\n    \"id\" : 1,\r\n    \"title\": \"a\"\r\n  }, {\r\n    \"id\": 2\r\n  }\r\n]}", "{\"tasks\": [\r\n  {\r\n    \"id\" : 1,\r\n    \"status\" : \"done\",\r\n    \"title\": \"a\"\r\n  }, {\r\n    \"id\": 2,\r\n    \"status\": \"blocked\"\r\n  }\r\n]}"},
		{"missing, nothing but the id", `{"tasks":[{"id":1},{"id":"2"}]}`,
			`{"tasks":[{"id":1,"status":"done"},{"id":"2","status":"blocked"}]}`},
		{"already so, by another word", `{"tasks":[{"id":1,"status":"completed"},{"id":2,"status":"Blocked"}]}`,
			`{"tasks":[{"id":1,"status":"completed"},{"id":2,"status":"Blocked"}]}`},
		{"the first of two", `{"tasks":[{"id":1},{"id":2,"status":"pending"},{"id":"1","status":"pending"}]}`,
			`{"tasks":[{"id":1,"status":"done"},{"id":2,"status":"blocked"},{"id":"1","status":"pending"}]}`},
		{"one tag of several", `{"y":{"tasks":[{"id":"1","status":"pending"}]},"x":{"tasks":[{"id":"x:1","status":"pending"},{"id":"2"}]}}`, `{"y":{"tasks":[{"id":"1","status":"pending"}]},"x":{"tasks":[{"id":"x:1","status":"done"},{"id":"2","status":"blocked"}]}}`},
	}
	for _, test := range tests {
		f := open(t, test.before)
		before := slices.Clone(f.Tasks())
		handed := f.Tasks()
		save(t, f, map[string]Status{"1": Done, "x:2": Blocked})
		if !reflect.DeepEqual(before, handed) {
			t.Errorf("%s: the list that was handed out changed", test.name)
		}
		if got := onDisk(t, f); got != test.after {
			t.Errorf("%s:\n got %q\nwant %q", test.name, got, test.after)
		}
		if a, b := f.Tasks()[0].Status, f.Tasks()[1].Status; a != Done || b != Blocked {
			t.Errorf("%s: in memory %s and %s", test.name, a, b)
		}
		save(t, f, map[string]Status{"1": Pending, "2": Pending})
		save(t, f, map[string]Status{"1": Done, "2": Blocked})
		if !strings.Contains(test.before, "complete") {
			if got := onDisk(t, f); got != test.after {
				t.Errorf("%s: there and back:\n got %q\nwant %q", test.name, got, test.after)
			}
		}
	}
}

func TestSaveMovesLines(t *testing.T) {
	t.Parallel()
	f := open(t, "{\"tasks\": [{\n \"id\": 1\n}, {\n \"id\": 2, \"status\": \"odd\"\n}, {\"id\": 3,\n \"status\": \"strange\", \"dependencies\": 2}]}")
	save(t, f, map[string]Status{"1": Done})
	save(t, f, map[string]Status{"3": Done})
}

func TestSaveNothing(t *testing.T) {
	t.Parallel()
	f := open(t, flatSample)
	broken := &faultFS{FS: atomicfile.OS(), at: 1}
	for _, set := range []map[string]Status{nil, {}, {"1": Done, "2": InProgress}} {
		f.SetReplace(atomicfile.Replacer(broken))
		if err := f.Save(set); err != nil || broken.count > 0 {
			t.Errorf("%v: %v after %d operations", set, err, broken.count)
		}
	}
}

func TestSaveRefuses(t *testing.T) {
	t.Parallel()
	f := open(t, flatSample)
	for want, set := range map[string]map[string]Status{
		`no task "77"`:    {"77": Done},
		`unknown status`:  {"1": "finished"},
		`"awaiting-tune"`: {"1": "awaiting-tune"},
	} {
		if err := f.Save(set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if onDisk(t, f) != flatSample {
		t.Error("the file changed")
	}
}

func TestSaveOverOthersChanges(t *testing.T) {
	t.Parallel()
	f := open(t, `{"tasks":[{"id":1,"status":"pending"},{"id":2,"status":"pending"}]}`)
	write(t, f.Path(), "{ \"tasks\": [\n{\"id\":0,\"title\":\"new\"},\n{\"id\":2,\"status\":\"review\",\"title\":\"theirs\"},{\"id\":1,\"status\":\"done\"}]}\n")
	save(t, f, map[string]Status{"1": Pending})
	if got, want := onDisk(t, f),
		"{ \"tasks\": [\n{\"id\":0,\"title\":\"new\"},\n{\"id\":2,\"status\":\"review\",\"title\":\"theirs\"},{\"id\":1,\"status\":\"pending\"}]}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if task, ok := f.Task("2"); !ok || task.Status != Review || task.Title != "theirs" {
		t.Errorf("f was not refreshed: %v", task)
	}

	// Ours is there already: theirs is taken over, and nothing is written.
	write(t, f.Path(), `{"tasks":[{"id":1,"status":"pending"}]}`)
	save(t, f, map[string]Status{"1": Pending})
	if len(f.Tasks()) != 1 {
		t.Errorf("f was not refreshed: %v", f.Tasks())
	}

	// A task that is gone is a finding.
	write(t, f.Path(), `{"tasks":[{"id":5,"status":"pending"}]}`)
	if err := f.Save(map[string]Status{"1": Done}); err != nil {
		t.Fatal(err)
	}
	if found := f.Findings(); len(found) != 1 || found[0].Kind != "gone" ||
		!strings.Contains(found[0].Message, "task 1 is no longer in") {
		t.Errorf("findings %v", found)
	}
	if onDisk(t, f) != `{"tasks":[{"id":5,"status":"pending"}]}` {
		t.Error("the file changed")
	}
}

func TestSaveOverSameSize(t *testing.T) {
	t.Parallel()
	f := open(t, `{"tasks":[{"id":1,"status":"pending"},{"id":2,"title":"ours"}]}`)
	write(t, f.Path(), `{"tasks":[{"id":1,"status":"pending"},{"id":2,"title":"them"}]}`)
	save(t, f, map[string]Status{"1": Done})
	if got := onDisk(t, f); got != `{"tasks":[{"id":1,"status":"done"},{"id":2,"title":"them"}]}` {
		t.Errorf("got %s", got)
	}
}

func TestSaveOverBrokenFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `[]`, `{"tasks":{}}`, "\xff", `{"tasks":[{"id":1,"subtasks":[{}]}]}`} {
		f := open(t, flatSample)
		write(t, f.Path(), text)
		var format *FormatError
		if err := f.Save(map[string]Status{"2": Done}); !errors.As(err, &format) {
			t.Errorf("%q: got %v", text, err)
		}
		if onDisk(t, f) != text {
			t.Errorf("%q: the file changed", text)
		}
		if string(f.Bytes()) != flatSample || f.Tasks()[1].Status != InProgress {
			t.Errorf("%q: f changed", text)
		}
		write(t, f.Path(), flatSample) // mended: goes on as if nothing had been
		save(t, f, map[string]Status{"2": Done})
	}
}

func TestSaveDeletedFile(t *testing.T) {
	t.Parallel()
	f := open(t, flatSample)
	if err := os.RemoveAll(filepath.Dir(filepath.Dir(f.Path()))); err != nil {
		t.Fatal(err)
	}
	save(t, f, map[string]Status{"1": Done}) // no change, and yet the file has to come back
	if onDisk(t, f) != flatSample {
		t.Errorf("got %s", onDisk(t, f))
	}
	if err := os.Remove(f.Path()); err != nil {
		t.Fatal(err)
	}
	save(t, f, map[string]Status{"2": Done})
	if want := strings.Replace(flatSample, "in_progress", "done", 1); onDisk(t, f) != want {
		t.Errorf("got %s", onDisk(t, f))
	}
}

func TestSaveKeepsFindingsOfTheSource(t *testing.T) {
	t.Parallel()
	root := project(t, map[string]string{"tasks.json": taggedSample, "tasks.scg": ""})
	f, err := Open(root, "x")
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.Path(), taggedSample+"\n")
	if err := f.Save(map[string]Status{"2": Done}); err != nil {
		t.Fatal(err)
	}
	if found := f.Findings(); len(found) != 1 || found[0].Kind != "source" {
		t.Errorf("findings %v", found)
	}
}

func TestSaveReadOnly(t *testing.T) {
	t.Parallel()
	f := open(t, flatSample)
	if err := f.Writable(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(f.Path())); err != nil || len(entries) != 1 {
		t.Errorf("the probe left %v", entries)
	}
	if err := os.Chmod(f.Path(), 0o444); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{f.Writable(), f.Save(map[string]Status{"2": Done})} {
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("got %v", err)
		}
	}
	if onDisk(t, f) != flatSample {
		t.Error("the file changed")
	}
}

func TestSaveThroughLink(t *testing.T) {
	t.Parallel()
	root, other := project(t, nil), filepath.Join(t.TempDir(), "real.json")
	write(t, other, flatSample)
	link := filepath.Join(root, ".scud", "tasks", "x.json")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	f, err := Open(root, "x")
	if err != nil {
		t.Fatal(err)
	}
	save(t, f, map[string]Status{"2": Done})
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != strings.Replace(flatSample, "in_progress",
		"done", 1) {
		t.Errorf("got %s, %v", text, err)
	}
}

// faultFS fails its operation number at.
type faultFS struct {
	atomicfile.FS
	at, count int
	err       error
}

func (f *faultFS) next() error {
	if f.count++; f.count == f.at {
		return f.err
	}
	return nil
}

func (f *faultFS) OpenFile(name string, flag int, perm os.FileMode) (atomicfile.File, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenFile(name, flag, perm)
	return &faultFile{file, f}, err
}

func (f *faultFS) Rename(from, to string) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f *faultFS) SyncDir(dir string) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

type faultFile struct {
	atomicfile.File
	fs *faultFS
}

func (f *faultFile) Write(p []byte) (int, error) {
	if err := f.fs.next(); err != nil {
		n, _ := f.File.Write(p[:len(p)/3])
		return n, err
	}
	return f.File.Write(p)
}

func (f *faultFile) Sync() error { return errors.Join(f.fs.next(), f.File.Sync()) }

func TestSaveEveryFault(t *testing.T) {
	t.Parallel()
	set := map[string]Status{"2": Done, "10": Blocked}
	for _, fault := range []error{syscall.ENOSPC, syscall.EIO} {
		for k := 1; ; k++ {
			f := open(t, flatSample)
			fsys := &faultFS{FS: atomicfile.OS(), at: k, err: fault}
			f.SetReplace(atomicfile.Replacer(fsys))
			err := f.Save(set)
			if err == nil {
				if k != 6 { // open, write, sync, rename, fsync of the directory
					t.Errorf("%d operations can fail, want 5", k-1)
				}
				break
			}
			if !errors.Is(err, fault) || !strings.Contains(err.Error(), "save "+f.Path()) {
				t.Errorf("operation %d: %v", k, err)
			}
			if got := onDisk(t, f); k < 5 && got != flatSample {
				t.Errorf("operation %d: the file changed to %q", k, got)
			}
			if string(f.Bytes()) != flatSample || f.Tasks()[1].Status != InProgress {
				t.Errorf("operation %d: f changed", k)
			}
			save(t, f, set) // the disk is well again
		}
	}
}

func TestSaveOneByOneEqualsAtOnce(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, ",\n {\"id\": %d%s}", i, []string{"", `, "status": "pending"`,
			`, "status": "odd", "title": "é"`, ",\n  \"title\": 1"}[i%4])
	}
	text := `{"tasks": [` + b.String()[1:] + "]}\n"
	one, all := open(t, text), open(t, text)
	set := map[string]Status{}
	for i := range 40 {
		id := fmt.Sprint(i * 17 % 40)
		set[id] = []Status{Done, Blocked, Failed, Pending, Deferred}[i%5]
		save(t, one, map[string]Status{id: set[id]})
	}
	save(t, all, maps.Clone(set))
	if a, b := onDisk(t, one), onDisk(t, all); a != b {
		t.Errorf("one by one:\n%s\nat once:\n%s", a, b)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Two runs over two tags of one file lose none of each other's statuses.
func TestSaveTwoTagsAtOnce(t *testing.T) {
	const n = 40
	path := filepath.Join(t.TempDir(), "tasks.json")
	tag := func(name string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"id":"%d","title":"T","status":"pending"}`, i+1))
		}
		return fmt.Sprintf("%q: {\"tasks\": [%s]}", name, strings.Join(list, ",\n"))
	}
	if err := os.WriteFile(path, []byte("{"+tag("a")+",\n"+tag("b")+"}"), 0o644); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		f, err := OpenPath(path, name)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for i := range n {
				if err := f.Save(map[string]Status{strconv.Itoa(i + 1): Done}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(path)
	if got := strings.Count(string(b), `"done"`); err != nil || got != 2*n {
		t.Errorf("got %d tasks done, want %d (%v)", got, 2*n, err)
	}
}
