package specbuild

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/internal/oneline"
	"descartes/tasks"
	"descartes/tasks/prose"
)

// How sure a title match must be. Scores are from 0 (no common word) to 1 (the same words).
const (
	clearScore  = 0.42 // at least this for a match in the whole plan, or in the section around the parent's
	insideScore = 0.34 // inside the parent's section
	farScore    = 0.85 // anywhere else, against the parent's section
	agreeScore  = 0.20 // for a heading whose number fits already
	loneScore   = 0.60 // if only one word is common
	clearMargin = 1.12 // the best must beat the next by this factor
	claimMargin = 1.20 // another task that fits by this factor better owns the heading
	itemPenalty = 0.95 // a checklist entry has to fit better than a heading
	aboveWeight = 0.50 // of a common word that only an enclosing heading has
	textWeight  = 0.50 // of a common word that only the text under the heading has
	textScore   = 0.22 // from here on that text is looked at
	maxBody     = 2048 // bytes of it
	maxTexts    = 24
	maxRivals   = 6  // candidates that are weighed against each other
	maxTitle    = 60 // words
)

// titles holds the words of a plan's headings and of a task list. A common word counts the more the rarer it is.
type titles struct {
	all    []tasks.Task
	words  [][]string // by task: of its title
	cands  []candidate
	byHead []int            // heading -> its candidate, -1 for none
	byWord map[string][]int // candidates that have a word
	byTask map[string][]int // tasks whose title has it
	claims map[int][]claim  // by candidate
}

// candidate is one heading or checklist entry that may stand for a task.
type candidate struct {
	place
	words []string // each once
	above []string // of the enclosing headings below the title of the document
	core  []string // the words outside parentheses
	key   string   // folded text without its number: equal for "1. Tests" and "3. Tests"
}

// claim is how well a task fits a candidate.
type claim struct {
	task  int
	score float64
}

// of reports whether the titles are those of this list.
func (x *titles) of(all []tasks.Task) bool {
	return len(all) == len(x.all) && (len(all) == 0 || &all[0] == &x.all[0])
}

func newTitles(p *Plan, all []tasks.Task) *titles {
	x := &titles{all: all, byWord: map[string][]int{}, byTask: map[string][]int{}, claims: map[int][]claim{}}
	background := x.addHeadings(p)
	for _, it := range p.items {
		if it.parent < 0 || !background[it.parent] {
			x.add(place{extent: extent{it.start, it.end}, head: it.parent, item: true}, it.text, nil)
		}
	}
	for i := range all {
		x.words = append(x.words, wordsOf(all[i].Title))
		for _, w := range x.words[i] {
			x.byTask[w] = append(x.byTask[w], i)
		}
	}
	return x
}

// addHeadings makes a candidate of each heading that is about something to do, and reports which
// headings are background: those that describe or check, with all under them. The one title of the
// document is about everything.
func (x *titles) addHeadings(p *Plan) []bool {
	above := make([][]string, len(p.heads))
	background := make([]bool, len(p.heads))
	x.byHead = slices.Repeat([]int{-1}, len(p.heads))
	for i, h := range p.heads {
		background[i] = markdown.Background(h.folded)
		if h.parent >= 0 {
			above[i] = above[h.parent]
			background[i] = background[i] || background[h.parent]
		}
		if p.isTitle(i) || background[i] || isBoilerplate(h.folded) {
			continue
		}
		x.byHead[i] = len(x.cands)
		c := x.add(p.headPlace(i, ""), h.text, above[i])
		if i+1 < len(p.heads) && p.heads[i+1].parent == i {
			above[i] = unique(slices.Concat(above[i], c.words))
		}
	}
	return background
}

