package tasks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"descartes/internal/atomicfile"
)

func fileSeeds() []string {
	return append(jsonSeeds(), flatSample, taggedSample,
		`{"tasks":[]}`, `{"tasks":[{"id":1}]}`, `{"x":{"tasks":[{"id":"x:1","status":"todo"}]}}`, "\ufeff{\"tasks\":[{\"id\":\"a\" , \r\n\"status\" : null}]}\r\n",
		`{"tasks":[{"id":1,"status":"done","status":"pending"},{"id":1},{"id":"2","parent_id":"1","subtasks":["2",1]}],"tasks":[{"id":3}]}`,
		`{"t\u0061sks":[{"\u0069d":"\u0031","st\u0061tus":"pend\u0069ng"}]}`,
		`{"tasks":[{"id":1,"parent_id":2},{"id":2,"parent_id":3,"status":"expanded"},{"id":3,"parent_id":1},{"id":"2.1"}]}`,
		`{"tasks":{"tasks":[{"id":1}]}}`, `{"tasks":[{"id":1.50,"depends_on":[1.5,"x:2",{"a":[]},null]}]}`)
}

// FuzzOpen: no text makes the reader panic, what it accepts is JSON, and editing statuses changes nothing else.
func FuzzOpen(f *testing.F) {
	for _, text := range fileSeeds() {
		f.Add(text, uint8(0))
		f.Add(text, uint8(7))
	}
	f.Fuzz(func(t *testing.T, text string, which uint8) {
		file, err := decode("x.json", "x", text)
		if err != nil {
			return
		}
		if string(file.Bytes()) != text {
			t.Fatal("reading changed the bytes")
		}
		checkFamilies(t, file)
		set := map[string]Status{}
		for i, task := range file.Tasks() {
			set[task.ID] = []Status{Done, Pending, InProgress, Failed}[(i+int(which))%4]
		}
		edits, gone := file.edits(set)
		if len(gone) > 0 {
			t.Fatalf("tasks %v are gone", gone)
		}
		next := file
		list := next.splices(edits, next.time)
		next.apply(edits, list, next.spliced(list))
		again, err := decode("x.json", "x", next.src)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, next.src, err)
		}
		if !reflect.DeepEqual(next, again) {
			t.Fatalf("%q became %q:\n%+v\nread anew:\n%+v", text, next.src, next, again)
		}
		for id, status := range set {
			if task, ok := next.Task(id); !ok || task.Status != status {
				t.Fatalf("%q became %q: task %s is %v, want %s", text, next.src, id, task, status)
			}
		}
		if was, is := withoutStatus(t, text), withoutStatus(t, next.src); !reflect.DeepEqual(was, is) {
			t.Fatalf("%q became %q: more than statuses differ", text, next.src)
		}
	})
}

// withoutStatus decodes a JSON text and drops the status of every task.
func withoutStatus(t *testing.T, text string) any {
	t.Helper()
	const bom = "\ufeff"
	if len(text) >= len(bom) && text[:len(bom)] == bom {
		text = text[len(bom):]
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("accepted %q: %v", text, err)
	}
	dropStatus(v)
	return v
}

func dropStatus(v any) {
	top, ok := v.(map[string]any)
	if !ok {
		return
	}
	for _, inner := range top {
		dropStatus(inner)
	}
	list, _ := top["tasks"].([]any)
	for _, task := range list {
		if task, ok := task.(map[string]any); ok {
			delete(task, "status")
		}
	}
}

// checkFamilies checks that parents and children agree and that there are no circles.
func checkFamilies(t *testing.T, f *File) {
	t.Helper()
	held := 0
	for i, task := range f.Tasks() {
		for _, id := range task.Children {
			if child, ok := f.Task(id); !ok || child.Parent != task.ID || f.index[task.ID] != i {
				t.Fatalf("task %s has the child %s, which does not know", task.ID, id)
			}
			held++
		}
		if task.Parent != "" {
			held--
		}
		steps := 0
		for up := task.Parent; up != ""; steps++ {
			parent, ok := f.Task(up)
			if !ok || steps > len(f.Tasks()) {
				t.Fatalf("the ancestors of task %s do not end", task.ID)
			}
			up = parent.Parent
		}
	}
	if held != 0 {
		t.Fatal("a task has a parent that does not list it, or is listed twice")
	}
}

// FuzzSave goes through a real file, which another program changes in between.
func FuzzSave(f *testing.F) {
	f.Add(flatSample, taggedSample)
	f.Add(flatSample, "{")
	f.Add(`{"tasks":[{"id":1}]}`, `{"tasks":[{"id":1,"status":"pending"},{"id":2}]}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		path := filepath.Join(t.TempDir(), "x.json")
		if err := os.WriteFile(path, []byte(first), 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := OpenPath(path, "x")
		if err != nil || len(file.Tasks()) == 0 {
			return
		}
		if err := os.WriteFile(path, []byte(second), 0o644); err != nil {
			t.Fatal(err)
		}
		theirs, theirErr := decode(path, "x", second)
		err = file.Save(atomicfile.OS(), map[string]Status{file.Tasks()[0].ID: Cancelled})
		if (err == nil) != (theirErr == nil) {
			t.Fatalf("save: %v, though reading says %v", err, theirErr)
		}
		got, readErr := os.ReadFile(path)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if err != nil {
			if string(got) != second {
				t.Fatal("a file that cannot be parsed was changed")
			}
			return
		}
		if string(got) != string(file.Bytes()) || len(file.Tasks()) != len(theirs.Tasks()) {
			t.Fatal("the file and what is known of it differ")
		}
	})
}
