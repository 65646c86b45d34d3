package agent

import (
	"bytes"
	"strconv"
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
	names   names
	raw     []byte // room for a string as it stands in the file
	plain   []byte // room for its value
	used    bool   // the member's value was taken
	bad     bool   // the line is no JSON object
	dropped bool   // its user has seen enough of it
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
	return !d.bad && !d.dropped && (len(d.seg) == 0 && d.ended || d.peek() == 0)
}

// drop leaves the rest of the line unread.
func (d *decoder) drop() { d.dropped = true }

func (d *decoder) halted() bool { return d.bad || d.dropped }

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
	for quoted := false; !d.halted(); {
		if !quoted {
			if d.peek() != '"' {
				d.bad = true
				return
			}
			d.take()
		}
		key, ok := d.shortKey()
		if !ok {
			key = unescape(d.key[:0], d.rawString(d.raw[:0], keyLimit))
			if d.bad || !d.expect(':') {
				return
			}
		}
		d.used = false
		member(key)
		d.rest()
		if quoted = d.another(); !quoted && (d.halted() || !d.more('}')) {
			return
		}
	}
}

// another takes the comma and the quote of a further member, where it follows
// at once.
func (d *decoder) another() bool {
	if seg := d.seg; len(seg) > 1 && seg[0] == ',' && seg[1] == '"' && !d.halted() {
		d.seg = seg[2:]
		return true
	}
	return false
}

// shortKey reads a key and its colon where they are as simple as they mostly
// are, and at hand.
func (d *decoder) shortKey() (key []byte, ok bool) {
	seg := d.seg
	for n := 0; n < keyLimit/2 && n+1 < len(seg); n++ {
		if seg[n] == '"' && seg[n+1] == ':' {
			d.seg = seg[n+2:]
			return seg[:n], true
		}
		if seg[n] == '"' || seg[n] == '\\' {
			break
		}
	}
	return nil, false
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
		d.used = false
		element()
		d.rest()
		if d.halted() || !d.more(']') {
			return
		}
	}
}

// rest skips a value that its user did not take.
func (d *decoder) rest() {
	if !d.used && !d.halted() {
		d.skip()
	}
	d.used = true
}

// more reads what follows a member or an element.
func (d *decoder) more(end byte) bool {
	if len(d.seg) > 0 && d.seg[0] == ',' {
		d.seg = d.seg[1:]
		return true
	}
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
	d.used = true
	if d.peek() != '"' {
		d.skip()
		return ""
	}
	d.take()
	if n := shortString(d.seg); n >= 0 {
		word := d.names.of(d.seg[:n])
		d.seg = d.seg[n+1:]
		return word
	}
	raw := d.rawString(d.raw[:0], wordLimit)
	if bytes.IndexByte(raw, '\\') < 0 {
		return d.names.of(raw)
	}
	var b [wordLimit]byte
	return string(unescape(b[:0], raw))
}

// names keeps words that were read, as the same few come on each line.
type names [32]string

func (n *names) of(word []byte) string {
	if len(word) == 0 {
		return ""
	}
	at := &n[(len(word)+int(word[0])*3+int(word[len(word)-1]))%len(n)]
	if *at != string(word) {
		*at = string(word)
	}
	return *at
}

// text reads a string of which at most limit bytes are kept, its end.
func (d *decoder) text(limit int) string {
	if d.peek() == '"' {
		if n := shortString(d.seg[1:]); n >= 0 && n <= limit {
			text := string(d.seg[1 : 1+n])
			d.seg, d.used = d.seg[n+2:], true
			return text
		}
	}
	d.plain = d.bytes(d.plain[:0], limit)
	return string(d.plain)
}

// bytes appends a string's value to dst, its last limit bytes.
func (d *decoder) bytes(dst []byte, limit int) []byte {
	d.used = true
	if d.peek() != '"' {
		d.skip()
		return dst
	}
	d.take()
	return unescape(dst, d.rawString(d.raw[:0], limit))
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
		d.rawString(nil, 0)
	case '{', '[':
		d.skipNested()
	case 0, ',', ':', '}', ']':
		d.bad = true
	default:
		seg := d.seg
		for n := 0; n < len(seg) && (seg[n]|0x20 >= 'a' && seg[n]|0x20 <= 'z' || seg[n] >= '-' && seg[n] <= '9'); n++ {
			if n+1 < len(seg) && (seg[n+1] == ',' || seg[n+1] == '}' || seg[n+1] == ']') {
				d.seg = seg[n+1:]
				return
			}
		}
		d.literal(nil)
	}
}

// skipNested skips an object or an array.
func (d *decoder) skipNested() {
	for depth := 0; ; {
		p, n := d.seg, 0
	scan:
		for ; n < len(p); n++ {
			switch p[n] {
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					d.seg = p[n+1:]
					return
				}
			case '"':
				end := shortString(p[n+1:])
				if end < 0 {
					break scan
				}
				n += 1 + end
			}
		}
		if n < len(p) {
			d.seg = p[n+1:]
			d.rawString(nil, 0)
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

// shortString finds the end of a string that is short and plain; -1 says that
// it has to be looked for otherwise.
func shortString(p []byte) int {
	for n, c := range p[:min(len(p), 24)] {
		if c == '"' {
			return n
		}
		if c == '\\' {
			return -1
		}
	}
	return -1
}
