package redact

import (
	"bytes"
	"slices"

	"descartes/internal/lazyregexp"
)

// Programs paint what they found (grep --color, rg), and whoever shows a log takes the colours out again: so a painted
// value is looked for in the text without its escape sequences.

// maxPainted is how long a painted value is at most, in bytes, with its sequences: a colour of 60 bytes may stand at
// each of a thousand letters.
const maxPainted = 64 << 10

// paint is an escape sequence as terminal.Strip takes it out, or a colour as it stands in a string of JSON, or of JSON
// in JSON.
var paint = lazyregexp.New("\x1b(?:\\[[ -?]*[@-~]?|\\][^\a\x1b\n]*(?:\a|\x1b\\\\)?|[@-Z\\\\^_])?" +
	`|\\+u001[bB]\[[0-9;:]*[A-Za-z]?`)

// painted reports whether there may be a sequence in b.
func painted(b []byte) bool {
	return bytes.IndexByte(b, 0x1b) >= 0 || bytes.Contains(b, []byte(`\u001`))
}

// unpainted is a text without its sequences, and where in it each byte of it stands; at is nil where there is no
// sequence.
type unpainted struct {
	text []byte
	at   []int
}

// unpaint takes the sequences out of b.
func unpaint(b []byte) unpainted {
	if !painted(b) {
		return unpainted{text: b}
	}
	u := unpainted{make([]byte, 0, len(b)), make([]int, 0, len(b))}
	from := 0
	take := func(to int) {
		for ; from < to; from++ {
			u.text, u.at = append(u.text, b[from]), append(u.at, from)
		}
	}
	for _, s := range paint.FindAllIndex(b, -1) {
		take(s[0])
		from = s[1]
	}
	take(len(b))
	return u
}

// place is where in the text a byte of the unpainted one stands.
func (u unpainted) place(n int) int {
	if u.at == nil {
		return n
	}
	return u.at[n]
}

// between is a part of the text in the unpainted one.
func (u unpainted) between(from, to int) (first, end int) {
	if u.at == nil {
		return from, to
	}
	first, _ = slices.BinarySearch(u.at, from)
	end, _ = slices.BinarySearch(u.at, to)
	return first, end
}

// findPainted appends the needles of a text that have a sequence within.
func (m *Redactor) findPainted(u unpainted, spans []span) []span {
	if u.at == nil {
		return spans
	}
	for _, s := range m.search(u.text, nil) {
		if from, to := u.at[s.from], u.at[s.to-1]+1; to-from > s.to-s.from {
			spans = append(spans, span{from, to})
		}
	}
	return spans
}

// openPainted is where the first painted needle may begin that b, which is u unpainted, does not hold the end of;
// len(b) if none.
func (m *Redactor) openPainted(b []byte, u unpainted) int {
	begin, end := max(0, len(b)-maxPainted), len(b)
	tail := max(begin, end-maxCut)
	if cut := cutShort.FindIndex(b[tail:]); cut != nil {
		end = tail + cut[0]
	} else if u.at == nil {
		return len(b)
	}
	first, last := u.between(begin, end)
	if hold := first + m.begun(u.text[first:last]); hold < last {
		return u.place(hold)
	}
	return len(b)
}

// reread is from where on b, which is u unpainted, is looked at again together with what follows it: a needle that
// begins there may go on.
func (m *Redactor) reread(b []byte, u unpainted) int {
	from := max(0, len(b)-m.longest+1)
	if n := len(u.text) - len(m.needles[0]) - maxCut; u.at != nil && n >= 0 {
		from = min(from, u.at[n])
	} else if u.at != nil {
		from = 0
	}
	return max(from, len(b)-max(m.longest, maxPainted))
}

// cutShort is the beginning of a sequence in JSON at the end of a text. It has at most maxCut bytes, but for
// backslashes that no program writes.
var cutShort = lazyregexp.New(`\\+(?:u(?:0(?:0(?:1[bB]?)?)?)?)?$`)

const maxCut = 64
