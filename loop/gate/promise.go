package gate

import (
	"strings"

	"descartes/internal/promise"
)

// Promised reports whether an agent's final message makes the promise word, in one of two forms:
//
//   - tagged: <promise>word</promise> on a line of its own, on three lines of its own, or as the very
//     last thing that the message says. Case counts. A sentence about the tag is no promise.
//   - plain: the word alone on a line, in any case.
//
// Blanks and emphasis around them do not matter, nor does a closing full stop. Fenced code and
// quoted lines never count. The word is plain text: what looks like a pattern in it is not one. A word given
// with its tags means the same as without. The empty word is never promised.
func Promised(final, word string) bool {
	if word = squeeze(unwrap(word)); word == "" {
		return false
	}
	lines, code := prose(final)
	last, stage := "", 0
	for n, line := range lines {
		text := squeeze(line)
		if code[n] || strings.HasPrefix(text, ">") {
			last, stage = "", 0
			continue
		}
		if text == "" {
			continue
		}
		last = text
		text = closed(bare(text))
		switch {
		case tagged(text, word), said(line, word):
			return true
		case text == promise.Open:
			stage = 1
		case stage == 1 && text == word:
			stage = 2
		case stage == 2 && text == promise.Close:
			return true
		default:
			stage = 0
		}
	}
	return promise.Closes(closed(strings.TrimRight(last, " *_`")), word)
}

// tagged reports whether a line is the tag around the word and nothing else.
func tagged(line, word string) bool {
	inner, ok := strings.CutPrefix(line, promise.Open)
	if !ok {
		return false
	}
	inner, ok = strings.CutSuffix(inner, promise.Close)
	return ok && strings.TrimSpace(inner) == word
}

// said reports whether a line is the word and nothing else. A list mark makes it an entry of a list,
// which may well be a list of what is not there yet.
func said(line, word string) bool {
	line = strings.TrimLeft(line, " \t")
	for _, mark := range []string{"* ", "- ", "+ "} {
		if strings.HasPrefix(line, mark) {
			return false
		}
	}
	line = squeeze(line)
	if strings.EqualFold(line, word) {
		return true // before marks are taken off that may be the word's own
	}
	line = bare(line)
	return strings.EqualFold(line, word) || strings.EqualFold(closed(line), word)
}

// closed takes a closing full stop or exclamation mark off, and emphasis before it.
func closed(line string) string { return strings.TrimRight(line, " *_`.!") }

// unwrap takes the tags off a word that was given with them.
func unwrap(word string) string {
	w := strings.TrimSpace(word)
	if inner, ok := strings.CutPrefix(w, promise.Open); ok {
		if inner, ok = strings.CutSuffix(inner, promise.Close); ok {
			return strings.TrimSpace(inner)
		}
	}
	return w
}
