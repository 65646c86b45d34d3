package tasks

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects may be nested; real files reach six.
const maxDepth = 100

// scanner walks over a JSON text and knows where it is, which encoding/json does not tell. It accepts exactly what json.Valid accepts,
// up to maxDepth. After the first failure every method returns false.
type scanner struct {
	src   string
	pos   int
	depth int
	fault string // what is wrong, "" while nothing is
	wrong int    // where
}

func (s *scanner) fail(reason string) bool {
	if s.fault == "" {
		if s.pos >= len(s.src) {
			reason = "the file ends too early, it seems to be cut off"
		}
		s.fault, s.wrong = reason, s.pos
	}
	return false
}

func (s *scanner) space() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\n', '\r', '\t':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

// open enters the array or object that begins here and reports whether it has a first element.
func (s *scanner) open(closing byte) bool {
	if s.depth++; s.depth > maxDepth {
		return s.fail("nested too deeply")
	}
	s.pos++
	s.space()
	return s.fault == "" && !s.close(closing)
}

// next goes to the following element of an array or object, or behind its end.
func (s *scanner) next(closing byte) bool {
	s.space()
	if s.fault != "" || s.close(closing) {
		return false
	}
	if s.peek() != ',' {
		return s.fail(`expected "," or "` + string(closing) + `"`)
	}
	s.pos++
	s.space()
	return true
}

func (s *scanner) close(closing byte) bool {
	if s.peek() != closing {
		return false
	}
	s.pos++
	s.depth--
	return true
}

// key reads the name of a member and goes to its value.
func (s *scanner) key() (string, bool) {
	if s.peek() != '"' {
		return "", s.fail("expected a member name in quotes")
	}
	start := s.pos
	if !s.str() {
		return "", false
	}
	name := unquote(s.src[start:s.pos])
	s.space()
	if s.peek() != ':' {
		return "", s.fail(`expected ":"`)
	}
	s.pos++
	s.space()
	return name, true
}

// value goes behind the value that begins here.
func (s *scanner) value() bool {
	switch c := s.peek(); c {
	case '{':
		for more := s.open('}'); more; more = s.next('}') {
			if _, ok := s.key(); !ok || !s.value() {
				return false
			}
		}
		return s.fault == ""
	case '[':
		for more := s.open(']'); more; more = s.next(']') {
			if !s.value() {
				return false
			}
		}
		return s.fault == ""
	case '"':
		return s.str()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return s.number()
		}
		return s.fail("expected a value")
	}
}

func (s *scanner) word(w string) bool {
	for i := range len(w) {
		if s.peek() != w[i] {
			return s.fail("expected a value")
		}
		s.pos++
	}
	return true
}

func (s *scanner) digits() bool {
	start := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > start || s.fail("expected a digit")
}

func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return false
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return false
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		return s.digits()
	}
	return true
}

func (s *scanner) str() bool {
	src, i := s.src, s.pos+1
	for i < len(src) {
		switch c := src[i]; {
		case c == '"':
			s.pos = i + 1
			return true
		case c == '\\':
			n := escapeLength(src[i:])
			if n == 0 {
				s.pos = min(i+1, len(src))
				return s.fail("invalid escape in a string")
			}
			i += n
		case c < ' ':
			s.pos = i
			return s.fail("a control character (a line break?) in a string")
		default:
			i++
		}
	}
	s.pos = len(src)
	return s.fail("")
}

// escapeLength returns the length of the escape sequence that text begins with, 0 if it is none.
func escapeLength(text string) int {
	if len(text) < 2 {
		return 0
	}
	if text[1] != 'u' {
		if strings.IndexByte(`"\/bfnrt`, text[1]) < 0 {
			return 0
		}
		return 2
	}
	if _, ok := hex4(text); !ok {
		return 0
	}
	return 6
}

// hex4 reads \u and four hexadecimal digits.
func hex4(text string) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range []byte(text[2:6]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unquote returns the text of a string token. Without escapes it is a part of the source and costs nothing.
func unquote(token string) string {
	body := token[1 : len(token)-1]
	next := strings.IndexByte(body, '\\')
	if next < 0 {
		return body
	}
	var b strings.Builder
	b.Grow(len(body))
	for next >= 0 {
		b.WriteString(body[:next])
		body = body[next:]
		if body[1] == 'u' {
			body = unquoteRune(&b, body)
		} else {
			b.WriteByte(unescape(body[1]))
			body = body[2:]
		}
		next = strings.IndexByte(body, '\\')
	}
	b.WriteString(body)
	return b.String()
}

func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// unquoteRune writes the character of the \u escape at the start of body and returns what follows. Half a surrogate pair is U+FFFD.
func unquoteRune(b *strings.Builder, body string) string {
	r, _ := hex4(body)
	body = body[6:]
	if utf16.IsSurrogate(r) {
		low, _ := hex4(body)
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			body = body[6:]
		}
	}
	b.WriteRune(r)
	return body
}
