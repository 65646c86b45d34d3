package gate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/internal/oneline"
	"descartes/tasks"
	"descartes/tasks/plan"
	"descartes/tasks/prose"
)

// maxItems limits how many entries of a plan are read.
const maxItems = 10000

// Plan is the checklist of an IMPLEMENTATION_PLAN.md: a prioritised list of tasks, with the done ones checked. Other
// text is only read for its headings and for missing specs. Where each task has a box, the items are those of the
// tasks that a run over the plan has.
type Plan struct {
	Items        []Item
	MissingSpecs []string // what "Missing specs identified:" names
}

// NoPriority is the priority of an item that states none.
const NoPriority = 99

// Item is one entry of the checklist.
type Item struct {
	Text     string // as written, on one line
	Checked  bool
	Depth    int      // of nesting, from 0
	Parent   bool     // it has entries of its own below it
	Section  string   // the heading above it
	Priority int      // P0 is 0; NoPriority
	Blocks   bool     // it says that others wait for it
	Waits    bool     // it says that it waits, or is marked [!]
	Detail   []string // lines below it that are not entries
	Verify   string   // the command that checks it, of an item that a run over the plan has
	mark     [2]int   // where the mark in its box is
}

// ParsePlan reads a plan. It understands entries behind -, *, + and numbers, at any depth, and x, X
// and check marks in the box; an entry that is struck through is dropped. Fenced code and comments
// are not read, nor is a plan that is too large for a document.
func ParsePlan(text string) Plan {
	doc, err := markdown.Parse(text)
	if err != nil {
		return Plan{}
	}
	list, err := plan.Parse("", []byte(text))
	if err != nil || !list.Boxed() {
		list = nil
	}
	var p planReader
	own := map[int]string{} // by line
	if list != nil {
		entries, _ := list.Tasks() // a plan with boxes has some
		for _, t := range entries {
			own[t.Line-1] = t.Verify
		}
	}
	for n := range doc.Lines {
		l := doc.Lines[n]
		if list != nil && !list.Within(n) { // a run over the plan takes it for no work
			l.Box = 0
		}
		before := len(p.plan.Items)
		if p.line(&l, doc.Words(n)); len(p.plan.Items) > before {
			p.plan.Items[before].Verify = own[n]
		}
	}
	return p.plan
}

// Untick returns the text of a plan without the ticks that it has and was has not; those of entries that are new
// remain if fresh is false.
func Untick(text string, was *Plan, fresh bool) string {
	now, known := ParsePlan(text), map[string]bool{}
	for _, it := range was.Items {
		known[key(it.Text)] = true
	}
	for _, i := range slices.Backward(ticked(was, &now)) {
		if at := now.Items[i].mark; at[0] > 0 && (fresh || known[key(now.Items[i].Text)]) {
			text = text[:at[0]] + " " + text[at[1]:]
		}
	}
	return text
}

type planReader struct {
	plan    Plan
	missing bool // the lines that follow list missing specs
	section string
	ranked  []int // priority of the open headings, by level
	indents []int // of the entries that the next one may stand below
	parents []int
}

func (p *planReader) line(l *markdown.Line, words string) {
	if l.Kind == markdown.Heading {
		p.head(l.Level, words)
		return
	}
	if l.Kind == markdown.Hidden || l.Kind == markdown.Blank {
		return
	}
	if before, rest, ok := strings.Cut(words, "<!--"); ok {
		_, after, _ := strings.Cut(rest, "-->")
		words = strings.TrimSpace(before + after)
	}
	if rest, ok := missingSpecs(bare(words)); ok && l.Box == 0 && strings.Contains(words, ":") {
		p.missing = rest == ""
		p.addMissing(rest)
		return
	}
	box := l.Box
	if rest, ok := strings.CutPrefix(words, "[]"); ok && l.Kind == markdown.Entry {
		box, words = ' ', strings.TrimSpace(rest)
	}
	switch {
	case box != 0 && words != "":
		p.missing = false
		p.item(l, box, words)
	case p.missing && l.Kind == markdown.Entry:
		p.addMissing(words)
	case len(p.plan.Items) > 0 && l.Indent > 0 && len(p.indents) > 0:
		it := &p.plan.Items[len(p.plan.Items)-1]
		if len(it.Detail) < 50 {
			it.Detail = append(it.Detail, oneLine(words, 500))
		}
	default:
		p.missing, p.indents, p.parents = false, nil, nil
	}
}

