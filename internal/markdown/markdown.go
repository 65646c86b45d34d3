// Package markdown is the one reader of Markdown documents that people write: plans, checklists, criteria. It finds
// headings, list entries and their boxes, line by line and with their places in the source, and tells them from code,
// comments and front matter.
package markdown

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"descartes/internal/lazyregexp"
)

const (
	maxLines    = 300_000
	maxHeadings = 50_000
	// maxIndent is the indentation beyond which a line cannot matter; each level of a list costs goldmark
	// time on every line under it.
	maxIndent = 100
	// maxFrontMatter is the number of lines in which front matter must end to be taken for such.
	maxFrontMatter = 200
)

// BOM is the byte order mark that some editors put first.
const BOM = "\ufeff"

// Kind is what a line is.
type Kind uint8

// The kinds of lines.
const (
	Text Kind = iota
	Blank
	Heading // its first line, where it is underlined
	Entry   // the first line of an entry in a list
	Hidden  // fenced code, a comment, front matter
)

// Line is one line of a document. Places are offsets in the source, so that a box can be ticked in place.
type Line struct {
	Start, End int // without the line end
	Kind       Kind
	Level      int    // of a heading
	Rows       int    // of a heading: how many lines it takes
	Indent     int    // columns before the marker of an entry, or before a text
	Text       int    // where the words of a heading or an entry begin, behind the box
	Number     string // before an entry: "3" for "3."
	Box        rune   // the mark in an entry's box, 0 where it has none; ? for one that nobody knows
	Mark       int    // where that is, with blanks around it
	MarkEnd    int    // where it ends
}

// Document is a text and what its lines are. It does not change after Parse.
type Document struct {
	Source string
	Lines  []Line
	Front  string // YAML at the top, without its marks
	Body   int    // the first line behind the front matter

	fences []Span
}

// EndLines is a text in which "\r" alone ends a line too, as editors and YAML count. Places stay those of the source.
func EndLines(src []byte) string {
	src = bytes.Clone(src)
	for i, c := range src {
		if c == '\r' && !bytes.HasPrefix(src[i+1:], []byte("\n")) {
			src[i] = '\n'
		}
	}
	return string(src)
}

// Parse reads a document. Headings are what CommonMark takes for headings outside of lists and quotes, with allowances
// for documents as they are written: fences may nest (see pairFences), front matter and comments are no text, and
// where headings are written with # a line of dashes under a paragraph is a rule, not a heading; underlined with
// equals signs only the first heading may be. Entries of lists count wherever they stand. An error continues a
// sentence: "has 3 lines: at most 2 are allowed".
func Parse(src string) (*Document, error) {
	d := &Document{Source: src}
	d.split()
	if len(d.Lines) > maxLines {
		return nil, fmt.Errorf("has %d lines: at most %d are allowed", len(d.Lines), maxLines)
	}
	d.frontMatter()
	deep, headings := d.scan()
	if headings > maxHeadings {
		return nil, fmt.Errorf("has %d headings: at most %d are allowed", headings, maxHeadings)
	}
	d.comments()
	d.headings(parseBlocks(d.mask(deep)))
	for n := range d.Lines {
		if l := &d.Lines[n]; l.Kind == Text {
			l.classify(d.Line(n))
		}
	}
	return d, nil
}

// Line is line n, without its line end.
func (d *Document) Line(n int) string { return d.Source[d.Lines[n].Start:d.Lines[n].End] }

// Words is the text of a heading or an entry, behind its marks; of another line all of it.
func (d *Document) Words(n int) string {
	l := &d.Lines[n]
	switch l.Kind {
	case Entry:
		return strings.TrimSpace(d.Source[l.Text:l.End])
	case Heading:
		words := strings.TrimSpace(d.Source[l.Text:l.End])
		for k := n + 1; k < n+l.Rows-1; k++ {
			words += " " + strings.TrimSpace(d.Line(k))
		}
		return strings.TrimRight(strings.TrimRight(words, "#"), " \t")
	}
	return strings.TrimSpace(d.Line(n))
}

// Offset is where line n begins, or the end of the source behind the last one.
func (d *Document) Offset(n int) int {
	if n >= len(d.Lines) {
		return len(d.Source)
	}
	return d.Lines[n].Start
}

// LineAt is the line that holds an offset.
func (d *Document) LineAt(at int) int {
	return sort.Search(len(d.Lines), func(i int) bool { return d.Lines[i].Start > at }) - 1
}

