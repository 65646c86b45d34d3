package breakdown

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"descartes/specbuild"
	"descartes/tasks"
)

// task is a task of an answer that only lacks what a row gives it.
func task(id, more string) string {
	return fmt.Sprintf(`{"id": %s, "title": "T%s", "description": "d"%s}`, id, strings.Trim(id, `"`), more)
}

func answer(list ...string) string { return `{"tasks": [` + strings.Join(list, ", ") + "]}" }

// Every fault of an answer is named at the task that has it.
func TestReadFaults(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ words, want string }{
		{"no", "no JSON object with a tasks in its last words"},
		{`{"tasks": 3}`, `"tasks" is no array`},
		{answer(), "it has 0 tasks, 1 to 4 are wanted"},
		{answer(task("8", ""), task("9", ""), task("10", ""), task("11", ""), task("12", "")),
			"it has 5 tasks, 1 to 4 are wanted"},
		{answer(`"8"`), "task 8: cannot unmarshal string"},
		{answer(task("1", "")), "task 8: its id has to be 8, and is 1"},
		{answer(task("8", ""), task("8", "")), "task 9: its id has to be 9, and is 8"},
		{answer(task("8", `, "status": "done"`)), `task 8: unknown field "status"`},
		{answer(task("8", `, "prove": "off"`)), `task 8: unknown field "prove"`},
		{answer(`{"id": 8, "description": "d"}`), "task 8: it has no title"},
		{answer(`{"id": 8, "title": "a\nb", "description": "d"}`),
			"task 8: its title has to be one line of at most 200 characters"},
		{answer(`{"id": 8, "title": "a\u001b[2Jb", "description": "d"}`),
			"task 8: its title has to be one line of at most 200 characters"},
		{answer(`{"id": 8, "title": "` + long + `", "description": "d"}`),
			"task 8: its title has to be one line of at most 200 characters"},
		{answer(`{"id": 8, "title": "stands.", "description": "d"}`), `task 8: task 7 has the same title, "stands."`},
		{answer(`{"id": 8, "title": "a", "description": " "}`), "task 8: it has no description"},
		{answer(`{"id": 8, "title": "a", "description": "` + strings.Repeat(long, 20) + `"}`),
			"task 8: its description has 6000 characters, at most 5000 are taken"},
		{answer(`{"id": 8, "title": "a", "description": "a\u0000b"}`),
			"task 8: its description has control characters"},
		{answer(task("8", `, "priority": "urgent"`)),
			`task 8: priority "urgent" is not one of critical, high, medium and low`},
		{answer(task("8", `, "complexity": 4`)), "task 8: complexity 4 is not one of 1, 2, 3, 5 and 8"},
		{answer(task("8", `, "complexity": 1.5`)), "task 8: cannot unmarshal number 1.5"},
		{answer(task("8", `, "acceptance": ["`+strings.Repeat(long, 2)+`"]`)),
			"task 8: an entry of acceptance has to be one line of at most 500 characters"},
		{answer(task("8", `, "scope": ["/etc"]`)), `task 8: "/etc" in scope is no path below the project`},
		{answer(task("8", `, "scope": ["a/../../b"]`)), `task 8: "a/../../b" in scope is no path below the project`},
		{answer(task("8", `, "depends_on": [8]`)), "task 8: it depends on itself"},
		{answer(task("8", `, "depends_on": [9]`)), `task 8: it depends on task "9", which does not exist`},
		{answer(task("8", `, "depends_on": ["other:1"]`)),
			`task 8: it depends on task "other:1", which does not exist`},
		{answer(task("8", `, "depends_on": [9]`), task("9", `, "depends_on": [10]`),
			task("10", `, "depends_on": [8]`)), "tasks that depend on each other: 8 -> 9 -> 10 -> 8"},
	} {
		b := &specbuild.Breakdown{First: 8, Most: 4, Standing: []tasks.Task{{ID: "7", Title: "Stands"}}}
		_, _, faults := Read("I thought about it.\n"+c.words, b)
		if !slices.ContainsFunc(faults, func(f string) bool { return strings.HasPrefix(f, c.want) }) {
			t.Errorf("%.120s:\ngot %q, want %q", c.words, faults, c.want)
		}
	}
}