func (p *planReader) head(level int, text string) {
	p.missing, p.indents, p.parents = false, nil, nil
	p.section = squeeze(text)
	if rest, ok := missingSpecs(text); ok {
		p.missing = true
		p.addMissing(rest)
	}
	for len(p.ranked) < level {
		p.ranked = append(p.ranked, NoPriority)
	}
	p.ranked = append(p.ranked[:level-1], rank(text))
}

func (p *planReader) item(l *markdown.Line, box rune, text string) {
	text = squeeze(text)
	if len(p.plan.Items) >= maxItems || strings.HasPrefix(text, "~~") && strings.HasSuffix(text, "~~") {
		return
	}
	for len(p.indents) > 0 && p.indents[len(p.indents)-1] >= l.Indent {
		p.indents, p.parents = p.indents[:len(p.indents)-1], p.parents[:len(p.parents)-1]
	}
	status := tasks.BoxStatus(box)
	it := Item{Text: text, Checked: status == tasks.Done, Depth: len(p.indents), Section: p.section,
		Priority: rank(text), Blocks: blocksText.MatchString(text),
		Waits: status == tasks.Blocked || waitsText.MatchString(text), mark: [2]int{l.Mark, l.MarkEnd}}
	if len(p.parents) > 0 {
		above := &p.plan.Items[p.parents[len(p.parents)-1]]
		above.Parent = true
		if it.Priority == NoPriority {
			it.Priority = above.Priority
		}
	}
	for i := len(p.ranked) - 1; i >= 0 && it.Priority == NoPriority; i-- {
		it.Priority = p.ranked[i]
	}
	p.plan.Items = append(p.plan.Items, it)
	p.indents, p.parents = append(p.indents, l.Indent), append(p.parents, len(p.plan.Items)-1)
}

func (p *planReader) addMissing(text string) {
	text = strings.Trim(squeeze(text), " .\"'[]*_`")
	switch strings.ToLower(text) {
	case "", "none", "n/a", "nothing", "no", "-", "—":
		return
	}
	if len(p.plan.MissingSpecs) < 100 {
		p.plan.MissingSpecs = append(p.plan.MissingSpecs, oneline.Clip(text, 500))
	}
}

var missingHead = lazyregexp.New(`(?i)^missing spec(?:s|ifications)?(?: identified)?\W*(?::\W*(.*)|$)`)

// missingSpecs reads "Missing specs: text" and "Missing specs identified: text".
func missingSpecs(line string) (string, bool) {
	m := missingHead.FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	return m[1], true
}

var (
	rankText   = lazyregexp.New(`(?i)\bP(\d)\b|\bpriority\W+(\w+)|(\w+)\W+priority\b|^\W*(\w+)\W*$`)
	fixesText  = lazyregexp.New(`(?i)\b(fix|repair)(es)?\b.*\b(tests?|build|lint|fail\w*)\b`)
	blocksText = lazyregexp.New(`(?i)\b(un)?block(s|er)\b`)
	waitsText  = lazyregexp.New(`(?i)\b(blocked by|depends on|wait(s|ing) (for|on))\b`)
)

// rank is the priority that a text states: P0 to P9, or critical, high, medium and low where the text
// speaks of priority.
func rank(text string) int {
	for _, m := range rankText.FindAllStringSubmatch(text, -1) {
		switch word := strings.ToLower(strings.Join(m[1:], "")); word {
		case "critical", "highest", "urgent":
			return 0
		case "high":
			return 1
		case "medium", "normal":
			return 2
		case "low", "lowest":
			return 3
		default:
			if m[1] != "" {
				return int(word[0] - '0')
			}
		}
	}
	return NoPriority
}

// Open returns the unchecked items, in the plan's order. An item with entries of its own only counts once all of those
// are checked: the entries are the work.
func (p *Plan) Open() []Item {
	if p == nil {
		return nil
	}
	var open []Item
	for i, it := range p.Items {
		if !it.Checked && !(it.Parent && p.openBelow(i)) {
			open = append(open, it)
		}
	}
	return open
}

