package specbuild

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"descartes/internal/fence"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

const (
	// MaxPlanBytes is the largest plan that ParsePlan reads. Beyond it a plan is a data file.
	MaxPlanBytes = 8 << 20
	// These keep the time and memory of a hostile plan near those of a real one of the same size.
	maxHeadings = 50_000
	maxLines    = 300_000
	// maxMarkers is the number of quote and list markers that one line may open. goldmark is quadratic
	// in them: 100 KB of "> > >" costs it a second.
	maxMarkers = 16
	// maxIndent is the indentation beyond which a line cannot matter; each level of a list costs goldmark
	// time on every line under it.
	maxIndent = 100
	// maxText is where the text of a heading or a checklist entry is cut.
	maxText = 400
	// maxFrontMatter is the number of lines in which front matter must end to be taken for such.
	maxFrontMatter = 200
)

// Plan is a parsed plan document: its text and a table of its headings and checklist items, each with
// its range of bytes. Safe for concurrent use.
type Plan struct {
	name    string
	src     string             // LF line ends, no BOM
	lines   []int32            // offset of each line
	body    int                // offset behind the front matter
	fences  []fence.Span       // line ranges of fenced code, both fences included
	heads   []heading          // document order
	items   []item             // checklist items, document order
	marks   map[string][]place // by task id: explicit markers
	named   map[string][]int   // by task id: headings "Task <id>"
	numbers map[string][]int   // headings by number

	tasksRestart, numbersRestart bool // "Task 1", "1." come again in a later phase

	mu       sync.Mutex  // guards what follows, which is made when it is asked for
	idx      *titleIndex // of the task list that was asked about last
	fallback *Section    // for tasks without a section
	lower    string      // src in lower case
}

// extent is a range of bytes of the plan's text.
type extent struct{ start, end int }

// heading is one heading of the document itself; those in quotes, lists and fences are text.
type heading struct {
	level  int
	text   string // without emphasis, code marks and link targets
	folded string // text as isBoilerplate and its like want it
	start  int    // offset of its first line
	body   int    // offset behind the heading's own lines
	end    int    // offset of the next heading of the same or a higher level
	parent int    // index of the enclosing heading, -1 at the top
}

// item is one entry of a checklist, with what is nested in it.
type item struct {
	text   string
	start  int
	end    int
	parent int // index of the enclosing heading, -1 at the top
}

// ParsePlan reads a Markdown plan; name is used in messages and as the file in a source map.
// Headings are what CommonMark takes for headings, with three allowances for plans as they are
// written: fences may nest (see fence.Pair), front matter is no text, and in a plan that writes its
// headings with # a line of dashes under a paragraph is a rule, not a heading; underlined with equals
// signs only the first heading may be.
//
// A plan that is larger than MaxPlanBytes, binary or not UTF-8 is refused.
func ParsePlan(name string, src []byte) (*Plan, error) {
	if len(src) > MaxPlanBytes {
		return nil, fmt.Errorf("plan %s is too large: %.1f MiB, at most %d MiB can be read",
			name, float64(len(src))/(1<<20), MaxPlanBytes>>20)
	}
	if err := CheckText(src); err != nil {
		return nil, fmt.Errorf("plan %s %w", name, err)
	}
	p := &Plan{name: name, src: lineEnds(strings.TrimPrefix(string(src), bom))}
	found := p.scan()
	if len(p.lines) > maxLines {
		return nil, fmt.Errorf("plan %s has %d lines, at most %d can be read", name, len(p.lines), maxLines)
	}
	if found.headings > maxHeadings {
		return nil, fmt.Errorf("plan %s has %d headings, at most %d can be read", name, found.headings, maxHeadings)
	}
	p.fences = fence.Pair(found.fences, len(p.lines), p.line)
	p.outline(parseBlocks(p.mask(found.deep)))
	p.findMarkers(found)
	p.findTaskHeadings()
	return p, nil
}

// Name is the name that ParsePlan was given.
func (p *Plan) Name() string { return p.name }

const bom = "\ufeff"

// CheckText says why src cannot be part of a prompt: binary data or an encoding other than UTF-8. The
// message continues a sentence: "is not text: ...".
func CheckText(src []byte) error {
	if bytes.HasPrefix(src, []byte("\xff\xfe")) || bytes.HasPrefix(src, []byte("\xfe\xff")) {
		return fmt.Errorf("is UTF-16 text; save it as UTF-8")
	}
	if i := bytes.IndexByte(src, 0); i >= 0 {
		return fmt.Errorf("is not text: NUL byte in line %d", 1+bytes.Count(src[:i], []byte("\n")))
	}
	if utf8.Valid(src) {
		return nil
	}
	line := 1
	for len(src) > 0 {
		r, n := utf8.DecodeRune(src)
		if r == utf8.RuneError && n == 1 {
			break
		}
		if r == '\n' {
			line++
		}
		src = src[n:]
	}
	return fmt.Errorf("is not UTF-8 text: invalid byte in line %d", line)
}

