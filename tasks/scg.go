package tasks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/tasks/prose"
)

// isGraph reports whether a file is read as SCUD's graph text: by its name, or by its content if the name does not tell.
func isGraph(path, src string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".scg":
		return true
	case ".json":
		return false
	}
	text := strings.TrimLeft(strings.TrimPrefix(src, byteOrder), " \t\r\n")
	for _, first := range []string{scgFirst, "# Phase:", "# Epic:", "@meta", "@nodes"} {
		if strings.HasPrefix(text, first) {
			return true
		}
	}
	return false
}

const maxPhases = 10_000

// phase is the part of a graph text that holds one tag.
type phase struct {
	tag      string
	line     int // of its start
	lines    []graphLine
	headed   bool
	sections bool
}

// graphLine is a line that holds something, and what it means.
type graphLine struct {
	start, end int
	number     int // from 1
	in         section
}

// section is what the lines of a graph text mean.
type section uint8

const (
	inHeader section = iota // or a comment, or the line that a section begins with
	inMeta
	inNodes
	inEdges
	inParents
	inAgents
	inDetails
	inOther // unknown to us, kept as it is
)

func sectionOf(word string) section {
	name, _, _ := strings.Cut(word, " ")
	name, _, _ = strings.Cut(name, "{")
	switch name {
	case "@meta":
		return inMeta
	case "@nodes":
		return inNodes
	case "@edges":
		return inEdges
	case "@parents":
		return inParents
	case "@agents":
		return inAgents
	case "@details":
		return inDetails
	}
	return inOther
}

func indented(text string) bool { return text != "" && (text[0] == ' ' || text[0] == '\t') }

// cutGraph takes a graph text apart. A file of 0 bytes is legal and has no tags.
func cutGraph(src string) ([]phase, *problem) {
	if p := notGraph(src); p != nil {
		return nil, p
	}
	list := []phase{{line: 1}}
	in, number := inHeader, 0
	at := len(src) - len(strings.TrimPrefix(src, byteOrder))
	for line := range strings.Lines(src[at:]) {
		text := strings.TrimRight(line, "\r\n")
		l := graphLine{at, at + len(text), number + 1, in}
		at, number = at+len(line), number+1
		now, word := &list[len(list)-1], strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(text, mergeMarker):
			return nil, &problem{l.start, "merge conflict markers: resolve the conflict first"}
		case in == inDetails && (text == "" || indented(text)):
		case word == "":
			continue
		case word == "---": // the Go program trims the line, the Rust one does not
			if len(list) == maxPhases {
				return nil, &problem{l.start, fmt.Sprintf("more than %d phases", maxPhases)}
			}
			list, in = append(list, phase{line: number + 1}), inHeader
			continue
		case word[0] == '@' && (in != inOther || text[0] == '@'):
			now.sections = true
			in, l.in = sectionOf(word), inHeader
			if in == inMeta && strings.HasSuffix(word, "}") {
				in, l.in = inHeader, inMeta
			}
		case in == inMeta && strings.HasSuffix(word, "}"):
			in, l.in = inHeader, inHeader
		case word[0] == '#':
			l.in = inHeader
			if !now.sections {
				now.header(word)
			}
		}
		if m := metaName.FindStringSubmatch(text); m != nil && l.in == inMeta && now.tag == "" {
			now.tag = strings.TrimSpace(m[1] + m[2])
		}
		now.lines = append(now.lines, l)
	}
	return named(list)
}

var (
	metaName    = lazyregexp.New(`^\s*(?:@meta\s*\{.*?\bname\s+"?([^\s"}]+)|name\s+"?([^"]+))`)
	metaUpdated = lazyregexp.New(`^\s*(?:@meta\s*\{.*?\b)?updated\s+"?([^\s",}]+)`)
)

// header reads a comment above the first section.
func (p *phase) header(word string) {
	p.headed = p.headed || strings.HasPrefix(word, scgFirst)
	for _, key := range []string{"# Phase:", "# Epic:"} {
		if tag, ok := strings.CutPrefix(word, key); ok && p.tag == "" {
			p.tag, p.headed = strings.TrimSpace(tag), true
		}
	}
}

// named drops parts without content. A part with content but no name is no task list.
func named(list []phase) ([]phase, *problem) {
	kept := list[:0]
	for _, p := range list {
		switch {
		case p.tag != "" && (p.headed || p.sections):
			kept = append(kept, p)
		case len(p.lines) == 0:
		case p.sections || p.headed:
			return nil, &problem{p.lines[0].start, `a phase without a tag: expected "# Phase: <tag>"`}
		default:
			return nil, &problem{p.lines[0].start, `not SCUD graph text: expected "# SCUD Graph v1" and "# Phase: <tag>"`}
		}
	}
	return kept, nil
}

