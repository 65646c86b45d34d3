package tasks

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/internal/lazyregexp"
	"descartes/tasks/prose"
)

const scgFirst = "# SCUD Graph"

// scg is SCUD's graph text, known by its name or by its first words.
type scg struct{}

func (scg) Match(t *text) bool {
	head := strings.TrimLeft(strings.TrimPrefix(t.src, byteOrder), " \t\r\n")
	if !strings.EqualFold(filepath.Ext(t.path), ".scg") &&
		!slices.ContainsFunc([]string{scgFirst, "# Phase:", "# Epic:", "@meta", "@nodes"},
			func(first string) bool { return strings.HasPrefix(head, first) }) {
		return false
	}
	t.phases, t.wrong = cutGraph(t.src)
	return true
}

// Tags names the tags in file order, each once. A file of 0 bytes is legal and has none.
func (scg) Tags(t *text) (tags []string) {
	for _, p := range t.phases {
		tags = append(tags, p.tag)
	}
	return unique(tags)
}

// letters are those of the statuses in lettered.
const letters = "PIDRBFCX!"

var lettered = []Status{Pending, InProgress, Done, Review, Blocked, Deferred, Cancelled, Expanded, Failed}

// SetStatus writes a failed task as blocked, since SCUD before 1.32 does not know ! and would run the task again.
func (scg) SetStatus(t *Task, s Status) (Status, string) {
	if s == Failed && t.Status != Failed {
		s = Blocked
	}
	i := slices.Index(lettered, s)
	if i < 0 {
		return t.Status, ""
	}
	return s, letters[i : i+1]
}

// stamp is the time of the change, where the file has one.
func (f *File) stamp() (string, bool) {
	_, err := time.Parse(time.RFC3339Nano, f.src[f.updated.start:f.updated.end])
	now := time.Now
	if f.clock != nil {
		now = f.clock
	}
	return now().UTC().Format(time.RFC3339), err == nil
}

// phase is the part of a graph text that holds one tag.
type phase struct {
	tag      string
	start    int
	lines    []graphLine
	sections bool
}

// graphLine is a line that holds something.
type graphLine struct {
	span
	number  int    // from 1
	section string // @nodes; "" in the header, for a comment, and for the line that a section begins with
}

func indented(text string) bool { return text != "" && (text[0] == ' ' || text[0] == '\t') }

// cutGraph takes a graph text apart.
func cutGraph(src string) ([]phase, *problem) {
	now := phase{}
	var list []phase
	section, number := "", 0
	at := len(src) - len(strings.TrimPrefix(src, byteOrder))
	for line := range strings.Lines(src[at:] + "\n---") {
		text := strings.TrimRight(line, "\r\n")
		word := strings.TrimSpace(text)
		l := graphLine{span{at, at + len(text)}, number + 1, section}
		at, number = at+len(line), number+1
		switch {
		case section == "@details" && (text == "" || indented(text)):
		case word == "":
			continue
		case word == "---": // the Go program trims the line, the Rust one does not
			if now.tag != "" {
				list = append(list, now)
			} else if len(now.lines) > 0 {
				return nil, &problem{now.lines[0].start,
					`a phase without a tag, or no SCUD graph text: expected "# SCUD Graph v1" and "# Phase: <tag>"`}
			}
			now, section = phase{start: number + 1}, ""
			continue
		case word[0] == '@':
			now.sections = true
			section, _, _ = strings.Cut(strings.ReplaceAll(word, "{", " "), " ")
			l.section = ""
			if section == "@meta" && strings.HasSuffix(word, "}") {
				section, l.section = "", "@meta"
			}
		case section == "@meta" && strings.HasSuffix(word, "}"):
			section, l.section = "", ""
		case word[0] == '#':
			l.section = ""
			for _, key := range []string{"# Phase:", "# Epic:"} {
				if tag, ok := strings.CutPrefix(word, key); ok && now.tag == "" && !now.sections {
					now.tag = strings.TrimSpace(tag)
				}
			}
		}
		if m := metaName.FindStringSubmatch(text); m != nil && l.section == "@meta" && now.tag == "" {
			now.tag = strings.TrimSpace(m[1] + m[2])
		}
		now.lines = append(now.lines, l)
	}
	return list, nil
}

