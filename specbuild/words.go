package specbuild

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// fold makes two spellings of one heading equal: case, spaces and closing punctuation.
func fold(s string) string {
	if strings.ContainsAny(s, "\t\n") || strings.Contains(s, "  ") {
		s = strings.Join(strings.Fields(s), " ")
	}
	return strings.ToLower(strings.Trim(s, " .:"))
}

// numberOf splits "Phase 2: Name", "2.1 Name" and "1. Name" into the word before the number in lower
// case, the number, and the rest. Without a number the rest is all of the text.
func numberOf(s string) (kind, num, rest string) {
	t := s
	word, after, ok := strings.Cut(s, " ")
	if ok && isNumberedWord(strings.ToLower(word)) {
		kind, t = strings.ToLower(word), strings.TrimLeft(after, " #")
	}
	num, tail := cutNumber(t)
	if num == "" {
		return "", "", s
	}
	r, _ := utf8.DecodeRuneInString(tail)
	if isWordRune(r) || tail != "" && kind == "" && r == ' ' && !strings.Contains(num, ".") {
		return "", "", s // "3D view", "10 ways to fail"
	}
	return kind, num, strings.TrimSpace(strings.TrimLeft(tail, " .):-–—"))
}

func isNumberedWord(s string) bool {
	switch s {
	case "phase", "step", "task", "section", "part", "milestone", "stage", "item", "subtask", "wave":
		return true
	}
	return false
}

// cutNumber takes "2" or "2.1.3" off the start of s.
func cutNumber(s string) (num, rest string) {
	n := 0
	for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == '.' && n > 0) {
		n++
	}
	num = strings.TrimRight(s[:n], ".")
	return num, s[len(num):]
}

func isWordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// isBoilerplate reports whether a heading, folded, is one that every plan has, so that it says nothing
// about a task; what is under it may be about one.
func isBoilerplate(text string) bool {
	switch text {
	case "goal", "goals", "approach", "implementation approach", "implementation plan", "implementation phases",
		"implementation steps", "implementation", "phases", "tasks", "task list", "changes", "changes required",
		"required changes", "files to modify", "new files", "modified files", "dependencies", "next steps", "steps",
		"design decisions", "details", "todo", "work items", "plan":
		return true
	}
	return isBackground(text)
}

// isBackground recognises headings over what is no work to do, folded: what is there already, what is
// left out, how it is checked.
func isBackground(text string) bool {
	switch text {
	case "overview", "summary", "executive summary", "introduction", "background", "context", "motivation", "non-goals",
		"problem statement", "current state", "current state analysis", "what exists", "desired end state", "desired state",
		"what we're not doing", "what we are not doing", "what we’re not doing", "out of scope", "scope",
		"testing strategy", "test strategy", "testing", "manual testing", "manual testing steps", "key discoveries",
		"key findings", "references", "related", "notes", "performance considerations", "security considerations",
		"open questions", "risks", "risk assessment", "table of contents", "contents", "appendix", "timeline",
		"rollback plan", "scud task mapping", "task mapping", "changelog":
		return true
	}
	return isCriteria(text)
}

// isCriteria recognises the heading over the checks that a phase must pass; text is folded.
func isCriteria(text string) bool {
	switch text {
	case "success criteria", "acceptance criteria", "automated verification", "manual verification", "verification",
		"verification criteria", "definition of done", "exit criteria", "done when", "success metrics":
		return true
	}
	return false
}

// words splits text into the words that carry meaning: folded, cut to their stem, identifiers taken
// apart (LoopConfig, loop_config), without the articles and prepositions of English.
func words(text string) []string {
	var out []string
	start, prev := -1, rune(0)
	flush := func(end int) {
		if start >= 0 {
			if w := stem(strings.ToLower(text[start:end])); w != "" {
				out = append(out, w)
			}
		}
		start = -1
	}
	for i, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			if r == '\'' || r == '’' {
				continue
			}
			flush(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && unicode.IsLower(prev), isIdeograph(r), isIdeograph(prev):
			flush(i)
			start = i
		}
		prev = r
	}
	flush(len(text))
	return out
}

// isIdeograph reports scripts that are written without spaces; there each sign counts as a word.
func isIdeograph(r rune) bool {
	return r > 0x2e7f && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// maxStem is where words are cut, so that "validate" and "validation" agree.
const maxStem = 7

func stem(w string) string {
	if isStopWord(w) {
		return ""
	}
	if strings.ContainsAny(w, "0123456789") {
		return w
	}
	for _, suffix := range []string{"ies", "ing", "ers", "er", "ed", "es", "s"} {
		if len(w) > len(suffix)+3 && strings.HasSuffix(w, suffix) && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") {
			w = strings.TrimSuffix(w, suffix)
			break
		}
	}
	if len(w) > 4 && (strings.HasSuffix(w, "e") || strings.HasSuffix(w, "y")) {
		w = w[:len(w)-1]
	}
	n := 0
	for i := range w {
		if n == maxStem {
			return w[:i]
		}
		n++
	}
	return w
}

func isStopWord(w string) bool {
	switch w {
	case "a", "an", "the", "of", "and", "or", "to", "for", "in", "on", "with", "from", "by", "into", "via", "at", "as",
		"is", "be", "are", "it", "its", "that", "this", "all", "new", "when", "if", "not", "s":
		return true
	}
	return false
}
