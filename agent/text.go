package agent

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	// finalLimit is how much of an agent's last words is kept.
	finalLimit = 16 << 10
	// ownLimit is how much of them is searched for what they claim.
	ownLimit = 64 << 10
	// lineLimit is the longest line that may be one of the prompt's, unless the
	// prompt has a longer one.
	lineLimit = 8 << 10
)

// textScan reads plain output: what a program prints is its final message,
// minus an echo of its prompt. It takes the bytes in pieces of any size, with
// the same result, and keeps a bounded amount of them whatever they are.
type textScan struct {
	echo  echo
	words tail // the agent's own

	limit int    // longest line held
	line  []byte // the line that is not complete yet, at most limit bytes
	over  bool   // it is longer
	first []byte // of the prompt's lines
}

// newTextScan keeps the last own bytes of the agent's words.
func newTextScan(prompt string, own int) *textScan {
	s := &textScan{echo: newEcho(prompt), words: tail{limit: own}}
	s.limit = max(lineLimit, s.echo.longest+64)
	s.first = s.echo.first()
	return s
}

// Write never fails.
func (s *textScan) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if len(s.line) > 0 {
			end := bytes.IndexByte(p, '\n') + 1
			if end == 0 {
				s.extend(p)
				break
			}
			s.extend(p[:end])
			s.endLine()
			p = p[end:]
			continue
		}
		end := bytes.LastIndexByte(p, '\n') + 1
		s.lines(p[:end])
		s.extend(p[end:])
		break
	}
	return n, nil
}

// lines takes whole lines. Nearly all output is no echo: one search finds that
// out for a whole piece at once.
func (s *textScan) lines(p []byte) {
	if s.free() && (s.first == nil || !bytes.Contains(p, s.first)) {
		s.words.Write(p)
		return
	}
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		if end <= s.limit {
			s.whole(p[:end])
		} else {
			s.extend(p[:end])
			s.endLine()
		}
		p = p[end:]
	}
}

// free reports whether no line is held back.
func (s *textScan) free() bool { return s.echo.pos == 0 }

// extend adds to the line that is not complete yet.
func (s *textScan) extend(p []byte) {
	if !s.over {
		room := s.limit - len(s.line)
		if len(p) <= room {
			s.line = append(s.line, p...)
			return
		}
		s.line = append(s.line, p[:room]...)
		s.over = true
		s.echo.stop(s.own) // no line of the prompt is that long
		s.words.Write(s.line)
		p = p[room:]
	}
	s.words.Write(p)
}

func (s *textScan) endLine() {
	if !s.over {
		s.whole(s.line)
	}
	s.line, s.over = s.line[:0], false
}

// whole takes one line, its newline included.
func (s *textScan) whole(line []byte) { s.echo.feed(line, s.own) }

// own takes a line that the agent itself has written.
func (s *textScan) own(line []byte) { s.words.Write(line) }

// end takes the end of the output.
func (s *textScan) end() {
	if len(s.line) > 0 {
		s.endLine()
	}
	s.echo.stop(s.own)
}

func (s *textScan) final() string { return s.words.text() }

// claims are what the agent's own words say of how far it got.
func (s *textScan) claims(word string) (complete bool, blocked string) {
	own := s.words.whole()
	if _, rest, more := strings.Cut(own, "\n"); more && s.words.cut { // half a line says something else
		own = rest
	}
	return claims(own, word)
}

// tail keeps the last bytes written to it, limit of them, or finalLimit.
type tail struct {
	limit int
	buf   []byte
	cut   bool
}

func (t *tail) most() int {
	if t.limit > 0 {
		return t.limit
	}
	return finalLimit
}

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	most := t.most()
	if n > most {
		p, t.cut, t.buf = p[n-most:], true, t.buf[:0]
	}
	if len(t.buf)+len(p) > 2*most {
		t.shrink()
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

func (t *tail) shrink() {
	if extra := len(t.buf) - t.most(); extra > 0 {
		t.buf, t.cut = append(t.buf[:0], t.buf[extra:]...), true
	}
}

// text is the end of what was kept, at most finalLimit bytes.
func (t *tail) text() string {
	s := t.whole()
	if extra := len(s) - finalLimit; extra > 0 {
		for !utf8.RuneStart(s[extra]) {
			extra++
		}
		s = s[extra:]
	}
	return s
}

// whole is what was kept, as a person should see it: valid UTF-8 without
// terminal colours, CR and NUL, not beginning in the middle of a character.
func (t *tail) whole() string {
	t.shrink()
	b := t.buf
	for k := 0; t.cut && k < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); k++ {
		b = b[1:]
	}
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	s = plain(s)
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.TrimRight(strings.ReplaceAll(s, "\x00", ""), " \t\r\n")
}

// plain takes terminal control sequences out.
func plain(s string) string {
	if strings.IndexByte(s, esc) < 0 {
		return s
	}
	var b strings.Builder
	for {
		at := strings.IndexByte(s, esc)
		if at < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:at])
		s = s[at+1:]
		s = s[sequence(s):]
	}
}

