package tasks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestStories(t *testing.T) {
	t.Parallel()
	f, err := OpenPath(filepath.Join("testdata", "prd.json"), "")
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, taskLines(f.Tasks()), []string{
		"US-002 pending Show the priority <- US-001",
		"US-001 done Store the priority",
		"US-003 pending Filter <- US-001",
		"US-004 pending Sort <- US-002,US-003",
	})
	sameLines(t, findingLines(f), nil)
	x := f.Tasks()[0]
	if x.Description != "As a user, I want to see it." || x.Acceptance != "- Each item shows it\n- Typecheck passes" ||
		x.Details != "see US-001" || x.Line != 6 {
		t.Errorf("got %+v", x)
	}
	if f.Tag() != "item-priority" {
		t.Errorf("tag %q", f.Tag())
	}
}

func TestStoryForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		src            string
		want, findings []string
	}{
		"list order": {`{"stories":[{"id":1,"title":"a"},{"id":2,"title":"b","priority":1},{"id":3,"title":"c"}]}`,
			[]string{"1 pending a", "2 pending b <- 1", "3 pending c <- 2"}, nil},
		"stated": {`{"stories":[{"id":"a","title":"a","dependsOn":["b"]},{"id":"b","title":"b","dependsOn":[]}]}`,
			[]string{"a pending a <- b", "b pending b"}, nil},
		"features": {`[{"category":"a","description":"log in\nwith a name","steps":["try","try again"],"passes":true},{"description":"log out","passes":false}]`,
			[]string{"1 done log in", "2 pending log out <- 1"}, nil},
		"words": {`{"stories":[{"id":"a","title":"a","priority":"high","passes":"yes"}]}`,
			[]string{"a pending a"}, nil},
		"passes twice": {`{"stories":[{"id":"a","title":"a","passes":true,"passes":false}]}`, []string{"a pending a"},
			[]string{"1 member"}},
		"duplicate": {"{\"stories\":[{\"id\":\"a\",\"title\":\"a\"},\n{\"id\":\"a\",\"title\":\"b\"}]}",
			[]string{"a pending a", "a pending b"}, []string{"2 duplicate"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := Parse("prd.json", "x", []byte(c.src))
			if err != nil {
				t.Fatal(err)
			}
			sameLines(t, taskLines(f.Tasks()), c.want)
			sameLines(t, findingLines(f), c.findings)
		})
	}
	for name, src := range map[string]string{"no id": `{"stories":[{"title":"a"}]}`, "no object": `{"stories":[1]}`,
		"no list": `{"stories":{}}`, "array": `[{"category":"x","passes":false}]`} {
		if f, err := Parse("prd.json", "x", []byte(src)); err == nil || !strings.HasPrefix(err.Error(), "prd.json:") {
			t.Errorf("%s: got %v, %v", name, f, err)
		}
	}
}

func TestSaveStories(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile(filepath.Join("testdata", "prd.json"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "prd.json")
	writeFile(t, path, string(src))
	f, err := OpenPath(path, "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Save(map[string]Status{"US-001": Done, "US-002": InProgress, "US-003": Blocked,
		"US-004": Failed}); err != nil {
		t.Fatal(err)
	}
	if string(f.Bytes()) != string(src) {
		t.Errorf("the flag cannot show these, got %s", f.Bytes())
	}
	if err := f.Save(map[string]Status{"US-001": Pending, "US-002": Done, "US-003": Done,
		"US-004": Done}); err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(`"passes": true,`, `"passes": false,`, `"passes": false,
      "notes"`, `"passes": true,
      "notes"`, `"id": "US-003"`, `"id": "US-003", "passes": true`, `"passes": null`, `"passes": true`).Replace(string(src))
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	again, err := OpenPath(path, "x")
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, taskLines(f.Tasks()), taskLines(again.Tasks()))
}

// FuzzStories: no text makes the reader panic, and setting statuses changes flags only.
func FuzzStories(f *testing.F) {
	if src, err := os.ReadFile(filepath.Join("testdata", "prd.json")); err == nil {
		f.Add(string(src), uint8(0))
	}
	f.Add(`{"stories":[{"id":1,"passes":true,"priority":1e9},{ "id" : "b" , "dependsOn":[1,"b"]},{"passes":[],"id":"c"}]}`, uint8(1))
	f.Fuzz(func(t *testing.T, src string, which uint8) {
		checkBinary(t, "prd.json", src, which)
		file, err := Parse("prd.json", "x", []byte(src))
		if err != nil || file.format != (prd{}) {
			return
		}
		edits, _ := file.edits(map[string]Status{})
		for i := range file.tasks {
			if file.index[file.tasks[i].ID] == i && file.tasks[i].Status != Done {
				edits = append(edits, edit{i, Done, "true"})
			}
		}
		if was, is := withoutFlags(t, src), withoutFlags(t, string(file.spliced(edits))); !reflect.DeepEqual(was, is) {
			t.Fatalf("%q: more than flags differ", src)
		}
	})
}

// withoutFlags decodes a JSON text and drops the flag of every story.
func withoutFlags(t *testing.T, text string) any {
	t.Helper()
	var top map[string]any
	if err := json.Unmarshal([]byte(strings.TrimPrefix(text, byteOrder)), &top); err != nil {
		t.Fatalf("accepted %q: %v", text, err)
	}
	for _, name := range []string{"userStories", "user_stories", "stories"} {
		list, _ := top[name].([]any)
		for _, story := range list {
			if story, ok := story.(map[string]any); ok {
				delete(story, "passes")
			}
		}
	}
	return top
}
