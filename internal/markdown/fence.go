package markdown

import (
	"slices"
	"strings"
)

// maxMarkers is the number of quote and list markers that a line may begin with. goldmark is quadratic in them: 100 KB
// of "> > >" costs it a second.
const maxMarkers = 16

// Span is a range of lines, the last one included; both count from 0.
type Span struct{ First, Last int }

// fence is one line that opens or closes fenced code.
type fence struct {
	n    int    // of the line, from 0
	char byte   // ` or ~
	size int    // number of them
	info string // what follows up to the first space, in lower case; a closing fence has none
}

// Code says of each line of a message whether it is fenced code, the fences included.
func Code(lines []string) []bool {
	code := make([]bool, len(lines))
	var fences []fence
	for n, line := range lines {
		if f, ok := readFence(n, line); ok {
			fences = append(fences, f)
		}
	}
	for _, s := range pairFences(fences, len(lines), func(n int) string { return lines[n] }) {
		for n := s.First; n <= s.Last; n++ {
			code[n] = true
		}
	}
	return code
}

// nestWindow bounds how many fence lines one fence may hold, so that hostile input stays linear.
const nestWindow = 256

// readFence reads a line as a fence, inside quotes and list items too and at any indentation: a fence
// that is indented less than its list item asks for is common, and CommonMark then turns the rest of
// the document inside out.
func readFence(n int, line string) (fence, bool) {
	s, _ := behindMarkers(line)
	if len(s) < 3 || s[0] != '`' && s[0] != '~' {
		return fence{}, false
	}
	size := 1
	for size < len(s) && s[size] == s[0] {
		size++
	}
	info := strings.TrimSpace(s[size:])
	if size < 3 || s[0] == '`' && strings.IndexByte(info, '`') >= 0 {
		return fence{}, false
	}
	word, _, _ := strings.Cut(info, " ")
	return fence{n: n, char: s[0], size: size, info: strings.ToLower(word)}, true
}

func trimIndent(s string) string { return strings.TrimLeft(s, " \t") }

// digits is the length of the number that a text begins with.
func digits(s string) (n int) {
	for n < len(s) && n < 9 && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// cutMarker takes one quote or list marker off the start of a line.
func cutMarker(s string) (string, bool) {
	if s == "" {
		return s, false
	}
	if s[0] == '>' {
		return s[1:], true
	}
	if len(s) > 1 && (s[0] == '-' || s[0] == '*' || s[0] == '+') && s[1] == ' ' {
		return s[2:], true
	}
	if i := digits(s); i > 0 && i+1 < len(s) && (s[i] == '.' || s[i] == ')') && s[i+1] == ' ' {
		return s[i+2:], true
	}
	return s, false
}

// pairFences pairs fences. A fence normally runs to the next bare fence of at least its size, as in
// CommonMark. It may also nest: a fence with a language inside a fence opens an inner one, because it
// cannot close anything; and inside Markdown a bare fence that has a blank line above and text below
// opens an inner one too. Nesting is believed only if it comes out even; otherwise the strict reading
// holds. A fence that is never closed ends before the next heading of level 2 or deeper, so that one
// forgotten line does not swallow the plan.
func pairFences(fences []fence, lines int, line func(int) string) []Span {
	var out []Span
	unclosed := map[byte]int{} // the size from which on nothing closes a fence of that kind any more
	for i := 0; i < len(fences); {
		open := fences[i]
		end, ok := nestedClose(fences, i, line)
		if size, known := unclosed[open.char]; !ok && (!known || open.size < size) {
			end = i + 1 + slices.IndexFunc(fences[i+1:], func(f fence) bool {
				return f.char == open.char && f.size >= open.size && f.info == ""
			})
			if ok = end > i; !ok {
				unclosed[open.char] = open.size
			}
		}
		last := 0
		if ok {
			last = forgotten(fences[i:end+1], line)
		} else {
			last = unclosedEnd(open.n, lines, line)
		}
		out = append(out, Span{open.n, last})
		for i < len(fences) && fences[i].n <= last {
			i++
		}
	}
	return out
}

// nestedClose finds the end of a fence that holds fences of its own kind. It reports false if there
// are none inside or if they do not come out even.
func nestedClose(fences []fence, i int, line func(int) string) (int, bool) {
	open := fences[i]
	if !mayNest(open) {
		return 0, false
	}
	depth, inner := 1, false
	for j := i + 1; j < len(fences) && j <= i+nestWindow; j++ {
		f := fences[j]
		if f.char != open.char || f.size < open.size {
			continue
		}
		switch {
		case f.info != "":
			depth++
			inner = true
		case depth == 1 && isMarkdown(open.info) && j+1 < len(fences) && looksOpening(f.n, line):
			depth++
			inner = true
		default:
			depth--
		}
		if depth == 0 {
			return j, inner
		}
	}
	return 0, false
}

// mayNest reports whether a fence's language is one that holds other people's fences: Markdown, plain
// text and none. In a fence of program text an inner opening fence is more likely the sign of a
// forgotten closing one.
func mayNest(open fence) bool {
	switch open.info {
	case "", "text", "txt", "plaintext", "plain", "prompt", "template", "xml", "html", "yaml", "yml":
		return true
	}
	return isMarkdown(open.info)
}

func isMarkdown(info string) bool {
	return info == "markdown" || info == "md" || info == "mdx"
}

// looksOpening tells a bare opening fence inside Markdown from the closing one by its neighbours.
func looksOpening(n int, line func(int) string) bool {
	above := strings.TrimSpace(line(n - 1))
	below := strings.TrimSpace(line(n + 1))
	return below != "" && (above == "" || strings.HasSuffix(above, ":"))
}

// forgotten is the last line of a fence of program text: the one that closes it, or, where another one with a language
// opens before that, the line before the heading between them.
func forgotten(pair []fence, line func(int) string) int {
	open, end := pair[0], pair[len(pair)-1].n
	next := slices.IndexFunc(pair[1:], func(f fence) bool { return f.char == open.char && f.info != "" })
	if next < 0 || open.info == "" || mayNest(open) {
		return end
	}
	if at := unclosedEnd(open.n, pair[1+next].n, line); at < pair[1+next].n-1 {
		return at
	}
	return end
}

// unclosedEnd is the last line of a fence without a closing one.
func unclosedEnd(first, lines int, line func(int) string) int {
	for n := first + 2; n < lines; n++ {
		s := line(n)
		if strings.HasPrefix(s, "##") && strings.TrimSpace(line(n-1)) == "" &&
			strings.HasPrefix(strings.TrimLeft(s, "#"), " ") {
			return n - 1
		}
	}
	return lines - 1
}
