package tasks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func fileSeeds() []string {
	return append(jsonSeeds(), flatSample, taggedSample,
		`{"tasks":[]}`, `{"tasks":[{"id":1}]}`, `{"x":{"tasks":[{"id":"x:1","status":"todo"}]}}`,
		"\ufeff{\"tasks\":[{\"id\":\"a\" , \r\n\"status\" : null}]}\r\n",
		`{"tasks":[{"id":1,"status":"done","status":"pending"},{"id":1},{"id":"2","parent_id":"1","subtasks":["2",1]}],"tasks":[{"id":3}]}`,
		`{"t\u0061sks":[{"\u0069d":"\u0031","st\u0061tus":"pend\u0069ng"}]}`,
		`{"tasks":[{"id":1,"parent_id":2},{"id":2,"parent_id":3,"status":"expanded"},{"id":3,"parent_id":1},{"id":"2.1"}]}`,
		`{"tasks":[{"id":1,"subtasks":[{"id":1.10,"status":"done","dependencies":[2,"1.1",1]},{"id":"1.2","subtasks":[{"status":"x"},"3"]}],"status":"done"},{"id":2}]}`,
		`{"tasks":[{"subtasks":[{"id":1,"status":"pending"}],"status":"pending","id":3}],"metadata":{"tasks":[1]},"x":{"tasks":[]}}`,
		`{"x":{"tasks":[{"id":"x:1","title":"[PARENT] a"},{"id":"x:1.1"},{"id":"x:1.1","subtasks":[{"id":1},{"id":1}]}]}}`,
		`{"tasks":{"tasks":[{"id":1}]}}`, `{"tasks":[{"id":1.50,"depends_on":[1.5,"x:2",{"a":[]},null]}]}`)
}

