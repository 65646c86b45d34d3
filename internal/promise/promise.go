// Package promise is the one rule by which a completion word counts in what an agent says, for every
// kind of loop. Of the agent's own final words these lines are its own:
//
//   - not fenced or indented code, nor a quotation, a list item or a row of a table,
//   - not a line of a diff, nor one that a search shows with its file and number.
//
// In its own lines the promise WORD is made by
//
//   - <promise>WORD</promise> on a line of its own, or on three lines of its own;
//   - the same at the very end of the message, after a blank: "All done. <promise>WORD</promise>".
//     A sentence about the tag is no promise;
//   - the word alone on a line, in any case.
//
// Emphasis and blanks around them do not matter, nor does a closing full stop; inline code does: it
// shows the words and does not say them. The case of a tagged word counts.
package promise

import (
	"strings"
	"unicode/utf8"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
)

// The tag's two halves.
const (
	Open  = "<promise>"
	Close = "</promise>"
)

// foundLine is an entry of a numbered list, or a line as grep shows it.
var foundLine = lazyregexp.New(`^(\d{1,9}[.)] |[^\s<]+:\d+[:-]|[^\s<]+[/.][^\s<]*-\d+-)`)

// Line is one line of a message, every run of blanks in it one space.
type Line struct {
	Text string
	Own  bool // said, and not shown or listed
}

// Lines splits a message.
func Lines(message string) []Line {
	raw := strings.Split(strings.ReplaceAll(message, "\r\n", "\n"), "\n")
	code := markdown.Code(raw)
	lines := make([]Line, len(raw))
	for n, line := range raw {
		text := strings.Join(strings.Fields(line), " ")
		lines[n] = Line{Text: text, Own: text != "" && !code[n] && !shown(line, text)}
	}
	return lines
}

// shown reports whether a line outside of fences is anything else than prose.
func shown(line, text string) bool {
	column := 0
	for _, c := range line {
		if c == '\t' {
			column += 4
		} else if c != ' ' {
			break
		}
		column++
	}
	switch text[0] {
	case '>', '|', '+', '-', '~', '@':
		return true
	case '*':
		if strings.HasPrefix(text, "* ") {
			return true
		}
	}
	return column >= 4 || strings.Contains(text, " | ") || foundLine.MatchString(text)
}

// Bare is the line without emphasis around it and its closing full stop.
func (l Line) Bare() string { return closed(strings.TrimLeft(l.Text, " *_")) }

// Made is the number of the last line by which the promise is made, -1 for none. The word is plain
// text; given with its tags it means the same as without. The empty word is never promised.
func Made(lines []Line, word string) int {
	if word = Word(word); word == "" {
		return -1
	}
	at, end, stage := -1, -1, 0
	for n, line := range lines {
		if line.Text == "" {
			continue
		}
		end = n
		if !line.Own {
			stage, end = 0, -1
			continue
		}
		text := line.Bare()
		switch {
		case stage == 1 && text == word: // of a tag that may not be closed
			stage = 2
		case tagged(text, word), said(line, word):
			at, stage = n, 0
		case text == Open:
			stage = 1
		case stage == 2 && text == Close:
			at, stage = n, 0
		default:
			stage = 0
		}
	}
	if end >= 0 && closes(closed(lines[end].Text), word) {
		return end
	}
	return at
}

// Word is a promise's word, without its tags where it was given with them.
func Word(word string) string {
	word = strings.TrimSpace(word)
	if inner, ok := strings.CutPrefix(word, Open); ok {
		if inner, ok = strings.CutSuffix(inner, Close); ok {
			word = inner
		}
	}
	return strings.Join(strings.Fields(word), " ")
}

// tagged reports whether a line is the tag around the word and nothing else.
func tagged(line, word string) bool {
	inner, ok := strings.CutPrefix(line, Open)
	if !ok {
		return false
	}
	inner, ok = strings.CutSuffix(inner, Close)
	return ok && strings.TrimSpace(inner) == word
}

// said reports whether a line is the word and nothing else, before marks are taken off that may be the
// word's own or after it.
func said(line Line, word string) bool {
	emphasis := strings.Trim(line.Text, " *_")
	return strings.EqualFold(line.Text, word) || strings.EqualFold(emphasis, word) ||
		strings.EqualFold(line.Bare(), word)
}

// closed takes a closing full stop or exclamation mark off, and emphasis before it.
func closed(line string) string { return strings.TrimRight(line, " *_.!") }

// closes reports whether the last line of a message ends with the tag around word, said and not spoken
// about: "All done. <promise>COMPLETE</promise>" is a claim, "I will not output
// <promise>COMPLETE</promise>" is none. What stands right before the tag without a blank is a mark of
// something else, such as a quotation mark; only scripts without blanks may do so.
func closes(line, word string) bool {
	rest, ok := strings.CutSuffix(line, Close)
	if !ok {
		return false
	}
	at := strings.LastIndex(rest, Open)
	if at < 0 || strings.TrimSpace(rest[at+len(Open):]) != word {
		return false
	}
	before := strings.TrimRight(rest[:at], "*_")
	last, _ := utf8.DecodeLastRuneInString(before)
	return (before == "" || last == ' ' || last >= utf8.RuneSelf && last != '”' && last != '“' && last != '»' &&
		last != '«') && !spoken.MatchString(strings.TrimRight(before[max(0, len(before)-256):], " \t*_`"))
}

// spoken begins a sentence about a tag that stands at its end.
var spoken = lazyregexp.New(
	`(?i)\b(not|never|cannot|until|unless|once|when|whenever|if|will|would|should|output(s|ting)?|emit|say|reply|respond|tag|promise|i['’]ll)\b[^.!?]*$|n['’]t\b[^.!?]*$`)
