package tasks

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxFile     = 64 << 20
	maxTasks    = 250_000
	maxMembers  = 10_000 // top-level members looked at; a multi-tag file has one per tag
	byteOrder   = "\ufeff"
	scgFirst    = "# SCUD Graph"
	lfsFirst    = "version https://git-lfs"
	mergeMarker = "<<<<<<< "
)

// problem is a FormatError whose place is still a byte offset.
type problem struct {
	pos    int
	reason string
}

// member is one top-level member: its name and where its value is.
type member struct {
	name       string
	start, end int
}

// document is a JSON text known to be valid, with its top level taken apart.
type document struct {
	src     string
	members []member // nil unless the top level is an object
	array   bool     // the top level is an array
}

// find returns the last member of that name, as JSON readers do.
func (d *document) find(name string) (member, bool) {
	for _, m := range slices.Backward(d.members) {
		if m.name == name {
			return m, true
		}
	}
	return member{}, false
}

// parse validates src as a whole and takes its top level apart.
func parse(src string) (*document, *problem) {
	if p := notText(src); p != nil {
		return nil, p
	}
	doc := &document{src: src}
	s := &scanner{src: src}
	if strings.HasPrefix(src, byteOrder) {
		s.pos = len(byteOrder)
	}
	s.space()
	if s.pos == len(src) {
		return nil, &problem{0, "the file is empty"}
	}
	switch s.peek() {
	case '{':
		doc.split(s)
	case '[':
		doc.array = s.value()
	default:
		s.value()
	}
	s.space()
	if s.fault == "" && s.pos < len(src) {
		s.fail("more text after the end of the JSON value")
	}
	if s.fault != "" {
		return nil, notJSON(src, s)
	}
	return doc, nil
}

// split validates the object that begins here and notes its members.
func (d *document) split(s *scanner) {
	d.members = []member{}
	for more := s.open('}'); more; more = s.next('}') {
		name, ok := s.key()
		if !ok {
			return
		}
		start := s.pos
		if !s.value() {
			return
		}
		if len(d.members) < maxMembers {
			d.members = append(d.members, member{name, start, s.pos})
		}
	}
}

// notText refuses what is no UTF-8 text.
func notText(src string) *problem {
	if strings.HasPrefix(src, "\xff\xfe") || strings.HasPrefix(src, "\xfe\xff") {
		return &problem{0, "the file is UTF-16 text, save it as UTF-8"}
	}
	if utf8.ValidString(src) {
		return nil
	}
	for i, r := range src {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(src[i:]); n == 1 {
				return &problem{i, fmt.Sprintf("the file is not UTF-8 text (byte 0x%02x)", src[i])}
			}
		}
	}
	return nil
}

// notJSON explains a failed scan, and says what the file seems to be instead.
func notJSON(src string, s *scanner) *problem {
	text := strings.TrimPrefix(src, byteOrder)
	switch {
	case strings.HasPrefix(text, scgFirst):
		return &problem{0, "this is SCUD's graph text (SCG), not JSON"}
	case strings.HasPrefix(text, lfsFirst):
		return &problem{0, `this is a Git LFS pointer, the file itself is not here ("git lfs pull" fetches it)`}
	}
	if at := strings.Index("\n"+src, "\n"+mergeMarker); at >= 0 {
		return &problem{at, "merge conflict markers, resolve the conflict first"}
	}
	return &problem{s.wrong, "not valid JSON: " + s.fault}
}

// lookalike explains why the document is no task list.
func (d *document) lookalike() *problem {
	switch {
	case d.array:
		return &problem{0, `a bare array of tasks, not a task file: that would be {"tag": "<tag>", "tasks": [...]}, each task with an "id"`}
	case d.members == nil:
		return &problem{0, "no task list: expected an object with tasks"}
	}
	if m, ok := d.find("tasks"); ok && d.src[m.start] == '{' {
		return &problem{m.start, `"tasks" is an object here, not an array: this is some other program's file`}
	}
	if m, ok := d.find("parallel_execution_plan"); ok {
		return &problem{m.start, "a hand-made wave list (parallel_execution_plan), not a task file"}
	}
	names := make([]string, 0, 6)
	for _, m := range d.members {
		if len(names) == 5 {
			names = append(names, "...")
			break
		}
		names = append(names, fmt.Sprintf("%.40q", m.name))
	}
	if len(names) == 0 {
		return &problem{0, "an empty object, without tasks"}
	}
	return &problem{0, `no task list: expected "tasks" or tags that hold "tasks", found ` + strings.Join(names, ", ")}
}
