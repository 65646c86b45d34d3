package tasks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// project makes a directory with files under .scud/tasks and returns it.
func project(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, ".scud", "tasks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func open(t testing.TB, text string) *File {
	t.Helper()
	f, err := Open(project(t, map[string]string{"x.json": text}), "x")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const flatSample = `{
  "tag": "x",
  "created_at": "2025-12-29T00:00:00Z",
  "tasks": [
    { "id": 1, "title": "Start", "description": "Line\nline \u00e9", "status": "done", "complexity": 2, "priority": "high",
      "depends_on": [], "phase": "merge", "test_strategy": "go test" },
    {
      "id": 2,
      "title": "Go on", "description": null,
      "status": "in_progress", "complexity": 21,
      "depends_on": [1, "x:1", 1, "core:4"]
    },
    { "id": "10", "title": "Last", "status": "pending", "dependencies": [2], "priority": null, "testStrategy": "by hand", "agent_type": "builder", "model_tier": "fast" }
  ],
  "waves": [ { "number": 2, "name": "Checks", "task_ids": [2, 3] } ],
  "summary": { "total_tasks": 3 }
}
`

func TestOpenFlat(t *testing.T) {
	t.Parallel()
	f := open(t, flatSample)
	want := []Task{
		{ID: "1", Title: "Start", Description: "Line\nline é", TestStrategy: "go test", Status: Done,
			RawStatus: "done", Priority: "high", Complexity: "2", Numeric: true, Line: 5},
		{ID: "2", Title: "Go on", Status: InProgress, RawStatus: "in_progress", Priority: "medium", Complexity: "21",
			DependsOn: []string{"1", "core:4"}, Numeric: true, Line: 7},
		{ID: "10", Title: "Last", TestStrategy: "by hand", Status: Pending, RawStatus: "pending", Priority: "medium",
			DependsOn: []string{"2"}, AgentType: "builder", ModelTier: "fast", Line: 13},
	}
	wantTasks(t, f, want)
	if f.Tag() != "x" || filepath.Base(f.Path()) != "x.json" || string(f.Bytes()) != flatSample ||
		len(f.Findings()) != 0 {
		t.Errorf("tag %q, path %q, findings %v", f.Tag(), f.Path(), f.Findings())
	}
	if task, ok := f.Task("x:10"); !ok || task.Title != "Last" {
		t.Errorf("x:10: got %v %v", task, ok)
	}
	if _, ok := f.Task("11"); ok {
		t.Error("11 is found")
	}
}

const taggedSample = `{
  "core": {"name": "core", "tasks": [{"id": "4", "title": "Other", "status": "done"}]},
  "x": {
    "name": "x", "id_format": "sequential",
    "tasks": [
      { "id": "1", "title": "Endpoint", "status": "expanded", "complexity": 5, "dependencies": ["core:4"], "subtasks": ["1.2", "1.1"] },
      { "id": "1.1", "title": "Route", "status": "pending", "complexity": 0, "dependencies": ["x:1.2"], "parent_id": "1" },
      { "id": "1.2", "title": "Model", "status": "pending", "details": "d", "dependencies": [], "parent_id": "1" },
      { "id": "x:2", "title": "No status", "subtasks": [] }
    ]
  }
}`

func TestOpenTagged(t *testing.T) {
	t.Parallel()
	f, err := Open(project(t, map[string]string{"tasks.json": taggedSample}), "x")
	if err != nil {
		t.Fatal(err)
	}
	wantTasks(t, f, []Task{
		{ID: "1", Title: "Endpoint", Status: Expanded, RawStatus: "expanded", Priority: "medium", Complexity: "5",
			DependsOn: []string{"core:4"}, Children: []string{"1.1", "1.2"}, Line: 6},
		{ID: "1.1", Title: "Route", Status: Pending, RawStatus: "pending", Priority: "medium", Complexity: "0",
			DependsOn: []string{"1.2"}, Parent: "1", Line: 7},
		{ID: "1.2", Title: "Model", Details: "d", Status: Pending, RawStatus: "pending", Priority: "medium",
			Parent: "1", Line: 8},
		{ID: "2", Title: "No status", Status: Pending, Priority: "medium", Line: 9},
	})
	if f.Tasks()[0].Container() != true || f.Tasks()[1].Container() != false {
		t.Error("containers are wrong")
	}
}

func wantTasks(t *testing.T, f *File, want []Task) {
	t.Helper()
	got := f.Tasks()
	if len(got) != len(want) {
		t.Fatalf("got %d tasks, want %d", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("task %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

func TestOpenSources(t *testing.T) {
	t.Parallel()
	own := `{"tag":"x","tasks":[{"id":1}]}`
	tests := []struct {
		name  string
		files map[string]string
		tag   string
		file  string // "" for not found
		known string // or the finding
	}{
		{"own file first", map[string]string{"x.json": own, "tasks.json": taggedSample}, "x", "x.json",
			"the tag is in .scud/tasks/tasks.json too; .scud/tasks/x.json is read"},
		{"then the file of all tags", map[string]string{"y.json": own, "tasks.json": taggedSample}, "x", "tasks.json",
			""},
		{"with the graph beside it", map[string]string{"tasks.json": taggedSample, "tasks.scg": ""}, "x", "tasks.json",
			"tasks.scg is beside it"},
		{"own file in the tagged shape", map[string]string{"x.json": taggedSample}, "x", "x.json", ""},
		{"unknown", map[string]string{"b.json": own, "a10.json": own, "list.json": " \n[]", "-q.json": own,
			"a.txt": own, "tasks.json": taggedSample}, "z", "", "a10, b, core, x"},
		{"unknown in an empty place", nil, "z", "", "no task files"},
		{"own file has other tags", map[string]string{"z.json": taggedSample}, "z", "", "z"},
		{"tasks.json of one tag", map[string]string{"tasks.json": own}, "x", "tasks.json", ""},
		{"tasks.json of another tag", map[string]string{"tasks.json": own}, "z", "", "x"},
		{"the tag tasks", map[string]string{"tasks.json": `{"tag":"tasks","tasks":[{"id":1}]}`}, "tasks", "tasks.json",
			""},
		{"broken tasks.json, other tags", map[string]string{"tasks.json": `{`, "a.json": own}, "z", "",
			"known tags: a"},
		{"tag in the file differs", map[string]string{"z.json": own}, "z", "z.json", "says that its tag is x"},
	}
	for _, test := range tests {
		root := project(t, test.files)
		f, err := Open(root, test.tag)
		if test.file == "" {
			var missing *NotFoundError
			if !errors.As(err, &missing) || !strings.Contains(err.Error(), test.known) {
				t.Errorf("%s: got %v", test.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if filepath.Base(f.Path()) != test.file {
			t.Errorf("%s: read %s", test.name, f.Path())
		}
		if found := fmt.Sprint(f.Findings()); !strings.Contains(found, test.known) || test.known == "" &&
			len(f.Findings()) > 0 {
			t.Errorf("%s: findings %s, want %q", test.name, found, test.known)
		}
	}
	root := t.TempDir()
	if _, err := Open(root, "x"); err == nil || !strings.Contains(err.Error(), "no task files in "+root) {
		t.Errorf("no .scud: %v", err)
	}
}

func TestOpenPathWithoutTag(t *testing.T) {
	t.Parallel()
	root := project(t, map[string]string{"flat": flatSample, "many": taggedSample,
		"one": `{"q":{"tasks":[{"id":"q:1"}]}}`})
	for name, tag := range map[string]string{"flat": "x", "one": "q"} {
		f, err := OpenPath(filepath.Join(root, ".scud", "tasks", name), "")
		if err != nil || f.Tag() != tag || f.Tasks()[0].ID != "1" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenPath(filepath.Join(root, ".scud", "tasks", "many"), ""); err == nil ||
		!strings.Contains(err.Error(), "name one of: core, x") {
		t.Errorf("many: %v", err)
	}
	if _, err := OpenPath(filepath.Join(root, "nowhere"), ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"empty", "", "x.json: the file is empty"},
		{"blank", " \r\n\t", "the file is empty"},
		{"only a BOM", "\ufeff", "the file is empty"},
		{"truncated", flatSample[:300], "x.json:9: not valid JSON: the file ends too early: it seems to be cut off"},
		{"truncated in a string", flatSample[:70], "cut off"},
		{"trailing comma", "{\"tasks\":[\n{\"id\":1},\n]}",
			"x.json:2: not valid JSON: there is a comma after the last member"},
		{"raw line break in a string", "{\"tasks\":[{\"id\":1,\"title\":\"a\nb\"}]}",
			"x.json:1: not valid JSON: invalid character"},
		{"two values", "{\"tasks\":[]}\n{}", "x.json:2: not valid JSON: invalid character '{' after top-level value"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "UTF-16"},
		{"Latin-1", "{\n\"tasks\":[{\"id\":1,\"title\":\"caf\xe9\"}]}",
			"x.json: the file is not UTF-8 text: invalid byte in line 2"},
		{"conflict", "{\n<<<<<<< HEAD\n\"tasks\":[]\n", "x.json:2: merge conflict markers"},
		{"LFS pointer", "version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"},
		{"prompts", `{"tasks":[{"id":"1","prompt":"a","cron":"* * * * *"}]}`, "a prompt and no title"},
		{"bare array", `[{"title":"a"}]`, "a bare array of tasks"},
		{"a string", `"x"`, "no task list"},
		{"empty object", `{}`, "no task list"},
		{"tasks is an object", `{"version":1,"order":[],"tasks":{"a":{"id":"a"}}}`, `"tasks" is an object here`},
		{"completed flags", `{"tasks":[{"id":"TASK-001","status":"todo","completed":false}]}`,
			`a boolean "completed"`},
		{"package.json", `{"name":"p","version":"1","scripts":{},"a":1,"b":2,"c":3}`,
			`found "name", "version", "scripts", "a", "b"`},
		{"nested subtask without anything", "{\"tasks\":[\n{\"id\":1,\"subtasks\":[\n{}]}]}",
			"x.json:3: a task without id"},
		{"no id", "{\"tasks\":[\n\n{\"title\":\"a\"}]}", "x.json:3: a task without id"},
		{"null id", `{"tasks":[{"id":null}]}`, "must be a string or a number"},
		{"empty id", `{"tasks":[{"id":""}]}`, `the id "": it may have`},
		{"negative id", `{"tasks":[{"id":-1}]}`, "it may have letters"},
		{"path as id", `{"tasks":[{"id":"../../x"}]}`, "it may have letters"},
		{"slash in an id", `{"tasks":[{"id":"a/b"}]}`, "it may have letters"},
		{"control character in an id", `{"tasks":[{"id":"a\u0000"}]}`, "it may have letters"},
		{"long id", `{"tasks":[{"id":"` + strings.Repeat("a", 101) + `"}]}`, "at most 100 bytes"},
		{"task is a string", `{"tasks":["a"]}`, "a task must be an object"},
		{"odd subtasks", `{"tasks":[{"id":1,"subtasks":"2"}]}`, "subtasks must be an array"},
		{"odd subtask", `{"tasks":[{"id":1,"subtasks":[null]}]}`, "be given by its id"},
		{"deep", `{"tasks":[` + strings.Repeat(`{"id":1,"subtasks":[`, 200) + strings.Repeat("]}", 200) + `]}`,
			"nested too deeply"},
		{"tag without tasks", `{"x":{"name":"x"},"y":{"tasks":[]}}`, "the tag has no array of tasks"},
	}
	for _, test := range tests {
		_, err := Open(project(t, map[string]string{"x.json": test.text}), "x")
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		make       func(path string) error
	}{
		{"directory", "is a directory", func(p string) error { return os.Mkdir(p, 0o755) }},
		{"dangling link", "a symbolic link to gone, which does not exist",
			func(p string) error { return os.Symlink("gone", p) }},
		{"link to itself", "too many", func(p string) error { return os.Symlink("x.json", p) }},
		{"too large", "larger than 64 MiB", func(p string) error {
			if err := os.WriteFile(p, nil, 0o644); err != nil {
				return err
			}
			return os.Truncate(p, maxFile+1)
		}},
	}
	for _, test := range tests {
		root := project(t, nil)
		if err := test.make(filepath.Join(root, ".scud", "tasks", "x.json")); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(root, "x"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, tasks, want string }{
		{"duplicate", "{\"id\":1,\"title\":\"a\"},\n{\"id\":\"1\"}",
			"2 duplicate task 1: the id is already used in line 1: this task is ignored"},
		{"unknown status", `{"id":1,"status":"doing"}`,
			`1 unknown-status task 1 has the unknown status "doing": it does not run`},
		{"awaiting-tune", `{"id":1,"status":"awaiting-tune"}`, "set it to pending to run it again"},
		{"status number", `{"id":1,"status":3}`, `unknown status "3"`},
		{"status twice", `{"id":1,"status":"done","status":"pending"}`, "more than once"},
		{"null dependency", `{"depends_on":[null],"id":1}`,
			"1 dependency task 1: a dependency must be an id, found null"},
		{"unknown parent", `{"id":1,"parent_id":"7"}`, "its parent 7 is not in the list"},
		{"own parent", `{"id":1,"parent_id":"1"}`, "its own parent"},
		{"unknown subtask", `{"id":1,"subtasks":["1.1"]}`, "its subtask 1.1 is not in the list"},
		{"itself as subtask", `{"id":1,"subtasks":[1]}`, "lists itself"},
		{"two parents", `{"id":1,"subtasks":[3]},{"id":2,"subtasks":[3]},{"id":3}`,
			"task 2: it lists subtask 3, which belongs to task 1"},
		{"circle of parents", `{"id":1,"parent_id":2},{"id":2,"parent_id":1}`, "among its own ancestors"},
		{"dotted", `{"id":"1","status":"expanded"},{"id":"1.1"}`, "task 1.1: taken for a subtask of 1 by its id"},
	}
	for _, test := range tests {
		f := open(t, `{"tasks":[`+test.tasks+`]}`)
		found := f.Findings()
		if len(found) != 1 {
			t.Errorf("%s: got %v", test.name, found)
			continue
		}
		if got := fmt.Sprintf("%d %s %s", found[0].Line, found[0].Kind, found[0].Message); !strings.Contains(got,
			test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestFamilies(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, tasks, want string }{ // want: parent:children ...
		{"by list", `{"id":1,"subtasks":["1.2","1.1"]},{"id":"1.1"},{"id":"1.2"}`, "1:1.1,1.2"},
		{"by parent_id", `{"id":"1.1","parent_id":"1"},{"id":1},{"id":"1.2","parent_id":1}`, "1:1.1,1.2"},
		{"both", `{"id":1,"subtasks":["b"]},{"id":"a","parent_id":"1"},{"id":"b","parent_id":"1"}`, "1:a,b"},
		{"parent_id wins", `{"id":1,"subtasks":["3"]},{"id":2},{"id":3,"parent_id":"2"}`, "2:3"},
		{"three levels", `{"id":1,"subtasks":[2]},{"id":2,"subtasks":[3]},{"id":3}`, "1:2 2:3"},
		{"a dot alone is nothing", `{"id":1},{"id":"1.1"}`, ""},
		{"dotted children of an expanded task", `{"id":1,"status":"expanded"},{"id":"1.1"},{"id":"1.2"},{"id":"2.1"}`,
			"1:1.1,1.2"},
		{"not where it lists children", `{"id":1,"status":"expanded","subtasks":["a"]},{"id":"a"},{"id":"1.2"}`,
			"1:a"},
		{"a circle is cut", `{"id":1,"parent_id":3},{"id":2,"parent_id":1},{"id":3,"parent_id":2}`, "1:2 2:3"},
		{"duplicates stay out", `{"id":1},{"id":2,"parent_id":1},{"id":2,"parent_id":1},{"id":1,"subtasks":[2]}`,
			"1:2"},
	}
	for _, test := range tests {
		var got []string
		for _, task := range open(t, `{"tasks":[`+test.tasks+`]}`).Tasks() {
			if task.Container() {
				got = append(got, task.ID+":"+strings.Join(task.Children, ","))
			}
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s: got %q, want %q", test.name, text, test.want)
		}
	}
}

func TestManyDependencies(t *testing.T) {
	t.Parallel()
	var ids []string
	for i := range 50 {
		ids = append(ids, fmt.Sprint(i+2), fmt.Sprintf(`"x:%d"`, i+2))
	}
	f := open(t, `{"tasks":[{"id":1,"depends_on":[`+strings.Join(ids, ",")+`],"dependencies":[2,99]}]}`)
	if got := f.Tasks()[0].DependsOn; len(got) != 51 || got[50] != "99" || got[1] != "3" {
		t.Errorf("got %v", got)
	}
}