// Fenced reports whether line n is in fenced code, the fences included.
func (d *Document) Fenced(n int) bool {
	i := sort.Search(len(d.fences), func(i int) bool { return d.fences[i].Last >= n })
	return i < len(d.fences) && d.fences[i].First <= n
}

// EntryEnd is the line behind a list entry with all that is nested in it; end bounds it.
func (d *Document) EntryEnd(n, end int) int {
	indent := d.Lines[n].Indent
	last := n + 1
	for k := n + 1; k < end; k++ {
		switch l := &d.Lines[k]; {
		case l.Kind == Heading, l.Kind == Entry && l.Indent <= indent:
			return last
		case l.Kind == Text && l.Indent <= indent && (d.Lines[k-1].Kind == Blank || BoldLine(d.Words(k))):
			return last
		case l.Kind != Blank:
			last = k + 1
		}
	}
	return last
}

// BoldLine reports whether a whole line is in bold.
func BoldLine(s string) bool {
	s = strings.TrimSuffix(s, ":")
	return len(s) > 4 && strings.HasPrefix(s, "**") && strings.HasSuffix(s, "**") &&
		!strings.Contains(s[2:len(s)-2], "**")
}

// split finds the lines.
func (d *Document) split() {
	at := 0
	if strings.HasPrefix(d.Source, BOM) {
		at = len(BOM)
	}
	d.Lines = make([]Line, 0, len(d.Source)/32+1)
	for at < len(d.Source) {
		next := len(d.Source)
		if end := strings.IndexByte(d.Source[at:], '\n'); end >= 0 {
			next = at + end + 1
		}
		d.Lines = append(d.Lines, Line{Start: at, End: at + len(strings.TrimRight(d.Source[at:next], "\r\n"))})
		at = next
	}
}

func (d *Document) hide(first, last int) {
	for n := first; n <= last && n < len(d.Lines); n++ {
		d.Lines[n].Kind = Hidden
	}
}

// frontMatter finds a YAML or TOML block at the very top.
func (d *Document) frontMatter() {
	if len(d.Lines) == 0 {
		return
	}
	mark := strings.TrimRight(d.Line(0), " \t")
	if mark != "---" && mark != "+++" {
		return
	}
	for n := 1; n < len(d.Lines) && n < maxFrontMatter; n++ {
		line := strings.TrimRight(d.Line(n), " \t")
		if line == "" && n == 1 || strings.HasPrefix(line, "## ") {
			return // a rule at the top, then prose
		}
		if line == mark || mark == "---" && line == "..." {
			if mark == "---" {
				d.Front = d.Source[d.Lines[1].Start:d.Lines[n].Start]
			}
			d.Body = n + 1
			d.hide(0, n)
			return
		}
	}
}

// scan hides fenced code, and returns the lines that are too deep for goldmark and an upper bound of the number of
// headings.
func (d *Document) scan() (deep []int, headings int) {
	var fences []fence
	for n := d.Body; n < len(d.Lines); n++ {
		line := d.Line(n)
		bare := trimIndent(line)
		if bare == "" {
			continue
		}
		if bare[0] == '#' || bare[0] == '=' {
			headings++
		}
		if f, ok := readFence(n, line); ok {
			fences = append(fences, f)
		} else if _, markers := behindMarkers(bare); len(line)-len(bare) > maxIndent || markers > maxMarkers {
			deep = append(deep, n)
		}
	}
	d.fences = pairFences(fences, len(d.Lines), d.Line)
	for _, s := range d.fences {
		d.hide(s.First, s.Last)
	}
	return deep, headings
}

// behindMarkers is what follows the quote and list markers at the start of a line, and the number of these. Those
// beyond maxMarkers stay, but for one.
func behindMarkers(line string) (rest string, count int) {
	for rest = trimIndent(line); count <= maxMarkers; count++ {
		text, ok := cutMarker(rest)
		if !ok {
			break
		}
		rest = trimIndent(text)
	}
	return rest, count
}

// comments hides <!-- ... --> that begins a line: templates explain themselves in such, with sample tasks.
func (d *Document) comments() {
	for n := d.Body; n < len(d.Lines); n++ {
		if d.Lines[n].Kind == Hidden || !strings.HasPrefix(trimIndent(d.Line(n)), "<!--") {
			continue
		}
		last := n
		for last < len(d.Lines) && !strings.Contains(d.Line(last), "-->") {
			last++
		}
		if last == len(d.Lines) {
			return // never closed, so it is none; nor is any later one
		}
		d.hide(n, last)
		n = last
	}
}

