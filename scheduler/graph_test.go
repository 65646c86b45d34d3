package scheduler

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"descartes/tasks"
)

// list reads a task list from lines "id[/parent] [status] [< dep dep ...]"; the default status is pending.
func list(t testing.TB, lines string) []tasks.Task {
	t.Helper()
	var out []tasks.Task
	for n, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		left, deps, _ := strings.Cut(line, "<")
		words := strings.Fields(left)
		if len(words) == 0 {
			t.Fatalf("line %q", line)
		}
		task := tasks.Task{Status: tasks.Pending, DependsOn: strings.Fields(deps), Line: n + 1}
		task.ID, task.Parent, _ = strings.Cut(words[0], "/")
		if len(words) > 1 {
			task.Status = tasks.Status(words[1])
		}
		out = append(out, task)
	}
	return out
}

func waves(g *Graph) string {
	var parts []string
	for _, w := range g.Waves() {
		parts = append(parts, fmt.Sprintf("%d:%s", w.Number, strings.Join(w.Tasks, ",")))
	}
	return strings.Join(parts, " ")
}

func states(g *Graph) string {
	var parts []string
	for _, id := range g.Leaves() {
		state, cause := g.State(id), g.Why(id, nil)
		text := id + " " + string(state)
		if cause != "" {
			text += " (" + cause + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n")
}

func external(tag, id string) (tasks.Status, bool) {
	switch tag + ":" + id {
	case "core:1":
		return tasks.Done, true
	case "core:2":
		return tasks.Pending, true
	case "core:3":
		return "", true
	}
	return "", false
}

func TestWaves(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, list, want string }{
		{"one", "1", "1:1"},
		{"the longest path counts", "1\n2 < 1\n3 < 2 1\n4 < 1", "1:1 2:2,4 3:3"},
		{"natural order", "10\n9\n1.10\n1.9\na", "1:1.9,1.10,9,10,a"},
		{"done ones are in", "1 done\n2 done < 1\n3 < 2", "1:1 2:2 3:3"},
		{"dependency given more than once", "1\n2 < 1 1", "1:1 2:2"},
		{"containers are not in a wave", "1\n1.1/1\n1.2/1 < 1.1\n2 < 1", "1:1.1 2:1.2 3:2"},
		{"children inherit dependencies", "0\n1 < 0\n1.1/1\n1.2/1\n2 < 1", "1:0 2:1.1,1.2 3:2"},
		{"nested containers", "0\n1 < 0\n1.1/1\n1.1.1/1.1\n1.1.2/1.1 < 1.1.1\n2 < 1.1", "1:0 2:1.1.1 3:1.1.2 4:2"},
		{"container on container", "1\n1.1/1\n1.2/1\n2 < 1\n2.1/2\n2.2/2 < 2.1", "1:1.1,1.2 2:2.1 3:2.2"},
		{"an edge to a child from outside", "1\n1.1/1\n1.2/1\n2 < 1.1", "1:1.1,1.2 2:2"},
		{"cycles are in no wave and count for nothing", "1 < 2\n2 < 1\n3 < 2\n4 < 3\n5", "1:3,5 2:4"},
		{"a cycle beside an honest dependency of the container", "0\n1 < 0 2\n1.1/1\n1.2/1\n2 < 1.1", "1:0 2:1.2"},
		{"missing dependencies do not count", "1 < 9\n2 < 1", "1:1 2:2"},
		{"self dependencies do not count", "1 < 1\n2 < 1", "1:1 2:2"},
		{"duplicates are left out", "1\n1 < 2\n2 < 1", "1:1 2:2"},
		{"nothing but a cycle", "1 < 2\n2 < 1", ""},
	}
	for _, test := range tests {
		g := New(list(t, test.list), Options{})
		if got := waves(g); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
		for _, w := range g.Waves() {
			for _, id := range w.Tasks {
				if g.Wave(id) != w.Number {
					t.Errorf("%s: Wave(%s) is %d, want %d", test.name, id, g.Wave(id), w.Number)
				}
			}
		}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, list, want string }{
		{"none", "1\n2 < 1 core:1 core:2", ""},
		{"cycle", "3 < 1\n1 < 2\n2 < 3", "cycle [1 2 3] tasks that depend on each other: 1 -> 2 -> 3 -> 1"},
		{"cycle the other way round", "1 < 3\n3 < 2\n2 < 1",
			"cycle [1 3 2] tasks that depend on each other: 1 -> 3 -> 2 -> 1"},
		{"cycle from the lowest id, however late", "10 < 9\n9 < 10",
			"cycle [9 10] tasks that depend on each other: 9 -> 10 -> 9"},
		{"two cycles", "1 < 2\n2 < 1\n3 < 4\n4 < 3 1",
			"cycle [1 2] tasks that depend on each other: 1 -> 2 -> 1\ncycle [3 4] tasks that depend on each other: 3 -> 4 -> 3"},
		{"a knot", "1 < 2\n2 < 1 3\n3 < 2",
			"cycle [1 2 3] tasks that depend on each other: 1 -> 2 -> 1; in the same knot: 3"},
		{"containers", "1 < 2\n1.1/1\n2 < 1\n2.1/2",
			"cycle [1 2 1.1 2.1] tasks that depend on each other: 1 -> 2 -> 1; in the same knot: 1.1, 2.1"},
		{"through a child", "1 < 2\n1.1/1\n1.2/1\n2 < 1.1",
			"cycle [1 2 1.1] tasks that depend on each other: 1 -> 2 -> 1.1 (part of 1); in the same knot: 1.1"},
		{"through a container's child", "1\n1.1/1 < 2\n2 < 1\n3",
			"cycle [1.1 2] tasks that depend on each other: 1.1 -> 2 -> 1 (its 1.1)"},
		{"missing", "1 < 8\n2 < 9 7",
			"missing [1] task 1 depends on 8, which does not exist\nmissing [2] task 2 depends on 7, which does not exist\nmissing [2] task 2 depends on 9, which does not exist"},
		{"missing in another tag", "1 < core:9", "missing [1] task 1 depends on core:9, which does not exist"},
		{"self", "1 < 1", "self [1] task 1 depends on itself: ignored"},
		{"on its container", "1\n1.1/1 < 1",
			"ancestor [1.1 1] task 1.1 depends on task 1, which contains it: ignored"},
		{"on its subtask", "1 < 1.1\n1.1/1", "ancestor [1 1.1] task 1 depends on its own subtask 1.1: ignored"},
		{"duplicate", "1\n2\n1",
			"duplicate [1] the id 1 is given more than once (lines 1, 3), it is held until each has its own id"},
		{"duplicate three times", "1\n2\n1\n1",
			"duplicate [1] the id 1 is given more than once (lines 1, 3, 4), it is held until each has its own id"},
		{"duplicate, done", "1 done\n1 done",
			"duplicate [1] the id 1 is given more than once (lines 1, 2), all of them are done"},
		{"expanded leaf", "1 expanded\n2 < 1",
			"ambiguous-expanded [1] task 1 is expanded but has no subtasks: it does not run and does not count as done; set it to pending or done"},
		{"expanded container", "1 expanded\n1.1/1", ""},
		{"unknown status", "1 odd",
			`unknown-status [1] task 1 has the unknown status "odd": it does not run and does not count as done`},
		{"left by an earlier loop", "1 awaiting-tune",
			"unknown-status [1] task 1 has the status awaiting-tune, which an earlier run left: it does not run; set it to pending to run it again"},
		{"done container", "1 done\n1.1/1\n1.2/1 done",
			"container-done [1] task 1 is done, but 1 of its subtasks is open: they count as done with it"},
		{"whatever is in it", "1 done\n1.1/1 expanded\n1.2/1 odd\n1.3/1 deferred\n1.3.1/1.3",
			"container-done [1] task 1 is done, but 3 of its subtasks are open: they count as done with it"},
		{"done container, all done", "1 done\n1.1/1 done", ""},
		{"cancelled container", "1 cancelled\n1.1/1\n1.2/1",
			"container-off [1] task 1 is cancelled, but 2 of its subtasks are open: they are held"},
		{"all at once, sorted", "5 < 5\n1 < 9\n3 < 4\n4 < 3\n5",
			"duplicate [5] the id 5 is given more than once (lines 1, 5), it is held until each has its own id\ncycle [3 4] tasks that depend on each other: 3 -> 4 -> 3\nmissing [1] task 1 depends on 9, which does not exist\nself [5] task 5 depends on itself: ignored"},
	}
	for _, test := range tests {
		var got []string
		for _, p := range New(list(t, test.list), Options{External: external}).Problems() {
			got = append(got, fmt.Sprintf("%s %v %s", p.Kind, p.Tasks, p.Message))
		}
		if text := strings.Join(got, "\n"); text != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, text, test.want)
		}
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, list, want string }{
		{"plain", "1 done\n2 < 1\n3 < 2 1\n4 in-progress < 1\n5 in-progress < 2",
			"1 done\n2 ready\n3 waiting (waits for 2)\n4 running\n5 waiting (waits for 2)"},
		{"behind a blocked task", "1 blocked\n2 < 1\n3 < 2\n4 in-progress < 3\n5 done < 4\n6 < 5",
			"1 blocked\n2 held (task 1 is blocked)\n3 held (task 1 is blocked)\n4 held (task 1 is blocked)\n5 done\n6 ready"},
		{"every status that does not count",
			"1 failed\n2 deferred\n3 cancelled\n4 review\n5 expanded\n6 odd\n7 < 1\n8 < 2\n9 < 3\n10 < 4\n11 < 5\n12 < 6",
			"1 blocked\n2 other (its status is deferred)\n3 other (its status is cancelled)\n4 other (its status is review)\n5 other (expanded, but without subtasks)\n6 other (unknown status \"odd\")\n" +
				"7 held (task 1 is failed)\n8 held (task 2 is deferred)\n9 held (task 3 is cancelled)\n10 held (task 4 is review)\n11 held (task 5 is expanded)\n12 held (task 6 is odd)"},
		{"several causes", "1 blocked\n2 deferred\n3 < 1\n4 < 2 3\n5 < 4 9\n6 < 1 2 5",
			"1 blocked\n2 other (its status is deferred)\n3 held (task 1 is blocked)\n4 held (task 1 is blocked, task 2 is deferred)\n" +
				"5 held (task 1 is blocked, task 2 is deferred, task 9 does not exist)\n6 held (task 1 is blocked, task 2 is deferred, task 9 does not exist)"},
		{"a root is not looked behind", "1 blocked\n2 blocked < 1\n3 < 2",
			"1 blocked\n2 blocked\n3 held (task 2 is blocked)"},
		{"other tags", "1 < core:1\n2 < core:2\n3 < core:3\n4 < core:4",
			"1 ready\n2 held (task core:2 of another tag is pending)\n3 held (task core:3 of another tag is pending)\n4 held (task core:4 does not exist)"},
		{"cycle", "1 < 2\n2 < 1\n3 < 2\n4 < 3",
			"1 held (on a cycle: 1 -> 2 -> 1)\n2 held (on a cycle: 1 -> 2 -> 1)\n3 held (task 2 is on a cycle)\n4 held (task 2 is on a cycle)"},
		{"done on a cycle", "1 done < 2\n2 < 1\n3 < 1", "1 done\n2 held (on a cycle: 1 -> 2 -> 1)\n3 ready"},
		{"containers", "1\n1.1/1 done\n1.2/1\n2 < 1\n2.1/2\n3\n3.1/3",
			"1.1 done\n1.2 ready\n2.1 waiting (waits for 1.2)\n3.1 ready"},
		{"a done container", "1 done\n1.1/1\n1.2/1 done\n1.3/1 blocked\n1.4/1\n1.4.1/1.4 in-progress < 9\n2 < 1\n3 < 1.1", "1.1 done (task 1, which contains it, is done)\n1.2 done\n1.3 done (task 1, which contains it, is done)\n1.4.1 done (task 1, which contains it, is done)\n2 ready\n3 ready"},
		{"a cancelled container", "1 cancelled\n1.1/1\n1.2/1 done\n2 < 1\n3 < 1.2",
			"1.1 held (task 1 is cancelled)\n1.2 done\n2 held (task 1 is cancelled)\n3 ready"},
		{"a done container of which all is cancelled", "1 cancelled\n1.1/1 done\n2 < 1", "1.1 done\n2 ready"},
		{"self", "1 < 1", "1 ready"},
		{"an id given more than once", "1\n2\n1\n3 < 1\n4 < 3 2",
			"1 held (its id is given more than once)\n2 ready\n3 held (the id 1 is given more than once)\n4 held (the id 1 is given more than once)"},
		{"an id given more than once, one of them done", "1 done\n1\n2 < 1",
			"1 held (its id is given more than once)\n2 held (the id 1 is given more than once)"},
		{"an id given more than once, both done", "1 done\n1 done\n2 < 1", "1 done\n2 ready"},
		{"a container's id given three times", "1 done\n1\n1.1/1\n1\n2 < 1\n3 < 1.1",
			"1.1 held (the id 1 is given more than once)\n2 held (the id 1 is given more than once)\n3 held (the id 1 is given more than once)"},
	}
	for _, test := range tests {
		g := New(list(t, test.list), Options{External: external})
		if got := states(g); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}

