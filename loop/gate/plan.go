package gate

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"descartes/internal/markdown"
)

// maxItems bounds how many entries of a plan are read.
const maxItems = 10000

// Plan is the checklist of an IMPLEMENTATION_PLAN.md: a prioritised list of tasks, those that are
// done checked off. Text that is no entry is only read for its headings and for missing specs.
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
	Line     int      // from 1
	Depth    int      // of nesting, from 0
	Parent   bool     // it has entries of its own below it
	Section  string   // the heading above it
	Priority int      // P0 is 0; NoPriority
	Blocks   bool     // it says that others wait for it
	Waits    bool     // it says that it waits, or is marked [!]
	Detail   []string // lines below it that are no entries
}

// ParsePlan reads a plan. It understands entries behind -, *, + and numbers, at any depth, and x, X
// and check marks in the box; an entry that is struck through is dropped. Fenced code and comments
// are not read, nor is a plan that is too large for a document.
func ParsePlan(text string) Plan {
	doc, err := markdown.Parse(text)
	if err != nil {
		return Plan{}
	}
	var p planReader
	for n := range doc.Lines {
		p.line(n, &doc.Lines[n], doc.Words(n))
	}
	return p.plan
}

type planReader struct {
	plan    Plan
	missing bool // the lines that follow list missing specs
	section string
	ranked  []int // priority of the open headings, by level
	indents []int // of the entries that the next one may stand below
	parents []int
}

