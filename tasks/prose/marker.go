package prose

import (
	"slices"
	"strings"
	"unicode"

	"descartes/internal/lazyregexp"
)

var markerText = lazyregexp.New(`(?i)\bscud tasks?\b[ :#]*|\(\s*tasks?\b[ :#]*`)

// Marker finds "SCUD Task 3", "SCUD Tasks 3.1, 3.2" and, in parentheses alone, "(Task 3)". It returns the marker and
// the ids.
func Marker(s string) (string, []string) {
	for _, at := range markerText.FindAllStringIndex(s, -1) {
		ids, after := IDs(s[at[1]:])
		start := at[0]
		if s[start] == '(' {
			start++
			if !strings.HasPrefix(after, ")") {
				continue
			}
		}
		if len(ids) > 0 {
			return strings.TrimSpace(s[start : len(s)-len(after)]), ids
		}
	}
	return "", nil
}

// IDs reads "3", "3.1, 3.2", "3 and 4", "3-5" and returns what follows.
func IDs(s string) (ids []string, rest string) {
	refs, rest := Refs(s)
	for _, r := range refs {
		ids = append(ids, r.ID)
	}
	return ids, rest
}

// Keywords are the words of a text that say what it is about, each once, in their order: folded, cut to their stem,
// identifiers taken apart (LoopConfig, loop_config), without articles, prepositions and remarks in parentheses.
func Keywords(text string) (list []string) {
	if marker, _ := Marker(text); marker != "" {
		text = strings.Replace(text, marker, "", 1)
	}
	if short, _, ok := strings.Cut(text, " ("); ok && short != "" {
		text = short
	}
	prev := rune(0)
	var b strings.Builder
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			if r == '\'' || r == '’' {
				continue
			}
			b.WriteByte(' ')
		case unicode.IsUpper(r) && unicode.IsLower(prev):
			b.WriteByte(' ')
			fallthrough
		default:
			b.WriteRune(unicode.ToLower(r))
		}
		prev = r
	}
	const stop = " a an the of and or to for in on with from by into via at as is be are it its that this all any new when if not s "
	for _, w := range strings.Fields(b.String()) {
		if strings.Contains(stop, " "+w+" ") {
			continue
		}
		const stem = 5 // runes, so that "update", "updates" and "updating" agree
		if r := []rune(strings.TrimSuffix(w, "s")); !slices.Contains(list, string(r[:min(len(r), stem)])) {
			list = append(list, string(r[:min(len(r), stem)]))
		}
	}
	return list
}

// Routine reports whether a folded heading is one that every plan has, so that it says nothing about a task; what is
// under it may be about one.
func Routine(heading string) bool {
	switch heading {
	case "goal", "approach", "implementation approach", "implementation phases", "phases", "changes",
		"changes required",
		"required changes", "files to modify", "new files", "modified files", "dependencies", "next steps",
		"design decisions", "details", "work items":
		return true
	}
	return SectionOf(heading) != Unknown
}