// FuzzOpen: no text makes the reader panic, what it accepts is JSON, and editing statuses changes nothing else.
func FuzzOpen(f *testing.F) {
	for _, text := range fileSeeds() {
		f.Add(text, uint8(0))
		f.Add(text, uint8(7))
	}
	f.Fuzz(func(t *testing.T, text string, which uint8) {
		file, err := Parse("x.json", "x", []byte(text))
		if err != nil || file.format == (prd{}) || file.format == (shrimp{}) { // with words of their own
			return
		}
		if string(file.Bytes()) != text {
			t.Fatal("reading changed the bytes")
		}
		checkFamilies(t, file)
		set := map[string]Status{}
		for i, task := range file.Tasks() {
			// a task that is expanded may be a container by that alone
			if !task.Container() && file.index[task.ID] == i {
				set[task.ID] = []Status{Done, Pending, InProgress, Failed}[(i+int(which))%4]
			}
		}
		edits, gone := file.edits(set)
		if len(gone) > 0 {
			t.Fatalf("tasks %v are gone", gone)
		}
		next := file
		next = rewritten(t, next, edits)
		again, err := Parse("x.json", "x", []byte(next.src))
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
	dropStatusOf(list)
}

func dropStatusOf(list []any) {
	for _, task := range list {
		if task, ok := task.(map[string]any); ok {
			delete(task, "status")
			inner, _ := task["subtasks"].([]any)
			dropStatusOf(inner)
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
	f.Add(flatSample, taggedSample, false)
	f.Add(flatSample, "{", false)
	f.Add(`{"tasks":[{"id":1}]}`, `{"tasks":[{"id":1,"status":"pending"},{"id":2}]}`, false)
	f.Add(smallGraph, "# Phase: x\n@nodes\n1 | a | D | 1 | H\n", true)
	f.Add(smallGraph, "# Phase: y\n@nodes\n1 | a | D | 1 | H\n", true)
	f.Fuzz(func(t *testing.T, first, second string, graph bool) {
		path := filepath.Join(t.TempDir(), "x.json")
		if graph {
			path = filepath.Join(t.TempDir(), "x.scg")
			if second == "" {
				return // scud has truncated it, Save waits for the rest
			}
		}
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
		theirs, theirErr := Parse(path, "x", []byte(second))
		err = file.Save(map[string]Status{file.Tasks()[0].ID: Cancelled})
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

func graphSeeds(f *testing.F) []string {
	f.Helper()
	seeds := []string{smallGraph, "", "---\n", "# Phase: x\n@nodes\n1|a|Q|1|H\n1||||",
		"# Phase: x\n@meta { updated 2026-01-01T00:00:00.5Z name x }\n@nodes\n1|\\||",
		"# Phase: x\n@details\n1|details|\n\n  a\n\t\n b\n@nodes\n1 | [PARENT] a | X | | \n1.1 | b | ! | 1 | H\n@parents\n1:1.1\n1: 1\n1.1: 1\n"}
	for _, name := range []string{"rust.scg", "several.scg", "epic.scg", "odd.scg"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, string(text))
	}
	return seeds
}

// FuzzGraph: no text makes the reader of SCG panic, and editing statuses changes nothing but letters and the time of
// the tag.
func FuzzGraph(f *testing.F) {
	for _, text := range graphSeeds(f) {
		f.Add(text, uint8(0))
		f.Add(text, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, which uint8) {
		whole, err := takeApart("tasks.scg", text)
		if err != nil {
			return
		}
		for _, tag := range whole.tags() {
			file, err := whole.open(tag)
			if err != nil {
				continue
			}
			checkFamilies(t, file)
			set := map[string]Status{}
			for i, task := range file.Tasks() {
				if !task.Container() && file.index[task.ID] == i {
					set[task.ID] = []Status{Done, Pending, InProgress, Failed}[(i+int(which))%4]
				}
			}
			plain := withoutSpans(file)
			edits, gone := file.edits(set)
			file = rewritten(t, file, edits)
			again, err := Parse("tasks.scg", tag, []byte(file.src))
			if err != nil || len(gone) > 0 {
				t.Fatalf("%q became %q: %v, gone %v", text, file.src, err, gone)
			}
			if !reflect.DeepEqual(file, again) {
				t.Fatalf("%q became %q:\n%+v\nread anew:\n%+v", text, file.src, file, again)
			}
			if withoutSpans(again) != plain {
				t.Fatalf("%q became %q: more than letters differ", text, file.src)
			}
		}
	})
}

// withoutSpans is the source without its statuses and the time of the tag.
func withoutSpans(f *File) string {
	list := []span{f.updated}
	for _, s := range f.sites {
		list = append(list, s.span)
	}
	slices.SortFunc(list, func(a, b span) int { return b.start - a.start })
	text := f.src
	for _, s := range list {
		text = text[:s.start] + text[s.end:]
	}
	return text
}

func jsonSeeds() []string {
	return []string{``, ` `, `{}`, `[]`, `{"a":1}`, `[1,2,]`, `{"a"}`, `{"a":}`, `{,}`, `[,]`, `nul`, `null`, `true`,
		`tru`, `-`, `-0`, `01`, `1.`, `.5`,
		`1e5`, `1E+`, `1e-2`, `"`, `"\`, `"\u12`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`,
		`"\ud83d\u0041"`, `"\x"`, "\"\t\"", "\"\x00\"", `{"a":[{"b":"c\n"}]}`,
		`{"a":1}}`, `[[]`, `"a" "b"`, `[1 2]`, `{"a" 1}`, "\u00a0[]", `"é\/\b\f\n\r\t\"\\"`}
}

// hostile are texts of about n lines that would take long if anything were quadratic.
func hostile(n int) []struct{ name, path, text string } {
	head := "# SCUD Graph v1\n# Phase: x\n@nodes\n"
	count := func(format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	nested := strings.Repeat(`{"id":1,"subtasks":[`, 45) + strings.Repeat(`{"id":2},`, n) + `{"id":3}` +
		strings.Repeat("]}", 45)
	return []struct{ name, path, text string }{
		{"separators", "x.scg", strings.Repeat("---\n", n)},
		{"phases", "x.scg", strings.Repeat("# Phase: x\n---\n", n)},
		{"odd lines", "x.scg", head + strings.Repeat("a\n", n)},
		{"the same node", "x.scg", head + strings.Repeat("1|a|P|1|H\n", n)},
		{"edges of one task", "x.scg", head + "1|a|P|1|H\n@edges\n" + count("1 -> %d\n")},
		{"one edge of all", "x.scg", head + "1|a|P|1|H\n@edges\n1 -> " + strings.Repeat("2,", n) + "\n"},
		{"a chain", "x.scg", head + "1|a|P|1|H\n@edges\n1" + strings.Repeat(" -> 1", n)},
		{"colons", "x.scg", head + "1|a|P|1|H\n@parents\n" + strings.Repeat(strings.Repeat(":", 200)+"\n", n/100)},
		{"children of one", "x.scg", head + count("%d|a|P|1|H\n") + "@parents\n1: " + count("%d,")},
		{"parents in a row", "x.scg", head + count("%d|a|P|1|H\n") + "@parents\n" + count("%d: 5\n")},
		{"details of one task", "x.scg", head + "1|a|P|1|H\n@details\n" + strings.Repeat("1|details|\n  a\n\n", n)},
		{"metas", "x.scg", head + strings.Repeat("@meta {\n", n)},
		{"metas of no phase", "x.scg", strings.Repeat("@meta\n", n)},
		{"one long line", "x.scg", head + strings.Repeat("|", 10*n)},
		{"bars", "x.scg", head + "1|" + strings.Repeat("a|", 5*n)},
		{"backslashes", "x.scg", head + "1|" + strings.Repeat(`\`, 10*n)},
		{"nested wide", "x.json", `{"tasks":[` + nested + `]}`},
		{"nested dependencies", "x.json", `{"tasks":[{"id":1,"subtasks":[{"id":1,"dependencies":[` +
			strings.TrimSuffix(count("%d,"), ",") + `]}]}]}`},
		{"tags", "x.json", `{"a":{"tasks":[]}` + strings.Repeat(`,"a":{"tasks":[]}`, n) + `}`},
		{"marks in a list", "x.md", count("- [ ] T%d [P] a\n")},
		{"statements", "x.md", "- [ ] T1 [P] a\n" + count("- [ ] T%d [P] b (depends on "+strings.Repeat("T1, ", 50)+
			"T1)\n")},
		{"heading of a list", "x.md", "## " + strings.Repeat("x ", n) + "\n" + manyGroups(400)},
		{"members beside tasks", "x.json", `{"tasks":[]` + strings.Repeat(`,"a":{"b":[1,2,3]}`, n) + `}`},
	}
}

// rewrite reads a text and sets every task done.
func rewrite(t testing.TB, path, text string) {
	f, err := Parse(path, "x", []byte(text))
	if err != nil {
		return
	}
	set := map[string]Status{}
	for i := range f.tasks {
		set[f.tasks[i].ID] = Done
	}
	edits, _ := f.edits(set)
	rewritten(t, f, edits)
}

func TestHostileTexts(t *testing.T) {
	t.Parallel()
	for _, test := range hostile(100) {
		rewrite(t, test.path, test.text)
	}
}

func BenchmarkHostileTexts(b *testing.B) {
	for _, test := range hostile(100_000) {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rewrite(b, test.path, test.text)
			}
		})
	}
}

// rewritten is a file with changes of its bytes.
func rewritten(t testing.TB, f *File, list []edit) *File {
	t.Helper()
	now, err := f.reread(f.spliced(list))
	if err != nil {
		t.Fatalf("%q became %q: %v", f.src, f.spliced(list), err)
	}
	return now
}
