package tasks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A list is changed as its program writes it, and every other byte stays.
func TestAmended(t *testing.T) {
	t.Parallel()
	two := []Task{{ID: "3", Title: "Third | one", Description: "Do <it>", DependsOn: []string{"1"}, Complexity: "2", Priority: "high"}, {ID: "4", Title: "Fourth", DependsOn: []string{"3"}}}
	parts := func(id string) []Task {
		return []Task{{ID: id + ".1", Title: "First half", Description: "It.\n\nMore.", Acceptance: "- a\n- b", Priority: "medium", Complexity: "1"},
			{ID: id + ".2", Title: "Second half", DependsOn: []string{id + ".1"}, Priority: "low"}}
	}
	for _, c := range []struct {
		name, path, tag, src string
		do                   Amendment
		want                 string
	}{
		{"own, add", ".scud/tasks/x.json", "x", "{\n  \"tag\": \"x\",\n  \"tasks\": [\n    {\"id\": 1, \"title\": \"A\", \"odd\": 1.50},\n    {\"id\": 2, \"title\": \"B\"}\n  ],\n  \"more\": {}\n}\n", Amendment{Add: two},
			"{\n  \"tag\": \"x\",\n  \"tasks\": [\n    {\"id\": 1, \"title\": \"A\", \"odd\": 1.50},\n    {\"id\": 2, \"title\": \"B\"},\n    {\n      \"id\": 3,\n      \"title\": \"Third | one\",\n      \"description\": \"Do <it>\",\n      \"status\": \"pending\",\n      \"complexity\": 2,\n      \"priority\": \"high\",\n      \"depends_on\": [\n        1\n      ]\n    },\n    {\n      \"id\": 4,\n      \"title\": \"Fourth\",\n      \"status\": \"pending\",\n      \"depends_on\": [\n        3\n      ]\n    }\n  ],\n  \"more\": {}\n}\n"},
		{"own, compact, replace all", ".scud/tasks/x.json", "x", `{"tag":"x","tasks":[{"id":1,"title":"A"},{"id":2,"title":"B"}]}`, Amendment{Remove: []string{"1", "2"}, Add: []Task{{ID: "3", Title: "C"}}},
			`{"tag":"x","tasks":[{"id":3,"title":"C","status":"pending","depends_on":[]}]}`},
		{"own, compact, replace some", ".scud/tasks/x.json", "x", `{"tag":"x","tasks":[{"id":1,"title":"A"},{"id":2,"title":"B","status":"done"},{"id":3,"title":"C"}]}`, Amendment{Remove: []string{"1", "3"}, Add: []Task{{ID: "4", Title: "D"}}},
			`{"tag":"x","tasks":[{"id":2,"title":"B","status":"done"},{"id":4,"title":"D","status":"pending","depends_on":[]}]}`},
		{"own, split", ".scud/tasks/x.json", "x", `{"tag":"x","tasks":[{"id":1,"title":"A","status":"pending"},{"id":2,"title":"B","depends_on":[1]}]}`, Amendment{Split: "1", Add: parts("1")},
			`{"tag":"x","tasks":[{"id":1,"title":"A","status":"expanded"},{"id":"1.1","title":"First half","description":"It.\n\nMore.","acceptance":["a","b"],"status":"pending","complexity":1,"priority":"medium","depends_on":[],"parent_id":1},{"id":"1.2","title":"Second half","status":"pending","priority":"low","depends_on":["1.1"],"parent_id":1},{"id":2,"title":"B","depends_on":[1]}]}`},
		{"SCUD, split", ".scud/tasks/tasks.json", "x", `{"x":{"name":"x","tasks":[{"id":"1","title":"A","status":"pending","dependencies":[]}]}}`, Amendment{Split: "1", Add: parts("1")},
			`{"x":{"name":"x","tasks":[{"id":"1","title":"A","status":"expanded","dependencies":[],"subtasks":["1.1", "1.2"]},{"id":"1.1","title":"First half","description":"It.\n\nMore.","acceptance":["a","b"],"status":"pending","complexity":1,"priority":"medium","dependencies":[],"parent_id":"1"},{"id":"1.2","title":"Second half","status":"pending","priority":"low","dependencies":["1.1"],"parent_id":"1"}]}}`},
		{"SCUD, remove parts", ".scud/tasks/tasks.json", "x", `{"x":{"name":"x","tasks":[{"id":"1","title":"A","status":"expanded","subtasks":["1.1", "1.2"]},{"id":"1.1","title":"a","status":"done","parent_id":"1"},{"id":"1.2","title":"b","status":"pending","parent_id":"1"}]}}`, Amendment{Remove: []string{"1.2"}},
			`{"x":{"name":"x","tasks":[{"id":"1","title":"A","status":"expanded","subtasks":["1.1"]},{"id":"1.1","title":"a","status":"done","parent_id":"1"}]}}`},
		{"Task Master, split", ".taskmaster/tasks/tasks.json", "master", "{\n  \"master\": {\n    \"tasks\": [\n      {\n        \"id\": 7,\n        \"title\": \"A\",\n        \"status\": \"pending\",\n        \"subtasks\": []\n      }\n    ]\n  }\n}", Amendment{Split: "7", Add: parts("7")},
			"{\n  \"master\": {\n    \"tasks\": [\n      {\n        \"id\": 7,\n        \"title\": \"A\",\n        \"status\": \"pending\",\n        \"subtasks\": [\n          {\n            \"id\": 1,\n            \"title\": \"First half\",\n            \"description\": \"It.\\n\\nMore.\",\n            \"acceptanceCriteria\": [\n              \"a\",\n              \"b\"\n            ],\n            \"status\": \"pending\",\n            \"complexity\": 1,\n            \"priority\": \"medium\",\n            \"dependencies\": []\n          },\n          {\n            \"id\": 2,\n            \"title\": \"Second half\",\n            \"status\": \"pending\",\n            \"priority\": \"low\",\n            \"dependencies\": [\n              1\n            ]\n          }\n        ]\n      }\n    ]\n  }\n}"},
		{"SCG, add", ".scud/tasks/tasks.scg", "x", "# SCUD Graph v1\n# Phase: x\n\n@nodes\n# id | title\n1 | A | D | 3 | H\n2 | B | P | 0 | M\n\n---\n\n# Phase: y\n@nodes\n3 | C | P | 0 | M\n", Amendment{Add: two},
			"# SCUD Graph v1\n# Phase: x\n\n@nodes\n# id | title\n1 | A | D | 3 | H\n2 | B | P | 0 | M\n3 | Third \\| one | P | 2 | H\n4 | Fourth | P | 0 | M\n\n@edges\n3 -> 1\n4 -> 3\n\n@details\n3 | description |\n  Do <it>\n\n---\n\n# Phase: y\n@nodes\n3 | C | P | 0 | M\n"},
		{"SCG, split", ".scud/tasks/tasks.scg", "x", "# SCUD Graph v1\n# Phase: x\n\n@nodes\n1 | A | P | 3 | H\n2 | B | P | 0 | M\n\n@edges\n2 -> 1\n\n@details\n1 | description |\n  Text.\n", Amendment{Split: "1", Add: parts("1")},
			"# SCUD Graph v1\n# Phase: x\n\n@nodes\n1 | A | X | 3 | H\n2 | B | P | 0 | M\n1.1 | First half | P | 1 | M\n1.2 | Second half | P | 0 | L\n\n@edges\n2 -> 1\n1.2 -> 1.1\n\n@details\n1 | description |\n  Text.\n1.1 | description |\n  It.\n  More.\n1.1 | test_strategy |\n  - a\n  - b\n\n@parents\n1: 1.1, 1.2\n"},
		{"SCG, replace", ".scud/tasks/tasks.scg", "x", "# SCUD Graph v1\n# Phase: x\n\n@nodes\n1 | A | D | 3 | H\n2 | B | P | 0 | M\n3 | C | X | 0 | M\n3.1 | c | P | 0 | M\n\n@edges\n2 -> 1\n\n@parents\n3: 3.1\n\n@details\n2 | description |\n  Text.\n\n  More.\n1 | description |\n  Done.\n", Amendment{Remove: []string{"2", "3", "3.1"}, Add: []Task{{ID: "4", Title: "D", DependsOn: []string{"1"}}}},
			"# SCUD Graph v1\n# Phase: x\n\n@nodes\n1 | A | D | 3 | H\n4 | D | P | 0 | M\n\n@edges\n4 -> 1\n\n@parents\n\n@details\n1 | description |\n  Done.\n"},
		{"spec-kit, split", "specs/x/tasks.md", "x", "# Tasks\n\n- [ ] T001 [US1] Do it\n  - in one.go\n\n- [ ] T002 Then this\n", Amendment{Split: "T001", Add: parts("T001")},
			"# Tasks\n\n- [ ] T001 [US1] Do it\n  - in one.go\n  - [ ] T001.1 [US1] First half\n    - It.\n    - More.\n    - a\n    - b\n  - [ ] T001.2 [US1] Second half\n\n- [ ] T002 Then this\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), filepath.FromSlash(c.path))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(c.src), 0o644); err != nil {
				t.Fatal(err)
			}
			f, err := OpenPath(path, c.tag)
			if err != nil {
				t.Fatal(err)
			}
			now, err := f.Amended(c.do)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(now.Bytes()); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
			if string(f.Bytes()) != c.src {
				t.Error("the list itself was changed")
			}
			if err := f.Amend(c.do); err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != c.want {
				t.Errorf("in the file: %v\n%s", err, b)
			}
		})
	}
}

