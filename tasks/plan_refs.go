package tasks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// planRef names a task or a phase, as people write it in a plan.
type planRef struct {
	id    string
	phase bool
	word  bool // "Task 3" or T003: not a mere number
}

// statement is what a line says about an order: "depends on 1, 2", "blocks 4".
type statement struct {
	blocks bool
	beside bool // "in parallel with"
	strong bool // a line, a parenthesis or a clause of its own, not the middle of a sentence
	text   string
}

// keywords begin a statement.
func keywords() []string {
	return []string{"depends on", "depends upon", "dependent on", "blocked by", "blocked on", "in parallel with", "parallel to", "parallel with",
		"dependencies:", "dependency:", "depends:", "deps:", "blocks"}
}

// statementsIn finds the statements of a line.
func statementsIn(line string) []statement {
	const most, longest = 8, 4000
	line = line[:min(len(line), longest)] // what is longer is no statement
	lower := lowerASCII(line)
	if !strings.Contains(lower, "depend") && !strings.Contains(lower, "block") && !strings.Contains(lower, "parallel") && !strings.Contains(lower, "deps:") {
		return nil // nearly all lines
	}
	line = strings.NewReplacer("**", "", "`", "", "__", "").Replace(line)
	lower = lowerASCII(line)
	var list []statement
	for at := 0; len(list) < most; {
		found, word := -1, ""
		for _, k := range keywords() {
			if i := strings.Index(lower[at:], k); i >= 0 && (found < 0 || i < found) {
				found, word = i, k
			}
		}
		if found < 0 {
			break
		}
		start := at + found
		at = start + len(word)
		if start > 0 && letterOrDigit(lower[start-1]) || at < len(lower) && !strings.HasSuffix(word, ":") && letterOrDigit(lower[at]) {
			continue // part of a longer word
		}
		list = append(list, statement{
			blocks: word == "blocks",
			beside: strings.Contains(word, "parallel"),
			strong: beginsClause(line[:start]),
			text:   strings.TrimLeft(line[at:], " :*"),
		})
	}
	return list
}

// beginsClause reports whether what follows the text begins a clause of its own.
func beginsClause(before string) bool {
	before = strings.TrimRight(before, " ")
	if strings.Trim(before, "-*+>| _") == "" {
		return true
	}
	return strings.IndexByte("([,;.:|-", before[len(before)-1]) >= 0 || strings.HasSuffix(before, "—") || strings.HasSuffix(before, "–")
}

func letterOrDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// saysNone reports whether a text says that there is nothing to wait for.
func saysNone(s string) bool {
	s = strings.ToLower(strings.TrimSpace(s))
	if end := strings.IndexAny(s, ").;,("); end >= 0 {
		s = strings.TrimSpace(s[:end])
	}
	switch s {
	case "-", "–", "—", "none", "nothing", "n/a", "na", "no", "nil", "no dependencies", "no other tasks", "no other task":
		return true
	}
	return strings.HasPrefix(s, "none ") || strings.HasPrefix(s, "nothing ")
}

// refsIn reads "1, 2", "Task 3 and Task 4", "T001-T004", "Phases 1 & 2" and returns what follows. Remarks in parentheses after an
// id are skipped.
func refsIn(s string) (refs []planRef, rest string) {
	const most = 1000
	phase, word := false, false
	for len(refs) < most {
		t := strings.TrimLeft(s, " #[")
		if first, _, ok := strings.Cut(t[:min(len(t), 2*maxIDLength)], " "); ok {
			w := strings.TrimSuffix(strings.ToLower(first), "s")
			isTask := w == "task" || w == "subtask" || w == "item" || w == "story" || w == "storie"
			if isTask || slices.Contains(phaseWords(), w) {
				phase, word, t = !isTask, true, strings.TrimLeft(t[len(first):], " #[")
			}
		}
		id, after := cutID(t)
		if id == "" {
			return refs, s
		}
		list := []string{id}
		if tail, ok := cutRange(after); ok {
			if hi, behind := cutID(tail); hi != "" {
				after = behind
				if list, ok = idRange(id, hi); !ok {
					list = []string{id, hi}
				}
			}
		} else if lo, hi, ok := strings.Cut(id, "-"); ok {
			if many, ok := idRange(lo, hi); ok {
				list = many
			}
		}
		for _, id := range list {
			refs = append(refs, planRef{id: id, phase: phase, word: word || codeID(id)})
		}
		s = cutRemark(strings.TrimLeft(after, "]"))
		next, ok := cutSeparator(strings.TrimLeft(s, " "))
		if !ok {
			break
		}
		s = next
	}
	return refs, s
}

