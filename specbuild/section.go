package specbuild

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"descartes/tasks"
)

// The rules that find a task's section, in the order in which they are tried.
const (
	RuleMarker  = "marker"       // the plan says so: "(SCUD Task 3)", "SCUD Task 3:", a table
	RuleHeading = "task heading" // a heading "Task <id>"
	RuleTitle   = "title"        // a heading or checklist entry with the words of the title
	RuleParent  = "parent"       // the section of the task that this one is a part of
	RuleNumber  = "number"       // a heading numbered like the task, whose text agrees with the title
	RuleOutline = "outline"      // nothing fits: overview and list of headings
)

// Section is what a plan says about one task. Either Parts or, with RuleOutline, Overview and Outline
// are filled.
type Section struct {
	Rule     string // one of the Rule constants
	Why      string // what matched, in one line
	Parts    []Part // in document order
	Criteria []Part // success criteria of the enclosing phases that are not in Parts
	Overview *Part  // nil if the plan has none
	Outline  string // the headings of the plan, one per line
}

// Part is a piece of the plan, cut at the borders of lines.
type Part struct {
	Heading   []string // the enclosing headings, outermost first, its own last
	Text      string
	FirstLine int // from 1
	LastLine  int
}

// Section finds what the plan says about a task. parents are its containers, outermost first; all is
// the task list of the tag, by which the rarity of words is measured and rivals are known; it is
// remembered by address, so pass the same slice for all tasks of a run.
//
// A section is the heading and everything up to the next heading of the same or a higher level. Where
// no rule is sure the outline is returned: a wrong section is worse than none.
func (p *Plan) Section(t tasks.Task, parents []tasks.Task, all []tasks.Task) Section {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idx == nil || !p.idx.of(all) {
		p.idx = newTitleIndex(p, all)
	}
	f, ok := p.find(t, parents)
	if !ok {
		return p.outlineSection()
	}
	s := Section{Rule: f.rule, Why: f.why}
	slices.SortFunc(f.places, func(a, b place) int { return a.start - b.start })
	for _, at := range f.places {
		s.Parts = append(s.Parts, p.part(at))
	}
	s.Criteria = p.criteria(f.places)
	return s
}

// found is the outcome of the rules.
type found struct {
	rule   string
	why    string
	places []place
}

// find tries the rules in order.
func (p *Plan) find(t tasks.Task, parents []tasks.Task) (found, bool) {
	id := ownID(t.ID)
	if places := p.marks[id]; len(places) > 0 {
		return found{RuleMarker, joinWhy(places), slices.Clone(places)}, true
	}
	if f, ok := p.byTaskHeading(id, t); ok {
		return f, true
	}
	var above found
	hasAbove := false
	if n := len(parents); n > 0 {
		above, hasAbove = p.find(parents[n-1], parents[:n-1])
	}
	if f, ok := p.byTitle(t, parents, above.places); ok {
		return f, true
	}
	if hasAbove {
		parent := parents[len(parents)-1]
		why := fmt.Sprintf("section of task %s, which this one is a part of (%s: %s)", parent.ID, above.rule, above.why)
		if above.rule == RuleParent {
			why = above.why
		}
		return found{RuleParent, why, above.places}, true
	}
	return p.byNumber(id, t)
}

// ownID is an id without the tag in front: "phase1:2.1" is "2.1" in the plan of phase1.
func ownID(id string) string {
	return id[strings.LastIndexByte(id, ':')+1:]
}

func joinWhy(places []place) string {
	why := places[0].how
	if len(places) > 1 {
		why += fmt.Sprintf(", and %d more", len(places)-1)
	}
	return why
}

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

// byTitle is rule 3 without the parent. Inside the parent's section a match may be weaker; among the
// neighbours of that section it must be good; elsewhere in the plan it has to stand against the parent.
func (p *Plan) byTitle(t tasks.Task, parents []tasks.Task, section []place) (found, bool) {
	if section == nil {
		if f, ok := p.clearHit(search{t, parents, nil, clearScore, true, false}); ok {
			return f, true
		}
		return p.clearHit(search{t, parents, nil, clearScore, true, true})
	}
	if f, ok := p.clearHit(search{t, parents, section, insideScore, false, false}); ok {
		return f, true
	}
	if f, ok := p.clearHit(search{t, parents, p.around(section), nearScore, false, false}); ok {
		return f, true
	}
	return p.clearHit(search{t, parents, nil, farScore, false, false})
}

// around is the sections that directly enclose the given ones, the whole plan excepted.
func (p *Plan) around(section []place) []place {
	out := []place{}
	for _, at := range section {
		if up := at.head; up >= 0 && p.heads[up].parent >= 0 && !p.isTitle(p.heads[up].parent) {
			out = append(out, p.headPlace(p.heads[up].parent, ""))
		}
	}
	return out
}

