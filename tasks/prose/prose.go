// Package prose owns how people write about tasks: ids and references to them, statements of order ("depends on 1,
// 2"), priorities. It knows no file and no format.
package prose

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"descartes/internal/lazyregexp"
)

// MaxID is how long an id may be, in bytes.
const MaxID = 100

func IsNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// PlainNumber reports whether an id can be written as a JSON number and is read back the same.
func PlainNumber(id string) bool {
	return IsNumber(id) && len(id) < 16 && (id == "0" || id[0] != '0')
}

// IDProblem says what is wrong with an id, or "".
func IDProblem(id string) string {
	if len(id) <= MaxID && whole.MatchString(id) {
		return ""
	}
	return fmt.Sprintf("the id %q: it may have letters, digits, - _ . and :, begins with a letter, a digit or _, and is at most %d bytes long", Short(id), MaxID)
}

// Numbered splits "Task 3: Title", "Phase 2 - Name", "第2阶段", "2.1 Name" and "4. Name"; the word is the English one.
// Without a number, id is "" and the title is all. A word is no number: of tasks only a letter ("Task A") or a name with
// a hyphen ("Task setup-db") is.
func Numbered(s string) (word, id, title string) {
	text := s
	if m := counted.FindStringSubmatch(s); m != nil {
		number := m[1]
		if at := strings.Index(hanNumbers, number); at%len("一") == 0 {
			number = strconv.Itoa(1 + at/len("一"))
		}
		return canonical[m[2]], number, strings.TrimLeft(s[len(m[0]):], behindID)
	}
	if m := hanNumbered.FindStringSubmatch(s); m != nil { // 阶段一：
		return canonical[m[1]], strconv.Itoa(1 + strings.Index(hanNumbers, m[2])/len("一")), s[len(m[0]):]
	}
	if m := numbered.FindStringSubmatch(s); m != nil {
		word, text = canonical[strings.ToLower(m[1]+m[2])], s[len(m[0]):]
	}
	id, rest := cutID(text)
	title = rest[len(delimiter.FindString(rest)):]
	closed := strings.IndexAny(rest, ".):：、）") == 0
	switch {
	case !whole.MatchString(id) || ordinal.MatchString(id) || strings.HasPrefix(rest, "+") || strings.HasPrefix(rest, "以"): // from it on
	case word == "task" || word == "subtask":
		if strings.ContainsAny(id, "0123456789") || closed && (len(id) == 1 || strings.ContainsAny(id, "-_")) {
			return word, id, title
		}
	case word != "":
		if IsDotted(id) || len(id) == 1 && (!strings.HasPrefix(rest, " ") || delimiter.FindString(rest) != " ") {
			return word, id, title
		}
	case IsDotted(id) && title != "" && (strings.Contains(id, ".") || closed):
		return "", id, title
	}
	return "", "", s
}

const behindID = " .):]-–—·：、）"

const hanNumbers = "一二三四五六七八九十"

// cutID takes what may be in an id off the start of a text, without a mark at its end.
func cutID(s string) (id, rest string) {
	id = strings.TrimRight(head.FindString(s), ".-_")
	return id, s[len(id):]
}

var (
	whole = lazyregexp.New(`^[\pL\p{Nd}_][\pL\p{Nd}_.:-]*$`)
	head  = lazyregexp.New(`^[\w.-]*`)
	// what numbers follow; words that are written without a space behind them come last
	numbered = lazyregexp.New(`(?i)^[:\[]*(?:(` + anyOf(numberedWords) + `)[:\[]*(?: [ #\[]*|$)|(` + unspaced + `)[ #]*)`)
	counted  = lazyregexp.New(`^第 ?([0-9]+|[` + hanNumbers + `]) ?(` + unspaced + `)`)
	// the same behind the word
	hanNumbered = lazyregexp.New(`^(` + unspaced + `) ?([` + hanNumbers + `])[：:、.． ] *`)
	delimiter   = lazyregexp.New(`^[\])）.:：、]*(?: *(?:[-–—·]|[:：])+(?: +|$))? *`)
	ordinal     = lazyregexp.New(`^[0-9]+(st|nd|rd|th)$`)
	dotted      = lazyregexp.New(`^(?:[0-9]{1,3}-[0-9]{1,3}|[0-9]+[a-hA-H]?(\.[0-9]+[a-hA-H]?)*)\.?$`)
	code        = lazyregexp.New(`^[A-Z]{1,8}[-_]*[0-9][0-9.a-h-]*(?:-[A-Z]{1,8})?$`)
	none        = lazyregexp.New(
		`(?i)^\s*(?:(?:-|–|—|none|nothing|n/a|na|no|nil|no dependencies|no other tasks?|` + noneWords + `)\s*(?:[).;,(].*)?$|(?:none|nothing) )`)
	alone = lazyregexp.New(
		"(?i)^ *(?:-|–|—|none|nothing|n/a|na|no|nil|no dependencies|no other tasks?)?[ .*`_]*$")
	clause  = lazyregexp.New(`^[-*+>| _]*$|[(\[,;.:|–—-] *$`)
	listEnd = lazyregexp.New(`^ *(?:$|[).;,\]|(–—-])`)
)

