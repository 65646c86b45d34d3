package tasks

import (
	"strings"

	"descartes/internal/fence"
)

// What one line of Markdown is, as far as lists of tasks go.
const (
	mdText = iota
	mdBlank
	mdHeading
	mdEntry // of a list
	mdCode  // fenced code, a comment, front matter
)

// mdLine is one line of a Markdown text. Places are offsets in the source, so that a box can be ticked in place.
type mdLine struct {
	start, end int // without the line end
	kind       uint8
	level      uint8 // of a heading
	box        bool  // an entry that begins with [ ] or the like
	indent     int   // columns before the marker of an entry, or before a text
	mark       int   // what stands in the box
	text       int   // where the text of a heading or an entry begins, behind the box
	number     string
}

// markdown is a Markdown text, line by line.
type markdown struct {
	src   string
	lines []mdLine
	front string // front matter, without its marks
}

const (
	maxMarkdownLines = 300_000
	maxFrontMatter   = 200 // lines
)

// scanMarkdown tells the lines of a text apart. It is forgiving: headings and entries count wherever they stand, outside of code,
// comments and front matter.
func scanMarkdown(src string) (*markdown, *problem) {
	m := &markdown{src: src}
	at := 0
	if strings.HasPrefix(src, byteOrder) {
		at = len(byteOrder)
	}
	for at < len(src) {
		if len(m.lines) == maxMarkdownLines {
			return nil, &problem{at, "more lines than can be read"}
		}
		next := len(src)
		if end := strings.IndexByte(src[at:], '\n'); end >= 0 {
			next = at + end + 1
		}
		m.lines = append(m.lines, mdLine{start: at, end: at + len(strings.TrimRight(src[at:next], "\r\n"))})
		at = next
	}
	m.frontMatter()
	m.code()
	m.comments()
	for n := range m.lines {
		if m.lines[n].kind == mdText {
			m.classify(&m.lines[n])
		}
	}
	return m, nil
}

// line is line n of the text, without its line end.
func (m *markdown) line(n int) string { return m.src[m.lines[n].start:m.lines[n].end] }

// words is the text of a heading or an entry, behind its marks.
func (m *markdown) words(n int) string {
	l := &m.lines[n]
	if l.kind == mdHeading || l.kind == mdEntry {
		return strings.TrimSpace(m.src[l.text:l.end])
	}
	return strings.TrimSpace(m.line(n))
}

func (m *markdown) hide(first, last int) {
	for n := first; n <= last; n++ {
		m.lines[n].kind = mdCode
	}
}

func (m *markdown) frontMatter() {
	if len(m.lines) == 0 || strings.TrimRight(m.line(0), " \t") != "---" {
		return
	}
	for n := 1; n < len(m.lines) && n < maxFrontMatter; n++ {
		line := strings.TrimRight(m.line(n), " \t")
		if line == "" && n == 1 || strings.HasPrefix(line, "## ") {
			return // a rule at the top, then prose
		}
		if line == "---" || line == "..." {
			m.front = m.src[m.lines[1].start:m.lines[n].start]
			m.hide(0, n)
			return
		}
	}
}

func (m *markdown) code() {
	var fences []fence.Line
	for n := range m.lines {
		if m.lines[n].kind != mdText {
			continue
		}
		if f, ok := fence.Read(n, m.line(n)); ok {
			fences = append(fences, f)
		}
	}
	for _, s := range fence.Pair(fences, len(m.lines), m.line) {
		m.hide(s.First, s.Last)
	}
}

// comments hides <!-- ... --> that begins a line: templates explain themselves in such, with sample tasks.
func (m *markdown) comments() {
	for n := 0; n < len(m.lines); n++ {
		if m.lines[n].kind != mdText || !strings.HasPrefix(fence.TrimIndent(m.line(n)), "<!--") {
			continue
		}
		last := n
		for last < len(m.lines) && !strings.Contains(m.line(last), "-->") {
			last++
		}
		if last == len(m.lines) {
			return // never closed, so it is none; nor is any later one
		}
		m.hide(n, last)
		n = last
	}
}

