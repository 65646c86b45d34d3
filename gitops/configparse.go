package gitops

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// configScanner reads git's configuration syntax character by character, as git's own reader does; go-git's
// parser loses the difference between a key without a value and one with an empty value, and fails on
// continuation lines and escapes that git accepts.
type configScanner struct {
	src  []byte
	pos  int
	line int
	eof  bool
}

// parseConfig calls each for every variable in order: key is "section.key" or "section.Sub.key" with section
// and key in lower case; given is false for a key without "=", which means true.
func parseConfig(src []byte, each func(key, value string, given bool)) error {
	s := &configScanner{src: bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")), line: 1}
	section := ""
	for {
		c := s.next()
		switch {
		case c == '\n' && s.eof:
			return nil
		case isConfigSpace(c):
		case c == '#' || c == ';':
			s.skipLine()
		case c == '[':
			name, ok := s.section()
			if !ok {
				return s.bad()
			}
			section = name
		case isAlpha(c):
			key, value, given, ok := s.variable(c)
			if !ok {
				return s.bad()
			}
			if section != "" { // git accepts a variable before the first section
				key = section + "." + key
			}
			each(key, value, given)
		default:
			return s.bad()
		}
	}
}

func (s *configScanner) bad() error { return fmt.Errorf("bad config line %d", s.line) }

// next is the next character; CRLF reads as one newline and so does the end.
func (s *configScanner) next() byte {
	if s.pos >= len(s.src) {
		s.eof = true
		return '\n'
	}
	c := s.src[s.pos]
	s.pos++
	if c == '\r' && s.pos < len(s.src) && s.src[s.pos] == '\n' {
		c = '\n'
		s.pos++
	}
	if c == '\n' {
		s.line++
	}
	return c
}

func (s *configScanner) skipLine() {
	for s.next() != '\n' {
	}
}

// section reads the rest of a "[name]" or `[name "sub"]` header.
func (s *configScanner) section() (string, bool) {
	var b []byte
	for {
		c := s.next()
		switch {
		case c == ']':
			return string(b), len(b) > 0
		case c == '\n':
			return "", false
		case isConfigSpace(c):
			return s.subsection(b)
		case isKeyChar(c) || c == '.':
			b = append(b, lower(c))
		default:
			return "", false
		}
	}
}

func (s *configScanner) subsection(b []byte) (string, bool) {
	c := s.next()
	for c == ' ' || c == '\t' {
		c = s.next()
	}
	if c != '"' {
		return "", false
	}
	b = append(b, '.')
	for {
		switch c = s.next(); c {
		case '\n':
			return "", false
		case '"':
			return string(b), s.next() == ']'
		case '\\':
			if c = s.next(); c == '\n' {
				return "", false
			}
		}
		b = append(b, c)
	}
}

func (s *configScanner) variable(first byte) (key, value string, given, ok bool) {
	b := []byte{lower(first)}
	c := s.next()
	for isKeyChar(c) {
		b = append(b, lower(c))
		c = s.next()
	}
	for c == ' ' || c == '\t' {
		c = s.next()
	}
	if c == '\n' {
		return string(b), "", false, true
	}
	if c != '=' {
		return "", "", false, false
	}
	value, ok = s.value()
	return string(b), value, true, ok
}

// value reads to the end of the line: quotes, escapes, continuation lines; space outside quotes is trimmed.
func (s *configScanner) value() (string, bool) {
	var b []byte
	keep := 0 // length without trailing space
	quoted, comment := false, false
	for {
		c := s.next()
		switch {
		case c == '\n':
			return string(b[:keep]), !quoted
		case comment:
			continue
		case isConfigSpace(c) && !quoted:
			if len(b) > 0 {
				b = append(b, c)
			}
			continue
		case (c == '#' || c == ';') && !quoted:
			comment = true
			continue
		case c == '"':
			quoted = !quoted
			keep = len(b)
			continue
		case c == '\\':
			e, ok := unescape(s.next())
			if !ok {
				return "", false
			}
			if e != 0 {
				b = append(b, e)
			}
		default:
			b = append(b, c)
		}
		keep = len(b)
	}
}

// unescape is the character that follows a backslash; 0 for a continuation line.
func unescape(c byte) (byte, bool) {
	switch c {
	case '\n':
		return 0, true
	case 't':
		return '\t', true
	case 'b':
		return '\b', true
	case 'n':
		return '\n', true
	case '\\', '"':
		return c, true
	}
	return 0, false
}

func isConfigSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isAlpha(c byte) bool       { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isKeyChar(c byte) bool     { return isAlpha(c) || c >= '0' && c <= '9' || c == '-' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// truth reads a boolean as git does; what git would refuse gives def.
func truth(value string, given, def bool) bool {
	if !given {
		return true
	}
	switch strings.ToLower(value) {
	case "true", "yes", "on":
		return true
	case "false", "no", "off", "":
		return false
	}
	digits := strings.TrimRight(strings.ToLower(value), "kmg")
	if n, err := strconv.ParseInt(digits, 0, 64); err == nil && len(value)-len(digits) <= 1 {
		return n != 0
	}
	return def
}
