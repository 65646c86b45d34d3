package tasks

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestTaskMaster(t *testing.T) {
	t.Parallel()
	f := fixture(t, "taskmaster.json", "master")
	want(t, "tasks", show(f), `
1 done
2 in-progress < 1
2.1/2 done
2.2/2 pending < 2.1
2.3/2 pending < 2.2 2.1 4 9
2.3.1/2.3 pending
2.3.2/2.3 pending < 2.3.1 2.2 4.10
2.3.2.1/2.3.2 pending < 2.3.2.1
4 done < 2 3 2.1
4.1/4 deferred < 4
4.10/4 review < 4.1
clean-up cancelled < HAM-1 4
HAM-1 blocked
20 pending
20.1/20 pending
`)
	want(t, "findings", found(f), "")
	wantOne := Task{ID: "1", Title: "Set up the mill", Description: "Stones and wheel.",
		Details: "Order:\n```sh\nmake wheel\n```\n", TestStrategy: "Turn it.",
		Status: Done, RawStatus: "completed", Priority: "critical", Complexity: "very-complex", Numeric: true, Line: 4}
	if got := f.Tasks()[0]; !reflect.DeepEqual(got, wantOne) {
		t.Errorf("got  %+v\nwant %+v", got, wantOne)
	}
	two, _ := f.Task("master:2")
	if two.Priority != "medium" || two.Complexity != "7.5" || two.Numeric ||
		strings.Join(two.Children, " ") != "2.1 2.2 2.3" {
		t.Errorf("got %+v", two)
	}
	if sub, _ := f.Task("2.1"); sub.Numeric || sub.Title != "Fill" || sub.Line != 25 {
		t.Errorf("got %+v", sub)
	}
	want(t, "side", show(fixture(t, "taskmaster.json", "side")), "1 pending < master:1\n")
}

func TestTaskMasterLegacy(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"", "master"} {
		root := t.TempDir()
		text, err := os.ReadFile(filepath.Join("testdata", "legacy.json"))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, "tasks", "tasks.json")
		place(t, root, map[string]string{"tasks/tasks.json": string(text)})
		f, err := OpenPath(path, tag)
		if err != nil || f.Tag() != "master" {
			t.Fatalf("tag %q: %v", tag, err)
		}
		want(t, "tasks", show(f), "1 done\n1.1/1 done\n1.2/1 pending\n2 pending < 1\n")
	}
}

// place writes files below root.
func place(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTaskMasterShapes(t *testing.T) {
	t.Parallel()
	one := `{"tasks":[{"id":1,"status":"pending"}],"metadata":{}}`
	tests := []struct{ name, text, tag, want string }{
		{"metadata missing", `{"tasks":[{"id":1}]}`, "master", "master: 1 pending\n"},
		{"no tasks", `{"master":{"tasks":[],"metadata":{}}}`, "master", "master: "},
		{"master is absent", `{"metadata":{"x":1},"feature":` + one + `,"other":` + one + `}`, "master",
			"feature: 1 pending\n"},
		{"an old list beside the tags", `{"tasks":[{"id":7}],"metadata":{},"master":` + one + `}`, "master",
			"master: 1 pending\n"},
		{"a tag called tasks", `{"tasks":` + one + `}`, "tasks", "tasks: 1 pending\n"},
		{"subtasks are null", `{"tasks":[{"id":1,"subtasks":null}]}`, "master", "master: 1 pending\n"},
		{"the parent's id in letters",
			`{"tasks":[{"id":"a-b","subtasks":[{"id":"a-b.1"},{"id":"x","dependencies":["a-b.1","a-b"]}]}]}`, "master",
			"master: a-b pending\na-b.1/a-b pending\na-b.x/a-b pending < a-b.1 a-b\n"},
		{"a subtask without id",
			`{"tasks":[{"id":1,"subtasks":[{"title":"x","status":"done"},{"title":"y","status":"todo","dependencies":[1]}]}]}`, "master", "master: 1 pending\n1.1/1 done\n1.2/1 pending < 1.1\n"},
		{"ids and objects mixed", `{"tasks":[{"id":1,"subtasks":[{"id":5},"2"]},{"id":2}]}`, "master",
			"master: 1 pending\n1.5/1 pending\n2/1 pending\n"},
		{"1.1 and 1.10 are two, 10 of 1 is 1.10 too",
			`{"tasks":[{"id":1,"subtasks":[{"id":1.1},{"id":1.10},{"id":10}]}]}`, "master",
			"master: 1 pending\n1.1/1 pending\n1.10/1 pending\n1.10 pending\n"},
		{"the same number twice", `{"tasks":[{"id":1,"subtasks":[{"id":1,"status":"done"},{"id":1}]}]}`, "master",
			"master: 1 pending\n1.1/1 done\n1.1 pending\n"},
	}
	for _, test := range tests {
		root := t.TempDir()
		place(t, root, map[string]string{".taskmaster/tasks/tasks.json": test.text})
		f, err := Open(root, test.tag)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		want(t, test.name, f.Tag()+": "+show(f), test.want)
	}
}

func TestTaskMasterLookAlikes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{`{"tasks":[{"id":"TASK-001","title":"a","status":"todo","completed":false},{"id":"TASK-002","status":"completed","completed":true}]}`, `a boolean "completed" and no dependencies`},
		{`{"version":"1.0","order":["a"],"tasks":{"a":{"id":"a","status":"todo"}}}`, `"tasks" is an object here`},
		{`{"version":"2.0.0","tasks":[{"label":"build","type":"shell"}]}`, "a task without id"},
	} {
		root := t.TempDir()
		place(t, root, map[string]string{"tasks/tasks.json": test.text})
		var format *FormatError
		if _, err := Open(root, "master"); !errors.As(err, &format) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}

