package plan

import (
	"fmt"
	"slices"
	"strings"

	"descartes/internal/markdown"
	"descartes/tasks/prose"
)

// statements reads what the text of phases and tasks says about their order.
func (p *planner) statements() {
	for k := range p.phases {
		p.phaseStatements(k)
	}
	for i := range p.plan.tasks {
		t := &p.plan.tasks[i]
		for n := t.Line - 1; n < t.last; n++ {
			p.take(i, -1, n)
		}
		t.Title = prose.WithoutStatements(t.Title)
	}
}

// phaseStatements reads the heading of a phase and the lines down to its first heading or task. A phase that is a task by itself
// states it as one.
func (p *planner) phaseStatements(k int) {
	h := p.heads[p.phases[k].head]
	end := h.end
	if p.phases[k].head+1 < len(p.heads) {
		end = min(end, p.heads[p.phases[k].head+1].line)
	}
	for _, i := range p.phases[k].tasks {
		if p.plan.tasks[i].Line-1 == h.line {
			return
		}
		end = min(end, p.plan.tasks[i].Line-1)
	}
	for n := h.line; n < end; n++ {
		p.take(-1, k, n)
	}
}

// take reads one line of a task, or of a phase where there is no task. Tables are read elsewhere.
func (p *planner) take(task, phase, line int) {
	kind := p.md.Lines[line].Kind
	text := markdown.Inline(p.md.Words(line))
	if kind == markdown.Hidden || kind == markdown.Blank || strings.HasPrefix(text, "|") {
		return
	}
	if kind == markdown.Heading && slices.Contains([]string{"dependencies", "depends on", "blocked by"}, prose.Fold(text)) {
		text = "dependencies:"
	}
	for _, s := range prose.Statements(text) {
		if s.Text == "" && s.Strong && !s.Beside {
			p.takeEntries(task, phase, line+1, s)
			continue
		}
		p.takeStatement(task, phase, line, s)
	}
}

// takeEntries reads the list under a line that ends with "Depends on:".
func (p *planner) takeEntries(task, phase, line int, s prose.Statement) {
	const most = 100
	for n := line; n < min(len(p.md.Lines), line+most); n++ {
		switch l := &p.md.Lines[n]; {
		case p.links > maxPlanLinks:
			return
		case l.Kind == markdown.Entry && l.Box == 0:
			p.links++
			s.Text = markdown.Inline(p.md.Words(n))
			p.takeStatement(task, phase, n, s)
		case l.Kind != markdown.Blank || n > line+1:
			return
		}
	}
}

func (p *planner) takeStatement(task, phase, line int, s prose.Statement) {
	if s.Strong && !s.Blocks && !s.Beside && prose.SaysNone(s.Text) {
		p.state(task, phase)
		return
	}
	refs, rest := prose.Refs(s.Text)
	if !prose.IsList(refs, rest) {
		p.byTitle(task, phase, line, s)
		return
	}
	p.linkAll(task, phase, line, s, refs)
	if behind := s.Text[:len(s.Text)-len(rest)]; s.Strong && endsOpen(behind) {
		s.Text = rest
		p.takeParts(task, phase, line, s, true)
	}
}

func (p *planner) linkAll(task, phase, line int, s prose.Statement, refs []prose.Ref) {
	for _, r := range refs {
		if s.Strong || r.Word {
			r.Phase = r.Phase || task < 0 && !r.Word
			p.link(task, phase, line, s, r)
		}
	}
}

// link resolves one reference.
func (p *planner) link(task, phase, line int, s prose.Statement, r prose.Ref) {
	if p.links++; p.links > maxPlanLinks {
		return
	}
	from := phase
	if task >= 0 {
		from = p.plan.tasks[task].phase
	}
	if s.Beside {
		p.runBeside(task, phase, from, r)
		return
	}
	if found := p.resolve(r, from); found != nil {
		p.connect(task, phase, s, found)
		return
	}
	if !s.Strong {
		return
	}
	who, id, what := "a phase", "", "task"
	if task >= 0 {
		id = p.plan.tasks[task].ID
		who = "task " + id
	}
	if r.Phase {
		what = "phase"
	}
	p.find(line+1, id, "dependency", fmt.Sprintf("%s: there is no %s %s in the plan", who, what, r.ID))
	if task >= 0 && !s.Blocks && !r.Phase && p.plausible(r.ID) {
		p.state(task, phase)
		p.say(task, r.ID) // it is held rather than started too early
	}
}

// runBeside notes that a phase runs beside another one. Tasks that do are in the same phase, or there is no order to begin with.
func (p *planner) runBeside(task, phase, from int, r prose.Ref) {
	if task >= 0 && from >= 0 && p.plan.tasks[task].Line-1 == p.heads[p.phases[from].head].line {
		phase = from // the phase is a task
	}
	const most = 100
	if k := p.phaseOf(r.ID); k >= 0 && phase >= 0 && r.Phase && len(p.phases[phase].beside) < most {
		p.phases[phase].beside = append(p.phases[phase].beside, k)
	}
}

// plausible reports whether something that is not in the plan could be one of its ids: a number, or letters as other ids have them.
func (p *planner) plausible(id string) bool {
	return prose.IsDotted(id) || p.stems[strings.TrimRight(id, "0123456789")]
}

