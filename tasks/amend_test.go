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
	two := []Task{{ID: "3", Title: "Third | one", Description: "Do <it>", DependsOn: []string{"1"}, Complexity: "2",
		Priority: "high"}, {ID: "4", Title: "Fourth", DependsOn: []string{"3"}}}
	parts := func(id string) []Task {
		return []Task{{ID: id + ".1", Title: "First half", Description: "It.\n\nMore.", Acceptance: "- a\n- b",
			Priority: "medium", Complexity: "1"},
			{ID: id + ".2", Title: "Second half", DependsOn: []string{id + ".1"}, Priority: "low"}}
	}
	for _, c := range []struct {
		name, path, tag, src string
		do                   Amendment
		want                 string
	}{
		{"own, add", ".scud/tasks/x.json", "x",
			"{\n  \"tag\": \"x\",\n  \"tasks\": [\n    {\"id\": 1, \"title\": \"A\", \"odd\": 1.50},\n    {\"id\": 2, \"title\": \"B\"}\n  ],\n  \"more\": {}\n}\n", Amendment{Add: two},
			"{\n  \"tag\": \"x\",\n  \"tasks\": [\n    {\"id\": 1, \"title\": \"A\", \"odd\": 1.50},\n    {\"id\": 2, \"title\": \"B\"},\n    {\n      \"id\": 3,\n      \"title\": \"Third | one\",\n      \"description\": \"Do <it>\",\n      \"status\": \"pending\",\n      \"complexity\": 2,\n      \"priority\": \"high\",\n      \"depends_on\": [\n        1\n      ]\n    },\n    {\n      \"id\": 4,\n      \"title\": \"Fourth\",\n      \"status\": \"pending\",\n      \"complexity\": 0,\n      \"depends_on\": [\n        3\n      ]\n    }\n  ],\n  \"more\": {}\n}\n"},
		{"own, compact", ".scud/tasks/x.json", "x",
			`{"tag":"x","tasks":[{"id":1,"title":"A"},{"id":2,"title":"B"}]}`,
			Amendment{Add: []Task{{ID: "3", Title: "C"}}},
			`{"tag":"x","tasks":[{"id":1,"title":"A"},{"id":2,"title":"B"},{"id":3,"title":"C","status":"pending","complexity":0,"depends_on":[]}]}`},
		{"own, split", ".scud/tasks/x.json", "x",
			`{"tag":"x","tasks":[{"id":1,"title":"A","status":"pending"},{"id":2,"title":"B","depends_on":[1]}]}`,
			Amendment{Split: "1", Add: parts("1")},
			`{"tag":"x","tasks":[{"id":1,"title":"A","status":"expanded"},{"id":"1.1","title":"First half","description":"It.\n\nMore.","acceptance":["a","b"],"status":"pending","complexity":1,"priority":"medium","depends_on":[],"parent_id":1},{"id":"1.2","title":"Second half","status":"pending","complexity":0,"priority":"low","depends_on":["1.1"],"parent_id":1},{"id":2,"title":"B","depends_on":[1]}]}`},
		{"SCUD, split", ".scud/tasks/tasks.json", "x",
			`{"x":{"name":"x","tasks":[{"id":"1","title":"A","status":"pending","dependencies":[]}]}}`,
			Amendment{Split: "1", Add: parts("1")},
			`{"x":{"name":"x","tasks":[{"id":"1","title":"A","status":"expanded","dependencies":[],"subtasks":["1.1","1.2"]},{"id":"1.1","title":"First half","description":"It.\n\nMore.","acceptance":["a","b"],"status":"pending","complexity":1,"priority":"medium","dependencies":[],"parent_id":"1"},{"id":"1.2","title":"Second half","status":"pending","priority":"low","dependencies":["1.1"],"parent_id":"1"}]}}`},
		{"Task Master, split", ".taskmaster/tasks/tasks.json", "master",
			"{\n  \"master\": {\n    \"tasks\": [\n      {\n        \"id\": 7,\n        \"title\": \"A\",\n        \"status\": \"pending\",\n        \"subtasks\": []\n      }\n    ]\n  }\n}", Amendment{Split: "7", Add: parts("7")},
			"{\n  \"master\": {\n    \"tasks\": [\n      {\n        \"id\": 7,\n        \"title\": \"A\",\n        \"status\": \"pending\",\n        \"subtasks\": [\n          {\n            \"id\": 1,\n            \"title\": \"First half\",\n            \"description\": \"It.\\n\\nMore.\",\n            \"acceptanceCriteria\": [\n              \"a\",\n              \"b\"\n            ],\n            \"status\": \"pending\",\n            \"complexity\": 1,\n            \"priority\": \"medium\",\n            \"dependencies\": []\n          },\n          {\n            \"id\": 2,\n            \"title\": \"Second half\",\n            \"status\": \"pending\",\n            \"priority\": \"low\",\n            \"dependencies\": [\n              1\n            ]\n          }\n        ]\n      }\n    ]\n  }\n}"},
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
	const byHand = "tasks are added and split in SCUD's and Task Master's JSON lists only; edit this one by hand"
	own := `{"tag":"x","tasks":[{"id":1,"title":"A","status":"done"},{"id":2,"title":"B","status":"in-progress","depends_on":[3]},{"id":3,"title":"C"},{"id":4,"title":"D"},{"id":"4.1","title":"d","parent_id":4}]}`
	for _, c := range []struct {
		path, src string
		do        Amendment
		want      string
	}{
		{"x.json", own, Amendment{Split: "1", Add: []Task{{ID: "1.1"}}}, "task 1 is done: it cannot be split now"},
		{"x.json", own, Amendment{Split: "2", Add: []Task{{ID: "2.1"}}},
			"task 2 is in-progress: it cannot be split now"},
		{"x.json", own, Amendment{Split: "4", Add: []Task{{ID: "4.2"}}}, "task 4 has subtasks already"},
		{"x.json", own, Amendment{Split: "9", Add: []Task{{ID: "9.1"}}}, "there is no task 9"},
		{"x.json", own, Amendment{Split: "3", Add: []Task{{ID: "5"}}}, "task 5 is not a part of task 3"},
		{"x.json", own, Amendment{Add: []Task{{ID: "3"}}}, "the id 3 is taken"},
		{"tasks.md", "- [ ] T001 A\n", Amendment{Split: "T001", Add: []Task{{ID: "T001.1"}}}, byHand},
		{"tasks.scg", "# SCUD Graph v1\n# Phase: x\n\n@nodes\n1 | A | P | 0 | M\n", Amendment{Add: []Task{{ID: "2"}}},
			byHand},
		{"prd.json", `{"userStories":[{"id":"US-1","title":"A","passes":false}]}`,
			Amendment{Split: "US-1", Add: []Task{{ID: "US-1.1"}}}, byHand},
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

// A list has a check of its own for a task, and keeps it when it is written.
func TestVerifyOfATask(t *testing.T) {
	t.Parallel()
	f, err := NewList("root", "x", []Task{{ID: "1", Title: "A", Verify: "make a"}, {ID: "2", Title: "B"}})
	if err != nil {
		t.Fatal(err)
	}
	md, err := Parse("tasks.md", "x",
		[]byte("- [ ] T1 A\n  - Verify: `make a`\n- [ ] T2 B\n  Verify that it works.\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]Task{f.Tasks(), md.Tasks()} {
		if list[0].Verify != "make a" || list[1].Verify != "" {
			t.Errorf("got %q and %q", list[0].Verify, list[1].Verify)
		}
	}
}