// lineEnds turns CRLF and lone CR into LF, so that the line count stays what an editor shows.
func lineEnds(s string) string {
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// forget empties paragraphs as soon as goldmark has closed them: nobody reads them, and its pass over
// inline text would otherwise build a node for each of their lines, a third of the time of a parse. What
// is still needed stays: the text over a line of dashes, which becomes a heading, and checklist entries.
type forget struct{}

func (forget) Transform(node *ast.Paragraph, reader text.Reader, _ parser.Context) {
	lines := node.Lines()
	if lines.Len() == 0 {
		return
	}
	next, _ := reader.PeekLine()
	if next = bytes.TrimSpace(next); len(next) > 0 && (len(bytes.Trim(next, "-")) == 0 || len(bytes.Trim(next, "=")) == 0) {
		return
	}
	lines.SetSliced(0, 1)
	first := lines.At(0)
	if node.Parent().Kind() == ast.KindListItem && bytes.HasPrefix(bytes.TrimSpace(first.Value(reader.Source())), []byte("[")) {
		return
	}
	lines.Set(0, text.NewSegment(first.Start, first.Start))
}

// parseBlocks finds headings and lists by the rules of CommonMark; inline text is never parsed, which is
// several times faster and free of the quadratic cases.
func parseBlocks(masked []byte) ast.Node {
	blocks := parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithParagraphTransformers(util.Prioritized(forget{}, 100)),
	)
	return blocks.Parse(text.NewReader(masked))
}

// outline fills the tables of headings and checklist items.
func (p *Plan) outline(doc ast.Node) {
	hashes := p.writesHashes(doc)
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		switch node := n.(type) {
		case *ast.Heading:
			p.addHeading(node, hashes)
		case *ast.List:
			end := len(p.src)
			if next := n.NextSibling(); next != nil && next.Pos() >= 0 {
				end = next.Pos()
			}
			p.addItems(node, end)
		}
	}
	p.closeHeadings()
}

// writesHashes reports whether the plan has a heading of level 2 or deeper that is written with #.
func (p *Plan) writesHashes(doc ast.Node) bool {
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && h.Level > 1 && p.src[h.Pos()] == '#' {
			return true
		}
	}
	return false
}

func (p *Plan) addHeading(node *ast.Heading, hashes bool) {
	at := node.Pos()
	if at < 0 || at >= len(p.src) {
		return
	}
	first := p.lineAt(at)
	last := first
	if p.src[at] != '#' {
		if hashes && (node.Level == 2 || len(p.heads) > 0) {
			return
		}
		last = first + node.Lines().Len()
	}
	var words []string
	for i := 0; i < node.Lines().Len(); i++ {
		seg := node.Lines().At(i)
		words = append(words, strings.TrimSpace(p.src[seg.Start:seg.Stop]))
	}
	text := plain(clip(strings.Join(words, " "), maxText))
	p.heads = append(p.heads, heading{
		level: node.Level, text: text, folded: fold(text),
		start: p.lineStart(first), body: p.lineStart(last + 1), parent: -1,
	})
}

// closeHeadings gives each heading its end and its parent, with one stack.
func (p *Plan) closeHeadings() {
	var open []int
	for i := range p.heads {
		h := &p.heads[i]
		for len(open) > 0 && p.heads[open[len(open)-1]].level >= h.level {
			p.heads[open[len(open)-1]].end = h.start
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			h.parent = open[len(open)-1]
		}
		open = append(open, i)
	}
	for _, i := range open {
		p.heads[i].end = len(p.src)
	}
}

// addItems adds the entries of a list that have a checkbox, also nested ones. end is where the list
// ends.
func (p *Plan) addItems(list ast.Node, end int) {
	for n := list.FirstChild(); n != nil; n = n.NextSibling() {
		stop := end
		if next := n.NextSibling(); next != nil && next.Pos() >= 0 {
			stop = p.lineStart(p.lineAt(next.Pos()))
		}
		first := n.FirstChild()
		if first == nil {
			continue
		}
		if lines := first.Lines(); lines != nil && lines.Len() > 0 {
			seg := lines.At(0)
			if words, ok := checkbox(clip(p.src[seg.Start:seg.Stop], maxText)); ok {
				start := p.lineStart(p.lineAt(seg.Start))
				p.items = append(p.items, item{text: words, start: start, end: stop, parent: len(p.heads) - 1})
			}
		}
		for c := first; c != nil; c = c.NextSibling() {
			if c.Kind() == ast.KindList {
				p.addItems(c, stop)
			}
		}
	}
}

// checkbox splits "[x] Implement it" and reports whether there was a box.
func checkbox(s string) (string, bool) {
	s = strings.TrimSpace(s)
	if len(s) < 4 || s[0] != '[' || s[2] != ']' || s[3] != ' ' || !strings.ContainsRune(" xX-~", rune(s[1])) {
		return "", false
	}
	return plain(s[4:]), true
}

// line is line n without its line end.
func (p *Plan) line(n int) string {
	return strings.TrimSuffix(p.src[p.lines[n]:p.lineStart(n+1)], "\n")
}

// lineStart is the offset of line n, or the end of the plan behind the last one.
func (p *Plan) lineStart(n int) int {
	if n >= len(p.lines) {
		return len(p.src)
	}
	return int(p.lines[n])
}

// lineAt is the line that holds offset at.
func (p *Plan) lineAt(at int) int {
	return sort.Search(len(p.lines), func(i int) bool { return int(p.lines[i]) > at }) - 1
}

// path is the text of a heading's enclosing headings, outermost first.
func (p *Plan) path(i int) []string {
	var path []string
	for ; i >= 0; i = p.heads[i].parent {
		path = append(path, p.heads[i].text)
	}
	for a, b := 0, len(path)-1; a < b; a, b = a+1, b-1 {
		path[a], path[b] = path[b], path[a]
	}
	return path
}