const esc = 0x1b

// sequence is the length of the control sequence whose ESC was just taken off.
func sequence(s string) int {
	switch {
	case s == "":
		return 0
	case s[0] == '[': // colours, cursor: up to a letter
		for n := 1; n < len(s); n++ {
			if s[n] >= 0x40 && s[n] <= 0x7e {
				return n + 1
			}
			if s[n] < 0x20 || s[n] > 0x7e {
				return n
			}
		}
		return len(s)
	case s[0] == ']': // titles, links: up to BEL or ESC \
		end := strings.IndexAny(s, "\a\x1b\n")
		switch {
		case end < 0:
			return len(s)
		case s[end] == '\a':
			return end + 1
		case strings.HasPrefix(s[end:], "\x1b\\"):
			return end + 2
		}
		return end
	case s[0] >= 0x40 && s[0] <= 0x5f:
		return 1
	}
	return 0
}

// keepEnd lets b grow to twice the limit before it drops the beginning.
func keepEnd(b []byte, limit int) []byte {
	if len(b) <= 2*limit {
		return b
	}
	return lastBytes(b, limit)
}

func lastBytes(b []byte, limit int) []byte {
	if extra := len(b) - limit; extra > 0 {
		return append(b[:0], b[extra:]...)
	}
	return b
}

// echo takes the prompt out of the output, wherever it is repeated whole. Its
// lines are compared without what quoting puts in front (spaces, > and |) and
// without trailing blanks and CRs. What stands before the first line's
// beginning, or follows the last line's end, on the same line, is the agent's.
//
// It is Knuth, Morris and Pratt's search with lines for letters: lines are
// held back while they may be the prompt, and as they then equal the prompt's
// lines, nothing needs to be kept of them.
type echo struct {
	raw     [][]byte // the prompt's lines, without blank ones at both ends
	bare    [][]byte // the same, as compared
	fail    []int    // fail[n]: longest proper beginning of bare that ends bare[:n]
	pos     int      // lines held back
	longest int
}

func newEcho(prompt string) (e echo) {
	rest := append([]byte(strings.Trim(prompt, "\r\n")), '\n')
	e.raw = make([][]byte, 0, bytes.Count(rest, []byte{'\n'}))
	for len(rest) > 0 {
		end := bytes.IndexByte(rest, '\n') + 1
		e.raw = append(e.raw, rest[:end:end])
		e.longest = max(e.longest, end)
		rest = rest[end:]
	}
	e.bare = make([][]byte, len(e.raw))
	for n, line := range e.raw {
		e.bare[n] = bare(line)
	}
	for len(e.bare) > 0 && len(e.bare[0]) == 0 {
		e.raw, e.bare = e.raw[1:], e.bare[1:]
	}
	for n := len(e.bare); n > 0 && len(e.bare[n-1]) == 0; n-- {
		e.raw, e.bare = e.raw[:n-1], e.bare[:n-1]
	}
	e.fail = make([]int, len(e.bare)+1)
	for n, k := 2, 0; n <= len(e.bare); n++ {
		for k > 0 && !bytes.Equal(e.bare[n-1], e.bare[k]) {
			k = e.fail[k]
		}
		if bytes.Equal(e.bare[n-1], e.bare[k]) {
			k++
		}
		e.fail[n] = k
	}
	return e
}

func bare(line []byte) []byte {
	for n := len(line); n > 0; n = len(line) {
		if c := line[n-1]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			break
		}
		line = line[:n-1]
	}
	for len(line) > 0 {
		if c := line[0]; c != ' ' && c != '\t' && c != '>' && c != '|' {
			break
		}
		line = line[1:]
	}
	return line
}

// first is what an output must contain for an echo to begin; nil if none can.
func (e *echo) first() []byte {
	if len(e.bare) == 0 {
		return nil
	}
	return e.bare[0]
}

// feed takes a line and calls own for every line that is now known to be the
// agent's own.
func (e *echo) feed(line []byte, own func([]byte)) {
	n := len(e.bare)
	if n == 0 {
		own(line)
		return
	}
	text := bare(line)
	for {
		want := e.bare[e.pos]
		switch {
		case bytes.Equal(text, want):
			e.pos++
			if e.pos == n {
				e.pos = 0 // all of it: gone
			}
			return
		case n > 1 && e.pos == n-1 && bytes.HasPrefix(text, want):
			e.pos = 0
			own(line[bytes.Index(line, text)+len(want):])
			return
		case e.pos > 0:
			k := e.fail[e.pos]
			for _, held := range e.raw[:e.pos-k] {
				own(held)
			}
			e.pos = k
			continue
		case n > 1 && bytes.HasSuffix(text, want):
			own(append(bytes.Clone(text[:len(text)-len(want)]), '\n'))
			e.pos = 1
			return
		default:
			own(line)
			return
		}
	}
}

// stop gives up a repetition that is not complete.
func (e *echo) stop(own func([]byte)) {
	for _, held := range e.raw[:e.pos] {
		own(held)
	}
	e.pos = 0
}
