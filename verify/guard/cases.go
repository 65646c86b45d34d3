package guard

import (
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
)

// testCase is one test of a file, or the rest of the file: the lines that are in no test.
type testCase struct {
	file    string
	name    string // with the groups around it; "" for the rest
	own     string
	group   bool
	first   line
	lines   []line // of its own, without comments and without those of cases in it
	asserts []line
	skips   []line
	pair    *testCase
	above   *testCase // the group around it; nil at the top
}

// title is the case's name for people.
func (c *testCase) title() string {
	if c.name == "" {
		return "the file"
	}
	return short(c.name)
}

// parsed is a file of tests, read.
type parsed struct {
	lang     *language
	rest     *testCase
	cases    []*testCase // in their order, groups included
	focuses  []line
	excludes []line
}

// parse reads the tests of a file; nil for a missing file, or one whose path says that it has no tests.
func parse(file string, v *Version) *parsed {
	lang := languageOf(file)
	if lang == nil || v == nil || v.Long || v.Kind == Link || lang.test != nil && !isTest(file) {
		return nil
	}
	lines := split(v)
	p := &parsed{lang: lang, rest: &testCase{file: file}}
	var open []*testCase // that the line may be in, outermost first
	var head []line      // marks and comments above what comes
	for i, l := range lines {
		for len(open) > 0 && ends(open[len(open)-1], l) {
			open = open[:len(open)-1]
		}
		if isMark(lang, l.text) {
			head = append(head, l)
			continue
		}
		c := p.begins(l, head, open, file)
		if c == nil && lang.named == nil && lang.marked != nil && i+1 < len(lines) && strings.HasSuffix(l.text, "(") {
			c = p.begins(line{l.n, l.text + ")", l.indent}, head, open, file)
		}
		if c != nil {
			c.first = l
			p.cases, open = append(p.cases, c), append(open, c)
		}
		in := p.rest
		if len(open) > 0 {
			in = open[len(open)-1]
		}
		for _, h := range head {
			p.take(in, h)
		}
		head = head[:0]
		p.take(in, l)
	}
	for _, h := range head {
		p.take(p.rest, h)
	}
	return p
}

var marks = lazyregexp.New(`^(?:@\w|#\[|\[[A-Z]\w*[\](,])`)

// isMark reports whether a line stands above a test and belongs to it.
func isMark(lang *language, text string) bool {
	if strings.HasPrefix(text, "@test ") || strings.HasPrefix(text, "@moduletag") { // of bats, of Elixir
		return false
	}
	return marks.MatchString(text) && !strings.Contains(text, "@Test void ") &&
		(lang.cases == nil || !lang.cases.MatchString(text))
}

// begins is the case or group that a line begins, nil where it begins none.
func (p *parsed) begins(l line, head []line, open []*testCase, file string) *testCase {
	lang, c := p.lang, &testCase{file: file}
	if own := firstGroup(lang.cases, l.text); own != "" && p.marked(own, l, head, open) {
		c.own = own
	} else if lang.groups != nil {
		c.own, c.group = firstGroup(lang.groups, l.text), true
	}
	if c.own == "" {
		return nil
	}
	if c.name = c.own; len(open) > 0 {
		c.above = open[len(open)-1]
		c.name = c.above.name + " > " + c.own
	}
	return c
}

func (p *parsed) marked(own string, l line, head []line, open []*testCase) bool {
	lang := p.lang
	switch {
	case strings.Contains(l.text, ".Run("): // a part of a test of Go's
		return len(open) > 0
	case lang.marked == nil, lang.named != nil && lang.named.MatchString(own), lang.marked.MatchString(l.text):
		return true
	}
	return slices.ContainsFunc(head, func(h line) bool { return lang.marked.MatchString(h.text) })
}

func firstGroup(re *lazyregexp.Regexp, s string) string {
	m := re.FindStringSubmatch(s)
	for i := len(m) - 1; i > 0; i-- {
		if m[i] != "" {
			return m[i]
		}
	}
	return ""
}

// ends reports whether a line comes after a case: it is no deeper than the case's first line, and does not close it or
// what it is given.
func ends(c *testCase, l line) bool {
	if l.indent > c.first.indent {
		return false
	}
	return l.indent < c.first.indent || !strings.ContainsRune(")}]{", rune(l.text[0])) && l.text != "end"
}

