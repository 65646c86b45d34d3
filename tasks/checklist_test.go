package tasks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// taskLines shows tasks, one line for each: id, status, title, dependencies, container.
func taskLines(list []Task) []string {
	var lines []string
	for _, x := range list {
		line := fmt.Sprintf("%s %s %s", x.ID, x.Status, x.Title)
		if len(x.DependsOn) > 0 {
			line += " <- " + strings.Join(x.DependsOn, ",")
		}
		if x.Parent != "" {
			line += " in " + x.Parent
		}
		lines = append(lines, line)
	}
	return lines
}

func findingLines(f *File) []string {
	var lines []string
	for _, x := range f.Findings() {
		lines = append(lines, fmt.Sprintf("%d %s", x.Line, x.Kind))
	}
	return lines
}

func sameLines(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestChecklist(t *testing.T) {
	t.Parallel()
	f, err := OpenPath(filepath.Join("testdata", "speckit", "tasks.md"), "")
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, taskLines(f.Tasks()), []string{
		"T001 done Create project structure per implementation plan",
		"T002 done Initialize module in go.mod <- T001",
		"T003 pending Configure linting in .golangci.yml <- T001",
		"T004 pending Setup schema in `store/schema.sql` <- T002,T003",
		"T005 pending Contract test in tests/contract/test_albums.go <- T004",
		"T006 pending Integration test in tests/integration/test_*.go <- T004",
		"T007 pending Album model in src/models/album.go <- T005,T006",
		"T008 pending Photo model in src/models/photo.go (depends on T002) <- T005,T006,T002",
		"T009 pending Service in src/services/albums.go (depends on T007, T008) <- T007,T008",
		"T010 in-progress Endpoint in src/api/albums.go (depends on T011) <- T009",
		"T011 pending Logging <- T010",
	})
	sameLines(t, findingLines(f), []string{"61 left", "46 dependency"})
	x, _ := f.Task("T008")
	if x.Description != "Phase 3: User Story 1 - Browse albums (Priority: P1) 🎯 MVP > Implementation for User Story 1" || x.Story != "US1" {
		t.Errorf("got %+v", x)
	}
	if x, _ := f.Task("T004"); x.Details != "- use one table per album\n- no triggers" || x.Priority != "medium" {
		t.Errorf("got %+v", x)
	}
	if f.Tag() != "speckit" {
		t.Errorf("tag %q", f.Tag())
	}
}

func TestChecklistForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		src            string
		want, findings []string
	}{
		"numbers and parts": {
			"# Plan\n- [ ] 1. Set up\n- [ ] 2. Models\n- [x] 2.1 User\n  - _Requirements: 1.1_\n- [ ] 2.2 Item\n- [ ]* 2.3 optional\n- [ ] 3. API\n",
			[]string{"1 pending Set up", "2 pending Models", "2.1 done User <- 1 in 2", "2.2 pending Item <- 2.1 in 2",
				"3 pending API <- 2.2"}, []string{"7 left"}},
		"letters behind numbers": {"## 2. A\n- [ ] 2.1 a\n## 2a. B\n- [ ] 2a.1 b\n- [x ] 2a.2 c\n- [] 3.1 e\n",
			[]string{"2.1 pending a", "2a.1 pending b <- 2.1", "2a.2 done c <- 2a.1", "3.1 pending e <- 2a.2"}, nil},
		"words behind numbers": {"- [ ] T031 a\n- [ x] T031-MIN b\n",
			[]string{"T031 pending a", "T031-MIN done b <- T031"}, nil},
		"no id": {"- [x] P0-1: a\n- [x] P0-2: b\n- [ ] Export as CSV\n- [ ] Export as CSV\n",
			[]string{"P0-1 done a", "P0-2 done b <- P0-1", "export-as-csv pending Export as CSV <- P0-2",
				"export-as-csv-2 pending Export as CSV <- export-as-csv"}, nil},
		"criteria": {"## 1. Do\n- [ ] 1.1 a\n- [ ] 1.2 b\n## Acceptance Criteria\n- [x] AC-1: c\n- [ ] d\n## 2. Verification\n- [ ] 2.1 e\n",
			[]string{"1.1 pending a", "1.2 pending b <- 1.1", "2.1 pending e <- 1.2"}, nil},
		"parts of 1.0": {"- [ ] 1.0 A\n  - [ ] 1.1 a\n  - [ ] 1.2 b\n- [ ] 2.0 B\n",
			[]string{"1.0 pending A", "1.1 pending a in 1.0", "1.2 pending b <- 1.1 in 1.0", "2.0 pending B <- 1.2"}, nil},
		"optional and beside": {"- [ ] 1.1 (P) a\n- [ ] 1.2 (P) b\n- [ ] 1.3* (P) c\n- [ ] 1.4 d\n",
			[]string{"1.1 pending a", "1.2 pending b", "1.4 pending d <- 1.1,1.2"}, []string{"3 left"}},
		"a word with a digit": {"- [ ] T1 a\n- [ ] T2 b\n- [ ] ES2023 targets\n- [ ] 3 of them\n",
			[]string{"T1 pending a", "T2 pending b <- T1", "es2023-targets pending ES2023 targets <- T2",
				"3-of-them pending 3 of them <- es2023-targets"}, nil},
		"missing spaces": {"- [ ] T001 A\n-[ ] T002 B\n- [] T003 C\n- [ ]T004 D\n- [link](T005)\n- [x]T006 E\n```\n-[ ] T007\n```\n",
			[]string{"T001 pending A", "T002 pending B <- T001", "T003 pending C <- T002", "T004 pending D <- T003", "T006 done E <- T004"}, nil},
		"openspec": {"## 1. Server\n- [ ] 1.1 A\n- [ ] 1.2 B\n## 2. Client\n- [ ] 2.1 C\n",
			[]string{"1.1 pending A", "1.2 pending B <- 1.1", "2.1 pending C <- 1.2"}, nil},
		"mark first": {"- [ ] [P] T1 A\n- [ ] [P] T2: B\n- [ ] T3 [x](y)\n",
			[]string{"T1 pending A", "T2 pending B", "T3 pending x <- T1,T2"}, nil},
		"P to P": {"## A\n- [ ] T1 [P] a\n- [ ] T2 [P] b\n## B\n- [ ] T3 [P] c\n",
			[]string{"T1 pending a", "T2 pending b", "T3 pending c <- T1,T2"}, nil},
		"duplicate": {"- [ ] T1 a\n- [x] T1 b\n- [ ] T2 c\n",
			[]string{"T1 pending a", "T1-2 done b <- T1", "T2 pending c <- T1-2"}, []string{"2 line"}},
		"numbers restart": {"## A\n- [x] 1. a\n  - [x] 1.1 b\n## B\n- [ ] 1. c\n  - [ ] 1.1 d\n",
			[]string{"1 done a", "1.1 done b in 1", "1-2 pending c", "1.1-2 pending d <- 1.1 in 1-2"},
			[]string{"5 line", "6 line"}},
		"strangers": {"- [ ] T1 a (depends on T9)\n- [ ] T2 [P] b (blocks T3)\n- [ ] T3 [P] c (depends on Phase 1)\n",
			[]string{"T1 pending a (depends on T9)", "T2 pending b (blocks T3) <- T1",
				"T3 pending c (depends on Phase 1) <- T1,T2"}, nil},
		"CRLF, BOM": {"\ufeff* [X] T1 a\r\n1. [ ] T2 b\r\n", []string{"T1 done a", "T2 pending b <- T1"}, nil},
		"other boxes": {"- [-] T1 a\n- [>] T2 b\n- [!] T3 c\n- [?] T4 d\n",
			[]string{"T1 cancelled a", "T2 deferred b <- T1", "T3 blocked c <- T2", "T4 pending d <- T3"}, []string{"4 box"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := Parse("tasks.md", "x", []byte(c.src))
			if err != nil {
				t.Fatal(err)
			}
			sameLines(t, taskLines(f.Tasks()), c.want)
			sameLines(t, findingLines(f), c.findings)
		})
	}
	for name, src := range map[string]string{
		"empty": "", "prose": "# Tasks\n\nnone\n", "no ids": "- [ ] a\n- [ ] b\n", "latin1": "- [ ] T1 \xe9\n",
		"groups": manyGroups(1200),
	} {
		if f, err := Parse("tasks.md", "x", []byte(src)); err == nil || !strings.HasPrefix(err.Error(), "tasks.md:") {
			t.Errorf("%s: got %v, %v", name, f, err)
		}
	}
}