func (x *titles) add(at place, text string, above []string) *candidate {
	_, _, rest := prose.Numbered(text)
	c := candidate{place: at, words: wordsOf(rest), above: above, key: prose.Fold(rest)}
	if c.core = wordsOf(inParentheses.ReplaceAllString(rest, " ")); len(c.core) == 0 {
		c.core = c.words
	}
	for _, w := range c.words {
		x.byWord[w] = append(x.byWord[w], len(x.cands))
	}
	x.cands = append(x.cands, c)
	return &x.cands[len(x.cands)-1]
}

// inParentheses is a remark like "(P0 - blocks 3 other tasks)".
var inParentheses = lazyregexp.New(`\([^()]*\)`)

// rarity is the weight of a word.
func (x *titles) rarity(w string) float64 {
	df := len(x.byWord[w]) + len(x.byTask[w])
	return math.Log(1 + float64(len(x.cands)+len(x.all))/float64(max(df, 1)))
}

func (x *titles) weight(list []string) (sum float64) {
	for _, w := range list {
		sum += x.rarity(w)
	}
	return sum
}

// hit is a candidate with its score for one title.
type hit struct {
	cand   int
	score  float64
	common int // words in common
}

// rate is the weighted share of words that a title and a candidate have in common.
func (x *titles) rate(cand int, title []string) hit {
	c := &x.cands[cand]
	h := hit{cand: cand}
	var cover float64
	size := x.weight(c.core)
	for _, w := range title {
		switch r := x.rarity(w); {
		case slices.Contains(c.words, w):
			h.common++
			cover += r
			if !slices.Contains(c.core, w) {
				size += r
			}
		case slices.Contains(c.above, w):
			cover += aboveWeight * r
			size += aboveWeight * r
		}
	}
	h.score = math.Round(2e6*cover/(x.weight(title)+size)) / 1e6
	if c.item {
		h.score *= itemPenalty
	}
	return h
}

// hits are the candidates that have a word of a title, best first; of equals the one that stands first in the plan.
func (x *titles) hits(title []string) []hit {
	var list []hit
	met := map[int]bool{}
	for _, w := range title {
		for _, c := range x.byWord[w] {
			if !met[c] {
				met[c] = true
				list = append(list, x.rate(c, title))
			}
		}
	}
	slices.SortFunc(list, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(x.cands[a.cand].start, x.cands[b.cand].start))
	})
	return list
}

// claimed reports whether another task fits a candidate clearly better than score. The task's own
// parents and children are no rivals.
func (x *titles) claimed(c int, score float64, self tasks.Task, parents []tasks.Task) bool {
	list, ok := x.claims[c]
	if !ok {
		met := map[int]bool{}
		for _, w := range x.cands[c].words {
			for _, t := range x.byTask[w] {
				if !met[t] {
					met[t] = true
					list = append(list, claim{t, x.rate(c, x.words[t]).score})
				}
			}
		}
		slices.SortFunc(list, func(a, b claim) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.task, b.task)) })
		list = slices.Clone(list[:min(len(list), maxRivals)])
		x.claims[c] = list
	}
	for _, rival := range list {
		t := &x.all[rival.task]
		related := t.ID == self.ID || t.Parent == self.ID && t.Parent != "" ||
			slices.ContainsFunc(parents, func(p tasks.Task) bool { return p.ID == t.ID })
		if !related {
			return rival.score > score*claimMargin
		}
	}
	return false
}

// byTitle is rule 3 without the parent. Inside the parent's section a match may be weaker; among the
// neighbours of that section it must be good; elsewhere in the plan it has to stand against the parent.
func (p *Plan) byTitle(t tasks.Task, parents []tasks.Task, section []place) (found, bool) {
	hits := p.idx.hits(wordsOf(t.Title))
	if section == nil {
		if f, ok := p.clearHit(hits, t, parents, nil, clearScore); ok {
			return f, true
		}
		return p.clearHit(p.withText(hits, wordsOf(t.Title)), t, parents, nil, clearScore)
	}
	if f, ok := p.clearHit(hits, t, parents, section, insideScore); ok {
		return f, true
	}
	around := []place{}
	for _, at := range section {
		if up := at.head; up >= 0 && p.heads[up].parent >= 0 && !p.isTitle(p.heads[up].parent) {
			around = append(around, p.headPlace(p.heads[up].parent, ""))
		}
	}
	if f, ok := p.clearHit(hits, t, parents, around, clearScore); ok {
		return f, true
	}
	return p.clearHit(hits, t, parents, nil, farScore)
}

