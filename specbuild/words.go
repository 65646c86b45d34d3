package specbuild

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"descartes/internal/markdown"
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
	return markdown.Background(text)
}
