package specbuild

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"descartes/tasks"
)

// findTaskHeadings fills the tables of headings "Task <id>", for ids that are words also "<id>", and of
// numbered headings.
func (p *Plan) findTaskHeadings() {
	p.named, p.numbers = map[string][]int{}, map[string][]int{}
	for i, h := range p.heads {
		if _, num, _ := numberOf(h.text); num != "" {
			p.numbers[num] = append(p.numbers[num], i)
		}
		text := strings.Trim(h.text, "[] ")
		word, rest, _ := strings.Cut(text, " ")
		switch w := strings.ToLower(strings.Trim(word, "[]")); {
		case w == "task" || w == "subtask":
			text = strings.TrimLeft(rest, " #[")
		case strings.Trim(w, "0123456789.:-)") == "":
			continue // a number alone is rule 4's
		case !strings.ContainsAny(w, "0123456789-_"):
			continue // an ordinary word
		}
		if id := headingID(text); id != "" {
			p.named[id] = append(p.named[id], i)
		}
	}
}

// headingID is the id at the start of a heading's text, up to a delimiter: "10" in "10: x" and "10 x",
// nothing in "1st". "3:Name" is task 3, "tag:3" is an id.
func headingID(s string) string {
	n := 0
	for n < len(s) && isIDByte(s[n]) {
		n++
	}
	id := strings.TrimRight(s[:n], ".:-_")
	if r, _ := utf8.DecodeRuneInString(s[n:]); isWordRune(r) {
		return ""
	}
	if num, name := cutNumber(id); num != "" && strings.HasPrefix(name, ":") {
		return num
	}
	return id
}

// byTaskHeading is rule 2. Where several headings have the id, as in a plan that counts anew in each
// phase, the title decides among them, or nothing does.
func (p *Plan) byTaskHeading(id string, t tasks.Task) (found, bool) {
	heads := p.named[id]
	if len(heads) == 0 || id == "" {
		return found{}, false
	}
	best := heads[0]
	if len(heads) > 1 {
		i, ok := p.agreeing(heads, t)
		if !ok {
			return found{}, false
		}
		best = i
	}
	return found{RuleHeading, fmt.Sprintf("heading %q", p.heads[best].text), []place{p.headPlace(best, "")}}, true
}

// agreeing is the one heading of several whose words agree with the title.
func (p *Plan) agreeing(heads []int, t tasks.Task) (int, bool) {
	var best, second hit
	where := 0
	for _, i := range heads {
		if p.idx.byHead[i] < 0 {
			continue
		}
		h := p.idx.one(t.Title, p.idx.byHead[i])
		if h.score > best.score {
			best, second, where = h, best, i
		} else if h.score > second.score {
			second = h
		}
	}
	return where, best.common > 0 && best.score >= agreeScore && best.score >= second.score*clearMargin
}

// byNumber is rule 4.
func (p *Plan) byNumber(id string, t tasks.Task) (found, bool) {
	heads := p.numbers[id]
	if len(heads) == 0 {
		return found{}, false
	}
	i, ok := p.agreeing(heads, t)
	if !ok {
		return found{}, false
	}
	why := fmt.Sprintf("heading %q has the task's number and agrees with its title", clip(p.heads[i].text, 80))
	return found{RuleNumber, why, []place{p.headPlace(i, "")}}, true
}