// withText rates hits by the words of the title that only the text under them has too. It takes a word that no other heading has to be
// sure that the text is the right one at all.
func (p *Plan) withText(hits []hit, title []string) []hit {
	var out []hit
	for _, h := range hits {
		if h.score < textScore || len(out) == maxTexts {
			break
		}
		c := &p.idx.cands[h.cand]
		start, end := c.start, c.end
		if !c.item {
			start = p.heads[c.head].body
			if c.head+1 < len(p.heads) {
				end = min(end, p.heads[c.head+1].start)
			}
		}
		text := strings.ToLower(p.src[start:max(start, min(end, start+maxBody))])
		var cover float64
		own := false
		for _, w := range title {
			mine := slices.Contains(c.words, w)
			own = own || mine && len(p.idx.byWord[w]) == 1
			if !mine && !slices.Contains(c.above, w) && strings.Contains(text, w) {
				h.common++
				cover += textWeight * p.idx.rarity(w)
			}
		}
		if own {
			h.score += 2 * cover / (p.idx.weight(title) + p.idx.weight(c.core))
		}
		out = append(out, h)
	}
	slices.SortStableFunc(out, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	return out
}

// clearHit is the best hit, if it is good enough, clearly better than the next and not clearly another task's. within limits it to parts
// of the plan. Two different headings that are about as good are both taken: a title "Extract and convert" over "Extract" and "Convert".
// A heading that encloses a rival holds it anyway. Checklist entries are not for a subtask, whose parent's section says more.
func (p *Plan) clearHit(hits []hit, t tasks.Task, parents []tasks.Task, within []place, least float64) (found, bool) {
	var good []hit
	for _, h := range hits {
		c := &p.idx.cands[h.cand]
		if len(good) == maxRivals || h.score*clearMargin*clearMargin < least {
			break
		}
		itself := slices.ContainsFunc(within, func(w place) bool { return w.extent == c.extent })
		if itself || within != nil && !inside(c.extent, within) || c.item && (within != nil || least == farScore) || p.idx.claimed(h.cand, h.score, t, parents) {
			continue
		}
		good = append(good, h)
	}
	if len(good) == 0 || good[0].score < least || good[0].common < 2 && good[0].score < loneScore {
		return found{}, false
	}
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
			return found{}, false
		}
		places = append(places, c.place)
	}
	text, _, _ := strings.Cut(p.src[best.start:best.end], "\n")
	if !best.item {
		text = p.heads[best.head].text
	}
	why := fmt.Sprintf("%.2f similar to %q", good[0].score, oneline.Clip(strings.TrimSpace(text), 80))
	if len(places) > 1 {
		why += fmt.Sprintf(", and %d more about as similar", len(places)-1)
	}
	return found{RuleTitle, why, places}, true
}

func inside(e extent, within []place) bool {
	return slices.ContainsFunc(within, func(p place) bool { return p.start <= e.start && e.end <= p.end })
}

// wordsOf are the words of a text, each once. Explicit markers are no words.
func wordsOf(text string) []string {
	if strings.Contains(text, "ask") || strings.Contains(text, "ASK") {
		if marker, _ := markerIn(text, true); marker != "" {
			text = strings.Replace(text, marker, "", 1)
		}
	}
	list := unique(words(text))
	return list[:min(len(list), maxTitle)]
}

