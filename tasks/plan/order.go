package plan

import "slices"

// order makes the tasks of each phase wait for those of the phase before, unless the plan says what they wait for. Where an earlier
// task is said to wait for a later one, the later one and what it needs are not made to wait by their phase: that would be a circle. Large
// phases need dependencies by the square of their size: where that is too much, the tasks cannot be listed.
func (p *planner) order() {
	list := p.plan.tasks
	early := p.early()
	links := 0
	for k := range p.phases {
		f := &p.phases[k]
		var wait []string
		if f.before = p.previous(k); f.before >= 0 && !f.stated {
			wait = p.last(f.before)
		}
		for _, i := range f.tasks {
			if !list[i].stated && !early[i] {
				list[i].DependsOn = wait
				links += len(wait)
			}
		}
	}
	if links > maxOrder {
		p.limit = "the plan has so large phases one after the other that the dependencies of their tasks cannot be listed: state them, or split the phases"
	}
	for i := range list {
		if t := &list[i]; p.limit != "" {
			t.DependsOn = t.said
		} else if len(t.said) > 0 {
			t.DependsOn = joined(t.said, t.DependsOn)
		}
	}
}

// previous is the phase that phase k waits for by its place: the one before it, or what that waits for where the two run beside each
// other; -1 for none. A phase without tasks is none.
func (p *planner) previous(k int) int {
	b := k - 1
	for b >= 0 && (len(p.phases[b].tasks) == 0 || slices.Contains(p.phases[k].beside, b)) {
		if len(p.phases[b].tasks) == 0 {
			b--
		} else {
			b = p.phases[b].before
		}
	}
	return b
}

// last are the tasks of a phase that no other task of it waits for; all of them if they wait for each other in a circle.
func (p *planner) last(phase int) []string {
	needed := map[string]bool{}
	for _, i := range p.phases[phase].tasks {
		for _, id := range p.plan.tasks[i].said {
			needed[id] = true
		}
	}
	var ids, all []string
	for _, i := range p.phases[phase].tasks {
		id := p.plan.tasks[i].ID
		if all = append(all, id); !needed[id] {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return all
	}
	return ids
}

// early are the tasks that a task of an earlier phase waits for, directly or not, by what the plan states.
func (p *planner) early() map[int]bool {
	early := map[int]bool{}
	var stack []int
	enter := func(i, above int) {
		for _, id := range p.plan.tasks[i].said {
			if j, ok := p.index[id]; ok && !early[j] && p.plan.tasks[j].phase > above {
				early[j] = true
				stack = append(stack, j)
			}
		}
	}
	for i := range p.plan.tasks {
		enter(i, p.plan.tasks[i].phase)
	}
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		enter(i, -2)
	}
	return early
}

// maxOrder is how many dependencies the order of phases may make.
const maxOrder = 1_000_000

// joined is two lists as one, each entry once.
func joined(a, b []string) []string {
	met := map[string]bool{}
	return slices.DeleteFunc(slices.Concat(a, b), func(id string) bool {
		known := met[id]
		met[id] = true
		return known
	})
}
