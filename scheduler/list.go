package scheduler

import (
	"slices"
	"strings"
)

// links are what the list says, with places instead of names; made anew only when the list changes.
type links struct {
	needs   [][]int
	missing []bool // it needs what there is not
	order   []int  // each after what it needs; what stands on a circle is not in it
}

// changeList makes the tasks those of a list that a person changed.
func (r *Run) changeList(list []Listed) {
	r.relist(list)
	r.applyWords()
}

func (r *Run) applyWords() {
	for _, t := range r.Tasks {
		if t.Stage == Reviewing && t.Lane < 0 {
			r.review(t)
		}
		r.applyWord(t)
	}
}

func (r *Run) relist(list []Listed) {
	listed := make(map[string]bool, len(list))
	tasks := make([]*Task, 0, len(list))
	floor := r.Waves.Committed + 1
	for _, l := range list {
		listed[l.ID] = true
		t := r.byID[l.ID]
		if t == nil {
			t = &Task{Stage: Pending, Lane: -1, Floor: floor}
			r.byID[l.ID] = t
		}
		t.Listed, t.Gone = l, false
		tasks = append(tasks, t)
	}
	for _, t := range r.Tasks { // then what it no longer has, and what the run added
		if !listed[t.ID] {
			t.Gone = t.Gone || !t.isOurs() // one of ours that was dropped stays so
			tasks = append(tasks, t)
		}
	}
	r.Tasks, r.renumber = tasks, true
	r.linkTasks()
}

// isIn reports whether the trunk has a task's work.
func (t *Task) isIn() bool { return t.Stage == Merged || t.Stage == Done && !t.ByHand && !t.Unchanged }

// isOurs reports whether the run added a task.
func (t *Task) isOurs() bool { return t.Check != "" || t.Takes != "" }

// addTask gives the run a task of its own, which needs nothing but the trunk. One that was put aside comes back.
func (r *Run) addTask(ours Task) {
	t := r.byID[ours.ID]
	if t == nil {
		t = &ours
		t.Stage, t.Lane = Pending, -1
		r.byID[t.ID] = t
		r.Tasks = append(r.Tasks, t)
	}
	t.Gone, t.Wave, t.Accounts = false, ours.Wave, r.Settings.Accounts
	r.linkTasks()
	r.applyWord(t)
}

// linkTasks finds what each task needs, and an order in which they can be done.
func (r *Run) linkTasks() {
	n := len(r.Tasks)
	g := links{needs: make([][]int, n), missing: make([]bool, n), order: make([]int, 0, n)}
	for i, t := range r.Tasks {
		t.at = i
	}
	left, behind := make([]int, n), make([][]int, n)
	for i, t := range r.Tasks {
		for _, id := range t.Needs {
			if o := r.byID[id]; o == nil {
				g.missing[i] = true
			} else {
				g.needs[i] = append(g.needs[i], o.at)
				behind[o.at] = append(behind[o.at], i)
				left[i]++
			}
		}
	}
	for i := range r.Tasks {
		if left[i] == 0 {
			g.order = append(g.order, i)
		}
	}
	for k := 0; k < len(g.order); k++ {
		for _, i := range behind[g.order[k]] {
			if left[i]--; left[i] == 0 {
				g.order = append(g.order, i)
			}
		}
	}
	r.links = g
}

// openOrder finds an order of a list with circles. One that is done by hand, or at work already, is a circle no
// longer.
func (r *Run) openOrder() (order []int, tied []bool) {
	tied = make([]bool, len(r.Tasks))
	if order = r.links.order; len(order) == len(r.Tasks) {
		return order, tied
	}
	left, behind := make([]int, len(r.Tasks)), make([][]int, len(r.Tasks))
	order = nil
	for i, t := range r.Tasks {
		for _, k := range r.links.needs[i] {
			if t.Stage == Pending && r.Tasks[k].Stage == Pending {
				behind[k] = append(behind[k], i)
				left[i]++
			}
		}
		if left[i] == 0 {
			order = append(order, i)
		}
	}
	for k := 0; k < len(order); k++ {
		for _, i := range behind[order[k]] {
			if left[i]--; left[i] == 0 {
				order = append(order, i)
			}
		}
	}
	for i := range left {
		tied[i] = left[i] > 0
	}
	return order, tied
}

// numberWaves gives tasks their waves: the depth of the graph, none earlier than the order of the list has it, and for
// one that came later none that is committed.
// What is in the trunk keeps its number; one that is open may not, or it could come to need a task of a later wave,
// which a barrier never starts.
func (r *Run) numberWaves() {
	r.renumber = false
	for _, t := range r.Tasks {
		t.Wave = max(t.Wave, t.Floor)
	}
	ordered := make([]bool, len(r.Tasks))
	for _, i := range r.links.order {
		ordered[i] = true
		r.numberTask(i)
	}
	if len(r.links.order) < len(r.Tasks) { // a circle that a person opened has depths again
		order, _ := r.openOrder()
		for _, i := range order {
			if !ordered[i] && r.Tasks[i].Stage == Pending {
				r.numberTask(i)
			}
		}
	}
}

func (r *Run) numberTask(i int) {
	t := r.Tasks[i]
	if t.isOurs() || t.isIn() {
		return
	}
	t.Wave = max(t.Floor, t.Earliest)
	for _, k := range r.links.needs[i] {
		t.Wave = max(t.Wave, r.Tasks[k].Wave+1)
	}
}

// hasNeeds reports whether the trunk has all that a task needs.
func (r *Run) hasNeeds(t *Task) bool {
	return !r.links.missing[t.at] && !slices.ContainsFunc(r.links.needs[t.at], func(k int) bool {
		s := r.Tasks[k].Stage
		return s != Merged && s != Done
	})
}

const lowestPriority = 3

// PriorityOf ranks a task's priority, 0 for the highest; an unknown word is medium.
func PriorityOf(word string) int {
	switch strings.ToLower(word) {
	case "critical":
		return 0
	case "high":
		return 1
	case "low":
		return lowestPriority
	}
	return 2
}
