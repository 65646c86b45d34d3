package plan

import (
	"slices"
	"strconv"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks"
	"descartes/tasks/prose"
)

// add appends a task that begins in a line and whose own text goes to another one.
func (p *planner) add(t planTask, line, end int) {
	t.Line, t.first, t.last = line+1, line+1, end
	if t.Status == "" {
		t.Status = tasks.Pending
	}
	t.Priority = "medium"
	if t.phase = p.phaseAt(line); t.phase >= 0 {
		t.label = p.heads[p.phases[t.phase].head].text
	}
	if strings.TrimSpace(t.Title) == "" {
		t.Title = "Task " + t.ID
	}
	p.plan.tasks = append(p.plan.tasks, t)
}

// taskHeadings makes a task of each heading "Task N". One in the section of another is a part of it. Where each phase counts anew,
// ids get the number of the phase before them.
func (p *planner) taskHeadings() bool {
	seen, again := map[string]bool{}, false
	var list, open []int // open: the headings around
	up := map[int]int{}
	for i, h := range p.heads {
		if h.word != "task" && h.word != "subtask" || h.background {
			continue
		}
		for len(open) > 0 && h.line >= p.heads[open[len(open)-1]].end {
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			up[i] = open[len(open)-1]
		}
		list, open = append(list, i), append(open, i)
		again = again || seen[h.id]
		seen[h.id] = true
	}
	anew := again && len(p.phases) > 1
	ids := map[int]string{}
	for k, i := range list {
		h := p.heads[i]
		t := planTask{Task: tasks.Task{ID: h.id, Title: h.title, Status: h.status}, settled: h.settled}
		if at := p.phaseAt(h.line); anew && at >= 0 && !strings.HasPrefix(h.id, p.phases[at].id+".") {
			t.ID, t.made = p.phases[at].id+"."+h.id, true
		}
		ids[i] = t.ID
		if around, ok := up[i]; ok {
			t.Parent = ids[around]
		}
		end := h.end
		if k+1 < len(list) {
			end = min(end, p.heads[list[k+1]].line)
		}
		p.add(t, h.line, end)
	}
	return len(list) > 0
}

// phaseItems makes tasks of the items in phases, and of phases without any, if some phase has items.
func (p *planner) phaseItems() bool {
	items := make([][]planItem, len(p.phases))
	some := false
	for i := range p.phases {
		items[i] = p.itemsOf(i)
		some = some || len(items[i]) > 0
	}
	if !some {
		return false
	}
	through := countedThrough(items)
	for i := range p.phases {
		if len(items[i]) == 0 {
			p.addPhase(i)
			continue
		}
		head := p.heads[p.phases[i].head]
		finished := head.settled && head.status == tasks.Done || !p.anyBox(items[i]) && p.allTicked(head.line+1, head.end)
		prefix := p.phases[i].id
		if through {
			prefix = ""
		}
		p.nameItems(items[i], prefix)
		for _, it := range items[i] {
			if finished && !it.task.settled {
				it.task.Status, it.task.settled = tasks.Done, true
			}
			p.add(it.task, it.line, it.end)
		}
	}
	return true
}

// countedThrough reports whether the items of several phases are numbered on from phase to phase: then their numbers are their ids.
func countedThrough(phases [][]planItem) bool {
	last := 0
	for _, items := range phases {
		for _, it := range items {
			n, err := strconv.Atoi(it.task.ID)
			if err != nil || n <= last {
				return false
			}
			last = n
		}
		if len(items) == 0 {
			return false
		}
	}
	return len(phases) > 1
}

// phaseTasks makes a task of each phase.
func (p *planner) phaseTasks() bool {
	for i := range p.phases {
		p.addPhase(i)
	}
	return len(p.phases) > 0
}

func (p *planner) addPhase(i int) {
	h := p.heads[p.phases[i].head]
	p.add(planTask{Task: tasks.Task{ID: h.id, Title: h.title, Status: h.status}, settled: h.settled, made: true}, h.line, h.end)
}

// planItem is a task whose id may still be a bare number.
type planItem struct {
	task      planTask
	line, end int
}

// itemsOf finds the items of a phase: numbered headings, else a checklist, else a numbered list.
func (p *planner) itemsOf(phase int) []planItem {
	h := p.heads[p.phases[phase].head]
	if items := p.headingItems(p.phases[phase].head+1, h.end); len(items) > 0 {
		return items
	}
	if items := p.entries(h.line+1, h.end, func(l *markdown.Line) bool { return l.Box != 0 }); len(items) > 0 {
		return items
	}
	return p.entries(h.line+1, h.end, func(l *markdown.Line) bool { return l.Number != "" })
}

// headingItems are the numbered headings of the highest level that has such, among the headings from i on.
func (p *planner) headingItems(i, end int) []planItem {
	level := pseudoLevel + 1
	var found []int
	for ; i < len(p.heads) && p.heads[i].line < end; i++ {
		h := p.heads[i]
		if h.id == "" || h.background || h.level > level {
			continue
		}
		if h.level < level {
			level, found = h.level, found[:0]
		}
		found = append(found, i)
	}
	items := make([]planItem, 0, len(found))
	for _, i := range found {
		h := p.heads[i]
		items = append(items, planItem{planTask{Task: tasks.Task{ID: h.id, Title: h.title, Status: h.status}, settled: h.settled}, h.line, min(h.end, end)})
	}
	return items
}