// mask is the text for the block parser, at the same offsets: what is hidden or too deep is blank.
func (d *Document) mask(deep []int) []byte {
	out := []byte(d.Source)
	blank := func(n int) {
		for i := d.Lines[n].Start; i < d.Lines[n].End; i++ {
			out[i] = ' '
		}
	}
	if strings.HasPrefix(d.Source, BOM) {
		copy(out, "   ")
	}
	for n := range d.Lines {
		if d.Lines[n].Kind == Hidden {
			blank(n)
		}
	}
	for _, n := range deep {
		blank(n)
	}
	return out
}

// forget empties paragraphs as soon as goldmark has closed them: nobody reads them, and its pass over inline text
// would otherwise build a node for each of their lines, a third of the time of a parse. The text over a line of dashes
// stays, because it becomes a heading.
type forget struct{}

func (forget) Transform(node *ast.Paragraph, reader text.Reader, _ parser.Context) {
	lines := node.Lines()
	if lines.Len() == 0 {
		return
	}
	next, _ := reader.PeekLine()
	if next = bytes.TrimSpace(next); len(next) > 0 && (len(bytes.Trim(next, "-")) == 0 ||
		len(bytes.Trim(next, "=")) == 0) {
		return
	}
	first := lines.At(0)
	lines.SetSliced(0, 1)
	lines.Set(0, text.NewSegment(first.Start, first.Start))
}

// parseBlocks finds headings by the rules of CommonMark; inline text is never parsed, which is several times faster
// and free of the quadratic cases.
func parseBlocks(masked []byte) ast.Node {
	blocks := parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithParagraphTransformers(util.Prioritized(forget{}, 100)),
	)
	return blocks.Parse(text.NewReader(masked))
}

// headings marks the lines of the document's own headings.
func (d *Document) headings(doc ast.Node) {
	var list []*ast.Heading
	hashes := false // a heading of level 2 or deeper is written with #
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && h.Pos() >= 0 && h.Pos() < len(d.Source) {
			list = append(list, h)
			hashes = hashes || h.Level > 1 && d.Source[h.Pos()] == '#'
		}
	}
	first := true
	for _, h := range list {
		n := d.LineAt(h.Pos())
		l := &d.Lines[n]
		if d.Source[h.Pos()] == '#' {
			l.Kind, l.Level, l.Rows, l.Text = Heading, h.Level, 1, h.Pos()+h.Level
			first = false
			continue
		}
		rows := 1 + h.Lines().Len()
		if hashes && (h.Level == 2 || !first) || n+rows > len(d.Lines) {
			continue
		}
		first = false
		l.Kind, l.Level, l.Rows, l.Text = Heading, h.Level, rows, h.Pos()
		for k := n + 1; k < n+rows; k++ {
			d.Lines[k].Kind = Blank
		}
	}
}

// classify reads the marks at the start of a line of text.
func (l *Line) classify(line string) {
	bare := trimIndent(line)
	for _, c := range []byte(line[:len(line)-len(bare)]) {
		if l.Indent++; c == '\t' {
			l.Indent += 3
		}
	}
	if strings.TrimSpace(bare) == "" {
		l.Kind = Blank
		return
	}
	n := digits(bare)
	number := bare[:n]
	switch {
	case n > 0 && n < len(bare) && (bare[n] == '.' || bare[n] == ')'):
	case n == 0 && strings.IndexByte("-*+", bare[0]) >= 0:
	case bare[0] == '[': // some write boxes alone, one a line
		if box, size := readBox(bare); size > 0 && box != '?' && size < len(strings.TrimSpace(bare)) {
			l.Kind, l.Text = Entry, l.End-len(bare)
			l.setBox(box, size)
		}
		return
	default:
		return
	}
	rest := trimIndent(bare[n+1:])
	box, size := readBox(rest)
	if rest != "" && len(rest) == len(bare[n+1:]) && (size == 0 || bare[n] == ')') {
		return // 1.5 or **bold**, but -[ ]
	}
	l.Kind, l.Number, l.Text = Entry, number, l.End-len(rest)
	if size > 0 {
		l.setBox(box, size)
	}
}

