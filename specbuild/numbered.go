package specbuild

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"descartes/tasks"
)

// findTaskHeadings fills the tables of headings "Task <id>", for ids that are words also "<id>", and of
// numbered headings. A number that comes again with another text counts within its phase: then no number
// of that kind is that of a task.
func (p *Plan) findTaskHeadings() {
	p.named, p.numbers = map[string][]int{}, map[string][]int{}
	texts := map[string]string{} // by kind and number
	for i, h := range p.heads {
		if kind, num, rest := numberOf(h.text); num != "" {
			p.numbers[num] = append(p.numbers[num], i)
			key := kind + " " + num
			first, again := texts[key]
			if rest = fold(rest); again && rest != first {
				p.tasksRestart = p.tasksRestart || kind == "task"
				p.numbersRestart = p.numbersRestart || kind == "" || kind == "task" || kind == "step" || kind == "item"
			} else {
				texts[key] = rest
			}
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

// byTaskHeading is rule 2. Where several headings have the id the title decides among them, or nothing
// does; in a plan that counts its tasks anew in each phase it has to agree even where only one has it.
func (p *Plan) byTaskHeading(id string, t tasks.Task) (found, bool) {
	heads := p.named[id]
	if len(heads) == 0 || id == "" {
		return found{}, false
	}
	best := heads[0]
	if len(heads) > 1 || p.tasksRestart {
		i, ok := p.agreeing(heads, t, p.tasksRestart)
		if !ok {
			return found{}, false
		}
		best = i
	}
	return found{RuleHeading, fmt.Sprintf("heading %q", p.heads[best].text), []place{p.headPlace(best, "")}}, true
}

// agreeing is the one heading of several whose words agree with the title. Where the number is no hint,
// the title has to agree as if there were none, only less clearly.
func (p *Plan) agreeing(heads []int, t tasks.Task, really bool) (int, bool) {
	var best, second hit
	where, title := 0, wordsOf(t.Title)
	for _, i := range heads {
		if p.idx.byHead[i] < 0 {
			continue
		}
		h := p.idx.rate(p.idx.byHead[i], title)
		if h.score > best.score {
			best, second, where = h, best, i
		} else if h.score > second.score {
			second = h
		}
	}
	if really && (best.score < insideScore || best.common < 2 && best.score < loneScore || p.idx.claimed(best.cand, best.score, t, nil)) {
		return 0, false
	}
	return where, best.common > 0 && best.score >= agreeScore && best.score >= second.score*clearMargin
}

// byNumber is rule 4. 1.2 may be the second item of phase 1 as well as the second part of task 1.
func (p *Plan) byNumber(id string, t tasks.Task) (found, bool) {
	heads := p.numbers[id]
	if len(heads) == 0 {
		return found{}, false
	}
	i, ok := p.agreeing(heads, t, p.numbersRestart || strings.Contains(id, "."))
	if !ok {
		return found{}, false
	}
	why := fmt.Sprintf("heading %q has the task's number and agrees with its title", clip(p.heads[i].text, 80))
	return found{RuleNumber, why, []place{p.headPlace(i, "")}}, true
}
