package tasks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"descartes/tasks/prose"
)

// isGraph reports whether a file is read as SCUD's graph text: by its name, or by its content where the name says nothing.
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

// phase is the part of a graph text that holds one tag.
type phase struct {
	tag        string
	start, end int
	line       int // of start
	nodes      int // about how many tasks there are
	headed     bool
	sections   bool
}

// lines walks over the lines of a text.
type lines struct {
	src      string
	pos, end int
	number   int // of the line that next returned, from 1
}

// next returns where the next line is, without its end of line.
func (l *lines) next() (start, end int, ok bool) {
	if l.pos >= l.end {
		return 0, 0, false
	}
	start, end = l.pos, l.end
	l.pos = l.end
	if n := strings.IndexByte(l.src[start:l.end], '\n'); n >= 0 {
		end = start + n
		l.pos = end + 1
	}
	for end > start && l.src[end-1] == '\r' {
		end--
	}
	l.number++
	return start, end, true
}

func indented(text string) bool { return text != "" && (text[0] == ' ' || text[0] == '\t') }

// cutGraph takes a graph text apart. A file of 0 bytes is legal and has no tags.
func cutGraph(src string) ([]phase, *problem) {
	if p := notGraph(src); p != nil {
		return nil, p
	}
	start := len(src) - len(strings.TrimPrefix(src, byteOrder))
	all := lines{src: src, pos: start, end: len(src)}
	list := []phase{{start: start, line: 1}}
	details, nodes := false, false
	for {
		from, to, ok := all.next()
		if !ok {
			break
		}
		now := &list[len(list)-1]
		text := src[from:to]
		word := strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(text, mergeMarker):
			return nil, &problem{from, "merge conflict markers, resolve the conflict first"}
		case word == "" || details && indented(text):
		case word == "---": // the Go program trims the line, the Rust one does not
			now.end = from
			if len(list) == maxMembers {
				return nil, &problem{from, fmt.Sprintf("more than %d phases", maxMembers)}
			}
			list = append(list, phase{start: all.pos, line: all.number + 1})
			details, nodes = false, false
		case word[0] == '@':
			now.sections = true
			details, nodes = strings.HasPrefix(word, "@details"), strings.HasPrefix(word, "@nodes")
			if now.tag == "" {
				now.tag = metaName(src, from, to, all)
			}
		case nodes:
			now.nodes++
		case word[0] == '#' && !now.sections:
			now.header(word)
		}
	}
	list[len(list)-1].end = len(src)
	return named(src, list)
}

// header reads a comment above the first section.
func (p *phase) header(word string) {
	p.headed = p.headed || strings.HasPrefix(word, scgFirst)
	for _, key := range []string{"# Phase:", "# Epic:"} {
		if tag, ok := strings.CutPrefix(word, key); ok && p.tag == "" {
			p.tag, p.headed = strings.TrimSpace(tag), true
		}
	}
}

// named drops parts without content. One that has content and no name is no task list.
func named(src string, list []phase) ([]phase, *problem) {
	kept := list[:0]
	for _, p := range list {
		empty := strings.TrimSpace(src[p.start:p.end]) == ""
		switch {
		case p.tag != "" && (p.headed || p.sections):
			kept = append(kept, p)
		case empty:
		case p.sections || p.headed:
			return nil, &problem{p.start, `a phase without a tag: expected "# Phase: <tag>"`}
		default:
			return nil, &problem{p.start, `no SCUD graph text: expected "# SCUD Graph v1" and "# Phase: <tag>"`}
		}
	}
	return kept, nil
}

