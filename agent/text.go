package agent

import (
	"strings"
	"unicode/utf8"

	"descartes/internal/terminal"
)

const (
	// finalLimit is how many bytes of an agent's last words are kept.
	finalLimit = 16 << 10
	// ownLimit is how many of them are searched for claims.
	ownLimit = 64 << 10
)

// tail keeps at least the last limit bytes written to it.
type tail struct {
	limit int
	buf   []byte
	cut   bool // there were more
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(t.buf)+len(p) > 2*t.limit {
		t.cut = true
		p = p[max(0, len(p)-t.limit):]
		t.buf = append(t.buf[:0], t.buf[max(0, len(t.buf)+len(p)-t.limit):]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

func (t *tail) reset() { t.buf, t.cut = t.buf[:0], false }

// text returns what was kept, without an incomplete first line: half a line says something else.
func (t *tail) text() string {
	b := t.buf
	if t.cut {
		b = b[max(0, len(b)-t.limit):]
		for k := 0; k < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); k++ {
			b = b[1:]
		}
	}
	text := clean(string(b))
	if _, rest, more := strings.Cut(text, "\n"); more && t.cut {
		return rest
	}
	return text
}

// clean returns a text as a person should see it: valid UTF-8 without terminal colours, CR and NUL.
func clean(s string) string {
	s = strings.ReplaceAll(terminal.Strip(strings.ToValidUTF8(s, "\uFFFD")), "\r\n", "\n")
	return strings.TrimRight(strings.ReplaceAll(s, "\x00", ""), " \t\r\n")
}

// withoutEcho removes the prompt from a text wherever it is repeated whole, and its end at the beginning of a text
// that was cut. Lines are compared without quoting in front (spaces, > and |) and trailing blanks. What stands on the
// same line before the first line's beginning, or after the last line's end, is the agent's. A prompt of one line only
// matches a whole line.
func withoutEcho(text, prompt string, cut bool) string {
	want, _ := bare(clean(prompt))
	want = strings.Trim(want, "\n")
	if first, _, _ := strings.Cut(want, "\n"); want == "" || !cut && !strings.Contains(text, first) {
		return text
	}
	have, at := bare(text)
	own, from, pos := strings.Builder{}, 0, 0
	skip := func(begin, end int) { // of have
		begins := begin == 0 || have[begin-1] == '\n'
		to := at[begin]
		if begins {
			to = strings.LastIndexByte(text[:to], '\n') + 1 // with its quoting
		}
		own.WriteString(text[from:max(from, to)])
		from, pos = at[end-1]+1, end
		if rest := strings.TrimLeft(text[from:], " \t\r"); begins && strings.HasPrefix(rest, "\n") {
			from = len(text) - len(rest) + 1
		}
	}
	for rest := want; cut && rest != ""; _, rest, _ = strings.Cut(rest, "\n") {
		if strings.HasPrefix(have, rest) {
			skip(0, len(rest))
			break
		}
	}
	for {
		n := strings.Index(have[pos:], want)
		if n < 0 {
			break
		}
		begin, end := pos+n, pos+n+len(want)
		if whole := (begin == 0 || have[begin-1] == '\n') && (end == len(have) || have[end] == '\n'); !whole &&
			!strings.Contains(want, "\n") {
			pos = end
			continue
		}
		skip(begin, end)
	}
	return own.String() + text[from:]
}

// bare is a text in the form that withoutEcho compares, with the place of each byte in the original.
func bare(text string) (string, []int) {
	out, at, start := make([]byte, 0, len(text)), make([]int, 0, len(text)), 0
	for line := range strings.Lines(text) {
		body := strings.TrimLeft(line, " \t>|")
		from := start + len(line) - len(body)
		for i, c := range []byte(strings.TrimRight(body, " \t\r\n")) {
			out, at = append(out, c), append(at, from+i)
		}
		if start += len(line); strings.HasSuffix(line, "\n") {
			out, at = append(out, '\n'), append(at, start-1)
		}
	}
	return string(out), at
}
