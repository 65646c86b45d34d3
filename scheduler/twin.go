package scheduler

import (
	"fmt"
	"slices"

	"descartes/tasks"
)

// doubled reports that several tasks have the id of the first one at place i, and says so. Nobody can tell which of them is meant, so
// it is held, and what waits for it: unless all of them are done.
func (g *Graph) doubled(i int32) bool {
	twins := g.twins[i]
	if len(twins) == 0 {
		return false
	}
	all := append([]int32{i}, twins...)
	open := slices.ContainsFunc(all, func(k int32) bool { return g.status[k] != tasks.Done })
	then := "all of them are done"
	if open {
		then = "it is held until each has one of its own"
	}
	id := g.list[i].ID
	g.problem("duplicate", []string{id}, "the id %s is given %s%s, %s", id, times(len(all)), g.lines(all), then)
	return open
}

// times is how often an id is given.
func times(n int) string {
	if n == 2 {
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// lines says in which lines tasks stand, where they have several.
func (g *Graph) lines(places []int32) string {
	var lines []int
	for _, k := range places {
		lines = append(lines, g.list[k].Line)
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if len(lines) < 2 || lines[0] == 0 {
		return ""
	}
	last := len(lines) - 1
	text := fmt.Sprint(lines[0])
	for _, n := range lines[1:last] {
		text += fmt.Sprintf(", %d", n)
	}
	return fmt.Sprintf(" (lines %s and %d)", text, lines[last])
}
