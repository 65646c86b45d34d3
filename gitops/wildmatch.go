package gitops

import "strings"

// wildmatch is git's own pattern matcher. In a path, "*" and "?" do not match a slash, and "**" does where it
// is a whole component.
func wildmatch(pattern, text string, path bool) bool {
	m := matcher{whole: pattern, path: path, budget: 1 << 20}
	return m.match(0, text) == matchYes
}

type matchResult int8

const (
	matchNo      matchResult = iota
	matchYes                 //
	matchAbort               // no start further right can match either
	matchToSlash             // nor can one before the next slash
)

type matcher struct {
	whole  string
	path   bool
	budget int // steps left: hostile patterns are exponential, and then match nothing
}

// match compares the pattern from at on with text.
func (m *matcher) match(at int, text string) matchResult {
	p := m.whole
	for ; at < len(p); at++ {
		if m.budget--; m.budget < 0 {
			return matchAbort
		}
		if text == "" && p[at] != '*' {
			return matchAbort
		}
		switch p[at] {
		case '\\':
			at++
			if at == len(p) || text[0] != p[at] {
				return matchNo
			}
		case '?':
			if m.path && text[0] == '/' {
				return matchNo
			}
		case '*':
			next, rest, r, done := m.star(at, text)
			if done {
				return r
			}
			at, text = next, rest
			continue // both stand behind the slash already
		case '[':
			ok, n := matchClass(p[at:], text[0])
			if n == 0 {
				return matchAbort
			}
			if !ok || m.path && text[0] == '/' {
				return matchNo
			}
			at += n - 1
		default:
			if text[0] != p[at] {
				return matchNo
			}
		}
		text = text[1:]
	}
	if text != "" {
		return matchNo
	}
	return matchYes
}

// star deals with the "*" or "**" at position at. Unless done, matching goes on behind position next with rest.
func (m *matcher) star(at int, text string) (next int, rest string, r matchResult, done bool) {
	p := m.whole
	first := at
	for at+1 < len(p) && p[at+1] == '*' {
		at++
	}
	across := !m.path // whether it matches slashes
	if m.path && at > first && (first == 0 || p[first-1] == '/') {
		tail := p[at+1:]
		if tail == "" || tail[0] == '/' || strings.HasPrefix(tail, `\/`) {
			// "**/" also matches nothing at all
			if tail != "" && tail[0] == '/' && m.match(at+2, text) == matchYes {
				return 0, "", matchYes, true
			}
			across = true
		}
	}
	at++
	if at == len(p) {
		if !across && strings.IndexByte(text, '/') >= 0 {
			return 0, "", matchToSlash, true
		}
		return 0, "", matchYes, true
	}
	if !across && p[at] == '/' {
		i := strings.IndexByte(text, '/')
		if i < 0 {
			return 0, "", matchAbort, true
		}
		return at, text[i+1:], 0, false
	}
	return 0, "", m.anywhere(at, text, across), true
}

// anywhere tries the rest of the pattern at every place of text that the star before it may reach.
func (m *matcher) anywhere(at int, text string, across bool) matchResult {
	for ; text != ""; text = text[1:] {
		r := m.match(at, text)
		if r != matchNo {
			if !across || r != matchToSlash {
				return r
			}
		} else if !across && text[0] == '/' {
			return matchToSlash
		}
	}
	return matchAbort
}

// matchClass compares c with the bracket expression at the start of p; n is its length, 0 if it is not closed.
func matchClass(p string, c byte) (ok bool, n int) {
	i := 1
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	var prev byte // the start of a possible range
	for first := true; ; first = false {
		if i >= len(p) {
			return false, 0
		}
		ch := p[i]
		switch {
		case ch == ']' && !first:
			return ok != negated, i + 1
		case ch == '\\':
			if i++; i >= len(p) {
				return false, 0
			}
			ch = p[i]
			ok = ok || c == ch
		case ch == '-' && prev != 0 && i+1 < len(p) && p[i+1] != ']':
			if i++; p[i] == '\\' {
				i++
			}
			if i >= len(p) {
				return false, 0
			}
			ok = ok || c >= prev && c <= p[i]
			ch = 0
		case ch == '[' && i+1 < len(p) && p[i+1] == ':':
			end := strings.IndexByte(p[i+2:], ']')
			if end < 0 {
				return false, 0
			}
			if end == 0 || p[i+1+end] != ':' { // no class after all: a plain bracket
				ok = ok || c == '['
				break
			}
			in, known := posixClass(p[i+2:i+1+end], c)
			if !known {
				return false, 0
			}
			ok = ok || in
			i += 2 + end
			ch = 0
		default:
			ok = ok || c == ch
		}
		prev = ch
		i++
	}
}

func posixClass(name string, c byte) (in, known bool) {
	upper, lower, digit := c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9'
	switch name {
	case "alnum":
		return upper || lower || digit, true
	case "alpha":
		return upper || lower, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < 32 || c == 127, true
	case "digit":
		return digit, true
	case "graph":
		return c > 32 && c < 127, true
	case "lower":
		return lower, true
	case "print":
		return c >= 32 && c < 127, true
	case "punct":
		return c > 32 && c < 127 && !upper && !lower && !digit, true
	case "space":
		return c == ' ' || c >= 9 && c <= 13, true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F', true
	}
	return false, false
}