func TestOpenInDone(t *testing.T) {
	t.Parallel()
	g := New(list(t, "1 done\n1.1/1\n1.2/1 done\n2 < 1"), Options{OpenInDone: true})
	if got := states(g); got != "1.1 ready\n1.2 done\n2 waiting (waits for 1.1)" {
		t.Errorf("got %s", got)
	}
	if p := g.Problems(); len(p) != 1 ||
		p[0].Message != "task 1 is done, but 1 of its subtasks is open: this is work to do" {
		t.Errorf("got %v", p)
	}
}

func TestManyCausesAreCut(t *testing.T) {
	t.Parallel()
	lines, deps := "", ""
	for i := range 20 {
		lines += fmt.Sprintf("%d blocked\n%d\n", i, i+100)
		deps += fmt.Sprintf(" %d %d", i, i+100)
	}
	g := New(list(t, lines+"50 <"+deps+"\n51 <"+strings.ReplaceAll(deps, " ", " 1")), Options{})
	if cause := g.Why("50", nil); cause != "task 0 is blocked, task 1 is blocked, task 2 is blocked, and 17 more" {
		t.Errorf("got %q", cause)
	}
	if root, held := g.Held("50"); !held || len(root) != 20 || root[19] != "19" {
		t.Errorf("got %v", root)
	}
}

