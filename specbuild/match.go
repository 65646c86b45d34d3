package specbuild

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"descartes/tasks"
)

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