// setBox notes the box that the words of an entry begin with.
func (l *Line) setBox(box rune, size int) {
	l.Box, l.Mark, l.MarkEnd, l.Text = box, l.Text+1, l.Text+size-1, l.Text+size
}

// Boxes are what people put in a box.
const Boxes = " xX✓✔✅☑~/-!>"

// boxWords are words that people put in a box.
var boxWords = map[string]rune{"done": 'x', "todo": ' ', "wip": '~'}

// readBox reads the box that a text begins with, and returns its mark and its length with the brackets: 0 for none.
// Other signs than those of Boxes are a question mark; a letter, a number or a word in brackets is no box, nor is what
// a link follows. A star marks what is optional; behind a blank box or an x the space may be missing: "[ ]Title".
func readBox(s string) (mark rune, size int) {
	const longest = 16
	end := strings.IndexByte(s[:min(len(s), longest)], ']')
	if end < 0 || s[0] != '[' {
		return 0, 0
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimPrefix(s[end+1:], "*") + " ")
	if closed := unicode.IsSpace(next); !closed && (end != 2 || strings.IndexByte(" xX", s[1]) < 0 || !unicode.IsUpper(next) && unicode.IsOneOf(
		[]*unicode.RangeTable{unicode.Latin, unicode.Nd, unicode.P, unicode.S}, next)) {
		return 0, 0
	}
	text := strings.TrimSpace(strings.ReplaceAll(s[1:end], "\ufe0f", "")) // which makes an emoji of a sign
	word, known := boxWords[strings.ToLower(text)]
	switch one, n := utf8.DecodeRuneInString(text); {
	case text == "":
		mark = ' '
	case known:
		mark = word
	case n < len(text):
		return 0, 0
	case strings.ContainsRune(Boxes, one):
		mark = one
	case unicode.IsLetter(one) || unicode.IsDigit(one):
		return 0, 0
	default:
		mark = '?'
	}
	return mark, end + 1
}

// IsDelimiterRow recognises the second line of a table: |---|:--:|
func IsDelimiterRow(s string) bool {
	return strings.Contains(s, "|") && strings.Contains(s, "--") && strings.Trim(s, "|-: \t") == ""
}

// Cells splits a row of a table; \| is a bar in a cell.
func Cells(line string) []string {
	line = strings.TrimPrefix(strings.TrimSpace(line), "|")
	if strings.HasSuffix(line, "|") && !strings.HasSuffix(line, `\|`) {
		line = line[:len(line)-1]
	}
	var out []string
	for from, i := 0, 0; i <= len(line); i++ {
		if i == len(line) || line[i] == '|' && (i == 0 || line[i-1] != '\\') {
			out = append(out, strings.TrimSpace(strings.ReplaceAll(line[from:i], `\|`, "|")))
			from = i + 1
		}
	}
	return out
}

var (
	link   = lazyregexp.New(`\[([^\[\]]*)\]\([^()]*\)`)
	strong = strings.NewReplacer("**", "", "~~", "")
)

// Inline is a text without bold, struck through text and link targets. Single stars and underscores stay: they are in
// paths more often than not. So does code.
func Inline(s string) string {
	if strings.ContainsAny(s, "*[~") {
		s = strong.Replace(link.ReplaceAllString(s, "$1"))
	}
	return strings.TrimSpace(s)
}

// CheckText says why src is no text: binary data or an encoding other than UTF-8. The
// message continues a sentence: "is not text: ...".
func CheckText(src []byte) error {
	if bytes.HasPrefix(src, []byte("\xff\xfe")) || bytes.HasPrefix(src, []byte("\xfe\xff")) {
		return fmt.Errorf("is UTF-16 text, and has to be UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW")
	}
	if i := bytes.IndexByte(src, 0); i >= 0 {
		return fmt.Errorf("is not text: NUL byte in line %d", 1+bytes.Count(src[:i], []byte("\n")))
	}
	if utf8.Valid(src) {
		return nil
	}
	at := strings.IndexByte(strings.ToValidUTF8(string(src), "\x00"), 0)
	return fmt.Errorf("is not UTF-8 text: invalid byte in line %d; if it is Latin-1: iconv -f LATIN1 -t UTF-8 FILE > NEW", 1+bytes.Count(src[:at], []byte("\n")))
}
