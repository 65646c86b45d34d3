package specbuild

import (
	"strings"
	"unicode/utf8"

	"descartes/internal/lazyregexp"
)

// oneLine is text fit for a heading.
func oneLine(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// clean makes foreign text fit for a prompt: valid UTF-8, LF line ends, no terminal colours, no control
// characters (a NUL could not even be passed as an argument), no blank lines around it.
func clean(s string) string {
	if !isClean(s) {
		s = scrub(lineEnds(strings.ToValidUTF8(s, "\ufffd")))
	}
	return strings.Trim(strings.TrimRight(s, " \t\n"), "\n")
}

func isClean(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

// sequence is a terminal's: colours, titles, other escapes.
var sequence = lazyregexp.New("\x1b(?:\\[[0-?]*[ -/]*[@-~]?|\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\?)|\\]|[ -~])?")

// scrub drops escape sequences and control characters.
func scrub(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, sequence.ReplaceAllString(s, ""))
}

// tail is the end of s, from the start of a line where that costs little.
func tail(s string, size int) string {
	if len(s) <= size {
		return s
	}
	s = s[len(s)-size:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	if line := strings.IndexByte(s, '\n'); line >= 0 && line < size/4 {
		s = s[line+1:]
	}
	return "[...]\n" + s
}

func indent(s, by string) string {
	return by + strings.ReplaceAll(s, "\n", "\n"+by)
}

// paragraph writes text under a heading, or nothing if there is no text.
func paragraph(w *writer, heading, text string) {
	if text = clean(text); text == "" {
		return
	}
	if heading != "" {
		w.WriteString("\n" + heading + "\n")
	}
	w.WriteString("\n" + text + "\n")
}

// quoted writes foreign output in a fence, under a line that says what it is.
func quoted(w *writer, lead, text string) {
	if text == "" {
		return
	}
	w.WriteString("\n" + lead + "\n\n")
	codeBlock(w, "", text)
}

// codeBlock writes text in a code fence that is longer than any in it.
func codeBlock(w *writer, lang, text string) {
	longest, run := 2, 0
	for i := 0; i < len(text); i++ {
		if text[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	mark := strings.Repeat("`", longest+1)
	w.WriteString(mark + lang + "\n" + text + "\n" + mark + "\n")
}

// enclose writes a document in a tag of its own, so that its headings and fences cannot be taken for
// ours; the tag is one that the document does not close.
func enclose(w *writer, tag, attributes, text string) {
	for strings.Contains(text, "</"+tag+">") {
		tag += "-"
	}
	w.WriteString("<" + tag + attributes + ">\n")
	w.WriteString(text)
	w.WriteString("\n</" + tag + ">\n")
}

// head is the beginning of s, to the end of a line where that costs little.
func head(s string, size int) string {
	if len(s) <= size {
		return s
	}
	s = strings.ToValidUTF8(s[:size], "")
	if line := strings.LastIndexByte(s, '\n'); line > size-size/4 {
		s = s[:line]
	}
	return s + "\n[...]"
}