// entries are the list entries of a kind in some lines, background left out. What is nested in one is its text.
func (p *planner) entries(first, end int, match func(*markdown.Line) bool) []planItem {
	var items []planItem
	head := p.headAt(first)
	for n := first; n < end; n++ {
		for head+1 < len(p.heads) && p.heads[head+1].line <= n {
			head++
		}
		if l := &p.md.Lines[n]; l.Kind != markdown.Entry || head >= 0 && p.heads[head].background || !match(l) {
			continue
		}
		stop := p.md.EntryEnd(n, end)
		items = append(items, planItem{p.entryTask(n), n, stop})
		n = stop - 1
	}
	return items
}

// entryTask is the task of one list entry; its id is what the entry begins with, or the number before it, or "".
func (p *planner) entryTask(n int) planTask {
	l := &p.md.Lines[n]
	t := planTask{Task: tasks.Task{Title: markdown.Inline(prose.Clip(p.md.Words(n))), Status: tasks.Pending}, settled: l.Box != 0}
	if l.Box != 0 {
		t.Status = tasks.BoxStatus(l.Box)
	}
	if id, title := prose.LeadingID(t.Title); id != "" {
		t.ID, t.Title = id, title
	} else if l.Number != "" {
		t.ID = l.Number
	}
	return t
}

// nameItems gives the items of a phase their ids: what they have if that is one of its own (2.1, T004), else the number of the phase
// and their own, else their place. A prefix of "" is for lists outside of phases.
func (p *planner) nameItems(items []planItem, prefix string) {
	seen := map[string]bool{}
	unique := true
	for _, it := range items {
		unique = unique && it.task.ID != "" && !seen[it.task.ID]
		seen[it.task.ID] = true
	}
	if prefix != "" {
		prefix += "."
	}
	for k := range items {
		t := &items[k].task
		t.made = !unique || !prose.CodeID(t.ID) // numbers of a plan seldom are numbers of tasks
		switch own := t.ID; {
		case unique && (prose.CodeID(own) || strings.HasPrefix(own, prefix)):
		case unique && !strings.Contains(own, "."):
			t.ID = prefix + own
		default:
			t.ID = prefix + strconv.Itoa(k+1)
		}
	}
}

func (p *planner) anyBox(items []planItem) bool {
	return slices.ContainsFunc(items, func(it planItem) bool {
		ticked, open := p.boxes(it.line, it.end)
		return ticked+open > 0
	})
}

// boxes counts the ticked and the other boxes of some lines.
func (p *planner) boxes(first, end int) (ticked, open int) {
	for n := first; n < end; n++ {
		if l := &p.md.Lines[n]; l.Box != 0 && tasks.BoxStatus(l.Box) == tasks.Done {
			ticked++
		} else if l.Box != 0 {
			open++
		}
	}
	return ticked, open
}

func (p *planner) allTicked(first, end int) bool {
	ticked, open := p.boxes(first, end)
	return ticked > 0 && open == 0
}

// checklist makes tasks of a checklist outside of phases.
func (p *planner) checklist() bool {
	return p.addItems(p.entries(0, len(p.md.Lines), func(l *markdown.Line) bool { return l.Box != 0 }))
}

// numberedHeadings makes tasks of headings that have nothing but a number.
func (p *planner) numberedHeadings() bool {
	items := p.headingItems(0, len(p.md.Lines))
	return len(items) > 1 && p.addItems(items)
}

func (p *planner) addItems(items []planItem) bool {
	p.nameItems(items, "")
	for _, it := range items {
		p.add(it.task, it.line, it.end)
	}
	return len(items) > 0
}

// describe gives each task its text, and what that says about its status and priority.
func (p *planner) describe() {
	for i := range p.plan.tasks {
		t := &p.plan.tasks[i]
		var text, checks []string
		checking := 0 // level of the heading over checks, 0 for none
		for n := t.first; n < t.last; n++ {
			l := &p.md.Lines[n]
			if l.Kind == markdown.Heading && (checking == 0 || l.Level <= checking) {
				checking = 0
				if isCriteria(prose.Fold(markdown.Inline(p.md.Words(n)))) {
					checking = l.Level
					continue
				}
			}
			p.attribute(t, n)
			if checking > 0 {
				checks = append(checks, p.md.Line(n))
			} else if k := l.Kind; k != markdown.Text && k != markdown.Entry || !prose.OnlyOrder(markdown.Inline(p.md.Words(n))) { // dependencies have a field
				text = append(text, p.md.Line(n))
			}
		}
		if t.Description == "" {
			t.Description = prose.Block(text)
		}
		t.TestStrategy = prose.Block(checks)
		if !t.settled && p.allTicked(t.first, t.last) {
			t.Status = tasks.Done
		}
	}
}

// isCriteria recognises a heading over checks rather than work; text is folded.
var isCriteria = lazyregexp.New(`criteria|verification|test(ing)? strategy|definition of done|done when|^test(s|ing)$`).MatchString

// attribute reads a line "Status: done" or "Priority: high" of a task.
func (p *planner) attribute(t *planTask, n int) {
	if k := p.md.Lines[n].Kind; k != markdown.Text && k != markdown.Entry {
		return
	}
	name, value, ok := strings.Cut(markdown.Inline(p.md.Words(n)), ":")
	if !ok || len(name) > 20 {
		return
	}
	value = strings.Trim(value, " *`.✅✓⏳🚧")
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "status":
		if status, ok := tasks.ParseStatus(value); ok && status != tasks.Expanded {
			t.Status, t.settled = status, true
		}
	case "priority":
		if word := prose.Priority(value); word != "" {
			t.Priority = word
		}
	case "complexity":
		if plainNumber(value) && len(value) < 4 {
			t.Complexity = value
		}
	}
}
