// Package plan owns Markdown plans: the tasks in one, what they depend on, and the task file that is made of them.
package plan

import (
	"fmt"
	"slices"
	"strings"

	"descartes/internal/markdown"
	"descartes/tasks"
	"descartes/tasks/prose"
)

const (
	maxPlan      = 8 << 20
	maxPlanTasks = 20_000
	maxPlanLinks = 2_000_000
)

// Plan is what a plan document says about tasks. It does not change after Parse.
type Plan struct {
	Name string // as given to Parse

	tasks    []planTask
	findings []tasks.Finding
}

// planTask is a task with what only a plan knows about it.
type planTask struct {
	tasks.Task
	phase       int             // place of its phase, -1 for none
	label       string          // name of that phase
	made        bool            // the id is not one that the plan gives to a task: a number of a list, or ours
	stated      bool            // the plan says what it waits for, be it nothing
	said        []string        // what it says
	isSaid      map[string]bool // the same
	settled     bool            // its status is written at itself
	first, last int             // lines of its own text, the one that it begins with not counted
}

// Parse finds the tasks in a Markdown plan: in headings "Task N: Title", or else in phases with items (numbered headings, checklists,
// numbered lists), or else in a table of tasks, in phases alone, in checklists, or in numbered headings. Phases wait for the phase
// before them, except where the plan states dependencies. name is used in messages.
//
// A plan that is larger than 8 MiB, is not text, has no tasks in it or too many tasks or dependencies is a *FormatError.
func Parse(name string, src []byte) (*Plan, error) {
	if len(src) > maxPlan {
		return nil, &tasks.FormatError{Path: name, Reason: fmt.Sprintf("larger than %d MiB", maxPlan>>20)}
	}
	if err := markdown.CheckText(src); err != nil {
		return nil, &tasks.FormatError{Path: name, Reason: "the file " + err.Error()}
	}
	doc, err := markdown.Parse(string(src))
	if err != nil {
		return nil, &tasks.FormatError{Path: name, Reason: "the file " + err.Error()}
	}
	p := &planner{md: doc, plan: &Plan{Name: name}}
	if fault := p.read(); fault != nil {
		fault.Path = name
		return nil, fault
	}
	return p.plan, nil
}

// Tasks returns the tasks in the order of the plan. Their lists are shared: the caller must not change them.
func (p *Plan) Tasks() []tasks.Task {
	list := make([]tasks.Task, len(p.tasks))
	for i := range p.tasks {
		list[i] = p.tasks[i].Task
	}
	return list
}

// Findings returns what Parse had to assume, such as a dependency on a missing task.
func (p *Plan) Findings() []tasks.Finding { return p.findings }

// planner turns the lines of a plan into tasks.
type planner struct {
	md       *markdown.Document
	plan     *Plan
	heads    []planHead
	phases   []planPhase
	phaseIDs map[string]int  // id in lower case to place
	stems    map[string]bool // ids without the number at their end
	index    map[string]int  // id to place
	titles   map[string]int  // folded title to place, -1 for several
	links    int             // dependencies stated, each as often as it is
}

// read finds the tasks and what they depend on.
func (p *planner) read() *tasks.FormatError {
	p.outline()
	tables := p.tables()
	p.findPhases()
	switch {
	case p.taskHeadings():
	case p.phaseItems():
	case p.tableTasks(tables):
	case p.phaseTasks():
	case p.checklist():
	case p.numberedHeadings():
	default:
		return &tasks.FormatError{Reason: `the file has no tasks: expected headings "Task 1: Title" or "Phase 1: Title", a checklist or a table of tasks`}
	}
	if len(p.plan.tasks) > maxPlanTasks {
		return &tasks.FormatError{Reason: fmt.Sprintf("the plan has more than %d tasks", maxPlanTasks)}
	}
	if bad := p.enter(); bad != nil {
		return bad
	}
	p.describe()
	p.statements()
	p.tableRows(tables)
	if p.links > maxPlanLinks {
		return &tasks.FormatError{Reason: fmt.Sprintf("the plan states more than %d dependencies", maxPlanLinks)}
	}
	if !p.order() {
		return &tasks.FormatError{Reason: "the plan has consecutive phases that are too large to list the dependencies of their tasks: state them, or split the phases"}
	}
	p.finish()
	return nil
}

// enter makes ids unique and fills the index.
func (p *planner) enter() *tasks.FormatError {
	p.index, p.titles, p.stems = map[string]int{}, map[string]int{}, map[string]bool{}
	kept := p.plan.tasks[:0]
	for _, t := range p.plan.tasks {
		if reason := prose.IDProblem(t.ID); reason != "" {
			return &tasks.FormatError{Line: t.Line, Reason: reason}
		}
		if first, ok := p.index[t.ID]; ok {
			p.find(t.Line, t.ID, "duplicate", fmt.Sprintf("task %s: the id is already used in line %d: this task is ignored", t.ID, kept[first].Line))
			continue
		}
		p.index[t.ID] = len(kept)
		p.stems[strings.TrimRight(t.ID, "0123456789")] = true
		p.nameTitle(prose.Fold(t.Title), len(kept))
		if short, _, ok := strings.Cut(t.Title, " ("); ok {
			p.nameTitle(prose.Fold(short), len(kept))
		}
		kept = append(kept, t)
	}
	p.plan.tasks = kept
	for i := range kept {
		t := &kept[i]
		t.Numeric = plainNumber(t.ID)
		if up, ok := p.index[t.Parent]; !ok || up >= i {
			t.Parent = ""
		} else {
			kept[up].Children = append(kept[up].Children, t.ID)
		}
		if t.Parent == "" && t.phase >= 0 {
			p.phases[t.phase].tasks = append(p.phases[t.phase].tasks, i)
		}
	}
	return nil
}

// nameTitle notes that a title is that of a task.
func (p *planner) nameTitle(title string, i int) {
	if known, ok := p.titles[title]; ok && known != i {
		i = -1
	}
	p.titles[title] = i
}

// finish completes statuses.
func (p *planner) finish() {
	for i := range p.plan.tasks {
		t := &p.plan.tasks[i]
		if t.Container() && t.Status != tasks.Done {
			t.Status = tasks.Expanded
		}
		t.RawStatus = string(t.Status)
		t.isSaid = nil
	}
}

func (p *planner) find(line int, id, kind, message string) {
	const most = 1000
	if len(p.plan.findings) < most {
		p.plan.findings = append(p.plan.findings, tasks.Finding{Line: line, ID: id, Kind: kind, Message: message})
	}
}

// plainNumber reports whether an id can be written as a JSON number and is read back the same.
func plainNumber(id string) bool {
	return prose.IsNumber(id) && len(id) < 16 && (id == "0" || id[0] != '0')
}

// order makes the tasks of each phase wait for those of the phase before, unless the plan says what they wait for. Where an earlier
// task is said to wait for a later one, the later one and what it needs are not made to wait by their phase: that would be a circle. Large
// phases need dependencies by the square of their size: it reports false where that is too much.
func (p *planner) order() bool {
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
	for i := range list {
		if t := &list[i]; len(t.said) > 0 {
			t.DependsOn = joined(t.said, t.DependsOn)
		}
	}
	return links <= maxOrder
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
