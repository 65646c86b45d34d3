package redact

import (
	"bytes"

	"descartes/internal/lazyregexp"
)

// Programs paint what they found (grep --color, rg), and whoever shows a log takes the colours out again: so a painted
// value is looked for in the text without its escape sequences.

// maxPaint is how many bytes of sequences a painted value has at most.
const maxPaint = 256

// paint is an escape sequence as terminal.Strip takes it out, or a colour as it stands in a string of JSON, or of JSON
// in JSON.
var paint = lazyregexp.New("\x1b(?:\\[[ -?]*[@-~]?|\\][^\a\x1b\n]*(?:\a|\x1b\\\\)?|[@-Z\\\\^_])?" +
	`|\\+u001[bB]\[[0-9;:]*[A-Za-z]?`)

// painted reports whether there may be a sequence in b.
func painted(b []byte) bool {
	return bytes.IndexByte(b, 0x1b) >= 0 || bytes.Contains(b, []byte(`\u001`))
}

// unpainted is b without its sequences, and where in b each byte of it stands.
func unpainted(b []byte) (text []byte, at []int) {
	text, at = make([]byte, 0, len(b)), make([]int, 0, len(b))
	from := 0
	take := func(to int) {
		for ; from < to; from++ {
			text, at = append(text, b[from]), append(at, from)
		}
	}
	for _, s := range paint.FindAllIndex(b, -1) {
		take(s[0])
		from = s[1]
	}
	take(len(b))
	return text, at
}

// findPainted appends the needles of b that have a sequence within.
func (m *Redactor) findPainted(b []byte, spans []span) []span {
	if !painted(b) {
		return spans
	}
	text, at := unpainted(b)
	for _, s := range m.search(text, nil) {
		if from, to := at[s.from], at[s.to-1]+1; to-from > s.to-s.from {
			spans = append(spans, span{from, to})
		}
	}
	return spans
}

// openPainted is where the first painted needle may begin that b does not hold the end of; len(b) if none.
func (m *Redactor) openPainted(b []byte) int {
	begin := max(0, len(b)-m.longest)
	tail := b[begin:]
	if cut := cutShort.FindIndex(tail); cut != nil {
		tail = tail[:cut[0]]
	} else if !painted(tail) {
		return len(b)
	}
	text, at := unpainted(tail)
	if hold := m.begun(text); hold < len(text) {
		return begin + at[hold]
	}
	return len(b)
}

// cutShort is the beginning of a sequence in JSON at the end of a text.
var cutShort = lazyregexp.New(`\\+(?:u(?:0(?:0(?:1[bB]?)?)?)?)?$`)