// notGraph refuses what is something else.
func notGraph(src string) *problem {
	if p := notText(src); p != nil {
		return p
	}
	text := strings.TrimLeft(strings.TrimPrefix(src, byteOrder), " \t\r\n")
	switch {
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
		return &problem{0, "this is JSON, not SCUD's graph text (SCG)"}
	case strings.HasPrefix(text, lfsFirst):
		return &problem{0, `this is a Git LFS pointer, the file itself is not here ("git lfs pull" fetches it)`}
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

// decodeGraph reads the tag f.tag. It reports false if the tag is not there.
func decodeGraph(list []phase, f *File) (bool, *problem) {
	f.letters = true
	var own *phase
	for i := range list {
		switch p := &list[i]; {
		case p.tag != f.tag:
		case own == nil:
			own = p
		default:
			f.findings = append(f.findings, Finding{Line: p.line, Kind: "tag", Message: fmt.Sprintf("the tag %s comes a second time here, only the first one is used", prose.Short(f.tag))})
		}
	}
	if own == nil {
		return false, nil
	}
	r := &graphReader{file: f, phase: own}
	f.grow(min(own.nodes, maxTasks))
	if p := r.walk(r.node); p != nil {
		return true, p
	}
	if p := r.walk(r.relation); p != nil {
		return true, p
	}
	r.closeDetail()
	r.family.explicit = true // there is a section for it
	f.relate(&r.family)
	return true, nil
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

// graphReader decodes one phase. Sections come in any order, so the nodes are read first, and then all that speaks of them.
type graphReader struct {
	file   *File
	phase  *phase
	family family
	odd    int                     // lines that were not understood
	wide   map[int]map[string]bool // dependencies of tasks that have many
	detail detail
}

// detail is a text that is being read.
type detail struct {
	task  int
	field string
	lines []string
	open  bool
}

// walk goes over the lines that hold something.
func (r *graphReader) walk(line func(in section, start, end, number int) *problem) *problem {
	all := lines{src: r.file.src, pos: r.phase.start, end: r.phase.end, number: r.phase.line - 1}
	in := inHeader
	for {
		start, end, ok := all.next()
		if !ok {
			return nil
		}
		text := r.file.src[start:end]
		word := strings.TrimSpace(text)
		inside := in == inDetails && (indented(text) || text == "")
		as := in
		switch {
		case inside:
		case word == "":
			continue
		case word[0] == '@' && (in != inOther || text[0] == '@'):
			in, as = sectionOf(word), inHeader
			if in == inMeta && strings.HasSuffix(word, "}") {
				in, as = inHeader, inMeta
			}
		case in == inMeta && strings.HasSuffix(word, "}"):
			in = inHeader
		case word[0] == '#':
			as = inHeader
		}
		if p := line(as, start, end, all.number); p != nil {
			return p
		}
	}
}

// strange notes a line that means nothing to us.
func (r *graphReader) strange(number int, text, why string) {
	const most = 100
	r.odd++
	switch {
	case r.odd < most:
		r.file.findings = append(r.file.findings, Finding{Line: number, Kind: "line", Message: fmt.Sprintf("%q %s", prose.Short(strings.TrimSpace(text)), why)})
	case r.odd == most:
		r.file.findings = append(r.file.findings, Finding{Line: number, Kind: "line", Message: "and more lines that are not understood"})
	}
}

// node reads the lines of @nodes: id | title | status | complexity | priority, and attributes that are not for us.
func (r *graphReader) node(in section, start, end, number int) *problem {
	f := r.file
	if in == inMeta {
		r.meta(start, end)
	}
	if in != inNodes {
		return nil
	}
	text := f.src[start:end]
	var cut [5]span
	if !nodeFields(text, &cut) {
		r.strange(number, text, "has fewer than five fields, it is no task")
		return nil
	}
	field := func(k int) string { return strings.TrimSpace(text[cut[k].start:cut[k].end]) }
	bars := false
	if _, ok := statusOf(field(2)); !ok {
		bars = bareBars(text, &cut)
	}
	id := ownID(f.tag, field(0))
	if strings.EqualFold(id, "id") && strings.EqualFold(field(1), "title") {
		return nil // a heading without #
	}
	if reason := prose.IDProblem(id); reason != "" {
		return &problem{start, reason}
	}
	if len(f.tasks) == maxTasks {
		return &problem{start, fmt.Sprintf("more than %d tasks", maxTasks)}
	}
	i := len(f.tasks)
	t := Task{ID: id, Complexity: field(3), Priority: priorityOf(field(4)), Line: number}
	var marked bool
	if t.Title, marked = strings.CutPrefix(unescapeTitle(field(1)), parentMark); marked {
		r.family.mark(i)
	}
	letter := field(2)
	at := start + int(cut[2].start) + strings.Index(text[cut[2].start:cut[2].end], letter)
	if letter == "" && cut[2].end > cut[2].start {
		at++
	}
	var known bool
	if t.Status, known = statusOf(letter); known {
		t.RawStatus = string(t.Status)
	} else {
		t.RawStatus = letter
	}
	for attribute := range strings.SplitSeq(text[cut[4].end:], "|") {
		if name, text, ok := strings.Cut(strings.TrimSpace(attribute), "="); ok {
			if !t.attribute(name, text) {
				f.note(i, "line", fmt.Sprintf("its %s is %s, which says nothing", name, prose.Short(text)))
			}
		}
	}
	f.tasks = append(f.tasks, t)
	f.sites = append(f.sites, site{start: int32(at), end: int32(at + len(letter)), at: int32(start)})
	f.enter(i)
	if bars {
		f.note(i, "line", `its title has a bar that should be written \|, scud cuts it off there`)
	}
	if !known {
		f.note(i, "unknown-status", fmt.Sprintf("the status letter %q is unknown, it is read as pending", prose.Short(letter)))
	}
	return nil
}

// statusOf reads a status letter.
func statusOf(letter string) (Status, bool) {
	switch letter {
	case "P":
		return Pending, true
	case "I":
		return InProgress, true
	case "D":
		return Done, true
	case "R":
		return Review, true
	case "B":
		return Blocked, true
	case "F":
		return Deferred, true
	case "C":
		return Cancelled, true
	case "X":
		return Expanded, true
	case "!":
		return Failed, true
	}
	return Pending, false
}

func priorityOf(letter string) string {
	switch letter {
	case "C":
		return "critical"
	case "H":
		return "high"
	case "L":
		return "low"
	}
	if word := strings.ToLower(letter); slices.Contains([]string{"critical", "high", "low"}, word) {
		return word
	}
	return "medium"
}

// meta reads one line of @meta: the lines of the block, or the block in one line.
func (r *graphReader) meta(start, end int) {
	f := r.file
	words := fieldsAt(f.src, start, end)
	oneLine := len(words) > 0 && f.src[words[0].start] == '@'
	for k, w := range words {
		if f.src[w.start:w.end] != "updated" || k+1 == len(words) || !oneLine && k > 0 || f.updated.end > 0 {
			continue
		}
		value := words[k+1]
		text := f.src[value.start:value.end]
		left := len(text) - len(strings.TrimLeft(text, `"`))
		value.start += int32(left)
		value.end = value.start + int32(len(strings.Trim(text, `",`)))
		f.updated = value
	}
}

// fieldsAt is strings.Fields that says where the words are.
func fieldsAt(src string, start, end int) []span {
	var words []span
	for start < end {
		if strings.IndexByte(" \t\r{}", src[start]) >= 0 {
			start++
			continue
		}
		from := start
		for start < end && strings.IndexByte(" \t\r{}", src[start]) < 0 {
			start++
		}
		words = append(words, span{int32(from), int32(start)})
	}
	return words
}

// metaName returns the name that a @meta section at from gives, "" if none.
func metaName(src string, from, to int, rest lines) string {
	for first, ok := true, sectionOf(strings.TrimSpace(src[from:to])) == inMeta; ok; from, to, ok = rest.next() {
		text := strings.TrimSpace(src[from:to])
		if !first && strings.HasPrefix(text, "@") {
			break
		}
		body := strings.Trim(strings.TrimPrefix(text, "@meta"), " \t{}")
		if name, ok := strings.CutPrefix(body, "name "); ok {
			name = strings.TrimSpace(name)
			quoted := len(name) > 1 && name[0] == '"' && strings.IndexByte(name[1:], '"') >= 0
			switch words := strings.Fields(name); {
			case quoted:
				name, _, _ = strings.Cut(name[1:], `"`)
			case first && len(words) > 0:
				name = words[0]
			}
			return strings.TrimSpace(name)
		}
		if strings.HasSuffix(text, "}") {
			break
		}
		first = false
	}
	return ""
}

// nodeFields finds the first five fields of a node line. Only a title may hold bars, escaped.
func nodeFields(text string, cut *[5]span) bool {
	from := 0
	for k := range cut {
		to := from
		for to < len(text) && text[to] != '|' {
			if k == 1 && text[to] == '\\' && to+1 < len(text) {
				to++
			}
			to++
		}
		cut[k] = span{int32(from), int32(to)}
		if to == len(text) && k < 4 {
			return false
		}
		from = to + 1
	}
	return true
}

// bareBars looks for status, complexity and priority further on, where a title that was written by hand has bars without backslashes.
func bareBars(text string, cut *[5]span) bool {
	const most = 20 // bars
	bars := []int32{cut[1].start - 1}
	for at := int(cut[1].start); at < len(text) && len(bars) < most; at++ {
		if text[at] == '|' {
			bars = append(bars, int32(at))
		}
	}
	if len(bars) < most {
		bars = append(bars, int32(len(text)))
	}
	part := func(k int) string { return strings.TrimSpace(text[bars[k]+1 : bars[k+1]]) }
	for k := 2; k+3 < len(bars); k++ {
		_, letter := statusOf(part(k))
		if !letter || !prose.IsNumber(part(k+1)) || len(part(k+2)) != 1 || !strings.Contains("CHML", part(k+2)) {
			continue
		}
		cut[1].end = bars[k]
		for n := range 3 {
			cut[2+n] = span{bars[k+n] + 1, bars[k+n+1]}
		}
		return true
	}
	return false
}

func unescapeTitle(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	return strings.NewReplacer(`\\`, `\`, `\|`, `|`, `\n`, "\n").Replace(text)
}

// relation reads the lines that speak of nodes: edges, parents, agents and details.
func (r *graphReader) relation(in section, start, end, number int) *problem {
	text := r.file.src[start:end]
	if in == inDetails && (text == "" || indented(text)) {
		r.detailLine(text)
		return nil
	}
	r.closeDetail()
	switch in {
	case inEdges:
		r.edge(text, number)
	case inParents:
		r.parent(text, number)
	case inAgents:
		r.agent(text, number)
	case inDetails:
		r.openDetail(text, number)
	}
	return nil
}

// place finds the task that a line speaks of.
func (r *graphReader) place(id string, text string, number int) (int, bool) {
	i, ok := r.file.index[ownID(r.file.tag, id)]
	if !ok {
		r.strange(number, text, "names a task that is not in the list")
	}
	return i, ok
}

// edge reads "dependent -> dependency". What newer dialects put behind a bar is not for us.
func (r *graphReader) edge(text string, number int) {
	body, tail, _ := strings.Cut(text, "|")
	left, right, _ := strings.Cut(body, "->")
	left = strings.TrimSpace(left)
	if left == "" || strings.TrimSpace(right) == "" {
		r.strange(number, text, "is no edge that is known here, it is ignored")
		return
	}
	if strings.EqualFold(left, "dependent") {
		return // a heading without #
	}
	if tail = strings.TrimSpace(tail); tail != "" && !strings.HasPrefix(tail, "reason") {
		r.strange(number, text, "has a condition, which is not known here")
	}
	for right != "" {
		on, rest, _ := strings.Cut(right, "->") // a -> b -> c
		for id := range strings.SplitSeq(left, ",") {
			if i, ok := r.place(strings.TrimSpace(id), text, number); ok {
				for d := range strings.SplitSeq(on, ",") {
					r.depend(i, strings.TrimSpace(d))
				}
			}
		}
		left, right = on, rest
	}
}

// depend adds a dependency unless it is there already.
func (r *graphReader) depend(i int, id string) {
	const many = 16
	t := &r.file.tasks[i]
	id = ownID(r.file.tag, id)
	switch {
	case id == "":
		return
	case prose.IDProblem(id) != "":
		id = prose.Short(id)
		r.file.note(i, "dependency", fmt.Sprintf("a dependency must be an id, found %q", id))
	}
	seen := r.wide[i]
	if seen == nil {
		for _, d := range t.DependsOn {
			if d == id {
				return
			}
		}
		if len(t.DependsOn) == many {
			if r.wide == nil {
				r.wide = map[int]map[string]bool{}
			}
			seen = map[string]bool{}
			for _, d := range t.DependsOn {
				seen[d] = true
			}
			r.wide[i] = seen
		}
	}
	if seen != nil {
		if seen[id] {
			return
		}
		seen[id] = true
	}
	t.DependsOn = append(t.DependsOn, id)
}

// parent reads "parent: subtask, subtask". SCUD itself splits at the first colon, wherever the id has one.
func (r *graphReader) parent(text string, number int) {
	left, right, ok := strings.Cut(text, ": ")
	if !ok {
		left, right, ok = r.atColon(strings.TrimSpace(text))
	}
	left = strings.TrimSpace(left)
	if !ok {
		r.strange(number, text, "is no list of subtasks, it is ignored")
		return
	}
	if strings.EqualFold(left, "parent") {
		return // a heading without #
	}
	i, ok := r.place(left, text, number)
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

// atColon splits at the first colon that has a known task on its left.
func (r *graphReader) atColon(text string) (left, right string, ok bool) {
	for k := 0; k < len(text) && k <= 2*prose.MaxID; k++ {
		if text[k] != ':' {
			continue
		}
		left, right, ok = text[:k], text[k+1:], true
		if _, known := r.file.index[ownID(r.file.tag, strings.TrimSpace(left))]; known {
			break
		}
	}
	return left, right, ok
}

// agent reads "id | type" or "id | type | tier".
func (r *graphReader) agent(text string, number int) {
	fields := strings.SplitN(text, "|", 4)
	id := strings.TrimSpace(fields[0])
	if len(fields) < 2 {
		r.strange(number, text, "is no agent line, it is ignored")
		return
	}
	if strings.EqualFold(id, "id") {
		return // a heading without #
	}
	i, ok := r.place(id, text, number)
	if !ok {
		return
	}
	t := &r.file.tasks[i]
	t.AgentType = strings.TrimSpace(fields[1])
	if len(fields) > 2 {
		t.ModelTier = strings.TrimSpace(fields[2])
	}
}

// openDetail reads "id | field |", after which the text comes, indented. What stands behind the second bar is its first line.
func (r *graphReader) openDetail(text string, number int) {
	id, rest, ok := strings.Cut(text, "|")
	if !ok {
		r.strange(number, text, "is no detail line, it is ignored")
		return
	}
	i, ok := r.place(strings.TrimSpace(id), text, number)
	if !ok {
		return
	}
	field, first, _ := strings.Cut(rest, "|")
	r.detail = detail{task: i, field: strings.TrimSpace(field), lines: r.detail.lines[:0], open: true}
	if first = strings.TrimSpace(first); first != "" {
		r.detail.lines = append(r.detail.lines, first)
	}
}

// detailLine adds a line to the text. It is indented by two spaces, all that is more belongs to it, empty lines between others too.
func (r *graphReader) detailLine(text string) {
	d := &r.detail
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

// closeDetail gives the text to its task.
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
	}
}
