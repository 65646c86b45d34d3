package gate

import (
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