var (
	metaName    = lazyregexp.New(`^\s*(?:@meta\s*\{.*?\bname\s+"?([^\s"}]+)|name\s+"?([^"]+))`)
	metaUpdated = lazyregexp.New(`^\s*(?:@meta\s*\{.*?\b)?updated\s+"?([^\s",}]+)`)
)

func (scg) Read(t *text, f *File) *problem {
	r := &graphReader{File: f}
	var own *phase
	for i := range t.phases {
		switch p := &t.phases[i]; {
		case p.tag != f.tag:
		case own == nil:
			own = p
		default:
			f.findings = append(f.findings, Finding{Line: p.start, Kind: "tag",
				Message: fmt.Sprintf("the tag %s comes a second time here: only the first one is used",
					prose.Short(f.tag))})
		}
	}
	if own == nil {
		return noTag
	}
	for _, l := range own.lines {
		text := f.src[l.start:l.end]
		if m := metaUpdated.FindStringSubmatchIndex(text); m != nil && l.section == "@meta" && f.updated.end == 0 {
			f.updated = span{l.start + m[2], l.start + m[3]}
		}
		if l.section == "@nodes" {
			if p := r.node(l, text); p != nil {
				return p
			}
		}
	}
	for _, l := range own.lines { // sections come in any order
		r.relation(l, f.src[l.start:l.end])
	}
	r.closeDetail()
	for i := range f.tasks {
		f.tasks[i].DependsOn = unique(f.tasks[i].DependsOn)
	}
	f.relate(false) // there is a section for it
	return nil
}

// graphReader decodes one phase.
type graphReader struct {
	*File
	detail []string // of the text that is being read
	field  *string  // that gets it; nil for none
}

// strange records a line that we do not understand.
func (r *graphReader) strange(l graphLine, why string) {
	r.findings = append(r.findings, Finding{Line: l.number, Kind: "line",
		Message: fmt.Sprintf("%q %s", prose.Short(strings.TrimSpace(r.src[l.start:l.end])), why)})
}

var (
	// id | title | status | complexity | priority | attributes. A title may hold bars, with or without a backslash
	// before them.
	nodeLine = lazyregexp.New(`^([^|]*)\|(.*?)\|(\s*[PIDRBFCX!]\s*)\|(\s*\d*\s*)\|([^|]*)(\|.*)?$`)
	// The same with any words.
	oddNode = lazyregexp.New(`^([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)(\|.*)?$`)
	// A heading without #.
	heading = lazyregexp.New(`(?i)^\s*(id\s*\|\s*(title|agent_type)|dependent\s*->|parent:)`)
)

// node reads the lines of @nodes.
func (r *graphReader) node(l graphLine, text string) *problem {
	at := nodeLine.FindStringSubmatchIndex(text)
	if at == nil {
		at = oddNode.FindStringSubmatchIndex(text)
	}
	switch {
	case heading.MatchString(text):
		return nil
	case at == nil:
		r.strange(l, "has fewer than five fields: it is not a task")
		return nil
	}
	field := func(k int) string { return strings.TrimSpace(text[at[2*k]:at[2*k+1]]) }
	i, letter := len(r.tasks), field(3)
	priority := map[string]string{"C": "critical", "H": "high", "L": "low"}[field(5)]
	t := Task{ID: ownID(r.tag, field(1)), Complexity: field(4), Priority: cmp.Or(priority, prose.Priority(field(5)), "medium"), RawStatus: letter,
		Line: l.number}
	s := site{at: l.start}
	t.Title, s.marked = strings.CutPrefix(escapes.Replace(field(2)), parentMark)
	known := len(letter) == 1 && strings.Contains(letters, letter)
	if t.Status = Pending; known {
		t.Status = lettered[strings.Index(letters, letter)]
		t.RawStatus = string(t.Status)
	}
	s.start = l.start + at[6] + strings.Index(text[at[6]:at[7]], letter)
	if letter == "" && at[7] > at[6] {
		s.start++
	}
	s.end = s.start + len(letter)
	if p := r.add(t, s); p != nil {
		return p
	}
	if at[12] >= 0 {
		for attribute := range strings.SplitSeq(text[at[12]:], "|") {
			if name, text, ok := strings.Cut(strings.TrimSpace(attribute), "="); ok &&
				!r.tasks[i].attribute(name, text) {
				r.note(i, "line", fmt.Sprintf("its %s is %s, which means nothing: ignored", name, prose.Short(text)))
			}
		}
	}
	if !known {
		r.note(i, "unknown-status", fmt.Sprintf("the status letter %q is unknown: read as pending",
			prose.Short(letter)))
	}
	return nil
}