// cutRemark drops a parenthesis at the start of s.
func cutRemark(s string) string {
	if remark, ok := strings.CutPrefix(strings.TrimLeft(s, " "), "("); ok {
		if _, behind, closed := strings.Cut(remark, ")"); closed {
			return behind
		}
	}
	return s
}

// cutID takes an id with a digit in it off the start of s.
func cutID(s string) (id, rest string) {
	n := 0
	for n < len(s) && n <= maxIDLength && idByte(s[n]) && s[n] != ':' {
		n++
	}
	id = strings.TrimRight(s[:n], ".-_")
	if !strings.ContainsAny(id, "0123456789") || idProblem(id) != "" {
		return "", s
	}
	return id, s[len(id):]
}

func cutRange(s string) (string, bool) {
	t := strings.TrimLeft(s, " ")
	for _, mark := range []string{"–", "—", "- ", "to ", "through ", ".."} {
		if rest, ok := strings.CutPrefix(t, mark); ok {
			return strings.TrimLeft(rest, " "), true
		}
	}
	return s, false
}

func cutSeparator(s string) (string, bool) {
	some := false
	for _, mark := range []string{",", "&", "+", "/", "and ", "or "} {
		if rest, ok := strings.CutPrefix(s, mark); ok {
			s, some = strings.TrimLeft(rest, " "), true
		}
	}
	return s, some
}

// idRange are the ids from lo to hi, if these differ in their last number and are not too many.
func idRange(lo, hi string) ([]string, bool) {
	const most = 100
	stem := strings.TrimRight(lo, "0123456789")
	from, to := lo[len(stem):], strings.TrimPrefix(hi, stem)
	a, errA := strconv.Atoi(from)
	b, errB := strconv.Atoi(to)
	if errA != nil || errB != nil || b < a || b-a > most || !isNumber(to) {
		return nil, false
	}
	var list []string
	for ; a <= b; a++ {
		list = append(list, fmt.Sprintf("%s%0*d", stem, len(from), a))
	}
	return list, true
}

// isList reports whether what was read is a list of ids rather than the start of a sentence ("blocks 3 other tasks").
func isList(refs []planRef, rest string) bool {
	if len(refs) == 0 {
		return false
	}
	rest = strings.TrimLeft(rest, " ")
	return len(refs) > 1 || refs[0].word || rest == "" || strings.IndexByte(").;,]|(-", rest[0]) >= 0 || strings.HasPrefix(rest, "—") || strings.HasPrefix(rest, "–")
}

// cutStatements drops what a title says about order in parentheses: it is in other fields.
func cutStatements(title string) string {
	for at := 0; ; {
		open := strings.IndexByte(title[at:], '(')
		if open < 0 {
			break
		}
		open += at
		closing := strings.IndexByte(title[open:], ')')
		if closing < 0 {
			break
		}
		if at = open + 1; statesOrder(title[open+1 : open+closing]) {
			title, at = strings.TrimRight(title[:open], " ")+title[open+closing+1:], open
			at = min(at, len(title))
		}
	}
	return strings.TrimRight(strings.Join(strings.Fields(title), " "), " :-–")
}

func statesOrder(s string) bool {
	return slices.ContainsFunc(statementsIn(s), func(x statement) bool {
		refs, rest := refsIn(x.text)
		return isList(refs, rest) || saysNone(x.text)
	})
}
