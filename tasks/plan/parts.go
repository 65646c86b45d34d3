package plan

import (
	"fmt"
	"strings"

	"descartes/tasks/prose"
)

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
			p.find(line+1, id, "dependency", fmt.Sprintf("task %s: %q names no task, it is not used", id, prose.Short(strings.TrimSpace(part))))
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