const noneWords = `keine|aucune?|ninguna?|nenhuma?|нет|无|無|なし|없음`

// IsDotted reports whether id is made of numbers and dots, or of two numbers as in 1-2.
func IsDotted(id string) bool { return dotted.MatchString(id) }

// unspaced are the words of languages that put no space before a number.
const unspaced = `任务|任務|タスク|작업|태스크|子任务|阶段|階段|フェーズ|フェイズ|단계|里程碑|マイルストーン|迭代|部分|步骤|步驟|步|ステップ|手順|周|週|주차`

// LeadingID splits "T001 Title", "2.1 Title", "Task 3: Title".
func LeadingID(s string) (id, title string) {
	if word, id, title := Numbered(s); id != "" && title != "" && (word == "task" || word == "subtask" || word == "") {
		return id, title
	}
	id, rest := cutID(s)
	rest = strings.TrimLeft(rest, ".")
	if !CodeID(id) || strings.IndexAny(rest, " :：") != 0 {
		return "", s
	}
	return id, strings.TrimLeft(rest, behindID)
}

// CodeID reports whether a word is an id like T001, US-12 or AUTH-3.1: capital letters, then a number.
func CodeID(w string) bool { return code.MatchString(w) }

// NoTaskCode reports whether an id is one of a criterion, a decision, a risk and the like: AC-1, NFR2. One with two
// numbers, as P0-1, is not.
func NoTaskCode(id string) bool {
	stem := strings.TrimRight(strings.TrimRight(id, "0123456789.abcdefgh"), "-")
	return noTaskCodes[stem] || Priority(id) != ""
}

var noTaskCodes = Set("AC ADR BR C D EC FR G H K KD NF NFR Q R REQ RISK SC V")

// Set is the words of a text.
func Set(words string) map[string]bool {
	in := map[string]bool{}
	for _, w := range strings.Fields(words) {
		in[w] = true
	}
	return in
}

// BoxStatus is the status that a mark in a box stands for.
func BoxStatus(mark rune) string {
	switch mark {
	case 'x', 'X', '✓', '✔', '✅', '☑':
		return "done"
	case '~', '/':
		return "in-progress"
	case '-':
		return "cancelled"
	case '>':
		return "deferred"
	case '!':
		return "blocked"
	}
	return "pending"
}

// Priority reads a word for a priority, or P0 to P3; "" for anything else.
func Priority(s string) string {
	switch s = strings.ToLower(strings.TrimSpace(s)); s {
	case "critical", "high", "medium", "low":
		return s
	case "p0":
		return "critical"
	case "p1":
		return "high"
	case "p2":
		return "medium"
	case "p3", "p4":
		return "low"
	}
	return ""
}

var verify = lazyregexp.New(`(?i)^[-*+ ]*verify:[* ]*(.*?)\s*$`)

// Text is a document in lines.
type Text interface {
	Line(n int) string
	Words(n int) string // of a line, behind its marks
	Fenced(n int) bool  // it belongs to a block of code, or is one of its fences
}

// Verify is the command that says how the task in lines from to last is checked: what is in backticks in the lines
// "Verify: `make test`", else what follows, or the block of code below. Of several each has to pass. It is "" where
// there is none.
func Verify(t Text, from, last int) string {
	var all []string
	for n := from; n < last; n++ {
		m := verify.FindStringSubmatch(t.Words(n))
		if m == nil || t.Fenced(n) {
			continue
		}
		parts := strings.Split(m[1], "`")
		switch {
		case len(parts) > 2:
			for i := 1; i < len(parts)-1; i += 2 {
				all = append(all, parts[i])
			}
		case m[1] != "":
			all = append(all, m[1])
		default:
			if block := blockBelow(t, n+1, last); block != "" {
				all = append(all, "set -e\n"+block)
			}
		}
	}
	return Both(all)
}

