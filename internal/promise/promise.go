// Package promise knows how a line of text ends with a completion tag, <promise>WORD</promise>, and
// when such a line only speaks about the tag. Whoever looks for a promise, in a stream or in a whole
// message, asks here.
package promise

import (
	"strings"
	"unicode"
)

// The tag's two halves.
const (
	Open  = "<promise>"
	Close = "</promise>"
)

// Closes reports whether line, whose trailing blanks and marks are already off, ends with the tag
// around word, said and not spoken about: "All done. <promise>COMPLETE</promise>" is a claim,
// "I will not output <promise>COMPLETE</promise>" is none.
func Closes(line, word string) bool {
	rest, ok := strings.CutSuffix(line, Close)
	if !ok {
		return false
	}
	at := strings.LastIndex(rest, Open)
	return at >= 0 && strings.TrimSpace(rest[at+len(Open):]) == word && !spoken(rest[:at])
}

// spoken reports whether the sentence that leads to a tag is about it.
func spoken(before string) bool {
	before = before[max(0, len(before)-256):]
	before = strings.TrimRight(before, " \t*_`")
	before = before[strings.LastIndexAny(before, ".!?")+1:]
	words := strings.FieldsFunc(strings.ToLower(before), func(r rune) bool {
		return !unicode.IsLetter(r) && r != '\'' && r != '’'
	})
	for _, w := range words {
		switch w {
		case "not", "never", "cannot", "until", "unless", "once", "when", "whenever", "if", "will", "would", "should",
			"output", "outputs", "outputting", "emit", "say", "reply", "respond", "tag", "promise", "i'll", "i’ll":
			return true
		}
		if strings.HasSuffix(w, "n't") || strings.HasSuffix(w, "n’t") {
			return true
		}
	}
	return false
}
