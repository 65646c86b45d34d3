package redact

import (
	"bytes"
	"cmp"
	"slices"
)

// Programs break base64 into lines: base64 at 76 columns, PEM at 64, YAML with an indent; in a JSON string the break
// is \n. Such a break may be anywhere, so what is folded is looked for in the text without its breaks.

// maxIndent bounds the blanks that a folded line may begin with.
const maxIndent = 32

// findFolded lists the encoded values that have a line break within. A run is text of base64's letters and breaks.
func (m *Redactor) findFolded(b []byte, spans []span) []span {
	var text []byte
	var at []int // of each letter of text in b
	lines := breaks{b, -1}
	for from := 0; from < len(b); {
		first := lines.next(from)
		if first < 0 {
			break
		}
		begin := first
		for begin > from && letters[b[begin-1]] {
			begin--
		}
		end := first
		for n := breakAt(b[end:]); n > 0; n = breakAt(b[end:]) {
			end += n
		}
		if begin == first || end == len(b) || !letters[b[end]] { // nothing goes on across it
			from = end
			continue
		}
		text, at = text[:0], at[:0]
		for end = begin; end < len(b); {
			if letters[b[end]] {
				text, at = append(text, b[end]), append(at, end)
				end++
			} else if n := breakAt(b[end:]); n > 0 {
				end += n
			} else {
				break
			}
		}
		if len(text) >= m.window {
			for _, s := range m.search(text, nil) {
				spans = append(spans, span{at[s.from], at[s.to-1] + 1})
			}
		}
		from = end
	}
	return spans
}

// openFolded is where the first folded value may begin that b does not hold the end of; len(b) if none.
func (m *Redactor) openFolded(b []byte, most int) int {
	begin := max(0, len(b)-most)
	var text []byte
	var at []int
	for i := begin; i < len(b); {
		if letters[b[i]] {
			text, at = append(text, b[i]), append(at, i)
			i++
		} else if n := breakAt(b[i:]); n > 0 {
			i += n
		} else {
			if i >= len(b)-4 && len(bytes.Trim(b[i:], "\\\r")) == 0 { // the beginning of a break
				break
			}
			text, at = text[:0], at[:0]
			i++
		}
	}
	if hold := m.begun(text); hold < len(text) {
		return at[hold]
	}
	return len(b)
}

// breaks finds the line breaks of b one after the other.
type breaks struct {
	b    []byte
	line int // the next newline; len(b) for none
}

// next is where a line break comes next, from a place on; -1 for nowhere.
func (k *breaks) next(from int) int {
	if k.line < from {
		if k.line = bytes.IndexByte(k.b[from:], '\n'); k.line < 0 {
			k.line = len(k.b)
		} else {
			k.line += from
		}
	}
	for from < k.line {
		slash := bytes.IndexByte(k.b[from:k.line], '\\')
		if slash < 0 {
			break
		}
		if from += slash; breakAt(k.b[from:]) > 0 {
			return from
		}
		from++
	}
	switch {
	case k.line == len(k.b):
		return -1
	case k.line > from && k.b[k.line-1] == '\r':
		return k.line - 1
	}
	return k.line
}

// breakAt is the length of the line break that b begins with, with the indent after it: a newline, or its escape in a
// string within a string; 0 for none.
func breakAt(b []byte) (n int) {
	if n < len(b) && b[n] == '\r' {
		n++
	}
	if n < len(b) && b[n] == '\n' {
		n++
	} else {
		n = 0
		for n < len(b) && n < 4 && b[n] == '\\' {
			n++
		}
		if n == 0 || n == len(b) || b[n] != 'n' && b[n] != 'r' {
			return 0
		}
		n++
	}
	for k := 0; k < maxIndent && n < len(b) && (b[n] == ' ' || b[n] == '\t'); k++ {
		n++
	}
	return n
}

// letters are those of base64.
var letters = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_") {
		is[c] = true
	}
	return is
}()

// join puts spans in order and joins those that touch.
func join(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var out []span
	for _, s := range spans {
		out = add(out, s)
	}
	return out
}
