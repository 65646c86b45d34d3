package agent

import (
	"bytes"
	"strings"

	"descartes/internal/promise"
)

// mark recognises the words by which an agent says how far it got, in lines of
// its own text. The later one counts.
//
//   - <promise>COMPLETE</promise> at the end of a line, or on three lines of
//     its own. Words before it on the line are fine as long as they do not
//     speak about the tag: "All done. <promise>COMPLETE</promise>" is a claim,
//     "I will not output <promise>COMPLETE</promise>" and "... yet" are not.
//   - TASK_COMPLETE alone on a line.
//   - TASK_BLOCKED: reason, on a line of its own.
//
// Blanks, quote marks, list marks and Markdown emphasis around them, and a
// closing full stop, do not matter. Case does.
type mark struct {
	word     string
	stage    int // of a tag on lines of its own: 1 opened, 2 word seen
	complete bool
	blocked  string // never empty after TASK_BLOCKED
}

const (
	doneWord = "TASK_COMPLETE"
	stopWord = "TASK_BLOCKED"

	leading  = " \t>*_`~|#-"
	trailing = " \t\r\n*_`~|.!"

	reasonLimit = 500
)

func newMark(word string) mark {
	if word = strings.TrimSpace(word); word == "" {
		word = "COMPLETE"
	}
	return mark{word: word}
}

// markKeys are byte strings of which every line that could change a mark
// without an opened tag holds one.
func markKeys() [][]byte {
	return [][]byte{[]byte("promise>"), []byte(doneWord), []byte(stopWord)}
}

// open reports whether the next line may belong to a tag that was begun.
func (m *mark) open() bool { return m.stage > 0 }

func (m *mark) claim() { m.complete, m.blocked, m.stage = true, "", 0 }

func (m *mark) block(reason string) {
	reason = strings.TrimSpace(strings.ToValidUTF8(reason, "\uFFFD"))
	reason = strings.ReplaceAll(strings.TrimRight(reason, "*_`"), "\x00", "")
	if reason == "" {
		reason = "no reason given"
	}
	m.complete, m.blocked, m.stage = false, clip(reason, reasonLimit), 0
}

// line takes one whole line.
func (m *mark) line(line []byte) {
	if !m.open() && !holdsKey(line) {
		return
	}
	text := plain(string(line))
	trimmed := strings.TrimRight(strings.TrimLeft(text, leading), trailing)
	if m.open() && m.goOn(trimmed) {
		return
	}
	switch {
	case trimmed == doneWord:
		m.claim()
	case strings.HasPrefix(trimmed, stopWord):
		m.stop(strings.TrimLeft(text, leading)[len(stopWord):])
	case trimmed == promise.Open:
		m.stage = 1
	case strings.HasSuffix(trimmed, promise.Close):
		m.tag(trimmed)
	}
}

// goOn takes a line after an opened tag and reports whether it belongs to it.
func (m *mark) goOn(text string) bool {
	switch {
	case text == "":
		return true
	case m.stage == 1 && text == m.word:
		m.stage = 2
		return true
	case m.stage == 2 && text == promise.Close:
		m.claim()
		return true
	}
	m.stage = 0
	return false
}

// stop takes what follows TASK_BLOCKED.
func (m *mark) stop(rest string) {
	rest = strings.TrimLeft(rest, "*_`") // **TASK_BLOCKED**: reason
	reason, ok := strings.CutPrefix(rest, ":")
	reason = strings.TrimSpace(strings.TrimLeft(reason, "*_`"))
	switch {
	case !ok && strings.Trim(rest, trailing) != "": // TASK_BLOCKED_BY, "TASK_BLOCKED is for ..."
	case strings.HasPrefix(reason, "<") && strings.HasSuffix(strings.TrimRight(reason, trailing), ">"): // <reason>: how to say it
	default:
		m.block(reason)
	}
}

// tag takes a line that ends with the closing tag.
func (m *mark) tag(text string) {
	if promise.Closes(text, m.word) {
		m.claim()
	}
}

// long takes a line too long to be held: its beginning and its end.
func (m *mark) long(head, end []byte) {
	m.stage = 0
	if text := strings.TrimLeft(plain(string(head[:min(len(head), 2*reasonLimit)])), leading); strings.HasPrefix(text, stopWord) {
		m.stop(text[len(stopWord):])
		return
	}
	if trimmed := strings.TrimRight(plain(string(end)), trailing); strings.HasSuffix(trimmed, promise.Close) {
		m.tag(trimmed)
	}
}

func holdsKey(line []byte) bool {
	for _, k := range []string{"promise>", doneWord, stopWord} {
		if bytes.Contains(line, []byte(k)) {
			return true
		}
	}
	return false
}