// notGraph rejects other kinds of files.
func notGraph(src string) *problem {
	if p := notText(src); p != nil {
		return p
	}
	text := strings.TrimLeft(strings.TrimPrefix(src, byteOrder), " \t\r\n")
	switch {
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
		return &problem{0, "this is JSON, not SCUD's graph text (SCG)"}
	case strings.HasPrefix(text, lfsFirst):
		return &problem{0, `this is a Git LFS pointer, not the file itself ("git lfs pull" fetches it)`}
	case strings.IndexByte(src, 0) >= 0:
		return &problem{strings.IndexByte(src, 0), "the file is not text (byte 0x00)"}
	}
	return nil
}

// graphTags names the tags in file order, each once.
func graphTags(list []phase) []string {
	var tags []string
	seen := map[string]bool{}
	for _, p := range list {
		if !seen[p.tag] {
			seen[p.tag] = true
			tags = append(tags, p.tag)
		}
	}
	return tags
}

// decodeGraph reads the tag f.tag. ok is false if the tag does not exist.
func decodeGraph(list []phase, f *File) (bool, *problem) {
	f.letters = true
	var own *phase
	for i := range list {
		switch p := &list[i]; {
		case p.tag != f.tag:
		case own == nil:
			own = p
		default:
			f.findings = append(f.findings, Finding{Line: p.line, Kind: "tag", Message: fmt.Sprintf("the tag %s comes a second time here: only the first one is used", prose.Short(f.tag))})
		}
	}
	if own == nil {
		return false, nil
	}
	r := &graphReader{file: f}
	nodes := 0
	for _, l := range own.lines {
		if l.in == inNodes {
			nodes++
		}
	}
	f.grow(min(nodes, maxTasks))
	for _, l := range own.lines {
		switch text := f.src[l.start:l.end]; {
		case l.in == inNodes:
			if p := r.node(l, text); p != nil {
				return true, p
			}
		case l.in == inMeta && f.updated.end == 0:
			if m := metaUpdated.FindStringSubmatchIndex(text); m != nil {
				f.updated = span{int32(l.start + m[2]), int32(l.start + m[3])}
			}
		case l.in == inHeader && strings.HasPrefix(text, "@"):
			name, _, _ := strings.Cut(text, " ")
			if sectionOf(text) == inOther && name != "@assignments" {
				f.remark(l.number, "", "section", "the section %s is not read, and kept as it is; scud may lose it when it writes the file", prose.Short(name))
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
	r.family.explicit = true // there is a section for it
	f.relate(&r.family)
	return true, nil
}

// graphReader decodes one phase.
type graphReader struct {
	file   *File
	family family
	odd    int // lines that were not understood
	detail detail
	tab    bool // some text is indented by a tab
}

// detail is a text that is being read.
type detail struct {
	task  int
	field string
	lines []string
	open  bool
}

// strange records a line that we do not understand.
func (r *graphReader) strange(l graphLine, why string) {
	const most = 100
	r.odd++
	switch text := r.file.src[l.start:l.end]; {
	case r.odd < most:
		r.file.findings = append(r.file.findings, Finding{Line: l.number, Kind: "line", Message: fmt.Sprintf("%q %s", prose.Short(strings.TrimSpace(text)), why)})
	case r.odd == most:
		r.file.findings = append(r.file.findings, Finding{Line: l.number, Kind: "line", Message: "and more lines that cannot be read"})
	}
}

var (
	// id | title | status | complexity | priority | attributes. Only a title may hold bars, escaped.
	nodeLine = lazyregexp.New(`^([^|]*)\|((?:\\.|[^|\\])*)\|([^|]*)\|([^|]*)\|([^|]*)(\|.*)?$`)
	// The same with bars in a title that was written by hand, without backslashes.
	bareNode = lazyregexp.New(`^([^|]*)\|(.*?)\|(\s*[PIDRBFCX!]\s*)\|(\s*\d+\s*)\|(\s*[CHML]\s*)(\|.*)?$`)
)

// node reads the lines of @nodes.
func (r *graphReader) node(l graphLine, text string) *problem {
	f := r.file
	at := nodeLine.FindStringSubmatchIndex(text)
	if at == nil {
		r.strange(l, "has fewer than five fields: it is not a task")
		return nil
	}
	field := func(k int) string { return strings.TrimSpace(text[at[2*k]:at[2*k+1]]) }
	bars := false
	if _, ok := statusOf(field(3)); !ok {
		if bare := bareNode.FindStringSubmatchIndex(text); bare != nil {
			at, bars = bare, true
		}
	}
	id := ownID(f.tag, field(1))
	if strings.EqualFold(id, "id") && strings.EqualFold(field(2), "title") {
		return nil // a heading without #
	}
	if reason := prose.IDProblem(id); reason != "" {
		return &problem{l.start, reason}
	}
	if len(f.tasks) == maxTasks {
		return &problem{l.start, fmt.Sprintf("more than %d tasks", maxTasks)}
	}
	i, letter := len(f.tasks), field(3)
	t := Task{ID: id, Complexity: field(4), Priority: priorityOf(field(5)), Line: l.number}
	var marked bool
	if t.Title, marked = strings.CutPrefix(unescapeTitle(field(2)), parentMark); marked {
		r.family.mark(i)
	}
	start := l.start + at[6] + strings.Index(text[at[6]:at[7]], letter)
	if letter == "" && at[7] > at[6] {
		start++
	}
	var known bool
	if t.Status, known = statusOf(letter); known {
		t.RawStatus = string(t.Status)
	} else {
		t.RawStatus = letter
	}
	if at[12] >= 0 {
		for attribute := range strings.SplitSeq(text[at[12]:], "|") {
			if name, text, ok := strings.Cut(strings.TrimSpace(attribute), "="); ok && !t.attribute(name, text) {
				f.note(i, "line", fmt.Sprintf("its %s is %s, which means nothing: ignored", name, prose.Short(text)))
			}
		}
	}
	f.tasks = append(f.tasks, t)
	f.sites = append(f.sites, site{start: int32(start), end: int32(start + len(letter)), at: int32(l.start)})
	f.enter(i)
	if bars {
		f.note(i, "line", `its title has a bar that should be written \|: scud cuts the title there`)
	}
	if !known {
		f.note(i, "unknown-status", fmt.Sprintf("the status letter %q is unknown: read as pending", prose.Short(letter)))
	}
	if word := field(5); word != "" && word != "M" && !strings.EqualFold(word, "medium") && t.Priority == "medium" {
		f.remark(l.number, id, "priority", "task %s: the priority letter %q is unknown: read as medium", id, prose.Short(word))
	}
	return nil
}

// letters are those of the statuses. Two share one: a failed task is written as B, since SCUD before 1.32 does not know ! and would run the task
// again.
var letters = []struct {
	letter string
	status Status
}{{"P", Pending}, {"I", InProgress}, {"D", Done}, {"R", Review}, {"B", Blocked}, {"B", Failed}, {"F", Deferred}, {"C", Cancelled}, {"X", Expanded}, {"!", Failed}}

// statusOf reads a status letter.
func statusOf(letter string) (Status, bool) {
	for _, l := range letters {
		if l.letter == letter {
			return l.status, true
		}
	}
	return Pending, false
}

func letterOf(s Status) string {
	for _, l := range letters {
		if l.status == s {
			return l.letter
		}
	}
	return "P"
}

func priorityOf(letter string) string {
	switch word := strings.ToLower(letter); {
	case letter == "C" || word == "critical":
		return "critical"
	case letter == "H" || word == "high":
		return "high"
	case letter == "L" || word == "low":
		return "low"
	}
	return "medium"
}

func unescapeTitle(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	return strings.NewReplacer(`\\`, `\`, `\|`, `|`, `\n`, "\n").Replace(text)
}

// relation reads the lines that speak of nodes: edges, parents, agents and details.
func (r *graphReader) relation(l graphLine, text string) {
	if l.in == inDetails && (text == "" || indented(text)) {
		r.detailLine(l, text)
		return
	}
	r.closeDetail()
	switch l.in {
	case inEdges:
		r.edge(l, text)
	case inParents:
		r.parent(l, text)
	case inAgents:
		r.agent(l, text)
	case inDetails:
		r.openDetail(l, text)
	}
}

// place finds the task that a line speaks of.
func (r *graphReader) place(l graphLine, id string) (int, bool) {
	i, ok := r.file.index[ownID(r.file.tag, id)]
	if !ok {
		r.strange(l, "names a task that is not in the list")
	}
	return i, ok
}

// edge reads "dependent -> dependency". What newer dialects put after a bar is ignored.
func (r *graphReader) edge(l graphLine, text string) {
	body, tail, _ := strings.Cut(text, "|")
	left, right, _ := strings.Cut(body, "->")
	left = strings.TrimSpace(left)
	if left == "" || strings.TrimSpace(right) == "" {
		r.strange(l, "is not a known kind of edge: ignored")
		return
	}
	if strings.EqualFold(left, "dependent") {
		return // a heading without #
	}
	if tail = strings.TrimSpace(tail); tail != "" && !strings.HasPrefix(tail, "reason") {
		r.strange(l, "has a condition, which is not supported")
	}
	for right != "" {
		on, rest, _ := strings.Cut(right, "->") // a -> b -> c
		for id := range strings.SplitSeq(left, ",") {
			if i, ok := r.place(l, strings.TrimSpace(id)); ok {
				for d := range strings.SplitSeq(on, ",") {
					r.depend(i, strings.TrimSpace(d))
				}
			}
		}
		left, right = on, rest
	}
}

func (r *graphReader) depend(i int, id string) {
	if id = ownID(r.file.tag, id); id == "" {
		return
	}
	if prose.IDProblem(id) != "" {
		id = prose.Short(id)
		r.file.note(i, "dependency", fmt.Sprintf("a dependency must be an id, found %q", id))
	}
	t := &r.file.tasks[i]
	t.DependsOn = append(t.DependsOn, id)
}

// parent reads "parent: subtask, subtask". SCUD itself splits at the first colon, wherever the id has one.
func (r *graphReader) parent(l graphLine, text string) {
	left, right, ok := strings.Cut(text, ": ")
	if !ok {
		left, right, ok = strings.Cut(text, ":")
	}
	left = strings.TrimSpace(left)
	if !ok {
		r.strange(l, "is not a list of subtasks: ignored")
		return
	}
	if strings.EqualFold(left, "parent") {
		return // a heading without #
	}
	i, ok := r.place(l, left)
	if !ok {
		return
	}
	var children []string
	for _, id := range strings.Split(right, ",") {
		if id = ownID(r.file.tag, strings.TrimSpace(id)); id != "" {
			children = append(children, id)
		}
	}
	r.family.list(i, children)
}

// agent reads "id | type" or "id | type | tier".
func (r *graphReader) agent(l graphLine, text string) {
	fields := strings.SplitN(text, "|", 4)
	id := strings.TrimSpace(fields[0])
	if len(fields) < 2 {
		r.strange(l, "is not an agent line: ignored")
		return
	}
	if strings.EqualFold(id, "id") {
		return // a heading without #
	}
	i, ok := r.place(l, id)
	if !ok {
		return
	}
	t := &r.file.tasks[i]
	t.AgentType = strings.TrimSpace(fields[1])
	if len(fields) > 2 {
		t.ModelTier = strings.TrimSpace(fields[2])
	}
}

// openDetail reads "id | field |", after which the text follows, indented. What is after the second bar is its first line.
func (r *graphReader) openDetail(l graphLine, text string) {
	id, rest, ok := strings.Cut(text, "|")
	if !ok {
		r.strange(l, "is not a detail line: ignored")
		return
	}
	i, ok := r.place(l, strings.TrimSpace(id))
	if !ok {
		return
	}
	field, first, _ := strings.Cut(rest, "|")
	if !slices.Contains([]string{"description", "details", "test_strategy", "testStrategy", "acceptance"}, strings.TrimSpace(field)) {
		id = r.file.tasks[i].ID
		r.file.remark(l.number, id, "details", "task %s: the field %s is not read, and kept as it is", id, prose.Short(strings.TrimSpace(field)))
	}
	r.detail = detail{task: i, field: strings.TrimSpace(field), lines: r.detail.lines[:0], open: true}
	if first = strings.TrimSpace(first); first != "" {
		r.detail.lines = append(r.detail.lines, first)
	}
}

// detailLine adds a line to the text. It is indented by two spaces; further indentation belongs to the text, and so do empty lines in between.
func (r *graphReader) detailLine(l graphLine, text string) {
	d := &r.detail
	if strings.HasPrefix(text, "\t") && !r.tab {
		r.tab = true
		r.file.remark(l.number, "", "details", "the text is indented by a tab: scud wants two spaces")
	}
	if !d.open {
		return
	}
	switch {
	case strings.TrimSpace(text) == "":
		text = ""
	case strings.HasPrefix(text, "  "):
		text = text[2:]
	default:
		text = text[1:]
	}
	if text != "" || len(d.lines) > 0 {
		d.lines = append(d.lines, text)
	}
}

// closeDetail ends the text of a task.
func (r *graphReader) closeDetail() {
	d := &r.detail
	if !d.open {
		return
	}
	d.open = false
	for len(d.lines) > 0 && d.lines[len(d.lines)-1] == "" {
		d.lines = d.lines[:len(d.lines)-1]
	}
	t, text := &r.file.tasks[d.task], strings.Join(d.lines, "\n")
	switch d.field {
	case "description":
		t.Description = text
	case "details":
		t.Details = text
	case "test_strategy", "testStrategy":
		t.TestStrategy = text
	case "acceptance":
		t.Acceptance = text
	}
}
