package scheduler

import (
	"slices"
	"testing"
)

// What a plan adds counts like a dependency of the list: also on and of containers.
func TestMore(t *testing.T) {
	t.Parallel()
	g := New(list(t, `
		1
		2 < 1
		3
		4
		4.1/4
		5`), Options{More: map[string][]string{
		"2": {"1"}, "3": {"2", "2", "9", "3"}, "5": {"4"}, "4": {"3", "4.1"}, "8": {"1"},
	}})
	if got, want := waves(g), "1:1 2:2 3:3 4:4.1 5:5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if want := []Dependency{{"3", "2"}, {"4", "3"}, {"5", "4"}}; !slices.Equal(g.Added(), want) {
		t.Errorf("added: got %v, want %v", g.Added(), want)
	}
	var kinds []string
	for _, p := range g.Problems() {
		kinds = append(kinds, p.Kind)
	}
	if !slices.Equal(kinds, []string{"self", "ancestor"}) {
		t.Errorf("problems: %v", g.Problems())
	}
	if state, cause := g.State("3"), g.Why("3", nil); state != "waiting" || cause == "" {
		t.Errorf("got %s, %q", state, cause)
	}
	if added := New(list(t, "1"), Options{}).Added(); added != nil {
		t.Errorf("got %v", added)
	}
}

// Of a list in its author's order one lane takes the next task that may run, by priority, and no wave goes back.
func TestInOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ list, want string }{
		"one dependency":         {"1\n2 < 1\n3\n4", "1:1 2:2,3,4"},
		"none":                   {"2\n1\n10\n3a", "1:2,1,10,3a"},
		"what needs a later one": {"1 < 3\n2\n3\n4", "1:2,3 2:1,4"},
		"containers":             {"1\n1.1/1\n1.2/1 < 1.1\n2 < 1\n3", "1:1.1 2:1.2 3:2,3"},
		"a circle":               {"1\n2 < 3\n3 < 2\n4 < 1\n5", "1:1 2:4,5"},
	} {
		if got := waves(New(list(t, c.list), Options{InOrder: true})); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	urgent := list(t, "1\n2 < 1\n3\n4")
	urgent[3].Priority = "high"
	if got, want := waves(New(urgent, Options{InOrder: true})), "1:1,4 2:2,3"; got != want {
		t.Errorf("priority: got %s, want %s", got, want)
	}
}
