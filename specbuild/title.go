package specbuild

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"descartes/tasks"
)

// How sure a title match must be. Scores are from 0 (no common word) to 1 (the same words).
const (
	clearScore  = 0.42 // at least this for a match in the whole plan
	insideScore = 0.34 // inside the parent's section
	nearScore   = 0.42 // in the section around the parent's
	farScore    = 0.85 // anywhere else, against the parent's section
	agreeScore  = 0.20 // for a heading whose number fits already
	leastScore  = 0.20 // below it a candidate is not even looked at
	loneScore   = 0.60 // if only one word is common
	clearMargin = 1.12 // the best must beat the next by this factor
	claimMargin = 1.20 // another task that fits by this factor better owns the heading
	itemPenalty = 0.95 // a checklist entry has to fit better than a heading
	aboveWeight = 0.50 // of a common word that only an enclosing heading has
	bodyWeight  = 0.50 // of a common word that only the text under the heading has
	bodyScore   = 0.22 // from here on the text under a heading is looked at
	maxBody     = 2048 // bytes of it
	maxRivals   = 6    // candidates that are weighed against each other
	maxHits     = 24   // candidates that are kept for that
)

// titleIndex holds the words of a plan's headings and of a task list, weighted by rarity. It is built
// once for a plan and a list; a question then costs about the number of headings that share a word.
type titleIndex struct {
	all    []tasks.Task
	ids    map[string]int32 // word -> its number
	name   []string         // by word
	rarity []float64        // by word
	cands  []candidate
	byWord [][]int32 // word -> candidates that have it
	byHead []int32   // heading -> its candidate, -1 for none
	titles [][]int32 // task -> words of its title
	weight []float64 // task -> sum of the rarity of its words
	tasks  [][]int32 // word -> tasks that have it
	score  []float64 // scratch, by candidate or task; all zero between questions
	claims map[int32][]claim
}

// candidate is one heading or checklist entry that may stand for a task.
type candidate struct {
	place
	words  []int32 // sorted, each once
	above  []int32 // of the enclosing headings below the title of the document
	core   []int32 // the words outside parentheses
	weight float64 // of core
	key    string  // folded text without its number: equal for "1. Tests" and "3. Tests"
}

type claim struct {
	task  int32
	score float64
}

// of reports whether the index was built for this list.
func (x *titleIndex) of(all []tasks.Task) bool {
	return len(all) == len(x.all) && (len(all) == 0 || &all[0] == &x.all[0])
}

func newTitleIndex(p *Plan, all []tasks.Task) *titleIndex {
	x := &titleIndex{all: all, ids: map[string]int32{}, claims: map[int32][]claim{}}
	background := x.addHeadings(p)
	for _, it := range p.items {
		if it.parent < 0 || !background[it.parent] {
			at := place{extent: extent{it.start, it.end}, head: it.parent, item: true}
			x.cands = append(x.cands, x.candidate(at, it.text, nil))
		}
	}
	x.titles = make([][]int32, len(all))
	for i := range all {
		x.titles[i] = x.number(all[i].Title)
	}
	x.weigh()
	x.score = make([]float64, max(len(x.cands), len(all)))
	return x
}

// addHeadings makes a candidate of each heading that is about something to do, and reports which
// headings are background: those that describe or check, with all under them. The one title of the
// document is about everything.
func (x *titleIndex) addHeadings(p *Plan) []bool {
	above := make([][]int32, len(p.heads))
	background := make([]bool, len(p.heads))
	x.byHead = make([]int32, len(p.heads))
	for i, h := range p.heads {
		x.byHead[i] = -1
		background[i] = isBackground(h.folded)
		if h.parent >= 0 {
			above[i] = above[h.parent]
			background[i] = background[i] || background[h.parent]
		}
		if p.isTitle(i) || background[i] || isBoilerplate(h.folded) {
			continue
		}
		x.byHead[i] = int32(len(x.cands))
		c := x.candidate(p.headPlace(i, ""), h.text, above[i])
		x.cands = append(x.cands, c)
		if i+1 < len(p.heads) && p.heads[i+1].parent == i {
			above[i] = merge(above[i], c.words)
		}
	}
	return background
}

