package tasks

import (
	"fmt"
	"strings"

	"descartes/tasks/prose"
)

// relation reads the lines that speak of nodes: edges, parents, agents and details.
func (r *graphReader) relation(in section, start, end, number int) *problem {
	text := r.file.src[start:end]
	if in == inDetails && (text == "" || indented(text)) {
		r.detailLine(text)
		return nil
	}
	r.closeDetail()
	switch in {
	case inEdges:
		r.edge(text, number)
	case inParents:
		r.parent(text, number)
	case inAgents:
		r.agent(text, number)
	case inDetails:
		r.openDetail(text, number)
	}
	return nil
}

// place finds the task that a line speaks of.
func (r *graphReader) place(id string, text string, number int) (int, bool) {
	i, ok := r.file.index[ownID(r.file.tag, id)]
	if !ok {
		r.strange(number, text, "names a task that is not in the list")
	}
	return i, ok
}

// edge reads "dependent -> dependency". What newer dialects put behind a bar is not for us.
func (r *graphReader) edge(text string, number int) {
	body, tail, _ := strings.Cut(text, "|")
	left, right, _ := strings.Cut(body, "->")
	left = strings.TrimSpace(left)
	if left == "" || strings.TrimSpace(right) == "" {
		r.strange(number, text, "is no edge that is known here, it is ignored")
		return
	}
	if strings.EqualFold(left, "dependent") {
		return // a heading without #
	}
	if tail = strings.TrimSpace(tail); tail != "" && !strings.HasPrefix(tail, "reason") {
		r.strange(number, text, "has a condition, which is not known here")
	}
	for right != "" {
		on, rest, _ := strings.Cut(right, "->") // a -> b -> c
		for id := range strings.SplitSeq(left, ",") {
			if i, ok := r.place(strings.TrimSpace(id), text, number); ok {
				for d := range strings.SplitSeq(on, ",") {
					r.depend(i, strings.TrimSpace(d))
				}
			}
		}
		left, right = on, rest
	}
}

// depend adds a dependency unless it is there already.
func (r *graphReader) depend(i int, id string) {
	const many = 16
	t := &r.file.tasks[i]
	id = ownID(r.file.tag, id)
	switch {
	case id == "":
		return
	case prose.IDProblem(id) != "":
		id = prose.Short(id)
		r.file.note(i, "dependency", fmt.Sprintf("a dependency must be an id, found %q", id))
	}
	seen := r.wide[i]
	if seen == nil {
		for _, d := range t.DependsOn {
			if d == id {
				return
			}
		}
		if len(t.DependsOn) == many {
			if r.wide == nil {
				r.wide = map[int]map[string]bool{}
			}
			seen = map[string]bool{}
			for _, d := range t.DependsOn {
				seen[d] = true
			}
			r.wide[i] = seen
		}
	}
	if seen != nil {
		if seen[id] {
			return
		}
		seen[id] = true
	}
	t.DependsOn = append(t.DependsOn, id)
}

// parent reads "parent: subtask, subtask". SCUD itself splits at the first colon, wherever the id has one.
func (r *graphReader) parent(text string, number int) {
	left, right, ok := strings.Cut(text, ": ")
	if !ok {
		left, right, ok = r.atColon(strings.TrimSpace(text))
	}
	left = strings.TrimSpace(left)
	if !ok {
		r.strange(number, text, "is no list of subtasks, it is ignored")
		return
	}
	if strings.EqualFold(left, "parent") {
		return // a heading without #
	}
	i, ok := r.place(left, text, number)
	if !ok {
		return
	}
	var children []string
	for _, id := range strings.Split(right, ",") {
		if id = ownID(r.file.tag, strings.TrimSpace(id)); id != "" {
			children = append(children, id)
		}
	}
	r.family.list(i, children)
}

// atColon splits at the first colon that has a known task on its left.
func (r *graphReader) atColon(text string) (left, right string, ok bool) {
	for k := 0; k < len(text) && k <= 2*prose.MaxID; k++ {
		if text[k] != ':' {
			continue
		}
		left, right, ok = text[:k], text[k+1:], true
		if _, known := r.file.index[ownID(r.file.tag, strings.TrimSpace(left))]; known {
			break
		}
	}
	return left, right, ok
}

// agent reads "id | type" or "id | type | tier".
func (r *graphReader) agent(text string, number int) {
	fields := strings.SplitN(text, "|", 4)
	id := strings.TrimSpace(fields[0])
	if len(fields) < 2 {
		r.strange(number, text, "is no agent line, it is ignored")
		return
	}
	if strings.EqualFold(id, "id") {
		return // a heading without #
	}
	i, ok := r.place(id, text, number)
	if !ok {
		return
	}
	t := &r.file.tasks[i]
	t.AgentType = strings.TrimSpace(fields[1])
	if len(fields) > 2 {
		t.ModelTier = strings.TrimSpace(fields[2])
	}
}

// openDetail reads "id | field |", after which the text comes, indented. What stands behind the second bar is its first line.
func (r *graphReader) openDetail(text string, number int) {
	id, rest, ok := strings.Cut(text, "|")
	if !ok {
		r.strange(number, text, "is no detail line, it is ignored")
		return
	}
	i, ok := r.place(strings.TrimSpace(id), text, number)
	if !ok {
		return
	}
	field, first, _ := strings.Cut(rest, "|")
	r.detail = detail{task: i, field: strings.TrimSpace(field), lines: r.detail.lines[:0], open: true}
	if first = strings.TrimSpace(first); first != "" {
		r.detail.lines = append(r.detail.lines, first)
	}
}

// detailLine adds a line to the text. It is indented by two spaces, all that is more belongs to it, empty lines between others too.
func (r *graphReader) detailLine(text string) {
	d := &r.detail
	if !d.open {
		return
	}
	switch {
	case strings.TrimSpace(text) == "":
		text = ""
	case strings.HasPrefix(text, "  "):
		text = text[2:]
	default:
		text = text[1:]
	}
	if text != "" || len(d.lines) > 0 {
		d.lines = append(d.lines, text)
	}
}

// closeDetail gives the text to its task.
func (r *graphReader) closeDetail() {
	d := &r.detail
	if !d.open {
		return
	}
	d.open = false
	for len(d.lines) > 0 && d.lines[len(d.lines)-1] == "" {
		d.lines = d.lines[:len(d.lines)-1]
	}
	t, text := &r.file.tasks[d.task], strings.Join(d.lines, "\n")
	switch d.field {
	case "description":
		t.Description = text
	case "details":
		t.Details = text
	case "test_strategy", "testStrategy":
		t.TestStrategy = text
	}
}