func TestSaveTaskMaster(t *testing.T) {
	t.Parallel()
	f := fixture(t, "taskmaster.json", "master")
	text := onDisk(t, f)
	change := func(old, new string) {
		t.Helper()
		if strings.Count(text, old) != 1 {
			t.Fatalf("%q is not there once", old)
		}
		text = strings.Replace(text, old, new, 1)
	}
	save(t, f, map[string]Status{"2.2": InProgress})
	change(`"Turn", "status": "pending"`, `"Turn", "status": "in-progress"`)
	want(t, "a subtask", onDisk(t, f), text)
	save(t, f, map[string]Status{"2.2": Done, "2.3.1": Done})
	change(`"Turn", "status": "in-progress"`, `"Turn", "status": "done"`)
	change(`"Sacks", "status": "todo"`, `"Sacks", "status": "done"`)
	want(t, "two of them", onDisk(t, f), text)
	save(t, f, map[string]Status{"2.3.2.1": Done}) // the last one in four containers
	change(`"Ink", "status": "pending"`, `"Ink", "status": "done"`)
	change(`"Label", "status": "pending"`, `"Label", "status": "done"`)
	change(`"Empty", "status": "pending"`, `"Empty", "status": "done"`)
	change(`"status": "in-progress"`, `"status": "done"`)
	want(t, "the last", onDisk(t, f), text)
	save(t, f, map[string]Status{"20.1": Done}) // its container's status comes behind it
	change(`"id": 1, "status": "pending" } ],
        "status": "pending"`, `"id": 1, "status": "done" } ],
        "status": "done"`)
	want(t, "behind", onDisk(t, f), text)
	save(t, f, map[string]Status{"2.3.1": Pending})
	change(`"Sacks", "status": "done"`, `"Sacks", "status": "pending"`)
	change(`"Empty", "status": "done"`, `"Empty", "status": "in-progress"`)
	change("\"title\": \"Grind\",\n        \"status\": \"done\"",
		"\"title\": \"Grind\",\n        \"status\": \"in-progress\"")
	want(t, "taken up again", onDisk(t, f), text)
}