// state notes that the plan says what a task or a phase waits for.
func (p *planner) state(task, phase int) {
	if task >= 0 {
		p.plan.tasks[task].stated = true
	} else {
		p.phases[phase].stated = true
	}
}

// connect makes a task, or the tasks of a phase, wait for others, or the others for it.
func (p *planner) connect(task, phase int, s prose.Statement, others []int) {
	mine := []int{task}
	if task < 0 {
		mine = p.phases[phase].tasks
	}
	if !s.Blocks {
		p.state(task, phase)
	}
	for _, a := range mine {
		for _, b := range others {
			if s.Blocks {
				p.say(b, p.plan.tasks[a].ID)
			} else {
				p.say(a, p.plan.tasks[b].ID)
			}
		}
	}
}

// say adds a dependency that the plan states.
func (p *planner) say(task int, on string) {
	t := &p.plan.tasks[task]
	if p.links++; t.ID == on || t.isSaid[on] || p.links > maxPlanLinks {
		return
	}
	if t.isSaid == nil {
		t.isSaid = map[string]bool{}
	}
	t.isSaid[on] = true
	t.said = append(t.said, on)
}

func (p *planner) phaseOf(id string) int {
	if k, ok := p.phaseIDs[strings.ToLower(id)]; ok {
		return k
	}
	return -1
}

// resolve finds what a reference in a phase means: the task of that id, else the one of that number in the same phase, else all tasks
// of the phase of that number.
func (p *planner) resolve(r prose.Ref, from int) []int {
	if !r.Phase {
		for _, id := range []string{r.ID, strings.ToUpper(r.ID)} {
			if i, ok := p.index[id]; ok {
				return []int{i}
			}
		}
		if from >= 0 {
			if i, ok := p.index[p.phases[from].id+"."+r.ID]; ok {
				return []int{i}
			}
		}
	}
	if k := p.phaseOf(r.ID); k >= 0 && (r.Phase || !r.Word) && k != from && len(p.phases[k].tasks) > 0 {
		return p.phases[k].tasks
	}
	return nil
}

// endsOpen reports whether a list goes on behind the text.
func endsOpen(s string) bool {
	s = strings.TrimRight(s, " ")
	return s != "" && (strings.IndexByte(",&+/", s[len(s)-1]) >= 0 || strings.HasSuffix(s, " and") || strings.HasSuffix(s, " or"))
}

// byTitle resolves a statement that names tasks by their titles, or some by their ids.
func (p *planner) byTitle(task, phase, line int, s prose.Statement) {
	if s.Strong && task >= 0 && !s.Beside {
		p.takeParts(task, phase, line, s, false)
	}
}

// takeParts resolves a list part by part. A part that names nothing is a finding and drops no other; where ids went before, a longer
// one is the rest of a sentence. A list of which no part names anything is one finding.
func (p *planner) takeParts(task, phase, line int, s prose.Statement, behind bool) {
	const most = 1000
	text, _, _ := strings.Cut(s.Text, ")")
	text, _, _ = strings.Cut(text, ";")
	if len(text) > most || task < 0 || s.Beside {
		return
	}
	var unknown []string
	resolved := 0
	for _, part := range p.parts(text) {
		switch {
		case p.takePart(task, phase, line, s, part):
			resolved++
		case !behind || len(strings.Fields(part)) <= 3:
			unknown = append(unknown, part)
		}
	}
	if resolved == 0 && !behind {
		unknown = []string{text}
	}
	for _, part := range unknown {
		if id := p.plan.tasks[task].ID; !s.Blocks {
			p.find(line+1, id, "dependency", fmt.Sprintf("task %s: %q does not name a task: ignored", id, prose.Short(strings.TrimSpace(part))))
		}
	}
}

// parts cuts a list at its commas, and a part that is no title at its "and".
func (p *planner) parts(text string) []string {
	if _, ok := p.titled(text); ok {
		return []string{text}
	}
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if _, ok := p.titled(part); ok {
			list = append(list, part)
			continue
		}
		part = strings.TrimPrefix(strings.TrimSpace(part), "and ")
		for _, some := range strings.Split(strings.ReplaceAll(part, " & ", " and "), " and ") {
			if strings.TrimSpace(some) != "" {
				list = append(list, some)
			}
		}
	}
	return list
}

// titled is the one task of a title.
func (p *planner) titled(text string) (int, bool) {
	i, ok := p.titles[prose.Fold(text)]
	return i, ok && i >= 0
}

// takePart resolves one part of a list: a title, ids, or an id without a digit as in "Task A".
func (p *planner) takePart(task, phase, line int, s prose.Statement, part string) bool {
	i, ok := p.titled(part)
	if !ok {
		if refs, rest := prose.Refs(part); prose.IsList(refs, rest) && strings.Trim(rest, " .") == "" {
			p.linkAll(task, phase, line, s, refs)
			return true
		}
		word := strings.TrimRight(strings.TrimSpace(part), ".")
		if first, id, two := strings.Cut(word, " "); two && (strings.EqualFold(first, "task") || strings.EqualFold(first, "subtask")) {
			word = strings.TrimSpace(id)
		}
		i, ok = p.index[word]
	}
	if ok {
		p.links++
		p.connect(task, phase, s, []int{i})
	}
	return ok
}
