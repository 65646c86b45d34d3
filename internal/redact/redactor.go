// Package redact overwrites secrets with as many asterisks, in texts and in files of any size.
package redact

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// MinLength is the length, in bytes, below which a value looks like ordinary text.
const MinLength = 8

// Redactor finds a set of values in all their forms. A nil *Redactor finds nothing and costs nothing. It is
// safe for concurrent use.
type Redactor struct {
	needles [][]byte            // longest first
	window  int                 // length of the shortest one, at most 255
	longest int                 // with breaks in it, and without colours
	shift   [1 << 16]uint8      // by two bytes: how far the window may move
	ending  map[uint16][][]byte // needles by the last two bytes of their window, longest first
	begins  [256]bool           // first bytes of needles
	folded  *Redactor           // of what may be broken into lines; nil in that itself
}

// New finds these values; nil where there is none of MinLength.
func New(values []string) *Redactor {
	var all, broken []string
	for _, v := range values {
		if v = strings.TrimSpace(v); v != "" {
			all, broken = append(all, forms(v)...), append(broken, encoded(v)...)
		}
	}
	m := newMask(all)
	if m == nil {
		return nil
	}
	if m.folded = newMask(broken); m.folded != nil {
		m.longest = max(m.longest, 2*m.folded.longest+maxIndent)
	}
	return m
}

// newMask is the mask of these very texts.
func newMask(texts []string) *Redactor {
	m := &Redactor{ending: map[uint16][][]byte{}}
	seen := map[string]bool{}
	for _, text := range texts {
		if len(text) >= MinLength && !seen[text] {
			seen[text] = true
			m.needles = append(m.needles, []byte(text))
		}
	}
	if len(m.needles) == 0 {
		return nil
	}
	slices.SortFunc(m.needles, func(a, b []byte) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), bytes.Compare(a, b))
	})
	m.longest = len(m.needles[0])
	m.window = min(255, len(m.needles[len(m.needles)-1]))
	for i := range m.shift {
		m.shift[i] = uint8(m.window - 1)
	}
	for _, n := range m.needles {
		m.begins[n[0]] = true
		for at := range m.window - 1 {
			block := blockOf(n[at], n[at+1])
			m.shift[block] = min(m.shift[block], uint8(m.window-2-at))
		}
		last := blockOf(n[m.window-2], n[m.window-1])
		m.ending[last] = append(m.ending[last], n)
	}
	return m
}

func blockOf(a, b byte) uint16 { return uint16(a) | uint16(b)<<8 }

// span is a part of a text that is to be masked.
type span struct{ from, to int }

// find lists what is to be masked in b, which is u unpainted, in order and joined where it touches: every occurrence of
// every needle, also of those that overlap, and those with a line break or a colour within.
func (m *Redactor) find(b []byte, u unpainted, spans []span) []span {
	plain := m.search(b, spans)
	all := m.findPainted(u, plain)
	if m.folded != nil {
		all = m.folded.findFolded(b, all)
	}
	if len(all) > len(plain) {
		return join(all)
	}
	return plain
}

// search finds needles as they are. It is the search of Wu and Manber: two bytes at the window's end tell how far the
// next needle is away at least, so that most bytes of ordinary text are never looked at.
func (m *Redactor) search(b []byte, spans []span) []span {
	last := m.window - 2
	for at := last; at+1 < len(b); {
		block := blockOf(b[at], b[at+1])
		if s := m.shift[block]; s > 0 {
			at += int(s)
			continue
		}
		from := at - last
		for _, n := range m.ending[block] {
			if bytes.HasPrefix(b[from:], n) {
				spans = add(spans, span{from, from + len(n)})
				break
			}
		}
		at++
	}
	return spans
}

// add appends a span that begins no earlier than the last one.
func add(spans []span, s span) []span {
	if n := len(spans); n > 0 && s.from <= spans[n-1].to {
		spans[n-1].to = max(spans[n-1].to, s.to)
		return spans
	}
	return append(spans, s)
}

// Bytes masks b in place and returns it.
func (m *Redactor) Bytes(b []byte) []byte {
	if m == nil {
		return b
	}
	for _, s := range m.find(b, unpaint(b), nil) {
		fill(b[s.from:s.to])
	}
	return b
}

// Text is s, masked. It has the same length.
func (m *Redactor) Text(s string) string {
	if m == nil || len(s) < m.window {
		return s
	}
	b := []byte(s)
	spans := m.find(b, unpaint(b), nil)
	if spans == nil {
		return s
	}
	for _, s := range spans {
		fill(b[s.from:s.to])
	}
	return string(b)
}

func fill(b []byte) {
	for i := range b {
		b[i] = '*'
	}
}