func TestSaveTaskMasterInserts(t *testing.T) {
	t.Parallel()
	f := open(t, "{\"tasks\":[{\n  \"id\":1,\n  \"subtasks\":[{\n    \"id\":1\n  }, {\"id\":2, \"status\":\"odd\"}]}]}")
	save(t, f, map[string]Status{"1.1": Done, "1.2": Done})
	want(t, "inserted", onDisk(t, f),
		"{\"tasks\":[{\n  \"id\":1,\n  \"status\":\"done\",\n  \"subtasks\":[{\n    \"id\":1,\n    \"status\":\"done\"\n  }, {\"id\":2, \"status\":\"done\"}]}]}")
	f = open(t, `{"tasks":[{"subtasks":[{"id":1},{"id":2,"subtasks":[]}],"id":1}]}`)
	save(t, f, map[string]Status{"1.2": Done, "1.1": Done})
	want(t, "in front", onDisk(t, f),
		`{"tasks":[{"subtasks":[{"id":1,"status":"done"},{"id":2,"status":"done","subtasks":[]}],"id":1,"status":"done"}]}`)
}

func TestSaveContainersOfIDsStay(t *testing.T) {
	t.Parallel()
	f := open(t, `{"tasks":[{"id":1,"status":"expanded","subtasks":["2"]},{"id":2,"status":"pending"},{"id":3,"status":"done","subtasks":["4"]},{"id":4,"status":"done"}]}`)
	if err := f.Save(map[string]Status{"2": Done, "4": InProgress}); err != nil {
		t.Fatal(err)
	}
	want(t, "saved", onDisk(t, f),
		`{"tasks":[{"id":1,"status":"expanded","subtasks":["2"]},{"id":2,"status":"done"},{"id":3,"status":"expanded","subtasks":["4"]},{"id":4,"status":"in-progress"}]}`)
}

func TestNamespaced(t *testing.T) {
	t.Parallel()
	f := fixture(t, "namespaced.json", "phase1")
	want(t, "tasks", show(f), "1 done\n1.1/1 done < 1\n1.2/1 pending < 1.1\n5 pending\n")
	want(t, "findings", found(f), "5 family task 5: its title calls it a parent, but it has no subtasks\n")
	if f.Tasks()[0].Title != "Set up workspace" {
		t.Errorf("title %q", f.Tasks()[0].Title)
	}
	text := onDisk(t, f)
	save(t, f, map[string]Status{"phase1:1.2": Done})
	want(t, "saved", onDisk(t, f), strings.Replace(text, `"Create folders", "status": "pending"`,
		`"Create folders", "status": "done"`, 1))

	f = fixture(t, "namespaced.json", "phase3")
	want(t, "tasks", show(f), "4 pending < phase2:20 phase1:4 5\n5 done < phase1:5\n5.1/5 pending\n")
	want(t, "findings", found(f), "9 family task 5.1: taken for a subtask of 5 by its id\n")
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	f := open(t, `{"tasks":[{"id":1,"status":"expanded","subtasks":[{"id":1,"status":"done"},{"id":2,"status":"pending","subtasks":[{"id":1,"status":"completed"}]}]},
		{"id":2,"status":"expanded","subtasks":[{"id":1,"status":"blocked"}]},{"id":3,"status":"in-progress","subtasks":[{"id":1}]},
		{"id":4,"status":"done","subtasks":[{"id":1}]},{"id":5,"status":"cancelled","subtasks":[{"id":1,"status":"done"}]},{"id":6,"status":"expanded"}]}`)
	for id, want := range map[string]Status{"1": Done, "1.2": Done, "2": Pending, "2.1": Blocked, "3": InProgress,
		"4": Done, "4.1": Done, "5": Cancelled, "6": Expanded} {
		if got, ok := f.Outcome(id); !ok || got != want {
			t.Errorf("task %s: got %s, want %s", id, got, want)
		}
	}
	if _, ok := f.Outcome("9"); ok {
		t.Error("task 9 is there")
	}
}

func TestSaveTaskMasterKnowsNoFailed(t *testing.T) {
	t.Parallel()
	f := fixture(t, "legacy.json", "")
	if f.Tag() != "legacy" {
		t.Fatalf("tag %q", f.Tag())
	}
	root := t.TempDir()
	place(t, root, map[string]string{"tasks/tasks.json": onDisk(t, f)})
	f, err := Open(root, "master")
	if err != nil {
		t.Fatal(err)
	}
	text := onDisk(t, f)
	save(t, f, map[string]Status{"2": Failed})
	want(t, "saved", onDisk(t, f), strings.Replace(text, `"Fill", "status": "pending"`, `"Fill", "status": "blocked"`,
		1))
}