// A tag that cannot be read is another thing than a task that is not there.
func TestExternalErr(t *testing.T) {
	t.Parallel()
	why := func(tag string) error {
		if tag == "torn" {
			return errors.New("torn.json:1: not valid JSON")
		}
		return nil
	}
	g := New(list(t, "1 < torn:4\n2 < gone:4"), Options{External: external, ExternalErr: why})
	var got []string
	for _, p := range g.Problems() {
		got = append(got, p.Kind+": "+p.Message)
	}
	want := []string{"missing: task 1 depends on torn:4, which cannot be looked up: torn.json:1: not valid JSON",
		"missing: task 2 depends on gone:4, which does not exist"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	if cause := g.Why("1", nil); cause != "task torn:4 cannot be looked up: torn.json:1: not valid JSON" {
		t.Errorf("got %q", cause)
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	g := New(list(t, "0 done\n1 expanded < 0\n1.1/1 expanded\n1.1.2/1.1 < core:1 77\n1.1.1/1.1\n1.2/1 < 1.1\n2 < 1 0\n3 deferred\n3.1/3"), Options{External: external})
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	check("leaves", g.Leaves(), []string{"0", "1.1.1", "1.1.2", "1.2", "2", "3.1"})
	check("deps of 2", g.Deps("2"), []string{"0", "1.1.1", "1.1.2", "1.2"})
	check("deps of 1.2", g.Deps("1.2"), []string{"0", "1.1.1", "1.1.2"})
	check("deps of 1.1.2", g.Deps("1.1.2"), []string{"0"})
	check("deps of 0", g.Deps("0"), []string{})
	check("deps of nobody", g.Deps("nobody"), []string(nil))
	var around []string
	for _, p := range g.Parents("1.1.1") {
		around = append(around, p.ID)
	}
	check("parents", around, []string{"1", "1.1"})
	check("parents of nobody", g.Parents("nobody"), []tasks.Task(nil))
	check("wave of a container", g.Wave("1"), 0)
	check("wave of nobody", g.Wave("nobody"), 0)
	check("status", g.Status("3"), tasks.Deferred)
	check("status of nobody", g.Status("nobody"), tasks.Status(""))
	task, ok := g.Task("1.2")
	check("task", []any{task.ID, ok}, []any{"1.2", true})
	_, ok = g.Task("nobody")
	check("task of nobody", ok, false)
	check("counts", g.Counts(), Counts{Total: 6, Done: 1, Pending: 1, Held: 4})
	for id, want := range map[string]State{"0": StateDone, "1": StateReady, "1.1": StateReady, "3": StateHeld,
		"nobody": StateOther} {
		state := g.State(id)
		check("state of "+id, state, want)
	}
	check("ready", []bool{g.Ready("1.1.1"), g.Ready("1"), g.Ready("2"), g.Ready("nobody")},
		[]bool{true, false, false, false})
	root, held := g.Held("3.1")
	check("held", []any{root, held}, []any{[]string{"3"}, true})
	_, held = g.Held("nobody")
	check("held of nobody", held, false)

	g.SetStatus("nobody", tasks.Done)
	g.SetStatus("3", tasks.Pending)
	check("counts after reopening 3", g.Counts(), Counts{Total: 6, Done: 1, Pending: 2, Held: 3})
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	g := New(nil, Options{})
	if len(g.Waves())+len(g.Problems())+len(g.Leaves()) != 0 || g.Counts() != (Counts{}) {
		t.Errorf("got %v %v %v %v", g.Waves(), g.Problems(), g.Leaves(), g.Counts())
	}
}

// What a run has numbered keeps its number, however its depth changes; what depends on it comes later.
func TestNumber(t *testing.T) {
	g := New([]tasks.Task{{ID: "1"}, {ID: "2", DependsOn: []string{"1"}}, {ID: "3", DependsOn: []string{"2"}},
		{ID: "4"}}, Options{})
	for _, c := range []struct {
		least map[string]int
		want  []Wave
	}{
		{map[string]int{"1": 1, "4": 3}, []Wave{{1, []string{"1"}}, {2, []string{"2"}}, {3, []string{"3", "4"}}}},
		{map[string]int{"2": 3}, []Wave{{1, []string{"1", "4"}}, {2, nil}, {3, []string{"2"}}, {4, []string{"3"}}}},
		{nil, []Wave{{1, []string{"1", "4"}}, {2, []string{"2"}}, {3, []string{"3"}}}},
	} {
		if g.Number(c.least); !reflect.DeepEqual(g.Waves(), c.want) {
			t.Errorf("%v: got %v, want %v", c.least, g.Waves(), c.want)
		}
	}
}