func manyGroups(n int) string {
	var b strings.Builder
	for i := range 2 * n {
		if i == n {
			b.WriteString("## Next\n")
		}
		fmt.Fprintf(&b, "- [ ] T%d [P] x\n", i)
	}
	return b.String()
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A status that a box cannot show leaves the bytes alone, unless the task was done.
func TestSaveChecklist(t *testing.T) {
	t.Parallel()
	const src = "- [ ] T1 a\r\n- [x] T2 b\n- [~] T3 c\n- [X] T4 d\n- [ ] T5 e"
	path := filepath.Join(t.TempDir(), "tasks.md")
	writeFile(t, path, src)
	f, err := OpenPath(path, "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set  map[string]Status
		want string
	}{
		{map[string]Status{"T1": InProgress, "T3": Blocked, "T5": Failed, "T2": Done}, src},
		{map[string]Status{"T1": Done, "T4": Blocked}, "- [x] T1 a\r\n- [x] T2 b\n- [~] T3 c\n- [ ] T4 d\n- [ ] T5 e"},
		{map[string]Status{"T3": Pending, "x:T2": InProgress},
			"- [x] T1 a\r\n- [ ] T2 b\n- [ ] T3 c\n- [ ] T4 d\n- [ ] T5 e"},
	} {
		if err := f.Save(c.set); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != c.want || string(f.Bytes()) != c.want {
			t.Errorf("%v: got %q, %v, want %q", c.set, got, err, c.want)
		}
		again, err := OpenPath(path, "x")
		if err != nil {
			t.Fatal(err)
		}
		sameLines(t, taskLines(f.Tasks()), taskLines(again.Tasks()))
	}
	writeFile(t, path, "new line\n- [ ] T5 other\n- [ ] T1 a\n")
	if err := f.Save(map[string]Status{"T5": Done}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "new line\n- [x] T5 other\n- [ ] T1 a\n" {
		t.Errorf("got %q", got)
	}
}

func TestSaveChecklistParts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.md")
	writeFile(t, path, "- [ ] 1. a\n  - [x] 1.1 b\n  - [ ] 1.2 c\n")
	f, err := OpenPath(path, "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status Status
		want   string
	}{{Done, "- [x] 1. a\n  - [x] 1.1 b\n  - [x] 1.2 c\n"}, {Pending, "- [ ] 1. a\n  - [x] 1.1 b\n  - [ ] 1.2 c\n"}} {
		if err := f.Save(map[string]Status{"1.2": c.status}); err != nil {
			t.Fatal(err)
		}
		if got := string(f.Bytes()); got != c.want {
			t.Errorf("%s: got %q, want %q", c.status, got, c.want)
		}
	}
}

// They are found after all other places.
func TestOtherSources(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "specs", "001-x", "tasks.md"), "- [ ] T1 a\n")
	writeFile(t, filepath.Join(root, "specs", "002-y", "tasks.md"), "prose\n")
	writeFile(t, filepath.Join(root, "specs", "README.md"), "")
	writeFile(t, filepath.Join(root, "prd.json"), `{"name": "no stories"}`)
	writeFile(t, filepath.Join(root, ".ralph", "prd.json"),
		`{"branchName": "ralph/shop", "userStories": [{"id": 1, "title": "a"}]}`)
	writeFile(t, filepath.Join(root, "scripts", "ralph", "prd.json"), `{"stories": [{"id": "s", "title": "b"}]}`)
	if got := Known(root); !slices.Equal(got, []string{"001-x", "prd", "shop"}) {
		t.Errorf("known: %q", got)
	}
	for tag, path := range map[string]string{"001-x": "specs/001-x/tasks.md", "shop": ".ralph/prd.json",
		"prd": "scripts/ralph/prd.json"} {
		f, err := Open(root, tag)
		if err != nil || below(root, f.Path()) != path || f.Tag() != tag || len(f.Findings()) > 0 {
			t.Errorf("%s: got %+v, %v", tag, f, err)
		}
	}
	var wrong *FormatError
	if _, err := Open(root, "002-y"); !errors.As(err, &wrong) {
		t.Errorf("got %v", err)
	}
	var missing *NotFoundError
	if _, err := Open(root, "z"); !errors.As(err, &missing) || len(missing.Known) != 3 {
		t.Errorf("got %v", err)
	}
	writeFile(t, filepath.Join(root, ".scud", "tasks", "shop.json"), `{"tasks": [{"id": 1}]}`)
	f, err := Open(root, "shop")
	if err != nil || below(root, f.Path()) != ".scud/tasks/shop.json" || len(f.Findings()) != 1 ||
		!strings.Contains(f.Findings()[0].Message, "prd.json") {
		t.Errorf("got %+v, %v", f, err)
	}
}

