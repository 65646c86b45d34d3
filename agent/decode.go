package agent

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// decoder reads the JSON object on a line as it comes past. Its user asks for
// the members it knows; the others are skipped, at the speed of a search for
// the next quote. It is lenient where that cannot turn a broken line into a
// whole one: a value of another kind than asked for counts as absent.
//
// encoding/json needs the whole line in memory and a second of time for 100 to
// 200 MB: five times of what following a stream may cost.
type decoder struct {
	*lines
	key     [keyLimit]byte
	used    bool // the member's value was taken
	bad     bool // the line is no JSON object
	dropped bool // its user has seen enough of it
}

const (
	keyLimit  = 64
	numLimit  = 32
	wordLimit = 256 // of names, ids and the like
)

// start begins a line. It is false for one that is no JSON object.
func (d *decoder) start() bool {
	d.bad, d.dropped = false, false
	if d.peek() == 0xef { // byte order mark
		d.seg = bytes.TrimPrefix(d.seg, []byte("\xef\xbb\xbf"))
	}
	return d.peek() == '{'
}

// complete reports whether the line was one JSON object and nothing else.
func (d *decoder) complete() bool {
	return !d.bad && !d.dropped && d.peek() == 0
}

// drop leaves the rest of the line unread.
func (d *decoder) drop() { d.dropped = true }

func (d *decoder) halted() bool { return d.bad || d.dropped }

// peek is the next byte that is not blank, or 0 at the end of the line.
func (d *decoder) peek() byte {
	for {
		for n, c := range d.seg {
			if c != ' ' && c != '\t' && c != '\r' {
				d.seg = d.seg[n:]
				return c
			}
		}
		if !d.fill() {
			return 0
		}
	}
}

// take reads the byte that peek saw.
func (d *decoder) take() { d.seg = d.seg[1:] }

// expect reads one byte, and gives the line up where it is another.
func (d *decoder) expect(c byte) bool {
	if d.peek() != c {
		d.bad = true
		return false
	}
	d.take()
	return true
}

// object reads an object. member is called for each member, before its value;
// what it does not take is skipped. The key is valid until it takes a value.
func (d *decoder) object(member func(key []byte)) {
	d.used = true
	if d.peek() != '{' {
		d.skip()
		return
	}
	d.take()
	if d.peek() == '}' {
		d.take()
		return
	}
	for !d.halted() {
		if d.peek() != '"' {
			d.bad = true
			return
		}
		key := d.string(d.key[:0], keyLimit)
		if d.bad || !d.expect(':') {
			return
		}
		d.value(func() { member(key) })
		if d.halted() || !d.more('}') {
			return
		}
	}
}

// array reads an array. element is called before each element.
func (d *decoder) array(element func()) {
	d.used = true
	if d.peek() != '[' {
		d.skip()
		return
	}
	d.take()
	if d.peek() == ']' {
		d.take()
		return
	}
	for !d.halted() {
		d.value(element)
		if d.halted() || !d.more(']') {
			return
		}
	}
}

func (d *decoder) value(f func()) {
	d.used = false
	f()
	if !d.used && !d.halted() {
		d.skip()
	}
	d.used = true
}

// more reads what follows a member or an element.
func (d *decoder) more(end byte) bool {
	switch d.peek() {
	case ',':
		d.take()
		return true
	case end:
		d.take()
		return false
	}
	d.bad = true
	return false
}

// word reads a short string; "" for any other value.
func (d *decoder) word() string {
	var b [wordLimit]byte
	return string(d.bytes(b[:0], wordLimit))
}

// text reads a string of which at most limit bytes are kept, its end.
func (d *decoder) text(limit int) string { return string(d.bytes(nil, limit)) }

// bytes appends a string's value to dst, its last limit bytes.
func (d *decoder) bytes(dst []byte, limit int) []byte {
	d.used = true
	if d.peek() != '"' {
		d.skip()
		return dst
	}
	return d.string(dst, limit)
}

// number reads a number; false for any other value.
func (d *decoder) number() (float64, bool) {
	d.used = true
	if c := d.peek(); c != '-' && (c < '0' || c > '9') {
		d.skip()
		return 0, false
	}
	var b [numLimit]byte
	n, err := strconv.ParseFloat(string(d.literal(b[:0])), 64)
	return n, err == nil
}

func (d *decoder) integer() int64 {
	n, _ := d.number()
	if n != n || n < 0 || n > 1<<52 {
		return 0
	}
	return int64(n)
}

// boolean reads true; false for any other value.
func (d *decoder) boolean() bool {
	d.used = true
	if d.peek() != 't' {
		d.skip()
		return false
	}
	var b [numLimit]byte
	return string(d.literal(b[:0])) == "true"
}

