package plan

import (
	"fmt"
	"maps"
	"slices"

	"descartes/tasks/prose"
)

// titles finds headings and list entries by the words of a task's title.
type titles struct {
	list   []candidate
	byWord map[string][]int // candidates that have a word
	words  [][]string       // of each heading
}

// candidate is one heading, or task of the plan without one, that may stand for a task.
type candidate struct {
	span
	up    int // the heading around it, -1 for none
	words []string
}

// indexTitles fills the index. Background and what every plan has is about no task, nor is the title of the document.
func (d *Document) indexTitles() {
	x := titles{byWord: map[string][]int{}, words: make([][]string, len(d.Heads))}
	add := func(c candidate) {
		for _, w := range c.words {
			x.byWord[w] = append(x.byWord[w], len(x.list))
		}
		x.list = append(x.list, c)
	}
	for i := range d.Heads {
		h := &d.Heads[i]
		if !d.IsTitle(i) {
			x.words[i] = prose.Keywords(h.Title)
		}
		if !h.Background() && !d.IsTitle(i) && !prose.Routine(prose.Fold(h.Title)) {
			add(candidate{d.section(i, fmt.Sprintf("heading %q has its words", h.Text)), h.Parent, x.words[i]})
		}
	}
	for i := range d.tasks {
		if at := d.tasks[i].span(d); at.head < 0 || d.Heads[at.head].Line != at.first {
			at.how = fmt.Sprintf("%q has its words", prose.Short(d.tasks[i].Title))
			add(candidate{at, at.head, prose.Keywords(d.tasks[i].Title)})
		}
	}
	d.titles = x
}

// byTitle is the heading or list entry that a title names: all of its words but one are in the title, or all of the
// title's in it. One common word is not enough unless it is all there is. Of several the one with the most common
// words counts, then one that is wholly in the title, equal to it, in the parent's section, under headings with more
// of its words, a heading; between two that are left nothing does. Elsewhere than in the parent's section a subtask's
// own has to be equal.
func (d *Document) byTitle(want []string, above []span) (best span, ok bool) {
	x := &d.titles
	own := map[int]int{}
	for _, w := range want {
		for _, c := range x.byWord[w] {
			own[c]++
		}
	}
	rank := 0
	for _, i := range slices.Sorted(maps.Keys(own)) {
		c, n := &x.list[i], own[i]
		whole, total := n == len(c.words), n
		equal := whole && n == len(want)
		met := slices.Clone(c.words)
		for up := c.up; up >= 0; up = d.Heads[up].Parent {
			for _, w := range x.words[up] {
				if slices.Contains(want, w) && !slices.Contains(met, w) {
					met, total = append(met, w), total+1
				}
			}
		}
		within := above != nil && c.inside(above...)
		if !equal && (n < len(c.words)-1 && n < len(want) || total < 2 || above != nil && !within) {
			continue
		}
		now := n
		for _, yes := range []bool{whole, equal, within} {
			if now *= 2; yes {
				now++
			}
		}
		if now = 64*now + 2*min(total, 31); c.up != c.head {
			now++
		}
		switch {
		case now > rank, now == rank && best.inside(c.span):
			best, rank, ok = c.span, now, true
		case now == rank && !c.inside(best):
			ok = false
		}
	}
	return best, ok
}