var escapes = strings.NewReplacer(`\\`, `\`, `\|`, `|`, `\n`, "\n")

// relation reads the lines that speak of nodes: edges, parents, agents and details. What newer dialects put behind an
// edge is ignored.
func (r *graphReader) relation(l graphLine, text string) {
	if l.section == "@details" && (text == "" || indented(text)) {
		r.detailLine(text)
		return
	}
	r.closeDetail()
	mark := ""
	switch l.section {
	case "@edges":
		text, _, _ = strings.Cut(text, "|")
		mark = "->"
	case "@parents": // SCUD itself splits at the first colon, wherever the id has one
		if mark = ": "; !strings.Contains(text, mark) {
			mark = ":"
		}
	case "@agents", "@details":
		mark = "|"
	}
	left, right, ok := strings.Cut(text, mark)
	left, right = strings.TrimSpace(left), strings.TrimSpace(right)
	if mark == "" || heading.MatchString(text) {
		return
	}
	if !ok || left == "" || right == "" && l.section == "@edges" {
		r.strange(l, "is no line of "+l.section+": ignored")
		return
	}
	i, ok := r.index[ownID(r.tag, left)]
	if !ok {
		r.strange(l, "names a task that is not in the list")
		return
	}
	t := &r.tasks[i]
	first, rest, _ := strings.Cut(right, "|")
	first = strings.TrimSpace(first)
	switch l.section {
	case "@edges":
		r.depend(i, right)
	case "@parents":
		for id := range strings.SplitSeq(right, ",") {
			if id = ownID(r.tag, strings.TrimSpace(id)); id != "" {
				r.sites[i].children = append(r.sites[i].children, id)
			}
		}
	case "@agents":
		t.AgentType = first
		t.ModelTier, _, _ = strings.Cut(rest, "|")
		t.ModelTier = strings.TrimSpace(t.ModelTier)
	case "@details": // the text follows, indented; what is behind the second bar is its first line
		r.field = map[string]*string{"description": &t.Description, "details": &t.Details,
			"test_strategy": &t.TestStrategy,
			"testStrategy":  &t.TestStrategy, "acceptance": &t.Acceptance}[first]
		if rest = strings.TrimSpace(rest); rest != "" {
			r.detail = append(r.detail, rest)
		}
	}
}

func (r *graphReader) depend(i int, id string) {
	if id = ownID(r.tag, id); prose.IDProblem(id) != "" {
		id = prose.Short(id)
		r.note(i, "dependency", fmt.Sprintf("a dependency must be an id, found %q", id))
	}
	r.tasks[i].DependsOn = append(r.tasks[i].DependsOn, id)
}

// detailLine adds a line to the text. It is indented by two spaces, or by a tab; further indentation belongs to the
// text, and so do empty lines in between.
func (r *graphReader) detailLine(text string) {
	switch {
	case strings.TrimSpace(text) == "":
		text = ""
	case strings.HasPrefix(text, "  "):
		text = text[2:]
	default:
		text = text[1:]
	}
	if text != "" || len(r.detail) > 0 {
		r.detail = append(r.detail, text)
	}
}

// closeDetail ends the text of a task.
func (r *graphReader) closeDetail() {
	if r.field != nil {
		*r.field = strings.TrimRight(strings.Join(r.detail, "\n"), "\n")
	}
	r.field, r.detail = nil, nil
}
