package specbuild

import (
	"math"
	"slices"
	"strings"

	"descartes/tasks"
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

// merge is the union of two sorted lists.
func merge(a, b []int32) []int32 {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
