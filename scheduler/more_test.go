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
	if state, cause := g.State("3"), g.Why("3"); state != "waiting" || cause == "" {
		t.Errorf("got %s, %q", state, cause)
	}
	if added := New(list(t, "1"), Options{}).Added(); added != nil {
		t.Errorf("got %v", added)
	}
}