// Both is the command that passes where each of some does.
func Both(commands []string) string {
	if len(commands) < 2 {
		return strings.Join(commands, "")
	}
	return "(" + strings.Join(commands, "\n) && (") + "\n)"
}

// blockBelow is the block of code that begins at line n, blank lines aside.
func blockBelow(t Text, n, last int) string {
	for n < last && strings.TrimSpace(t.Line(n)) == "" {
		n++
	}
	var lines []string
	for n++; n+1 < last && t.Fenced(n-1) && t.Fenced(n+1); n++ { // behind the last one is the fence that ends it
		lines = append(lines, t.Line(n))
	}
	return Block(lines)
}

// Element is the text of the first element of this name.
func Element(s, name string) string {
	_, s, found := strings.Cut(s, "<"+name+">")
	text, _, closed := strings.Cut(s, "</"+name+">")
	if !found || !closed {
		return ""
	}
	return Block(strings.Split(strings.TrimSpace(text), "\n"))
}

// Block joins lines, which it changes, without their common indentation and without blank lines around them.
func Block(lines []string) string {
	common := math.MaxInt
	for _, line := range lines {
		if bare := strings.TrimLeft(line, " \t"); bare != "" {
			common = min(common, len(line)-len(bare))
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(line[min(len(line), common):], " \t")
	}
	// a rule before the next heading
	return strings.Trim(strings.TrimSuffix(strings.TrimRight(strings.Join(lines, "\n"), "\n"), "\n---"), "\n")
}

// Clip cuts a heading or title to at most 500 bytes.
func Clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), 500)], "")
}

// Fold normalizes a heading or title, so that two spellings of one are equal: case, spaces and punctuation around it.
func Fold(s string) string {
	return strings.ToLower(strings.Trim(strings.Join(strings.Fields(strings.ReplaceAll(s, "`", "")), " "), " .:"))
}

// Ref names a task or a phase, as people write it in a plan.
type Ref struct {
	ID    string
	Phase bool
	Word  bool // "Task 3" or T003: not a mere number
	// Written is how the text has it where ID is one of a range: 1-3, which may be an id of its own.
	Written string
}

// Statement is what a line says about an order: "depends on 1, 2", "blocks 4".
type Statement struct {
	Blocks bool
	Beside bool // "in parallel with"
	Strong bool // a line, a parenthesis or a clause of its own, not the middle of a sentence
	Alone  bool // all that the line says
	Text   string
}

// keyword begins a statement.
var keyword = lazyregexp.New(
	`(?i)(?:^|[^a-z0-9])((?:depends (?:up)?on|dependent on|blocked (?:by|on))\b|((?:in )?parallel (?:with|to))\b|(?:` +
		anyOf(labels, "depends") + `) ?[:：]|(blocks)\b)`)

// Statements finds the statements of a line.
func Statements(line string) []Statement {
	const most, longest = 8, 4000
	// what is longer is no statement
	line = strings.NewReplacer("**", "", "`", "", "__", "").Replace(line[:min(len(line), longest)])
	var list []Statement
	for _, at := range keyword.FindAllStringSubmatchIndex(line, most) {
		x := Statement{
			Blocks: at[6] >= 0,
			Beside: at[4] >= 0,
			Strong: clause.MatchString(line[:at[2]]), // begins a clause of its own
			Text:   strings.TrimLeft(line[at[3]:], " :：*"),
		}
		_, rest := Refs(x.Text)
		x.Alone = strings.Trim(line[:at[2]], "-*+> _") == "" && x.Text != "" && alone.MatchString(rest)
		list = append(list, x)
	}
	return list
}

var order = lazyregexp.New(`(?i)(?:^|[^\pL])(?:after|once|until|needs?|requires?|nach|benötigt|après|` +
	`nécessite|después de|requiere|depois de|requer|после|требует|需要) *`)

// Ordered are the references behind a word for an order in the middle of a sentence: "start once Task 2 is merged".
func Ordered(line string) []Ref {
	const longest = 1000
	line = line[:min(len(line), longest)]
	if at := order.FindStringIndex(line); at != nil {
		refs, _ := Refs(line[at[1]:])
		return refs
	}
	return nil
}

// Labelled splits "Label: value" whose label has no meaning in the table of words.
func Labelled(line string) (name, value string, ok bool) {
	m := labelled.FindStringSubmatch(line)
	if m == nil || Label(m[1]) != "" || len(Statements(line)) > 0 {
		return "", "", false
	}
	return m[1], m[2], true
}

