package tasks

import (
	"path/filepath"
	"strings"
	"testing"
)

const beadsSample = `{"_type":"issue","id":"bd-e1","title":"Login","status":"open","priority":1,"issue_type":"epic"}
{"id":"bd-a","title":"Form","description":"d","design":"how","acceptance_criteria":"it works","status":"closed","priority":0,"dependencies":[{"issue_id":"bd-a","depends_on_id":"bd-e1","type":"parent-child"}]}

{"id":"bd-b","title":"Check","status":"in_progress","priority":2,"dependencies":[{"issue_id":"bd-b","depends_on_id":"bd-a","type":"blocks"},{"issue_id":"bd-b","depends_on_id":"bd-x","type":"blocks"},{"issue_id":"bd-b","depends_on_id":"bd-e1","type":"parent-child"},{"issue_id":"bd-b","depends_on_id":"bd-c","type":"related"}]}
{"id":"bd-x","title":"Gone","status":"tombstone"}
{"_type":"memory","key":"k","value":"v"}
{"id":"bd-c","title":"Odd","status":"hooked","priority":4}
`

func TestBeads(t *testing.T) {
	t.Parallel()
	f, err := Parse("issues.jsonl", "", []byte(beadsSample))
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, taskLines(f.Tasks()), []string{"bd-e1 pending Login", "bd-a done Form in bd-e1",
		"bd-b in-progress Check <- bd-a in bd-e1",
		"bd-c hooked Odd"})
	a, _ := f.Task("bd-a")
	if a.Parent != "bd-e1" || a.Priority != "critical" || a.Details != "how" || a.Acceptance != "it works" || a.Line != 2 {
		t.Errorf("got %+v", a)
	}
	if f.Tag() != "beads" || !f.Holds(Deferred) || f.Holds(Review) {
		t.Errorf("tag %q, holds deferred %v, review %v", f.Tag(), f.Holds(Deferred), f.Holds(Review))
	}
	for name, src := range map[string]string{"not JSON": "{\"id\":1\n", "no object": "[1]\n", "no issue": "{\"key\":1}\n", "empty": ""} {
		if f, err := Parse("issues.jsonl", "", []byte(src)); err == nil || !strings.HasPrefix(err.Error(), "issues.jsonl:") {
			t.Errorf("%s: got %v, %v", name, f, err)
		}
	}
}

func TestSaveBeads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "issues.jsonl")
	writeFile(t, path, beadsSample)
	f, err := OpenPath(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Save(map[string]Status{"bd-b": Done, "bd-a": Pending, "bd-c": Review}); err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(`"in_progress"`, `"closed"`, `"closed"`, `"open"`).Replace(beadsSample)
	if got := string(f.Bytes()); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestShrimp(t *testing.T) {
	t.Parallel()
	const src = `{"tasks": [
 {"id": "a1", "name": "Reader", "description": "d", "implementationGuide": "g", "verificationCriteria": "v", "status": "completed", "dependencies": []},
 {"id": "b2", "name": "Writer", "status": "in_progress", "dependencies": [{"taskId": "a1"}]}
]}`
	path := filepath.Join(t.TempDir(), "tasks.json")
	writeFile(t, path, src)
	f, err := OpenPath(path, "")
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, taskLines(f.Tasks()), []string{"a1 done Reader", "b2 in-progress Writer <- a1"})
	if a := f.Tasks()[0]; a.Details != "g" || a.TestStrategy != "v" {
		t.Errorf("got %+v", a)
	}
	if err := f.Save(map[string]Status{"b2": Done}); err != nil {
		t.Fatal(err)
	}
	if got, want := string(f.Bytes()), strings.Replace(src, "in_progress", "completed", 1); got != want {
		t.Errorf("got\n%s", got)
	}
}

// FuzzBeads: no text makes the reader panic, and what it accepts is one line of JSON for each task at least.
func FuzzBeads(f *testing.F) {
	f.Add(beadsSample)
	f.Add("\ufeff{\"id\":\"a\",\"title\":\"\",\"status\":1,\"dependencies\":[1,{\"depends_on_id\":\"a\",\"type\":\"blocks\"}]}")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("x.jsonl", "", []byte(text))
		if err != nil {
			return
		}
		checkFamilies(t, file)
		if n := len(file.Tasks()); n == 0 || n > strings.Count(text, "\n")+1 {
			t.Fatalf("%d tasks of %q", n, text)
		}
	})
}