// search is one question to the index of titles.
type search struct {
	task    tasks.Task
	parents []tasks.Task
	within  []place // nil: the whole plan
	least   float64 // score
	items   bool    // checklist entries too: not for a subtask, whose parent's section says more
	body    bool    // the text under a heading counts too
}

// clearHit is the candidate with the best score, if it is good enough, clearly better than the next and
// not clearly another task's. Two different headings that are about as good are both taken: a title
// "Extract and convert" over "Extract" and "Convert". A heading that encloses a rival holds it anyway.
func (p *Plan) clearHit(s search) (found, bool) {
	var good []hit
	for _, h := range p.rated(s) {
		if len(good) == maxRivals || h.score*clearMargin*clearMargin < s.least {
			break
		}
		if p.idx.cands[h.cand].item && !s.items || p.same(h, s.within) || p.idx.claimed(h.cand, h.score, s.task, s.parents) {
			continue
		}
		good = append(good, h)
	}
	if len(good) == 0 || good[0].score < s.least || good[0].common < 2 && good[0].score < loneScore {
		return found{}, false
	}
	places, ok := p.nearTies(good)
	if !ok {
		return found{}, false
	}
	why := fmt.Sprintf("%.2f similar to %q", good[0].score, p.textOf(good[0]))
	if len(places) > 1 {
		why += fmt.Sprintf(", and %d more about as similar", len(places)-1)
	}
	return found{RuleTitle, why, places}, true
}

// rated are the best hits of a search, best first.
func (p *Plan) rated(s search) []hit {
	hits := p.idx.hits(s.task.Title, s.within)
	if !s.body {
		return hits
	}
	for i, h := range hits {
		if h.score < bodyScore {
			hits = hits[:i]
			break
		}
		hits[i] = p.support(h, s.task.Title)
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	return hits
}

// nearTies is the best hit, with the second if it is about as good and different; false if more are.
func (p *Plan) nearTies(good []hit) ([]place, bool) {
	best := p.idx.cands[good[0].cand]
	places := []place{best.place}
	for _, h := range good[1:] {
		c := p.idx.cands[h.cand]
		if h.score*clearMargin < good[0].score {
			break
		}
		if inside(c.extent, places) || inside(best.extent, []place{c.place}) {
			continue
		}
		if len(places) == 2 || c.key == best.key || c.item || best.item {
			return nil, false
		}
		places = append(places, c.place)
	}
	return places, true
}

// same reports whether a hit is the very section that it is looked for in.
func (p *Plan) same(h hit, within []place) bool {
	e := p.idx.cands[h.cand].extent
	return slices.ContainsFunc(within, func(w place) bool { return w.extent == e })
}

func (p *Plan) textOf(h hit) string {
	c := p.idx.cands[h.cand]
	line, _, _ := strings.Cut(p.src[c.start:c.end], "\n")
	if c.item {
		return clip(strings.TrimSpace(line), 80)
	}
	return clip(p.heads[c.head].text, 80)
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

// part cuts a place out of the plan, without blank lines at its end.
func (p *Plan) part(at place) Part {
	text := strings.TrimRight(p.src[at.start:at.end], " \t\n")
	text = strings.TrimRight(strings.TrimSuffix(text, "\n---"), " \t\n")
	first := p.lineAt(at.start)
	return Part{
		Heading: p.path(at.head), Text: text,
		FirstLine: first + 1, LastLine: first + 1 + strings.Count(text, "\n"),
	}
}

// maxCriteria is the size up to which success criteria of an enclosing section are worth their place.
const maxCriteria = 6 << 10

// criteria are the success criteria of the nearest enclosing section that has any. Those of the whole
// plan are not the task's.
func (p *Plan) criteria(places []place) []Part {
	var out []Part
	for _, at := range places {
		up := at.head
		if up >= 0 && !at.item {
			up = p.heads[up].parent
		}
		for ; up >= 0 && !p.isTitle(up); up = p.heads[up].parent {
			if i, ok := p.criteriaOf(up); ok {
				c := p.headPlace(i, "")
				part := p.part(c)
				known := slices.ContainsFunc(out, func(o Part) bool { return o.FirstLine == part.FirstLine })
				if !known && !inside(c.extent, places) && len(part.Text) <= maxCriteria {
					out = append(out, part)
				}
				break
			}
		}
	}
	return out
}

// criteriaOf is the first heading directly under up that is about success criteria.
func (p *Plan) criteriaOf(up int) (int, bool) {
	for i := up + 1; i < len(p.heads) && p.heads[i].start < p.heads[up].end; i++ {
		if p.heads[i].parent == up && isCriteria(p.heads[i].folded) {
			return i, true
		}
	}
	return 0, false
}