// FuzzChecklist: no text makes the reader panic, and setting statuses changes boxes only.
func FuzzChecklist(f *testing.F) {
	if src, err := os.ReadFile(filepath.Join("testdata", "speckit", "tasks.md")); err == nil {
		f.Add(string(src), uint8(0))
	}
	f.Add("- [ ] 1. a\n  - [x] 1.1 b\r\n  - [~] 1.2 c (depends on 1.1, blocks 3-4)\n* [-] T3 [P] x", uint8(3))
	f.Add("## Notes\n- [ ] a\n## 2. Validation\n- [ ] 2.1 b\n  - [ ] c\n## Done when\n- [ ] d\n- [ ] 2.2* e\n- [ ] 2.1 f", uint8(1))
	f.Add("[X] 0 a\n[] 1) b\n[ ] c\n", uint8(3))
	f.Fuzz(func(t *testing.T, src string, which uint8) {
		checkBinary(t, "tasks.md", src, which)
	})
}

var anyBox = regexp.MustCompile(`\[[^\]\n]{0,8}\]`) // [], [ ], [x ], [done]

// checkBinary edits statuses of a list and reads it again.
func checkBinary(t *testing.T, name, src string, which uint8) {
	t.Helper()
	file, err := Parse(name, "x", []byte(src))
	if err != nil {
		return
	}
	if string(file.Bytes()) != src {
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
	file = rewritten(t, file, edits)
	again, err := Parse(name, "x", []byte(file.src))
	if err != nil {
		t.Fatalf("%q became %q: %v", src, file.src, err)
	}
	if !reflect.DeepEqual(file, again) {
		t.Fatalf("%q became %q:\n%+v\nread anew:\n%+v", src, file.src, file, again)
	}
	for id, status := range set {
		if task, _ := file.Task(id); (task.Status == Done) != (status == Done) {
			t.Fatalf("%q became %q: task %s is %s, want %s", src, file.src, id, task.Status, status)
		}
	}
	if name == "tasks.md" && anyBox.ReplaceAllString(src, "[]") != anyBox.ReplaceAllString(file.src, "[]") {
		t.Fatalf("%q became %q", src, file.src)
	}
}
