package tasks

import (
	"fmt"
	"slices"
	"strings"

	"descartes/tasks/prose"
)

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
		if names, ok := strings.CutPrefix(strings.TrimSpace(attribute), "scope="); ok {
			t.Scope = scopeOf(names)
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