// literal reads a number or a word, of which the beginning is kept.
func (d *decoder) literal(dst []byte) []byte {
	for len(d.seg) > 0 || d.fill() {
		for n, c := range d.seg {
			switch {
			case c == ',' || c == '}' || c == ']' || c == ' ' || c == '\t' || c == '\r':
				d.seg = d.seg[n:]
				return dst
			case c == '"' || c == '{' || c == '[' || c == ':':
				d.bad = true
				return dst
			case len(dst) < cap(dst):
				dst = append(dst, c)
			}
		}
		d.seg = nil
	}
	return dst
}

// skip reads a value of any kind. What is inside it is only counted.
func (d *decoder) skip() {
	d.used = true
	switch c := d.peek(); c {
	case '"':
		d.take()
		d.skipString()
	case '{', '[':
		d.skipNested()
	case 0, ',', ':', '}', ']':
		d.bad = true
	default:
		d.literal(nil)
	}
}

func (d *decoder) skipNested() {
	for depth := 0; ; {
		at := -1
		for n, c := range d.seg {
			if c == '"' {
				at = n
				break
			}
			if c == '{' || c == '[' {
				depth++
			} else if c == '}' || c == ']' {
				if depth--; depth == 0 {
					d.seg = d.seg[n+1:]
					return
				}
			}
		}
		if at >= 0 {
			d.seg = d.seg[at+1:]
			d.skipString()
			if d.bad {
				return
			}
			continue
		}
		if d.seg = nil; !d.fill() {
			d.bad = true
			return
		}
	}
}

// skipString reads the rest of a string. A quote ends it unless an odd number
// of backslashes stands before it.
func (d *decoder) skipString() {
	for odd := false; ; {
		for from := 0; ; {
			at := bytes.IndexByte(d.seg[from:], '"')
			if at < 0 {
				break
			}
			at += from
			k := at
			for k > from && d.seg[k-1] == '\\' {
				k--
			}
			escaped := (at-k)&1 == 1
			if k == 0 && odd {
				escaped = !escaped
			}
			from = at + 1
			if !escaped {
				d.seg = d.seg[from:]
				return
			}
			odd = false
		}
		k := len(d.seg)
		for k > 0 && d.seg[k-1] == '\\' {
			k--
		}
		odd = (len(d.seg)-k)&1 == 1 != (k == 0 && odd)
		if d.seg = nil; !d.fill() {
			d.bad = true
			return
		}
	}
}

// string reads a string's value, of which the last limit bytes are kept.
func (d *decoder) string(dst []byte, limit int) []byte {
	d.take()
	for {
		for len(d.seg) == 0 {
			if !d.fill() {
				d.bad = true
				return dst
			}
		}
		n := 0
		for n < len(d.seg) && d.seg[n] != '"' && d.seg[n] != '\\' {
			n++
		}
		dst = keepEnd(append(dst, d.seg[max(0, n-limit):n]...), limit)
		d.seg = d.seg[n:]
		if len(d.seg) == 0 {
			continue
		}
		c := d.seg[0]
		d.take()
		if c == '"' {
			return lastBytes(dst, limit)
		}
		dst = d.escape(dst)
	}
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

// escape reads what follows a backslash.
func (d *decoder) escape(dst []byte) []byte {
	c, ok := d.raw()
	if !ok {
		return dst
	}
	switch c {
	case '"', '\\', '/':
		return append(dst, c)
	case 'b':
		return append(dst, '\b')
	case 'f':
		return append(dst, '\f')
	case 'n':
		return append(dst, '\n')
	case 'r':
		return append(dst, '\r')
	case 't':
		return append(dst, '\t')
	case 'u':
		return d.unicode(dst)
	}
	d.bad = true
	return dst
}

// raw reads one byte of a string.
func (d *decoder) raw() (byte, bool) {
	for len(d.seg) == 0 {
		if !d.fill() {
			d.bad = true
			return 0, false
		}
	}
	c := d.seg[0]
	d.take()
	return c, true
}

func (d *decoder) hex() rune {
	var r rune
	for range 4 {
		c, ok := d.raw()
		switch {
		case !ok:
			return utf8.RuneError
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			d.bad = true
			return utf8.RuneError
		}
	}
	return r
}

// unicode reads \uXXXX. The first half of a pair is kept as three bytes that are
// no UTF-8, and made a character of when the second half follows at once.
func (d *decoder) unicode(dst []byte) []byte {
	r := d.hex()
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r)
	}
	if n := len(dst) - 3; n >= 0 && dst[n] == 0xed && dst[n+1] >= 0xa0 {
		first := 0xd000 | rune(dst[n+1]&0x3f)<<6 | rune(dst[n+2]&0x3f)
		if both := utf16.DecodeRune(first, r); both != utf8.RuneError {
			return utf8.AppendRune(dst[:n], both)
		}
	}
	return append(dst, 0xed, 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
}
