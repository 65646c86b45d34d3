package gate

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"descartes/internal/markdown"
)

// prose splits a message into lines and says which of them are fenced code, the fences included.
func prose(text string) (lines []string, code []bool) {
	lines = strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	return lines, markdown.Code(lines)
}

// bare takes quote marks off the start of a line, and emphasis and blanks off both ends.
func bare(line string) string {
	return strings.TrimRight(strings.TrimLeft(line, " \t\r>*_`"), " \t\r*_`")
}

// words are a text's words in lower case, letters and digits.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// squeeze makes every run of blanks one space.
func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

// clip shortens a text to at most n bytes.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return strings.TrimRight(text[:n], " \t\n") + "…"
}

// oneLine is a text's words on one line, shortened.
func oneLine(text string, n int) string { return clip(squeeze(text), n) }