func (p *Plan) openBelow(i int) bool {
	for _, it := range p.Items[i+1:] {
		if it.Depth <= p.Items[i].Depth {
			return false
		}
		if !it.Checked {
			return true
		}
	}
	return false
}

// NewlyChecked returns the items of Ticked without entries of their own.
func NewlyChecked(before, after *Plan) []Item {
	return slices.DeleteFunc(Ticked(before, after), func(it Item) bool { return it.Parent })
}

// Ticked returns the items that are checked in after and were not in before. An item is identified by its words
// without a closing bracket, so that adding or removing a note makes no new item. Without a plan before there is
// nothing to compare with.
func Ticked(before, after *Plan) []Item {
	if before == nil || after == nil {
		return nil
	}
	var fresh []Item
	for _, i := range ticked(before, after) {
		fresh = append(fresh, after.Items[i])
	}
	return fresh
}

// ticked are the places of Ticked's items. Items with equal words are told apart by their order; moving them ticks
// none.
func ticked(before, after *Plan) (places []int) {
	was, more := map[string][]bool{}, map[string]int{}
	for _, it := range before.Items {
		k := key(it.Text)
		if was[k] = append(was[k], it.Checked); it.Checked {
			more[k]--
		}
	}
	for _, it := range after.Items {
		if it.Checked {
			more[key(it.Text)]++
		}
	}
	met := map[string]int{}
	for i, it := range after.Items {
		k := key(it.Text)
		n := met[k]
		if met[k]++; it.Checked && more[k] > 0 && (n >= len(was[k]) || !was[k][n]) {
			more[k]--
			places = append(places, i)
		}
	}
	return places
}

// Check is the command that the plan has for an item, in whatever words another version of the plan has it; "" for
// none. Items with equal words have to pass what any of them names.
func (p *Plan) Check(item string) string {
	var all []string
	if p != nil {
		for _, it := range p.Items {
			if it.Verify != "" && key(it.Text) == key(item) && !slices.Contains(all, it.Verify) {
				all = append(all, it.Verify)
			}
		}
	}
	return prose.Both(all)
}

// key identifies an item.
func key(text string) string {
	text = strings.TrimRight(text, " .*_`~")
	if strings.HasSuffix(text, ")") {
		if at := strings.LastIndex(text, "("); at > 0 {
			text = text[:at]
		}
	}
	if k := strings.Join(words(text), " "); k != "" {
		return k
	}
	return text
}

// Situation is what the choice of the next task depends on, besides the plan.
type Situation struct {
	TestsFail bool
	Specs     []string // the existing spec files, slash paths
}

