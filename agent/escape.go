package agent

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// rawString reads the rest of a string, up to its quote, and returns its last
// bytes as they stand in the file, limit of them or all. They are in the
// file's buffer or in dst, and valid until the next string.
func (d *decoder) rawString(dst []byte, limit int) []byte {
	for from := 0; ; {
		at, escaped := stringEnd(d.seg, from)
		if at >= 0 {
			raw := d.seg[:at]
			d.seg = d.seg[at+1:]
			if len(dst) > 0 {
				d.raw = append(dst, raw[max(0, at-limit):]...)
				return lastBytes(d.raw, limit)
			}
			return raw[max(0, at-limit):]
		}
		if limit > 0 {
			dst = keepEnd(append(dst, d.seg[max(0, len(d.seg)-limit):]...), limit)
		}
		if from = 0; escaped {
			from = 1
		}
		if !d.fill() {
			d.bad = true
			return dst[:0]
		}
	}
}

// stringEnd finds the quote that ends a string, looking from a byte on that is
// not escaped. Without one it tells whether the byte after p is escaped.
//
// Long stretches go at the speed of a search for the next quote; where quotes
// are close together, calling that would be slower than looking at each byte.
func stringEnd(p []byte, from int) (at int, escaped bool) {
	const near, stretch = 24, 32
	for from < len(p) {
		at := bytes.IndexByte(p[from:], '"')
		if at < 0 {
			return -1, escapes(p, from, len(p))
		}
		at += from
		if !escapes(p, from, at) {
			return at, false
		}
		if at-from < near {
			end := min(len(p), at+stretch)
			for at++; at < end && p[at] != '"'; at++ {
				if p[at] == '\\' {
					at++
				}
			}
			if at < end {
				return at, false
			}
			from = at
			continue
		}
		from = at + 1
	}
	return -1, from > len(p)
}

// escapes reports whether the byte at end is escaped: an odd number of
// backslashes stands before it. The one at from is not.
func escapes(p []byte, from, end int) bool {
	n := end
	for n > from && p[n-1] == '\\' {
		n--
	}
	return (end-n)&1 == 1
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

// unescape appends the value of a string as it stands in a file. An escape
// that JSON does not know stands for itself.
func unescape(dst, raw []byte) []byte {
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 || n+1 == len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:n]...)
		c := raw[n+1]
		raw = raw[n+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			dst, raw = unicode4(dst, raw)
		default:
			dst = append(dst, c)
		}
	}
}

// unicode4 reads the four digits behind \u. The first half of a pair is kept as
// three bytes that are no UTF-8, and made a character of when the second half
// follows at once.
func unicode4(dst, raw []byte) (out, rest []byte) {
	digits := raw[:min(4, len(raw))]
	code, err := strconv.ParseUint(string(digits), 16, 16)
	if err != nil || len(digits) < 4 {
		return utf8.AppendRune(dst, utf8.RuneError), raw
	}
	r := rune(code)
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r), raw[4:]
	}
	if n := len(dst) - 3; n >= 0 && dst[n] == 0xed && dst[n+1] >= 0xa0 {
		first := 0xd000 | rune(dst[n+1]&0x3f)<<6 | rune(dst[n+2]&0x3f)
		if both := utf16.DecodeRune(first, r); both != utf8.RuneError {
			return utf8.AppendRune(dst[:n], both), raw[4:]
		}
	}
	return append(dst, 0xed, 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f), raw[4:]
}
