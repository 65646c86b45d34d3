package gate

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Situation is what the choice of the next task depends on, beside the plan.
type Situation struct {
	TestsFail bool
	Failure   string   // what the failing tests print
	Specs     []string // the spec files that there are, slash paths
}

// Choice is what the next iteration should work on.
type Choice struct {
	Item   *Item  // nil: no item of the plan
	Row    string // the row of the selection table that decided
	Reason string
	Replan bool // the plan has to be made again first
}

// Rows of the selection table, in the order in which they are tried.
const (
	RowBlocker  = "Blocker exists for other tasks"
	RowFailing  = "Test failures exist"
	RowSpecGone = "Spec is missing for top task"
	RowPriority = "All tasks independent"
	RowClearest = "Multiple tasks at same priority"
	RowNothing  = "Nothing is left"
)

// Choose names the most important remaining task. A blocker comes before failing tests, those before
// priority, and among items of one priority the one with the clearest spec wins: one that names a spec
// file that exists, then one whose words a spec file is named for, then the one with the most detail,
// then the first. Items that wait for others are only taken where nothing else is left.
func Choose(p *Plan, s Situation) Choice {
	open := candidates(p)
	if i := slices.IndexFunc(open, func(it Item) bool { return it.Blocks }); i >= 0 {
		it := best(slices.DeleteFunc(slices.Clone(open), func(it Item) bool { return !it.Blocks }), s)
		return Choice{Item: &it, Row: RowBlocker, Reason: "other tasks wait for it"}
	}
	if s.TestsFail {
		if it, ok := fixes(open, s.Failure); ok {
			return Choice{Item: &it, Row: RowFailing, Reason: "it is the task that fixes the failing tests"}
		}
		return Choice{Row: RowFailing, Reason: "tests fail, and no item of the plan is about that: fix them first"}
	}
	if len(open) == 0 {
		return Choice{Row: RowNothing, Reason: "no item of the plan is unchecked"}
	}
	it := best(open, s)
	if why := specGone(p, it, s.Specs); why != "" {
		return Choice{Item: &it, Row: RowSpecGone, Reason: why, Replan: true}
	}
	same := 0
	for _, other := range open {
		if other.Priority == it.Priority {
			same++
		}
	}
	if same > 1 {
		return Choice{Item: &it, Row: RowClearest, Reason: fmt.Sprintf("of %d tasks of the same priority its spec is the clearest", same)}
	}
	return Choice{Item: &it, Row: RowPriority, Reason: "it has the highest priority"}
}

// candidates are the open items, without those that wait as long as others are there.
func candidates(p *Plan) []Item {
	open := p.Open()
	free := slices.DeleteFunc(slices.Clone(open), func(it Item) bool { return it.Waits })
	if len(free) > 0 {
		return free
	}
	return open
}

func best(open []Item, s Situation) Item {
	top, names := open[0], specWords(s.Specs)
	clear := clarity(top, names)
	for _, it := range open[1:] {
		if it.Priority > top.Priority {
			continue
		}
		c := clarity(it, names)
		if it.Priority < top.Priority || it.Priority == top.Priority && c > clear {
			top, clear = it, c
		}
	}
	return top
}

// specName is a spec file's name and the words in it.
type specName struct {
	base  string
	words []string
}

func specWords(specs []string) []specName {
	var out []specName
	for _, spec := range specs {
		base := strings.ToLower(path.Base(spec))
		out = append(out, specName{base, slices.DeleteFunc(words(strings.TrimSuffix(base, path.Ext(base))), func(w string) bool { return len(w) < 3 })})
	}
	return out
}

// clarity orders items by how clear their spec is.
func clarity(it Item, specs []specName) int {
	text := it.Text + "\n" + strings.Join(it.Detail, "\n")
	low, ws := strings.ToLower(text), words(text)
	named, near := 0, 0
	for _, spec := range specs {
		if strings.Contains(low, spec.base) {
			named = 1
		}
		if near == 0 && slices.ContainsFunc(spec.words, func(w string) bool { return slices.Contains(ws, w) }) {
			near = 1
		}
	}
	return named*100000 + near*10000 + min(len(it.Detail), 20)*100
}

// fixes finds the item that is about what fails: one that shares a telling word with the failure and
// speaks of fixing, then one that speaks of fixing tests.
func fixes(open []Item, failure string) (Item, bool) {
	told := map[string]bool{}
	for _, w := range words(clip(failure, 16<<10)) {
		told[w] = len(w) > 3 && !dull(w)
	}
	top, score := Item{}, 0
	for _, it := range open {
		shared, fix, test := 0, 0, 0
		for _, w := range words(it.Text) {
			switch w {
			case "fix", "fixes", "repair", "failing", "failure", "failures", "broken":
				fix = 1
			case "test", "tests", "regression", "build", "lint", "compile":
				test = 1
			default:
				if told[w] {
					shared = 1
				}
			}
		}
		if n := fix*(2+2*shared+test) + shared; n > score && (fix == 1 && shared+test > 0) {
			top, score = it, n
		}
	}
	return top, score > 0
}

func dull(w string) bool {
	switch w {
	case "fail", "failed", "error", "errors", "tests", "test", "expected", "with", "from", "want", "this", "that", "line", "panic":
		return true
	}
	return false
}

// specGone says which spec the item lacks, or "".
func specGone(p *Plan, it Item, specs []string) string {
	for _, name := range specNames(it) {
		if !slices.ContainsFunc(specs, func(s string) bool {
			return s == name || strings.HasSuffix(s, "/"+name) || path.Base(s) == path.Base(name)
		}) {
			return fmt.Sprintf("its spec %s does not exist", name)
		}
	}
	for _, missing := range p.MissingSpecs {
		shared := 0
		ws := words(it.Text)
		for _, w := range words(missing) {
			if len(w) > 3 && w != "spec" && w != "specs" && w != "needs" && slices.Contains(ws, w) {
				shared++
			}
		}
		if shared >= 2 {
			return "the plan says that its spec is missing: " + oneLine(missing, 200)
		}
	}
	return ""
}

// specNames are the spec files that an item names: paths below a directory specs, and *.spec.md.
func specNames(it Item) []string {
	var names []string
	for _, w := range strings.Fields(it.Text + " " + strings.Join(it.Detail, " ")) {
		w = strings.Trim(w, "`*_()[]<>,.;:\"'")
		if at := strings.LastIndex(w, "]("); at >= 0 {
			w = w[at+2:]
		}
		w = strings.TrimPrefix(w, "./")
		if strings.HasPrefix(w, "specs/") && path.Ext(w) != "" || strings.HasSuffix(w, ".spec.md") {
			names = append(names, w)
		}
	}
	return names
}

// Text says what the next iteration works on, for its prompt.
func (c Choice) Text() string {
	switch {
	case c.Replan:
		return fmt.Sprintf("Next: the plan comes first, because of %q: %s. Find the gap and update IMPLEMENTATION_PLAN.md.", c.Item.Text, c.Reason)
	case c.Item != nil:
		return fmt.Sprintf("Work on exactly this ONE task, unless what you find shows that another must come first: %s\n(%s)", c.Item.Text, c.Reason)
	case c.Row == RowFailing:
		return "Fix the failing tests; do nothing else in this iteration. (" + c.Reason + ")"
	}
	return "No item of IMPLEMENTATION_PLAN.md is unchecked. Compare the specs with the code: if something is missing, add it to the plan and do ONE task; if nothing is, say so in the status block."
}