func (p *planReader) line(n int, l *markdown.Line, words string) {
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
	if rest, ok := missingSpecs(bare(words)); ok && l.Box == 0 {
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
		p.item(n, l.Indent, box, words)
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
	if rest, ok := missingSpecs(text); ok || strings.EqualFold(squeeze(text), "missing specs") {
		p.missing = true
		p.addMissing(rest)
	}
	for len(p.ranked) < level {
		p.ranked = append(p.ranked, NoPriority)
	}
	p.ranked = append(p.ranked[:level-1], rank(text))
}

func (p *planReader) item(n, indent int, box rune, text string) {
	text = squeeze(text)
	if len(p.plan.Items) >= maxItems || strings.HasPrefix(text, "~~") && strings.HasSuffix(text, "~~") {
		return
	}
	for len(p.indents) > 0 && p.indents[len(p.indents)-1] >= indent {
		p.indents, p.parents = p.indents[:len(p.indents)-1], p.parents[:len(p.parents)-1]
	}
	it := Item{Text: text, Line: n + 1, Depth: len(p.indents), Section: p.section, Priority: rank(text)}
	switch box {
	case 'x', 'X', '✓', '✔', '✅', '☑':
		it.Checked = true
	case '!':
		it.Waits = true
	}
	it.Blocks, it.Waits = blocks(text), it.Waits || waits(text)
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
	p.indents, p.parents = append(p.indents, indent), append(p.parents, len(p.plan.Items)-1)
}

func (p *planReader) addMissing(text string) {
	text = strings.Trim(squeeze(text), " .\"'[]*_`")
	switch strings.ToLower(text) {
	case "", "none", "n/a", "nothing", "no", "-", "—":
		return
	}
	if len(p.plan.MissingSpecs) < 100 {
		p.plan.MissingSpecs = append(p.plan.MissingSpecs, clip(text, 500))
	}
}

// missingSpecs reads "Missing specs: text" and "Missing specs identified: text".
func missingSpecs(line string) (string, bool) {
	before, rest, ok := strings.Cut(line, ":")
	switch strings.Join(words(before), " ") {
	case "missing specs", "missing spec", "missing specs identified", "missing specifications":
		return strings.Trim(rest, " *_`"), ok
	}
	return "", false
}

// heading is the level of a heading line, or 0.
func heading(line string) int {
	n := 0
	for n < len(line) && line[n] == '#' {
		n++
	}
	if n == 0 || n > 6 || n == len(line) || line[n] != ' ' && line[n] != '\t' {
		return 0
	}
	return n
}

// entry reads "- [x] text": how far it is indented, what is in the box, the text.
func entry(line string) (indent int, box, text string, ok bool) {
	indent = indentOf(line)
	rest := strings.TrimLeft(line, " \t>")
	mark := listMark(rest)
	if mark == 0 {
		return 0, "", "", false
	}
	rest = strings.TrimLeft(rest[mark:], " \t")
	if !strings.HasPrefix(rest, "[") {
		return 0, "", "", false
	}
	box, text, ok = strings.Cut(rest[1:], "]")
	if ok && (strings.HasPrefix(text, "(") || strings.HasPrefix(text, "[")) {
		return 0, "", "", false // a link
	}
	if box = strings.TrimSpace(box); !ok || len([]rune(box)) > 1 || strings.TrimSpace(text) == "" {
		return 0, "", "", false
	}
	return indent, box, text, true
}

func indentOf(line string) int {
	n := 0
	for _, r := range line {
		switch r {
		case ' ', '>':
			n++
		case '\t':
			n += 4
		default:
			return n
		}
	}
	return n
}

// listMark is the length of the list mark, with the blank after it, that a text begins with.
func listMark(s string) int {
	n := 0
	for n < len(s) && n < 9 && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	if n > 0 && (n >= len(s) || s[n] != '.' && s[n] != ')') || n == 0 && (s == "" || !strings.ContainsRune("-*+", rune(s[0]))) {
		return 0
	}
	if n++; n >= len(s) || s[n] != ' ' && s[n] != '\t' {
		return 0
	}
	return n + 1
}

// rank is the priority that a text states: P0 to P9, or critical, high, medium and low where the text
// speaks of priority.
func rank(text string) int {
	ws := words(text)
	for _, w := range ws {
		if len(w) == 2 && w[0] == 'p' && w[1] >= '0' && w[1] <= '9' {
			n, _ := strconv.Atoi(w[1:])
			return n
		}
	}
	for i, w := range ws {
		near := i > 0 && ws[i-1] == "priority" || i+1 < len(ws) && ws[i+1] == "priority" || len(ws) == 1
		if !near {
			continue
		}
		switch w {
		case "critical", "highest", "urgent":
			return 0
		case "high":
			return 1
		case "medium", "normal":
			return 2
		case "low", "lowest":
			return 3
		}
	}
	return NoPriority
}

// blocks reports whether an item says that others wait for it: "P0 — blocks 3 other tasks".
func blocks(text string) bool {
	for _, w := range words(text) {
		switch w {
		case "blocks", "blocker", "unblocks":
			return true
		}
	}
	return false
}

// waits reports whether an item says that it waits for another.
func waits(text string) bool {
	low := " " + strings.Join(words(text), " ") + " "
	for _, phrase := range []string{" blocked by ", " depends on ", " waits for ", " waiting for ", " waiting on "} {
		if strings.Contains(low, phrase) {
			return true
		}
	}
	return false
}

// Open are the items that are not checked off, in the plan's order. An item with entries of its own
// counts only where all of those are checked: it is the entries that are the work.
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

// Checked is the number of items that are checked off.
func (p *Plan) Checked() int {
	n := 0
	if p != nil {
		for _, it := range p.Items {
			if it.Checked {
				n++
			}
		}
	}
	return n
}

// NewlyChecked are the items without entries of their own that are checked in after and were not in
// before. An item is known by its words without what stands in a closing bracket, so that a note that
// is added or taken off makes no other item. Without a plan before there is nothing to compare with.
func NewlyChecked(before, after *Plan) []Item {
	if before == nil || after == nil {
		return nil
	}
	was := map[string]int{}
	for _, it := range before.Items {
		if it.Checked {
			was[key(it.Text)]++
		}
	}
	var fresh []Item
	for _, it := range after.Items {
		if !it.Checked {
			continue
		}
		if k := key(it.Text); was[k] > 0 {
			was[k]--
		} else if !it.Parent {
			fresh = append(fresh, it)
		}
	}
	return fresh
}

// key is what an item is known by.
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

// Planner decides, in a build that may plan again, whether the next iteration plans or builds. It
// plans at most every other time, and only once for each spec, so that a gap that planning cannot
// close does not keep the loop from building.
type Planner struct {
	Planned bool     `json:"planned,omitempty"` // the last iteration planned
	Asked   []string `json:"asked,omitempty"`   // specs that it was planned for
}

// Judge reports whether to plan next, and why. plan is nil where there is no IMPLEMENTATION_PLAN.md;
// verifyFails says that the verify command ran and failed; specs are the spec files that there are.
func (p *Planner) Judge(plan *Plan, verifyFails bool, specs []string) (replan bool, why string) {
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

// gap says which spec and plan do not fit together, and remembers that it did.
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
			there := slices.ContainsFunc(specs, func(s string) bool { return path.Base(s) == path.Base(name) })
			if !there && ask(name) {
				return fmt.Sprintf("the spec %s, which %q names, is missing", name, oneLine(it.Text, 80))
			}
		}
	}
	for _, missing := range plan.MissingSpecs {
		if ask(missing) {
			return "the plan says that a spec is missing: " + oneLine(missing, 120)
		}
	}
	said := wordingOf(plan)
	for _, spec := range specs {
		if !said.mentions(spec) && ask(spec) {
			return fmt.Sprintf("the plan does not mention the spec %s", spec)
		}
	}
	return ""
}

// wording is what a plan says of each item, as it is compared with the names of specs.
type wording struct {
	text  []string // in lower case
	words []map[string]bool
}

func wordingOf(plan *Plan) *wording {
	w := &wording{}
	for _, it := range plan.Items {
		text := strings.ToLower(it.Section + " " + it.Text + " " + strings.Join(it.Detail, " "))
		set := map[string]bool{}
		for _, word := range words(text) {
			set[word] = true
		}
		w.text, w.words = append(w.text, text), append(w.words, set)
	}
	return w
}

// mentions reports whether a plan speaks of a spec file: by its name, or by all words of it.
func (w *wording) mentions(spec string) bool {
	base := strings.ToLower(path.Base(spec))
	name := words(strings.TrimSuffix(base, path.Ext(base)))
	for i := range w.text {
		missing := slices.ContainsFunc(name, func(word string) bool { return !w.words[i][word] })
		if len(name) > 0 && !missing || strings.Contains(w.text[i], base) {
			return true
		}
	}
	return false
}
