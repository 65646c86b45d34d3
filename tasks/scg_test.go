package tasks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fixture opens a tag of a copy of a file in testdata.
func fixture(t testing.TB, name, tag string) *File {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := OpenPath(path, tag)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// show prints what the graph needs of a list: one line "id/parent status < dependencies" for each task.
func show(f *File) string {
	var b strings.Builder
	for _, t := range f.Tasks() {
		b.WriteString(t.ID)
		if t.Parent != "" {
			b.WriteString("/" + t.Parent)
		}
		b.WriteString(" " + string(t.Status))
		if len(t.DependsOn) > 0 {
			b.WriteString(" < " + strings.Join(t.DependsOn, " "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func found(f *File) string {
	var b strings.Builder
	for _, x := range f.Findings() {
		fmt.Fprintf(&b, "%d %s %s\n", x.Line, x.Kind, x.Message)
	}
	return b.String()
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if want = strings.TrimLeft(want, "\n"); got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

func TestGraph(t *testing.T) {
	t.Parallel()
	f := fixture(t, "rust.scg", "river")
	want(t, "tasks", show(f), `
1 done
2 in-progress < 1
3 expanded < 1
3.1/3 done
3.2/3 pending < 3.1 core:4
4 pending < 3 3.2
4.1 pending < 3.1
6 pending < 6 99
7 expanded
`)
	want(t, "findings", found(f),
		"19 family task 4.1: its id looks like that of a subtask of 4, but nothing else says so: it is a task of its own\n")
	one, _ := f.Task("1")
	wantOne := Task{ID: "1", Title: "Gauge readings", Status: Done, RawStatus: "done", Priority: "high",
		Complexity: "3", AgentType: "builder", Line: 13,
		Description: "First line of text.\n\n# A heading, not a comment\n---\n@not a section\n  indented further\n\nlast line", TestStrategy: "go test ./gauge/..."}
	if !reflect.DeepEqual(*one, wantOne) {
		t.Errorf("got  %+v\nwant %+v", *one, wantOne)
	}
	two, _ := f.Task("river:2")
	three, _ := f.Task("3")
	if two.Title != "HTTP server | router" || three.Title != "Flood \\ levels\nand alarms" {
		t.Errorf("titles %q and %q", two.Title, three.Title)
	}
	if four, _ := f.Task("4"); four.Description != "Only one line." || four.Priority != "low" ||
		four.Complexity != "8" {
		t.Errorf("got %+v", four)
	}
}

func TestGraphOfSeveralTags(t *testing.T) {
	t.Parallel()
	for tag, tasks := range map[string]string{
		"north": "1 done\n2 pending < 1 south:1\n",
		"south": "1 failed\n2 pending\n",
		"west":  "1 blocked\n",
	} {
		f := fixture(t, "several.scg", tag)
		want(t, tag, show(f), tasks)
		switch second, _ := f.Task("2"); tag {
		case "north":
			if second.Description != "One\ntwo" || second.AgentType != "planner" || second.ModelTier != "standard" {
				t.Errorf("got %+v", second)
			}
		case "south":
			want(t, "findings", found(f),
				"34 unknown-status task 2: the status letter \"Q\" is unknown: read as pending\n")
		}
	}
	var missing *NotFoundError
	if _, err := OpenPath(filepath.Join("testdata", "several.scg"), "x"); !errors.As(err, &missing) ||
		!slices.Equal(missing.Known, []string{"north", "south", "west"}) {
		t.Errorf("got %v", err)
	}
	if _, err := OpenPath(filepath.Join("testdata", "several.scg"), ""); err == nil ||
		!strings.Contains(err.Error(), "name one of: north, south, west") {
		t.Errorf("got %v", err)
	}
}

func TestGraphOfOldFiles(t *testing.T) {
	t.Parallel()
	f := fixture(t, "epic.scg", "")
	want(t, "tasks", show(f), "1 expanded\n1.1/1 review\n1.2/1 deferred < 1.1\n2 cancelled < 1 core:1\n")
	want(t, "findings", found(f), "")
	if f.Tag() != "auth" || f.Tasks()[1].Description != "The form." {
		t.Errorf("tag %q, %+v", f.Tag(), f.Tasks()[1])
	}
}

func TestGraphOddities(t *testing.T) {
	t.Parallel()
	f := fixture(t, "odd.scg", "")
	want(t, "tasks", show(f), `
a pending < not an id!
b/a pending < d e, a
c/a pending < b
d pending < c -> b
b done
e pending
`)
	if f.Tasks()[0].Details != "On the same line\nand below." || f.Tasks()[0].Priority != "high" ||
		f.Tasks()[1].ModelTier != "smart" {
		t.Errorf("got %+v", f.Tasks()[:2])
	}
	for _, part := range []string{
		`"[Collapsed - 12 tasks not shown]" has fewer than five fields`, `"e | | D | x" has fewer than five fields`,
		`task c: the status letter "" is unknown`, `task d: the status letter "done" is unknown: read as pending`,
		`"zz | description |" names a task that is not in the list`, `"nobody: a" names a task`,
		`"nothing here" is no line of @parents`,
		`"b ~~ c" is no line of @edges`, `"c ->" is no line of @edges`, `"ghost -> a" names a task`,
		`found "not an id!"`,
		`"c" is no line of @agents`, `"ghost | tester" names a task`, `task b: the id is already used in line 30`,
	} {
		if !strings.Contains(found(f), part) {
			t.Errorf("no finding %s in\n%s", part, found(f))
		}
	}
	if n := len(f.Findings()); n != 16 {
		t.Errorf("%d findings:\n%s", n, found(f))
	}
}

func TestGraphBareBars(t *testing.T) {
	t.Parallel()
	f := graphOf(t, "# Phase: x\n@nodes\n2 | a | b | c | I | 3 | M | role=x\n")
	if got := f.Tasks()[0]; got.Title != "a | b | c" || got.Complexity != "3" || got.Priority != "medium" ||
		found(f) != "" {
		t.Errorf("got %+v, %s", got, found(f))
	}
	saveAtNoon(t, f, map[string]Status{"2": Done})
	wantSaved(t, f, "# Phase: x\n@nodes\n2 | a | b | c | D | 3 | M | role=x\n")
}

func TestScope(t *testing.T) {
	t.Parallel()
	graph := graphOf(t, "# Phase: x\n@nodes\n1 | a | P | 3 | M | role=x | scope=cmd/*.go, docs\n")
	if got, want := graph.Tasks()[0].Scope, []string{"cmd/*.go", "docs"}; !slices.Equal(got, want) {
		t.Errorf("graph: got %q, want %q", got, want)
	}
	for text, want := range map[string][]string{
		`["a/b.go", 1, " c ", ""]`: {"a/b.go", "c"},
		`"a, b"`:                   {"a", "b"},
		`null`:                     nil,
		`{"a": ["b"]}`:             nil,
	} {
		f := open(t, `{"tag": "x", "tasks": [{"id": 1, "title": "a", "status": "pending", "scope": `+text+`}]}`)
		if got := f.Tasks()[0].Scope; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// A list may say of a task how it is run; what makes no sense there is noted, and says nothing.
func TestHowATaskIsRun(t *testing.T) {
	t.Parallel()
	f := graphOf(t, "# Phase: x\n@nodes\n1 | a | P | 3 | M | candidates=2 | needs=gpu, go\n2 | b | P | 3 | M\n3 | c | P | 3 | M\n")
	for n, want := range []string{"2 [gpu go]", "0 []", "0 []"} {
		if got := howRun(f.Tasks()[n]); got != want {
			t.Errorf("graph: got %s, want %s", got, want)
		}
	}
	for text, want := range map[string]string{
		`"candidates": 3`:          "3 []",
		`"candidates": "2"`:        "2 []",
		`"candidates": null`:       "0 []",
		`"candidates": -1`:         "0 []",
		`"candidates": "two"`:      "0 []",
		`"needs": ["gpu", " go "]`: "0 [gpu go]",
		`"needs": "gpu, go"`:       "0 [gpu go]",
	} {
		f := open(t, `{"tag": "x", "tasks": [{"id": 1, "title": "a", "status": "pending", `+text+`}]}`)
		if got := howRun(f.Tasks()[0]); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		odd := want == "0 []" && !strings.Contains(text, "null")
		if got := len(f.Findings()); got != map[bool]int{true: 1}[odd] {
			t.Errorf("%s: findings %s", text, found(f))
		}
	}
}

func howRun(t Task) string {
	return fmt.Sprintf("%d %s", t.Candidates, t.Needs)
}

func TestGraphRefused(t *testing.T) {
	t.Parallel()
	head := "# SCUD Graph v1\n# Phase: x\n"
	tests := []struct{ name, text, want string }{
		{"JSON", `{"x":{"tasks":[]}}`, "tasks.scg:1: a phase without a tag"},
		{"prose", "Here are the tasks:\n1. a\n", "tasks.scg:1: a phase without a tag, or no SCUD graph text"},
		{"phase without a name", head + "---\n@nodes\n1 | a | P | 1 | H\n", "tasks.scg:4: a phase without a tag"},
		{"conflict", head + "@nodes\n<<<<<<< ours\n1 | a | P | 1 | H\n", "tasks.scg:4: merge conflict markers"},
		{"UTF-16", "\xff\xfe#\x00", "UTF-16"},
		{"Latin-1", head + "@nodes\n1 | caf\xe9 | P | 1 | H\n", "the file is not UTF-8 text: invalid byte in line 4"},
		{"zero bytes", head + "\x00", "the file is not text: NUL byte in line 3"},
		{"LFS pointer", "version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"},
		{"path as id", head + "@nodes\n../x | a | P | 1 | H\n", "tasks.scg:4: the id \"../x\""},
		{"no id", head + "@nodes\n | a | P | 1 | H\n", `tasks.scg:4: the id ""`},
	}
	for _, test := range tests {
		_, err := Open(project(t, map[string]string{"tasks.scg": test.text}), "x")
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

func TestGraphWithoutTags(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n\n", "\ufeff", "---\n"} {
		root := project(t, map[string]string{"tasks.scg": text})
		var missing *NotFoundError
		if _, err := Open(root, "x"); !errors.As(err, &missing) || len(missing.Known) != 0 {
			t.Errorf("%q: got %v", text, err)
		}
		if known := Known(root); len(known) != 0 {
			t.Errorf("%q: known %v", text, known)
		}
	}
}

func TestGraphSmallForms(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"no newline at the end", "# SCUD Graph v1\n# Phase: x\n@nodes\n1|a|D|1|H", "1 done\n"},
		{"a BOM", "\ufeff# SCUD Graph v1\n# Phase: x\n@nodes\n1 | a | D | 1 | H\n", "1 done\n"},
		{"without the first line", "# Phase:x\n@nodes\n1 | a | D | 1 | H\n", "1 done\n"},
		{"the name in @meta alone",
			"# SCUD Graph v1\n@meta {\n  id_format uuid\n  name x\n}\n@nodes\n1 | a | D | 1 | H\n", "1 done\n"},
		{"brace on a line of its own", "@meta\n{\n  name \"x\"\n}\n@nodes\n1 | a | D | 1 | H\n", "1 done\n"},
		{"@meta without an end", "# Phase: x\n@meta {\n name x\n@nodes\n1 | a | D | 1 | H\n", "1 done\n"},
		{"indented sections", "# Phase: x\n  @nodes\n  1 | a | D | 1 | H\n  @edges\n  1 -> 2\n", "1 done < 2\n"},
		{"the tag twice", "# Phase: x\n@nodes\n1 | a | D | 1 | H\n---\n# Phase: x\n@nodes\n1 | b | P | 1 | H\n",
			"1 done\n"},
		{"dotted ids of an expanded task", "# Phase: x\n@nodes\n1 | a | X | 1 | H\n1.1 | b | P | 1 | H\n",
			"1 expanded\n1.1/1 pending\n"},
		{"many edges", "# Phase: x\n@nodes\n1 | a | X | 1 | H\n@edges\n" + strings.Repeat("1 -> 2\n1 -> 3\n", 40),
			"1 expanded < 2 3\n"},
		{"bars in a title", "# Phase: x\n@nodes\n1 | a | b | D | 3 | H\n2 | a | b | c | I | 3 | M | role=x\n3 | a | b | 3 | H\n4 | a | D | 3 | H | D | 3 | H\n", "1 done\n2 in-progress\n3 pending\n4 done\n"},
		{"section names begin others", "# Phase: x\n@nodes\n1 | a | D | 1 | H\n@nodes-of-old\n2 | b | D | 1 | H\n",
			"1 done\n"},
	}
	for _, test := range tests {
		f, err := Open(project(t, map[string]string{"tasks.scg": test.text}), "x")
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		want(t, test.name, show(f), test.want)
	}
}
