package tasks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path, tag, src string
		want                 []string
	}{
		{"clean", ".scud/tasks/x.json", "x",
			`{"tag":"x","tasks":[{"id":1,"title":"One","status":"done"},{"id":2,"title":"Two","status":"pending","depends_on":[1]}]}`, nil},
		{"statuses", ".scud/tasks/x.json", "x", `{"tag":"x","tasks":[
{"id":1,"title":"One","status":"pending"},
{"id":2,"title":"Two","status":"done","depends_on":[1]},
{"id":3,"title":"Three","status":"cancelled","priority":"urgent"},
{"id":4,"title":" ","status":"pending","depends_on":[3]}]}`, []string{
			"3 status task 2: it is done, but depends on 1, which is pending",
			"4 priority task 3: priority urgent is not one of critical, high, medium, low",
			"5 status task 4: it depends on 3, which is cancelled: it does not run until that changes",
			"5 title task 4: it has no title",
		}},
		{"task master", ".taskmaster/tasks/tasks.json", "x",
			`{"x":{"tasks":[{"id":1,"title":"One","status":"in-progress","complexity":4,"subtasks":[{"id":1,"title":"A","status":"done"}]}]}}`, []string{
				"1 status task 1: all its subtasks are done, but it is in-progress",
			}},
	} {
		root := t.TempDir()
		path := filepath.Join(root, filepath.FromSlash(c.path))
		put(t, path, c.src)
		f, err := OpenPath(path, c.tag)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := lintLines(f, root); !slices.Equal(got, c.want) {
			t.Errorf("%s: got\n%s", c.name, strings.Join(got, "\n"))
		}
	}
}

func lintLines(f *File, root string) (lines []string) {
	for _, x := range f.Lint(root) {
		lines = append(lines, strings.Join([]string{string(rune('0' + x.Line)), x.Kind, x.Message}, " "))
	}
	slices.Sort(lines)
	return lines
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLintProject(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, ".scud", filepath.FromSlash(name)) }
	put(t, at("tasks/tasks.scg"), "# SCUD Graph v1\n# Phase: x\n\n@nodes\n1 | One | D | 1 | M\n")
	put(t, at("tasks/y.json"), `{"tag": "y", "tasks": []}`)
	put(t, at("active-tag"), "x")
	f, err := Open(root, "x")
	if err != nil {
		t.Fatal(err)
	}
	if got := lintLines(f, root); len(got) > 0 {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	put(t, at("active-tag"), "gone")
	if got := lintLines(f, root); len(got) != 1 ||
		got[0] != "0 tag .scud/active-tag names the tag gone, which no task file has" {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestLintOddities(t *testing.T) {
	t.Parallel()
	const head = "# SCUD Graph v1\n# Phase: x\n@nodes\n"
	for name, c := range map[string]struct {
		files map[string]string
		tag   string
		want  []string // each in one finding of the file or of Lint, which has no others
	}{
		"old list beside tags": {
			map[string]string{".taskmaster/tasks/tasks.json": "{\"tasks\":[],\n\"master\":{\"tasks\":[{\"id\":1,\"title\":\"a\",\"status\":\"done\"}]}}"}, "master", []string{`an old list "tasks" is beside the tags`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			place(t, root, c.files)
			f, err := Open(root, c.tag)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.Concat(f.Findings(), f.Lint(root))
			for _, want := range c.want {
				if !slices.ContainsFunc(got, func(x Finding) bool { return strings.Contains(x.Message, want) }) {
					t.Errorf("no finding %q", want)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("got %v", got)
			}
		})
	}
}
