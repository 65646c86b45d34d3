package plan

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"descartes/tasks"
)

func fromPlan(t testing.TB, src string) *Document {
	t.Helper()
	p, err := Parse("plan.md", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sameTasks compares what a plan says with what is read back from the file that was made of it.
func sameTasks(t *testing.T, p *Document, f *tasks.File) {
	t.Helper()
	list, err := p.Tasks()
	if err != nil || len(f.Tasks()) != len(list) {
		t.Fatalf("got %d tasks, want %d: %v", len(f.Tasks()), len(list), err)
	}
	for i, want := range list {
		got := f.Tasks()[i]
		if got.ID != want.ID || got.Title != want.Title || got.Status != want.Status || got.Parent != want.Parent ||
			got.Numeric != want.Numeric ||
			got.Description != want.Description || got.TestStrategy != want.TestStrategy ||
			got.Priority != want.Priority ||
			!slices.Equal(got.DependsOn, want.DependsOn) || !slices.Equal(got.Children, want.Children) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if len(f.Findings()) > 0 {
		t.Errorf("findings: %v", f.Findings())
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile(filepath.Join("testdata", "plan.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := fromPlan(t, string(src))
	root := t.TempDir()
	path, err := p.Write(root, "x")
	if err != nil || path != filepath.Join(root, ".scud", "tasks", "x.json") {
		t.Fatal(path, err)
	}
	f, err := tasks.Open(root, "x")
	if err != nil {
		t.Fatal(err)
	}
	sameTasks(t, p, f)
	want, err := os.ReadFile(filepath.Join("testdata", "plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	if string(f.Bytes()) != string(want) {
		t.Errorf("got\n%s", f.Bytes())
	}
	if _, err := fromPlan(t, "- [ ] other\n").Write(root, "x"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	if again, err := os.ReadFile(path); err != nil || string(again) != string(want) {
		t.Errorf("the file was changed: %v", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := fromPlan(t, "- [ ] A\n")
	spec := filepath.Join(root, "specs", "001-x")
	if err := os.MkdirAll(spec, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(spec, "tasks.md"), []byte("- [ ] T1 a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(root, "001-x"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a tag that spec-kit has was imported: %v", err)
	}
	if _, err := p.Write(root, "../x"); err == nil {
		t.Error("a path was taken for a tag")
	}
	dir := filepath.Join(root, ".scud", "tasks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tasks.json"), []byte(`{"x":{"tasks":[{"id":"1"}]}}`),
		0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(root, "x"); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "tasks.json") {
		t.Errorf("the tag is in tasks.json: %v", err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "y.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(root, "y"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a dangling link: %v", err)
	}
}

func TestExtra(t *testing.T) {
	t.Parallel()
	list := []tasks.Task{{ID: "1", Title: "A"}, {ID: "2", Title: "B", DependsOn: []string{"1"}},
		{ID: "3", Title: "C", Children: []string{"3.1"}},
		{ID: "3.1", Title: "D", Parent: "3", DependsOn: []string{"2"}}, {ID: "1.1", Title: "Reader"},
		{ID: "1.2", Title: "Other"}}
	for name, c := range map[string]struct {
		src       string
		want      map[string][]string
		conflicts int
	}{
		"new": {"## Task 1: x\n## Task 2: y\nDepends on: 1\n## Task 3: z\nDepends on: 1, 2, 7\n",
			map[string][]string{"3": {"1", "2"}}, 1},
		"known":       {"## Task 1: x\n## Task 2: y\nDepends on: 1\n", map[string][]string{}, 0},
		"reverse":     {"## Task 1: x\nDepends on: 2\n## Task 2: y\n", map[string][]string{}, 1},
		"round about": {"## Task 1: x\nDepends on: 3\n## Task 3: y\n", map[string][]string{}, 1},
		"a circle of both": {"## Task 1: x\nBlocked by: 1.1\n## Task 1.1: y\nBlocked by: 2\n## Task 2: z\n",
			map[string][]string{"1": {"1.1"}}, 1},
		"phases imply": {"## Phase 1: x\n### Task 1: x\n## Phase 2: y\n### Task 3: z\n", map[string][]string{}, 0},
		"other numbers": {"## Phase 1: x\n#### 1.1 Reader\n#### 1.2 Writer\nDepends on: 1.1\n", map[string][]string{},
			0},
		"marked": {"## Phase 1: x\n#### 1. Reader (SCUD Task 3)\n#### 2. Writer (SCUD Tasks 4, 5)\n#### 3. Other (SCUD Task 1)\n#### 4. None (SCUD Task 9)\nDepends on: 3\n## Phase 2: y\n#### 1. Last (SCUD Task 1.2)\nDepends on: 1.1, 1.2, 1.4\n", map[string][]string{"1.2": {"3"}}, 0},
		"same titles": {"## Phase 1: x\n#### 1.1 Reader\nDepends on: 1.2\n#### 1.2 `Other`\n",
			map[string][]string{"1.1": {"1.2"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			more, conflicts := fromPlan(t, c.src).Extra(list)
			if len(conflicts) != c.conflicts || len(more) != len(c.want) {
				t.Fatalf("got %v, %v", more, conflicts)
			}
			for id, ids := range c.want {
				if !slices.Equal(more[id], ids) {
					t.Errorf("task %s: got %v, want %v", id, more[id], ids)
				}
			}
		})
	}
}

// FuzzFromPlan: no text makes the reader panic; what it finds is a list without duplicates and without circles of its
// own making, and is read back the same from the file that is made of it.
func FuzzParse(f *testing.F) {
	if src, err := os.ReadFile(filepath.Join("testdata", "plan.md")); err == nil {
		f.Add(string(src))
	}
	for _, src := range []string{
		"---\ntag: x\n---\n## Task 1: A\nDepends on: 2\n## Task 2: B (blocks 1)\n",
		"## Phase 1: A\n- [x] 1.1 a\n## Phase 2\n1. b\n2. c (depends on Phase 1)\n",
		"| ID | Task | Depends on |\n|--|--|--|\n| 1 | A | |\n| 2 | B | 1-2, T3–T5 |\n",
		"- [ ] T001 [P] x\n\t- [ ] y\n", "**Task 1: A**\n<!--\n-->\n```\n",
		"## Phase 1\n### Task 1: a\nDepends on: Phase 2\n## Phase 2 (parallel with Phase 1)\n### Task 1: b\n#### Task 1.1: c\n",
	} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		p, err := Parse("plan.md", []byte(src))
		if err != nil {
			return
		}
		p.Section(tasks.Task{ID: "1", Title: "Write tests"}, nil)
		list, err := p.Tasks()
		if err != nil {
			return
		}
		file, err := p.List(".", "x")
		if err != nil {
			t.Fatalf("%q: %v", src, err)
		}
		for i, want := range list {
			got := file.Tasks()[i]
			if got.ID != want.ID || got.Status != want.Status || got.Title != want.Title ||
				got.Parent != want.Parent || !slices.Equal(got.DependsOn, want.DependsOn) {
				t.Fatalf("%q: got %+v, want %+v", src, got, want)
			}
		}
		p.Extra(file.Tasks())
	})
}

// The list before it is written is the one that is read back.
func TestPlanList(t *testing.T) {
	t.Parallel()
	p := fromPlan(t, "---\ntag: x\nverify: make test\nspec_files: [A.md]\n---\n# Plan\n\n## Task 1: One\n\n## Task 2: Two\n\nDepends on: 1\n")
	root := t.TempDir()
	f, err := p.List(root, "x")
	if err != nil {
		t.Fatal(err)
	}
	sameTasks(t, p, f)
	path, err := p.Write(root, "x")
	if err != nil {
		t.Fatal(err)
	}
	on, err := os.ReadFile(path)
	if err != nil || string(on) != string(f.Bytes()) || f.Path() != path {
		t.Errorf("%s holds %q, %v, want %q in %s", path, on, err, f.Bytes(), f.Path())
	}
	if _, err := p.List(root, "../x"); err == nil {
		t.Error("a tag that is a path: got no error")
	}
}

// FuzzBoxes: ticking every box of a plan and taking the ticks away again changes nothing but the boxes, and ids stay.
func FuzzBoxes(f *testing.F) {
	for _, text := range []string{"# Plan\n\n- [ ] One\n  - [x] part\n* [ ] Two\r\n",
		"---\ntag: x\n---\n## Phase 1\n- [x] a\n- [ ] a\n## Phase 2\n- [ ] b (depends on 1.2)\n  Verify: `make`\n",
		"\ufeff- [-] a\n\n```\n- [ ] b\n```\n1. [✓] c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "plan.md")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := Open(path, "x", nil)
		if err != nil || !list.IsPlan() {
			return
		}
		for _, status := range []tasks.Status{tasks.Done, tasks.Pending} {
			set := map[string]tasks.Status{}
			for _, one := range list.Tasks() {
				set[one.ID] = status
			}
			after, err := list.With(set)
			if err != nil {
				t.Fatal(err)
			}
			next, err := list.Reread(after)
			if err != nil {
				t.Fatalf("%q became %q: %v", text, after, err)
			}
			for i, one := range next.Tasks() {
				if was := list.Tasks()[i]; one.ID != was.ID || one.Status != status && was.Status != one.Status {
					t.Fatalf("%q became %q: %v, want %v as %s", text, after, one, was, status)
				}
			}
			if bare(text) != bare(string(after)) {
				t.Fatalf("%q became %q", text, after)
			}
			list = next
		}
	})
}

var anyBox = regexp.MustCompile(`\[[^\]\n]{0,8}\]`) // [], [ ], [x ], [done]

func bare(text string) string { return anyBox.ReplaceAllString(text, "[]") }