// classify reads the marks at the start of a line.
func (m *markdown) classify(l *mdLine) {
	line := m.src[l.start:l.end]
	bare := fence.TrimIndent(line)
	for _, c := range []byte(line[:len(line)-len(bare)]) {
		if l.indent++; c == '\t' {
			l.indent += 3
		}
	}
	switch {
	case strings.TrimSpace(bare) == "":
		l.kind = mdBlank
	case bare[0] == '#' && l.indent < 4:
		l.heading(bare)
	default:
		l.entry(bare)
	}
}

func (l *mdLine) heading(bare string) {
	n := 0
	for n < len(bare) && bare[n] == '#' {
		n++
	}
	if n > 6 || n < len(bare) && bare[n] != ' ' && bare[n] != '\t' {
		return
	}
	l.kind, l.level, l.text = mdHeading, uint8(n), l.end-len(bare)+n
}

func (l *mdLine) entry(bare string) {
	n := 0
	for n < len(bare) && n < 9 && bare[n] >= '0' && bare[n] <= '9' {
		n++
	}
	number := bare[:n]
	switch {
	case n > 0 && n < len(bare) && (bare[n] == '.' || bare[n] == ')'):
	case n == 0 && strings.IndexByte("-*+", bare[0]) >= 0:
	default:
		return
	}
	rest := fence.TrimIndent(bare[n+1:])
	if rest != "" && len(rest) == len(bare[n+1:]) {
		return // 1.5 or **bold**
	}
	l.kind, l.number, l.text = mdEntry, number, l.end-len(rest)
	if len(rest) < 3 || rest[0] != '[' || rest[2] != ']' || strings.IndexByte(boxMarks, rest[1]) < 0 {
		return
	}
	if len(rest) > 3 && rest[3] != ' ' && rest[3] != '\t' {
		return // a link
	}
	l.box, l.mark, l.text = true, l.text+1, l.text+3
}

// entryEnd is the line behind a list entry with all that is nested in it.
func (m *markdown) entryEnd(n, end int) int {
	indent := m.lines[n].indent
	last := n + 1
	for k := n + 1; k < end; k++ {
		switch l := &m.lines[k]; {
		case l.kind == mdHeading, l.kind == mdEntry && l.indent <= indent:
			return last
		case l.kind == mdText && l.indent <= indent && (m.lines[k-1].kind == mdBlank || boldLine(m.words(k))):
			return last
		case l.kind != mdBlank:
			last = k + 1
		}
	}
	return last
}

// boxMarks are what people put in a box.
const boxMarks = " xX~/-!>"

// boxStatus is what a mark in a box says.
func boxStatus(mark byte) Status {
	switch mark {
	case 'x', 'X':
		return Done
	case '~', '/':
		return InProgress
	case '-':
		return Cancelled
	case '>':
		return Deferred
	case '!':
		return Blocked
	}
	return Pending
}

// inline is a text without emphasis and link targets. Single stars and underscores stay: they are in paths more often than not.
func inline(s string) string {
	if strings.ContainsAny(s, "*[~") {
		var b strings.Builder
		for i := 0; i < len(s); i++ {
			if strings.HasPrefix(s[i:], "**") || strings.HasPrefix(s[i:], "~~") {
				i++
				continue
			}
			if s[i] == '[' {
				if text, rest, ok := cutLink(s[i:]); ok {
					b.WriteString(text)
					i = len(s) - len(rest) - 1
					continue
				}
			}
			b.WriteByte(s[i])
		}
		s = b.String()
	}
	return strings.TrimSpace(s)
}

// cutLink splits "[text](target) rest".
func cutLink(s string) (text, rest string, ok bool) {
	const most = 400
	end := strings.IndexByte(s[:min(len(s), most)], ']')
	if end < 0 || !strings.HasPrefix(s[end:], "](") {
		return "", s, false
	}
	target := s[end+2:]
	closing := strings.IndexByte(target[:min(len(target), 10*most)], ')')
	if closing < 0 {
		return "", s, false
	}
	return s[1:end], target[closing+1:], true
}

// maxTitle is where headings and titles are cut.
const maxTitle = 500

// clip cuts a long text.
func clip(s string) string {
	if len(s) <= maxTitle {
		return s
	}
	return strings.ToValidUTF8(s[:maxTitle], "")
}

// fold makes two spellings of one heading or title equal: case, spaces and punctuation around it.
func fold(s string) string {
	return strings.ToLower(strings.Trim(strings.Join(strings.Fields(strings.ReplaceAll(s, "`", "")), " "), " .:"))
}