func (x *titleIndex) candidate(at place, text string, above []int32) candidate {
	_, _, rest := numberOf(text)
	c := candidate{place: at, words: x.number(rest), above: above, key: fold(rest)}
	c.core = c.words
	if strings.IndexByte(rest, '(') >= 0 {
		if core := x.number(withoutParens(rest)); len(core) > 0 {
			c.core = core
		}
	}
	return c
}

// withoutParens drops remarks like "(P0 - blocks 3 other tasks)".
func withoutParens(s string) string {
	for {
		open := strings.IndexByte(s, '(')
		if open < 0 {
			return s
		}
		length := strings.IndexByte(s[open:], ')')
		if length < 0 {
			return s
		}
		s = s[:open] + " " + s[open+length+1:]
	}
}

// number gives the words of a text their numbers, sorted, each once. Explicit markers are no words.
func (x *titleIndex) number(text string) []int32 {
	list := words(withoutMarker(text))
	out := make([]int32, 0, len(list))
	for _, w := range list {
		id, ok := x.ids[w]
		if !ok {
			id = int32(len(x.ids))
			x.ids[w] = id
			x.name = append(x.name, w)
		}
		out = append(out, id)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// withoutMarker drops "(SCUD Task 3)" from a heading.
func withoutMarker(s string) string {
	if !strings.Contains(s, "ask") && !strings.Contains(s, "ASK") {
		return s
	}
	if marker, _ := markerIn(s, true); marker != "" {
		return strings.Replace(s, marker, "", 1)
	}
	return s
}

// weigh computes how rare each word is among headings and titles, and the weights that follow.
func (x *titleIndex) weigh() {
	x.byWord = make([][]int32, len(x.ids))
	x.tasks = make([][]int32, len(x.ids))
	for i, c := range x.cands {
		for _, w := range c.words {
			x.byWord[w] = append(x.byWord[w], int32(i))
		}
	}
	for i, list := range x.titles {
		for _, w := range list {
			x.tasks[w] = append(x.tasks[w], int32(i))
		}
	}
	n := float64(len(x.cands) + len(x.all))
	x.rarity = make([]float64, len(x.ids))
	for w := range x.rarity {
		df := float64(len(x.byWord[w]) + len(x.tasks[w]))
		x.rarity[w] = math.Log(1 + n/max(df, 1))
	}
	for i := range x.cands {
		x.cands[i].weight = x.sum(x.cands[i].core)
	}
	x.weight = make([]float64, len(x.all))
	for i, list := range x.titles {
		x.weight[i] = x.sum(list)
	}
}

func (x *titleIndex) sum(list []int32) float64 {
	var s float64
	for _, w := range list {
		s += x.rarity[w]
	}
	return s
}

// hit is a candidate with its score for one title.
type hit struct {
	cand   int32
	score  float64
	common int // words in common
}

// support adds to a hit the words of the title that only the text under the heading has. It takes a word
// that no other heading has to be sure that the text is the right one at all.
func (p *Plan) support(h hit, title string) hit {
	if p.lower == "" {
		p.lower = strings.ToLower(p.src)
	}
	c := &p.idx.cands[h.cand]
	start, end := c.start, c.end
	if !c.item {
		start = p.heads[c.head].body
		if c.head+1 < len(p.heads) {
			end = min(end, p.heads[c.head+1].start)
		}
	}
	if len(p.lower) != len(p.src) || start >= end {
		return h
	}
	body := p.lower[start:min(end, start+maxBody)]
	list, weight := p.idx.known(title)
	var cover float64
	own := false
	for _, w := range list {
		own = own || has(c.words, w) && len(p.idx.byWord[w]) == 1
		if !has(c.words, w) && !has(c.above, w) && strings.Contains(body, p.idx.name[w]) {
			h.common++
			cover += bodyWeight * p.idx.rarity[w]
		}
	}
	if own {
		h.score += 2 * cover / (weight + c.weight)
	}
	return h
}

// hits are the candidates for a title that score at all, best first. within limits them to parts of the plan.
func (x *titleIndex) hits(title string, within []place) []hit {
	list, weight := x.known(title)
	var touched []int32
	for _, w := range list {
		for _, c := range x.byWord[w] {
			if x.score[c] == 0 {
				touched = append(touched, c)
			}
			x.score[c] += x.rarity[w]
		}
	}
	out := make([]hit, 0, maxHits)
	for _, c := range touched {
		cover := x.score[c]
		x.score[c] = 0
		left := aboveWeight * (weight - cover) // what enclosing headings could add at most
		if 2*(cover+left) < leastScore*(weight+x.cands[c].weight+left) || within != nil && !inside(x.cands[c].extent, within) {
			continue
		}
		if h := x.rate(c, list, weight, cover); h.score >= leastScore {
			out = x.add(out, h)
		}
	}
	return out
}

// add keeps the best of the hits, best first; of equals the one that stands first in the plan.
func (x *titleIndex) add(list []hit, h hit) []hit {
	i := len(list)
	for i > 0 && (list[i-1].score < h.score || list[i-1].score == h.score && x.cands[list[i-1].cand].start > x.cands[h.cand].start) {
		i--
	}
	if i == maxHits {
		return list
	}
	if len(list) == maxHits {
		list = list[:maxHits-1]
	}
	return slices.Insert(list, i, h)
}

// one is the score of a single candidate.
func (x *titleIndex) one(title string, c int32) hit {
	list, weight := x.known(title)
	var cover float64
	for _, w := range list {
		if has(x.cands[c].words, w) {
			cover += x.rarity[w]
		}
	}
	return x.rate(c, list, weight, cover)
}

// rate is the weighted share of words that title and candidate have in common.
func (x *titleIndex) rate(c int32, title []int32, weight, cover float64) hit {
	cand := &x.cands[c]
	h := hit{cand: c}
	size := cand.weight
	for _, w := range title {
		if has(cand.words, w) {
			h.common++
			if !has(cand.core, w) {
				size += x.rarity[w]
			}
		} else if has(cand.above, w) {
			cover += aboveWeight * x.rarity[w]
			size += aboveWeight * x.rarity[w]
		}
	}
	h.score = math.Round(2e6*cover/(weight+size)) / 1e6
	if cand.item {
		h.score *= itemPenalty
	}
	return h
}

func has(sorted []int32, w int32) bool {
	_, ok := slices.BinarySearch(sorted, w)
	return ok
}

// known is the words of a title that the index knows, and the weight of all of its words.
func (x *titleIndex) known(title string) ([]int32, float64) {
	var list []int32
	var strange int
	for _, w := range words(title) {
		if id, ok := x.ids[w]; ok {
			list = append(list, id)
		} else {
			strange++
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	n := float64(len(x.cands) + len(x.all))
	return list, x.sum(list) + float64(strange)*math.Log(1+n)
}

// claimed reports whether another task fits a candidate clearly better than score. The task's own
// parents and children are no rivals.
func (x *titleIndex) claimed(c int32, score float64, self tasks.Task, parents []tasks.Task) bool {
	list, ok := x.claims[c]
	if !ok {
		list = x.claimants(c)
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

// claimants are the tasks that fit a candidate best.
func (x *titleIndex) claimants(c int32) []claim {
	cand := &x.cands[c]
	var touched []int32
	for _, w := range cand.words {
		for _, t := range x.tasks[w] {
			if x.score[t] == 0 {
				touched = append(touched, t)
			}
			x.score[t] += x.rarity[w]
		}
	}
	list := make([]claim, 0, len(touched))
	for _, t := range touched {
		cover := x.score[t]
		x.score[t] = 0
		list = append(list, claim{t, x.rate(c, x.titles[t], x.weight[t], cover).score})
	}
	slices.SortFunc(list, func(a, b claim) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.task, b.task))
	})
	return slices.Clone(list[:min(len(list), maxRivals)])
}

func inside(e extent, within []place) bool {
	return slices.ContainsFunc(within, func(p place) bool { return p.start <= e.start && e.end <= p.end })
}

// merge is the union of two sorted lists.
func merge(a, b []int32) []int32 {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