// take adds a line to the case that it is in.
func (p *parsed) take(c *testCase, l line) {
	lang := p.lang
	if lang.excludes.MatchString(l.text) {
		p.excludes = append(p.excludes, l)
	}
	if isComment(lang, l.text) {
		return
	}
	c.lines = append(c.lines, l)
	if lang.asserts.MatchString(l.text) {
		c.asserts = append(c.asserts, l)
	}
	if lang.skips.MatchString(l.text) {
		c.skips = append(c.skips, l)
	}
	if lang.focuses.MatchString(l.text) {
		p.focuses = append(p.focuses, l)
	}
}

// said are comments that a runner reads.
var said = lazyregexp.New(`^(?:#!?\[|// Output:)|bats:focus`)

func isComment(lang *language, text string) bool {
	return !said.MatchString(text) && (strings.HasPrefix(text, lang.comment) || strings.HasPrefix(text, "/*") ||
		strings.HasPrefix(text, "* "))
}

// text is the case's lines as one string.
func text(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text)
		b.WriteByte('\n')
	}
	return b.String()
}

// match pairs the tests of before with those of after: by file and full name, by file and own name, by name, by their
// lines.
func match(before, after []*testCase) {
	type key struct{ file, name string }
	for _, by := range []func(*testCase) key{
		func(c *testCase) key { return key{c.file, c.name} },
		func(c *testCase) key { return key{c.file, c.own} },
		func(c *testCase) key { return key{"", c.own} },
	} {
		free := map[key][]*testCase{}
		for _, c := range after {
			if c.pair == nil {
				free[by(c)] = append(free[by(c)], c)
			}
		}
		for _, c := range before {
			if list := free[by(c)]; c.pair == nil && len(list) > 0 {
				c.pair, list[0].pair, free[by(c)] = list[0], c, list[1:]
			}
		}
	}
	left := unpaired(after)
	tries := 0
	for _, c := range unpaired(before) {
		var best *testCase
		most := alike
		for _, d := range left {
			if tries++; tries > mostTries {
				return
			}
			if d.pair != nil || c.group != d.group {
				continue
			}
			s := similar(c.lines, d.lines)
			if x, y := words(c.own), words(d.own); c.file == d.file && len(d.asserts) >= len(c.asserts) &&
				min(len(x), len(y)) > 2 {
				s = max(s, share(x, y)-0.1)
			}
			if s >= most {
				best, most = d, s
			}
		}
		if best != nil {
			c.pair, best.pair = best, c
		}
	}
}

// alike is from which share of common lines on two tests are one, renamed; mostTries bounds the comparisons.
const (
	alike     = 0.5
	mostTries = 20000
)

var wordOf = lazyregexp.New(`[A-Z]?[a-z]+|[A-Z]+|\d+`)

// words are those of a name.
func words(name string) []line { return lined(wordOf.FindAllString(name, -1)) }

// lined are texts as lines.
func lined(texts []string) (out []line) {
	for _, s := range texts {
		out = append(out, line{text: s})
	}
	return out
}

func unpaired(list []*testCase) (out []*testCase) {
	for _, c := range list {
		if c.pair == nil {
			out = append(out, c)
		}
	}
	return out
}

// similar is the share of lines that two tests have in common, their first ones left out.
func similar(a, b []line) float64 {
	return share(meaty(a[min(1, len(a)):]), meaty(b[min(1, len(b)):]))
}

func share(a, b []line) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	return 2 * float64(len(a)-len(minus(a, b))) / float64(len(a)+len(b))
}

// meaty are the lines that say something.
func meaty(lines []line) (out []line) {
	for _, l := range lines {
		if len(l.text) > 3 {
			out = append(out, l)
		}
	}
	return out
}

var literals = lazyregexp.New(
	"\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`|\\b\\d[\\w.]*\\b|\\b(?:true|false|True|False|nil|None|null)\\b")

// mask is a line without the values that stand in it.
func mask(s string) string { return literals.ReplaceAllString(s, "§") }

// values are those that stand in a line.
func values(s string) []string { return literals.FindAllString(s, -1) }
