package plan

import (
	"fmt"
	"slices"

	"descartes/tasks"
	"descartes/tasks/prose"
)

// Extra returns the dependencies that only the plan states, between tasks of the list: by id, what else the task
// waits for. They are meant for scheduler.Options.More. An id means the same task where the plan writes it out ("Task
// 3", T003, or "(SCUD Task 3)" behind a title), or where the title is the same too: numbers in plans are seldom
// numbers of tasks. Phases do not count as statements.
//
// A dependency that would close a cycle in the list is left out and returned in conflicts, and so are the
// dependencies of those tasks that name nothing in the plan.
func (d *Document) Extra(existing []tasks.Task) (more map[string][]string, conflicts []tasks.Finding) {
	index := map[string]int{}
	for i := len(existing) - 1; i >= 0; i-- {
		index[existing[i].ID] = i
	}
	more = map[string][]string{}
	work := 0
	// needs reports whether a task, or what is in it, waits for another one. Where that takes too long, the scheduler
	// is left to name the circle.
	needs := func(id, on string) bool {
		const most = 2_000_000
		met := map[string]bool{}
		for open := []string{id}; len(open) > 0 && work < most; work++ {
			id, open = open[len(open)-1], open[:len(open)-1]
			i, ok := index[id]
			if !ok || met[id] {
				continue
			}
			met[id] = true
			open = append(open, existing[i].Children...)
			for ok {
				if id == on {
					return true
				}
				open = append(append(open, existing[i].DependsOn...), more[id]...)
				id = existing[i].Parent
				i, ok = index[id]
			}
		}
		return false
	}
	same := map[string]string{} // id in the plan to id in the list
	for i := range d.tasks {
		if id, ok := d.tasks[i].among(existing, index); ok {
			same[d.tasks[i].ID] = id
		}
	}
	for i := range d.tasks {
		t := &d.tasks[i]
		for _, said := range t.said {
			id, known := same[t.ID]
			on, alsoKnown := same[said]
			switch {
			case !known || !alsoKnown || id == on || slices.Contains(existing[index[id]].DependsOn, on) ||
				slices.Contains(more[id], on):
			case !needs(on, id):
				more[id] = append(more[id], on)
			default:
				conflicts = append(conflicts, tasks.Finding{Line: t.Line, ID: id, Kind: "dependency",
					Message: fmt.Sprintf("task %s: the plan says that it waits for %s, but in the task file %s waits for it: the task file counts", id, on, on)})
			}
		}
	}
	for _, f := range d.findings {
		if id, ok := same[f.ID]; ok && f.Kind == "dependency" {
			f.ID = id
			conflicts = append(conflicts, f)
		}
	}
	return more, conflicts
}

// Checks are the plan's own checks for tasks of a list, by their ids.
func (d *Document) Checks(list []tasks.Task) map[string]string {
	index, checks := map[string]int{}, map[string]string{}
	for i := len(list) - 1; i >= 0; i-- {
		index[list[i].ID] = i
	}
	for i := range d.tasks {
		if id, ok := d.tasks[i].among(list, index); ok && d.tasks[i].Verify != "" {
			checks[id] = d.tasks[i].Verify
		}
	}
	return checks
}

// among is the task of a list that a task of the plan is.
func (t *task) among(list []tasks.Task, index map[string]int) (string, bool) {
	if marker, ids := prose.Marker(t.Title); marker != "" {
		_, ok := index[ids[0]]
		return ids[0], ok && len(ids) == 1
	}
	k, ok := index[t.ID]
	return t.ID, ok && (!t.made || prose.Fold(list[k].Title) == prose.Fold(t.Title))
}
