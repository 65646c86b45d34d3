package specbuild

import (
	"slices"
	"strings"

	"descartes/internal/fence"
)

// scanned is what one pass over the lines finds before the real parse.
type scanned struct {
	fences   []fence.Line
	deep     []int // lines that open too many containers or are indented too far
	tables   []int // delimiter rows of tables: |---|---|
	scud     []int // lines that mention a SCUD task
	headings int   // upper bound of the number of headings
}

// scan finds the lines, the front matter and everything that is found line by line.
func (p *Plan) scan() scanned {
	var found scanned
	p.lines = make([]int32, 0, len(p.src)/32+1)
	for at := 0; at < len(p.src); {
		p.lines = append(p.lines, int32(at))
		end := strings.IndexByte(p.src[at:], '\n')
		if end < 0 {
			break
		}
		at += end + 1
	}
	found.scud = p.mentions("CUD Task", "CUD task", "cud Task", "cud task")
	first := p.frontMatter()
	p.body = p.lineStart(first)
	for n := first; n < len(p.lines); n++ {
		found.line(n, p.line(n))
	}
	return found
}

// line notes what is special about line n.
func (f *scanned) line(n int, line string) {
	bare := fence.TrimIndent(line)
	if bare == "" {
		return
	}
	if len(line)-len(bare) > maxIndent {
		f.deep = append(f.deep, n)
	}
	switch bare[0] {
	case '#':
		f.headings++
	case '=':
		f.headings++
	case '`', '~', '>', '-', '*', '+', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if fl, ok := fence.Read(n, line); ok {
			f.fences = append(f.fences, fl)
			return
		}
		if markersOf(bare) > maxMarkers {
			f.deep = append(f.deep, n)
		}
	}
	if (bare[0] == '|' || bare[0] == '-' || bare[0] == ':') && isDelimiterRow(bare) {
		f.tables = append(f.tables, n)
	}
}

// mentions are the lines that hold one of the words.
func (p *Plan) mentions(words ...string) []int {
	var lines []int
	for _, word := range words {
		for at := 0; ; {
			i := strings.Index(p.src[at:], word)
			if i < 0 {
				break
			}
			n := p.lineAt(at + i)
			lines = append(lines, n)
			at = p.lineStart(n + 1)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// frontMatter is the number of lines of a YAML or TOML block at the very top.
func (p *Plan) frontMatter() int {
	if len(p.lines) == 0 {
		return 0
	}
	mark := strings.TrimRight(p.line(0), " \t")
	if mark != "---" && mark != "+++" {
		return 0
	}
	for n := 1; n < len(p.lines) && n < maxFrontMatter; n++ {
		line := strings.TrimRight(p.line(n), " \t")
		if line == mark || mark == "---" && line == "..." {
			return n + 1
		}
		if line == "" && n == 1 || strings.HasPrefix(line, "## ") {
			return 0 // a rule at the top, then prose
		}
	}
	return 0
}

// markersOf counts the quote and list markers at the start of a line.
func markersOf(line string) int {
	count := 0
	for i := 0; i < len(line); {
		switch c := line[i]; {
		case c == ' ' || c == '\t':
			i++
		case c == '>':
			count++
			i++
		case (c == '-' || c == '*' || c == '+') && i+1 < len(line) && line[i+1] == ' ':
			count++
			i += 2
		case c >= '0' && c <= '9':
			j := i
			for j < len(line) && j < i+9 && line[j] >= '0' && line[j] <= '9' {
				j++
			}
			if j+1 >= len(line) || line[j] != '.' && line[j] != ')' || line[j+1] != ' ' {
				return count
			}
			count++
			i = j + 2
		default:
			return count
		}
	}
	return count
}

// mask is the plan's text for the block parser, at the same offsets: front matter, fenced code and
// lines that open too many containers are blank.
func (p *Plan) mask(deep []int) []byte {
	out := []byte(p.src)
	blank(out[:p.body])
	for _, f := range p.fences {
		blank(out[p.lineStart(f.First):p.lineStart(f.Last+1)])
	}
	for _, n := range deep {
		blank(out[p.lineStart(n):p.lineStart(n+1)])
	}
	return out
}

func blank(b []byte) {
	for i, c := range b {
		if c != '\n' {
			b[i] = ' '
		}
	}
}
