package agent

import (
	"bytes"
	"strings"
)

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