func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// words splits text into the words that carry meaning: folded, cut to their stem, identifiers taken
// apart (LoopConfig, loop_config), without the articles and prepositions of English.
func words(text string) []string {
	var out []string
	start, prev := -1, rune(0)
	flush := func(end int) {
		if start >= 0 {
			if w := stem(strings.ToLower(text[start:end])); w != "" {
				out = append(out, w)
			}
		}
		start = -1
	}
	for i, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			if r == '\'' || r == '’' {
				continue
			}
			flush(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && unicode.IsLower(prev), isIdeograph(r), isIdeograph(prev):
			flush(i)
			start = i
		}
		prev = r
	}
	flush(len(text))
	return out
}

// isIdeograph reports scripts that are written without spaces; there each sign counts as a word.
func isIdeograph(r rune) bool {
	return r > 0x2e7f && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// maxStem is where words are cut, so that "validate" and "validation" agree.
const maxStem = 7

func stem(w string) string {
	if isStopWord(w) {
		return ""
	}
	if strings.ContainsAny(w, "0123456789") {
		return w
	}
	for _, suffix := range []string{"ies", "ing", "ers", "er", "ed", "es", "s"} {
		if len(w) > len(suffix)+3 && strings.HasSuffix(w, suffix) && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") {
			w = strings.TrimSuffix(w, suffix)
			break
		}
	}
	if len(w) > 4 && (strings.HasSuffix(w, "e") || strings.HasSuffix(w, "y")) {
		w = w[:len(w)-1]
	}
	n := 0
	for i := range w {
		if n == maxStem {
			return w[:i]
		}
		n++
	}
	return w
}

func isStopWord(w string) bool {
	switch w {
	case "a", "an", "the", "of", "and", "or", "to", "for", "in", "on", "with", "from", "by", "into", "via", "at", "as",
		"is", "be", "are", "it", "its", "that", "this", "all", "new", "when", "if", "not", "s":
		return true
	}
	return false
}

// findTaskHeadings fills the tables of headings "Task <id>", for ids that are words also "<id>", and of
// numbered headings. A number that comes again with another text counts within its phase: then no number
// of that kind is that of a task.
func (p *Plan) findTaskHeadings() {
	p.named, p.numbers = map[string][]int{}, map[string][]int{}
	texts := map[string]string{} // by kind and number
	for i, h := range p.heads {
		kind, id, rest := prose.Numbered(strings.Trim(h.text, "[] "))
		switch first, _, _ := strings.Cut(h.text, " "); {
		case kind == "task" || kind == "subtask":
			p.named[id] = append(p.named[id], i)
		case id == "" && strings.ContainsAny(first, "0123456789-_") && !prose.IsDotted(first):
			first = strings.Trim(first, "[].:-_")
			p.named[first] = append(p.named[first], i)
		}
		if !prose.IsDotted(id) {
			continue
		}
		p.numbers[id] = append(p.numbers[id], i)
		key := kind + " " + id
		first, again := texts[key]
		if rest = prose.Fold(rest); again && rest != first {
			p.tasksRestart = p.tasksRestart || kind == "task"
			p.numbersRestart = p.numbersRestart || kind == "" || kind == "task" || kind == "step" || kind == "item"
		} else {
			texts[key] = rest
		}
	}
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
	why := fmt.Sprintf("heading %q has the task's number and agrees with its title", oneline.Clip(p.heads[i].text, 80))
	return found{RuleNumber, why, []place{p.headPlace(i, "")}}, true
}

// isBoilerplate reports whether a heading, folded, is one that every plan has, so that it says nothing
// about a task; what is under it may be about one.
func isBoilerplate(text string) bool {
	switch text {
	case "goal", "goals", "approach", "implementation approach", "implementation plan", "implementation phases",
		"implementation steps", "implementation", "phases", "tasks", "task list", "changes", "changes required",
		"required changes", "files to modify", "new files", "modified files", "dependencies", "next steps", "steps",
		"design decisions", "details", "todo", "work items", "plan":
		return true
	}
	return markdown.Background(text)
}
