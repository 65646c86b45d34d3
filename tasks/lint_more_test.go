package tasks

import (
	"slices"
	"strings"
	"testing"
)

func TestLintOddities(t *testing.T) {
	t.Parallel()
	const head = "# SCUD Graph v1\n# Phase: x\n@nodes\n"
	for name, c := range map[string]struct {
		files map[string]string
		tag   string
		want  []string // each in one finding of the file or of Lint, which has no others
	}{
		"old list beside tags": {map[string]string{".taskmaster/tasks/tasks.json": "{\"tasks\":[],\n\"master\":{\"tasks\":[{\"id\":1,\"title\":\"a\",\"status\":\"done\"}]}}"}, "master", []string{`an old list "tasks" lies beside the tags`}},
		"near misses": {map[string]string{"specs/x/tasks.md": "- [ ] T001 A\n-[ ] T002 B\n- [] T003 C\n- [ ]T004 D\n- [link](T005)\n- [x]T006 E\n```\n-[ ] T007\n```\n- [ ] T008 F\n"}, "x", []string{
			`"-[ ] T002 B" is no task`, `"- [] T003 C" is no task`, `"- [ ]T004 D" is no task`, `"- [x]T006 E" is no task`}},
		"dialect": {map[string]string{".scud/tasks/tasks.scg": head + "1 | a | P | 1 | Z\n2 | b | P | 1 | M\n3 | c | P | 1 | high\n@weave\na ~~ b\n@assignments\n1 | me\n@details\n1 | notes |\n  text\n2 | description |\n\ttext\n\tmore\n"}, "x", []string{
			`task 1: the priority letter "Z" is unknown`, "the section @weave is not read here", "task 1: the field notes is not read here", "indented by a tab"}},
		"outside edge": {map[string]string{".scud/tasks/tasks.scg": head + "1 | a | X | 0 | M\n1.1 | b | P | 0 | M\n1.2 | c | P | 0 | M\n2 | d | P | 1 | M\n@edges\n1.2 -> 1.1\n2 -> 1.1\n@parents\n1: 1.1, 1.2\n"}, "x", []string{
			"task 2: it depends on 1.1, which is a part of task 1, from outside"}},
		"counts": {map[string]string{".scud/tasks/x.json": "{\"tag\":\"x\",\"tasks\":[{\"id\":1,\"title\":\"a\",\"complexity\":2}],\"summary\":{\"total_tasks\":3,\"total_complexity\":2}}"}, "x", []string{"summary says total_tasks 3, it is 1"}},
		"counts of a tag": {map[string]string{".taskmaster/tasks/tasks.json": `{"x":{"tasks":[{"id":1,"title":"a","status":"done","subtasks":[{"id":1,"title":"b","status":"done"}]}],"metadata":{"taskCount":1,"completedCount":0}}}`}, "x", []string{
			"metadata says completedCount 0, it is 1"}},
		"another tag": {map[string]string{".scud/tasks/tasks.scg": head + "1 | a | P | 1 | M\n2 | b | P | 1 | M\n3 | c | D | 1 | M\n4 | d | P | 1 | M\n@edges\n1 -> y:1\n2 -> y:2\n3 -> y:3\n4 -> y:3\n" +
			"---\n# SCUD Graph v1\n# Phase: y\n@nodes\n1 | a | C | 1 | M\n2 | b | X | 1 | M\n2.1 | c | P | 0 | M\n3 | d | P | 1 | M\n@edges\n2.1 -> x:2\n@parents\n2: 2.1\n"}, "x", []string{
			"task 1: it depends on y:1, which is cancelled", "task 2: it depends on y:2, which waits for this task in turn", "task 3: it is done, but depends on y:3, which is pending"}},
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
