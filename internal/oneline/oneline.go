// Package oneline makes foreign text and long lists fit for one line of a message.
package oneline

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is s without line breaks, control characters, and what turns the direction of text.
func Text(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069'
	}), " ")
}

// most is how many items List names.
const most = 8

// List names the first of many items.
func List(items []string) string {
	names := make([]string, 0, most)
	for _, s := range items[:min(most, len(items))] {
		names = append(names, Text(s))
	}
	if n := len(items) - len(names); n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), n)
	}
	return strings.Join(names, ", ")
}

// Clip cuts a text to at most n bytes, not through a character.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.TrimRight(strings.ToValidUTF8(s[:n], ""), " \t\n") + "…"
}

// Last is the end of a text, at most n bytes of it, not through a character.
func Last(s string, n int) string {
	at := max(0, len(s)-n)
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return s[at:]
}