var labelled = lazyregexp.New(`^(\pL[\pL ]{1,40}?) ?[:：] *(\S.*)$`)

// SaysNone reports whether a text says that there is nothing to wait for.
func SaysNone(s string) bool { return none.MatchString(s) }

const (
	refID = `((?:[a-z_][a-z_.-]*)?[0-9](?:[a-z0-9._-]*[a-z0-9])?)`
)

// words are those of references, tasks and phases, with or without the space that separates them from a number.
var words = `(storie|` + anyOf(numberedWords, "task", "subtask", "item") + `)|(` + anyOf(numberedWords, PhaseWords...) + `)`

var (
	oneRef = lazyregexp.New(`(?i)^[ #\[]*(?:(?:` + words + `)s?(?: group)?(?: +|#)[ #\[]*|(` + unspaced + `) *)?` + refID +
		`(?: *(?:–|—|- |to |through |\.\.) *` + refID + `)?\]*(?: *\([^)]*\))?`)
	separator = lazyregexp.New(`^ *(?:(?:,|，|、|&|\+|/|and |or ) *)+`)
)

// Refs reads "1, 2", "Task 3 and Task 4", "T001-T004", "Phases 1 & 2" and returns what follows. Remarks in parentheses
// after an id are skipped.
func Refs(s string) (refs []Ref, rest string) {
	const most, longest = 1000, 1000
	var phase, word bool
	for len(refs) < most {
		m := oneRef.FindStringSubmatch(s[:min(len(s), longest)])
		if m == nil || len(m[4]) > MaxID {
			break
		}
		if m[1]+m[2]+m[3] != "" {
			word, phase = true, m[2] != "" || slices.Contains(PhaseWords, canonical[m[3]])
		}
		lo, hi, written := m[4], m[5], ""
		if hi == "" {
			if lo, hi, _ = strings.Cut(lo, "-"); hi != "" {
				written = m[4]
			}
		}
		list := idRange(lo, hi)
		if list == nil {
			list = strings.Fields(m[4] + " " + m[5])
		}
		for _, id := range list {
			refs = append(refs, Ref{ID: id, Phase: phase, Word: word || CodeID(id), Written: written})
		}
		s = s[len(m[0]):]
		next := separator.FindString(s)
		if next == "" {
			break
		}
		s = s[len(next):]
	}
	return refs, s
}

// idRange are the ids from lo to hi, if these differ in their last number and are not too many.
func idRange(lo, hi string) (list []string) {
	const most = 100
	stem := strings.TrimRight(lo, "0123456789")
	from, to := lo[len(stem):], strings.TrimPrefix(hi, stem)
	a, errA := strconv.Atoi(from)
	b, errB := strconv.Atoi(to)
	if errA != nil || errB != nil || b < a || b-a > most {
		return nil
	}
	for ; a <= b; a++ {
		list = append(list, fmt.Sprintf("%s%0*d", stem, len(from), a))
	}
	return list
}

// IsList reports whether what was read is a list of ids rather than the start of a sentence ("blocks 3 other tasks").
func IsList(refs []Ref, rest string) bool {
	return len(refs) > 1 || len(refs) == 1 && (refs[0].Word || listEnd.MatchString(rest))
}

// WithoutStatements drops what a title says about order in parentheses: it is in other fields.
func WithoutStatements(title string) string {
	title = remark.ReplaceAllStringFunc(title, func(s string) string {
		for _, x := range Statements(strings.Trim(s, " ()")) {
			if refs, rest := Refs(x.Text); IsList(refs, rest) || SaysNone(x.Text) {
				return ""
			}
		}
		return s
	})
	return strings.TrimRight(strings.Join(strings.Fields(title), " "), " :-–")
}

var remark = lazyregexp.New(`\s*\([^)]*\)`)

// Short shortens a foreign text for a message.
func Short(text string) string {
	const limit = 40
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// FreeID is what a thing with an id is called: 3, or 3-2 where there is a 3 already.
func FreeID(id string, taken func(string) bool) string {
	free := id
	for k := 2; taken(free); k++ {
		free = fmt.Sprint(id, "-", k)
	}
	return free
}

// Slug is an id made of the first words of a title.
func Slug(title string) string {
	const longest = 40
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.Is(unicode.Nd, r) })
	slug := ""
	for _, w := range words {
		if slug != "" && len(slug)+len(w) >= longest {
			break
		}
		slug = strings.TrimPrefix(slug+"-"+Clip(w[:min(len(w), longest)]), "-")
	}
	if IDProblem(slug) != "" {
		return "entry"
	}
	return slug
}