// What no list may be changed to is refused, and says why.
func TestAmendRefused(t *testing.T) {
	t.Parallel()
	own := `{"tag":"x","tasks":[{"id":1,"title":"A","status":"done"},{"id":2,"title":"B","status":"in-progress","depends_on":[3]},{"id":3,"title":"C"},{"id":4,"title":"D"},{"id":"4.1","title":"d","parent_id":4}]}`
	for _, c := range []struct {
		path, src string
		do        Amendment
		want      string
	}{
		{"x.json", own, Amendment{Split: "1", Add: []Task{{ID: "1.1"}}}, "task 1 is done: there is nothing to split"},
		{"x.json", own, Amendment{Split: "2", Add: []Task{{ID: "2.1"}}}, "task 2 is in progress: it cannot be split now"},
		{"x.json", own, Amendment{Split: "4", Add: []Task{{ID: "4.2"}}}, "task 4 has subtasks already"},
		{"x.json", own, Amendment{Split: "9", Add: []Task{{ID: "9.1"}}}, "there is no task 9"},
		{"x.json", own, Amendment{Split: "3", Add: []Task{{ID: "5"}}}, "task 5 is not a part of task 3"},
		{"x.json", own, Amendment{Remove: []string{"1"}}, "task 1 is done: it is not removed"},
		{"x.json", own, Amendment{Remove: []string{"3"}}, "task 2 is in-progress and depends on task 3, which cannot be removed therefore"},
		{"x.json", own, Amendment{Add: []Task{{ID: "3"}}}, "the id 3 is taken"},
		{"tasks.md", "- [ ] T001 A\n", Amendment{Add: []Task{{ID: "T002"}}}, "tasks of a Markdown list can be split here; add and remove them by hand"},
		{"prd.json", `{"userStories":[{"id":"US-1","title":"A","passes":false}]}`, Amendment{Split: "US-1", Add: []Task{{ID: "US-1.1"}}}, "tasks of a prd.json can neither be split nor added here"},
	} {
		f, err := Parse(c.path, "", []byte(c.src))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Amended(c.do); err == nil || !strings.HasSuffix(err.Error(), ": "+c.want) {
			t.Errorf("%+v: %v, want %s", c.do, err, c.want)
		}
	}
}

// A mirror that is in step with a tasks.scg stays so.
func TestAmendMirror(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), ".scud", "tasks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	scg, mirror := filepath.Join(dir, "tasks.scg"), filepath.Join(dir, "tasks.json")
	for path, text := range map[string]string{scg: "# SCUD Graph v1\n# Phase: x\n\n@nodes\n1 | A | P | 0 | M\n", mirror: `{"x":{"name":"x","tasks":[{"id":"1","title":"A","status":"pending"}]}}`} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := OpenPath(scg, "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Amend(Amendment{Add: []Task{{ID: "2", Title: "B", DependsOn: []string{"1"}}}}); err != nil {
		t.Fatal(err)
	}
	m, ok := f.Mirror()
	if !ok {
		t.Fatal("the mirror is out of step")
	}
	if two, ok := m.Task("2"); !ok || two.DependsOn[0] != "1" {
		t.Errorf("mirror: %s", m.Bytes())
	}
}
