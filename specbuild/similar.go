package specbuild

import (
	"cmp"
	"fmt"
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