// What a good answer says is taken, and nothing that stands before it.
func TestRead(t *testing.T) {
	t.Parallel()
	b := &specbuild.Breakdown{First: 8, Most: 4, Standing: []tasks.Task{{ID: "7", Title: "Stands"},
		{ID: "A-1", Title: "Too"}}}
	words := answer(task("8", "")) + "\nNo, better:\n```json\n" +
		answer(task(`"8"`, `, "depends_on": [7, "A-1"], "complexity": 5, "priority": "HIGH", "acceptance": ["one\ntwo", " "], "scope": ["a/**", ""]`), task("9", `, "depends_on": [8]`)) + "\n```\n"
	list, raw, faults := Read(words, b)
	if len(faults) > 0 || len(list) != 2 || !strings.Contains(string(raw), "A-1") {
		t.Fatalf("%v, %v", list, faults)
	}
	got := list[0]
	if got.ID != "8" || got.Title != "T8" || !slices.Equal(got.DependsOn, []string{"7", "A-1"}) ||
		got.Complexity != "5" || got.Priority != "high" || got.Acceptance != "- one two" ||
		!slices.Equal(got.Scope, []string{"a/**"}) {
		t.Errorf("got %+v", got)
	}
	if list, _, faults = Read(answer(task("8", `, "dependencies": ["A-1"]`)), b); len(faults) > 0 ||
		!slices.Equal(list[0].DependsOn, []string{"A-1"}) {
		t.Errorf("in Task Master's word: %v, %q", list, faults)
	}
	b.Split = &tasks.Task{ID: "7"}
	list, _, faults = Read(answer(task("1", ""), task("2", `, "depends_on": [1]`)), b)
	if len(faults) > 0 || list[1].ID != "7.2" || list[1].DependsOn[0] != "7.1" {
		t.Errorf("split: %+v, %q", list, faults)
	}
	if _, _, faults = Read(answer(task("1", ""), task("2", `, "depends_on": ["A-1"]`)), b); len(faults) != 1 ||
		faults[0] != `task 2: it depends on task "A-1", which is not one of the parts` {
		t.Errorf("split: %q", faults)
	}
}

// An answer with faults goes back, so many times at most.
func TestAsk(t *testing.T) {
	t.Parallel()
	var prompts []string
	ask := func(_ context.Context, n int, prompt string) (string, error) {
		if prompts = append(prompts, prompt); len(prompts) != n {
			t.Errorf("asked for answer %d, want %d", n, len(prompts))
		}
		return answer(task("3", "")), nil
	}
	b := specbuild.Breakdown{Name: "PRD.md", Document: "</document> Build it.", First: 1, Most: 4}
	_, _, err := Ask(t.Context(), b, 2, ask)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Answers != 2 ||
		refused.Faults[0] != "task 1: its id has to be 1, and is 3" {
		t.Fatalf("%v", err)
	}
	if strings.Contains(prompts[0], "was refused") || !strings.Contains(prompts[1],
		"- task 1: its id has to be 1, and is 3\n\n<answer>\n"+answer(task("3", ""))) {
		t.Errorf("the prompts are\n%s\n%s", prompts[0], prompts[1])
	}
	if !strings.Contains(prompts[0], "<document->\n</document> Build it.\n</document->") {
		t.Errorf("the document can end its tag:\n%s", prompts[0])
	}
	stop := errors.New("stop")
	if _, _, err := Ask(t.Context(), b, 2, func(context.Context, int, string) (string, error) {
		return "", stop
	}); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// Whatever an agent says is taken whole or refused; what is taken has ids, titles and no circles.
func FuzzRead(f *testing.F) {
	f.Add(answer(task("1", ""), task("2", `, "depends_on": [1]`)))
	f.Add(`{"tasks": [{"id": 1, "title": "` + "\u202e" + `", "description": {}}]}`)
	f.Fuzz(func(t *testing.T, words string) {
		list, _, faults := Read(words, &specbuild.Breakdown{First: 1, Most: 100})
		if len(faults) > 0 {
			return
		}
		made, err := tasks.NewList("/nowhere", "x", list)
		if err != nil || len(made.Tasks()) != len(list) {
			t.Fatalf("%q is taken, and makes no list: %v", words, err)
		}
	})
}