// Choice is what the next iteration should work on.
type Choice struct {
	Item   *Item  // nil: no item of the plan
	Row    string // the row of the selection table that decided
	Reason string
	Replan bool // the plan must be made again first
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

// Choose returns the most important remaining task. Blockers come before failing tests, those before priority, and
// among items of one priority the one with the clearest spec wins: one that a spec file is named for, then the one
// with the most detail, then the first. Items that wait for others come last.
func Choose(p *Plan, s Situation) Choice {
	open := candidates(p)
	if blockers := slices.DeleteFunc(slices.Clone(open), func(it Item) bool { return !it.Blocks }); len(blockers) > 0 {
		it, _ := best(blockers, s.Specs)
		return Choice{Item: &it, Row: RowBlocker, Reason: "other tasks wait for it"}
	}
	if s.TestsFail {
		if i := slices.IndexFunc(open, func(it Item) bool { return fixesText.MatchString(it.Text) }); i >= 0 {
			return Choice{Item: &open[i], Row: RowFailing, Reason: "it is the task that fixes the failing tests"}
		}
		return Choice{Row: RowFailing, Reason: "tests fail, and no item of the plan is about that: fix them first"}
	}
	if len(open) == 0 {
		return Choice{Row: RowNothing, Reason: "no item of the plan is unchecked"}
	}
	it, same := best(open, s.Specs)
	for _, name := range specNames(it) {
		if !there(name, s.Specs) {
			return Choice{Item: &it, Row: RowSpecGone, Reason: fmt.Sprintf("its spec %s does not exist", name),
				Replan: true}
		}
	}
	if same > 1 {
		return Choice{Item: &it, Row: RowClearest, Reason: fmt.Sprintf(
			"of %d tasks of the same priority its spec is the clearest", same)}
	}
	return Choice{Item: &it, Row: RowPriority, Reason: "it has the highest priority"}
}

// candidates are the open items, without waiting ones as long as others exist.
func candidates(p *Plan) []Item {
	open := p.Open()
	free := slices.DeleteFunc(slices.Clone(open), func(it Item) bool { return it.Waits })
	if len(free) > 0 {
		return free
	}
	return open
}

// best is the item of the highest priority with the clearest spec; n is how many have that priority.
func best(open []Item, specs []string) (top Item, same int) {
	clearest := -1
	for _, it := range open {
		clarity := min(len(it.Detail), 20)
		if slices.ContainsFunc(specs, func(spec string) bool { return Mentions(it.words(), spec) }) {
			clarity += 100
		}
		switch {
		case same == 0 || it.Priority < top.Priority:
			top, clearest, same = it, clarity, 1
		case it.Priority == top.Priority:
			if same++; clarity > clearest {
				top, clearest = it, clarity
			}
		}
	}
	return top, same
}

// words are those of the item with its section and its detail, between blanks.
func (it *Item) words() string {
	return Words(it.Section + " " + it.Text + " " + strings.Join(it.Detail, " "))
}

// Words are a text's words in lower case, each between blanks, as Mentions wants them.
func Words(text string) string { return " " + strings.Join(words(text), " ") + " " }

// Mentions reports whether words speak of a spec file: whether all words of its name are among them.
func Mentions(said, spec string) bool {
	base := path.Base(spec)
	name := words(strings.TrimSuffix(base, path.Ext(base)))
	return len(name) > 0 && !slices.ContainsFunc(name, func(w string) bool {
		return !strings.Contains(said, " "+w+" ")
	})
}

// there reports whether one of the spec files has the name of another path to it.
func there(name string, specs []string) bool {
	return slices.ContainsFunc(specs, func(s string) bool { return path.Base(s) == path.Base(name) })
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

// Text says, for its prompt, what the next iteration works on.
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

// Planner decides, in a build that may plan again, whether the next iteration plans or builds. It plans at most every
// other time, and only once for each spec, so that a gap that planning cannot close does not stop the building.
type Planner struct {
	Planned bool     `json:"planned,omitempty"` // the last iteration planned
	Asked   []string `json:"asked,omitempty"`   // specs it was planned for
}

// Replan reports whether to plan next, and why. plan is nil without an IMPLEMENTATION_PLAN.md; verifyFails says that
// the verify command ran and failed; specs are the existing spec files.
func (p *Planner) Replan(plan *Plan, verifyFails bool, specs []string) (replan bool, why string) {
	last := p.Planned
	p.Planned = false
	if last {
		return false, "the plan has just been made"
	}
	switch {
	case plan == nil:
		why = "there is no plan"
	case len(plan.Open()) == 0 && verifyFails:
		why = "no item of the plan is unchecked, but verify fails"
	default:
		if why = p.gap(plan, slices.Sorted(slices.Values(specs))); why == "" {
			return false, "the plan covers what is known"
		}
	}
	p.Planned = true
	return true, why
}

// gap returns a mismatch between specs and plan, and remembers it.
func (p *Planner) gap(plan *Plan, specs []string) string {
	ask := func(spec string) bool {
		if slices.Contains(p.Asked, spec) || len(p.Asked) >= 10000 {
			return false
		}
		p.Asked = append(p.Asked, spec)
		return true
	}
	for _, it := range plan.Open() {
		for _, name := range specNames(it) {
			if !there(name, specs) && ask(name) {
				return fmt.Sprintf("the spec %s, which %q names, is missing", name, oneLine(it.Text, 80))
			}
		}
	}
	for _, missing := range plan.MissingSpecs {
		if ask(missing) {
			return "the plan says that a spec is missing: " + oneLine(missing, 120)
		}
	}
	var said []string
	for _, it := range plan.Items {
		said = append(said, it.words())
	}
	for _, spec := range specs {
		if !slices.ContainsFunc(said, func(words string) bool { return Mentions(words, spec) }) && ask(spec) {
			return fmt.Sprintf("the plan does not mention the spec %s", spec)
		}
	}
	return ""
}
