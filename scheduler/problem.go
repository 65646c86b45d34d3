package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"descartes/tasks"
)

// Problem is something wrong with a list. The rest of the list runs all the same.
type Problem struct {
	// Kind is "duplicate", "cycle", "missing" (dependency), "self" (dependency), "ancestor" (a dependency or a parent that makes no sense),
	// "ambiguous-expanded" (split, but without subtasks), "unknown-status", "container-done" (done, with open subtasks) or
	// "container-off" (deferred or cancelled, with open subtasks).
	Kind    string   `json:"kind"`
	Tasks   []string `json:"tasks"` // a cycle's in the order of the cycle
	Message string   `json:"message"`
}

// Problems returns everything wrong with the list as it was given to New, sorted by kind and id.
func (g *Graph) Problems() []Problem { return g.problems }

func (g *Graph) problem(kind string, ids []string, format string, args ...any) {
	g.problems = append(g.problems, Problem{Kind: kind, Tasks: ids, Message: fmt.Sprintf(format, args...)})
}

func sortProblems(list []Problem) {
	weight := func(kind string) int {
		return slices.Index([]string{"duplicate", "cycle", "missing", "self", "ancestor", "ambiguous-expanded", "unknown-status", "container-done", "container-off"}, kind)
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(weight(a.Kind)-weight(b.Kind), tasks.CompareIDs(a.Tasks[0], b.Tasks[0]), strings.Compare(a.Message, b.Message))
	})
}

// reviewStatuses reports statuses that contradict the shape of the list.
func (g *Graph) reviewStatuses() {
	open := g.openLeaves()
	for _, i := range g.order {
		id, status := g.list[i].ID, g.status[i]
		isLeaf := g.nodes[g.in[i]].kind == leaf
		switch {
		case g.covered[i]: // it counts as done, whatever it says
		case isLeaf && status == tasks.Expanded:
			g.problem("ambiguous-expanded", []string{id}, "task %s is expanded but has no subtasks: it is not run and does not count as done, set it to pending or done", id)
		case isLeaf && !status.Known():
			g.problem("unknown-status", []string{id}, "%s", tasks.UnknownStatus(id, status))
		case !isLeaf && status == tasks.Done && open[i] > 0:
			then := "this counts as done with it"
			if g.open {
				then = "this is work to do"
			}
			g.problem("container-done", []string{id}, "task %s is done, but %s: %s", id, openSubtasks(open[i]), then)
		case !isLeaf && off(status) && open[i] > 0:
			g.problem("container-off", []string{id}, "task %s is %s, but %s: they are held", id, status, openSubtasks(open[i]))
		}
	}
}

// openLeaves counts, by place, the leaves in each container that are not done.
func (g *Graph) openLeaves() []int {
	open := make([]int, len(g.list))
	for _, i := range slices.Backward(g.inward) {
		if g.nodes[g.in[i]].kind == leaf && g.status[i] != tasks.Done {
			open[i] = 1
		}
		if p := g.parent[i]; p >= 0 {
			open[p] += open[i]
		}
	}
	return open
}

func openSubtasks(n int) string {
	if n == 1 {
		return "1 of its subtasks is open"
	}
	return fmt.Sprintf("%d of its subtasks are open", n)
}

// enumerate names some ids and counts the others.
func enumerate(ids []string) string {
	const most = 8
	if len(ids) <= most {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
}
