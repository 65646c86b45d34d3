package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"descartes/tasks/prose"
)

const (
	maxFile     = 64 << 20
	maxTasks    = 250_000
	maxDepth    = 100    // of arrays and objects; real files reach six
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
	if text := []byte(src[s.pos:]); !json.Valid(text) {
		return nil, notJSON(src, s.pos, json.Unmarshal(text, new(any)))
	}
	if whole := *s; whole.value() > maxDepth {
		return nil, &problem{s.pos, "not valid here: nested too deeply"}
	}
	switch s.peek() {
	case '{':
		doc.split(s)
	case '[':
		doc.array = true
	}
	return doc, nil
}

// split notes the members of the object that begins here.
func (d *document) split(s *scanner) {
	d.members = []member{}
	for more := s.open('}'); more; more = s.next('}') {
		name, start := s.key(), s.pos
		s.value()
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

// notJSON explains what encoding/json says of the text from start on, and says what the file seems to be instead.
func notJSON(src string, start int, err error) *problem {
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
	var syntax *json.SyntaxError
	at, reason := start, err.Error()
	if errors.As(err, &syntax) {
		at += int(max(syntax.Offset-1, 0))
	}
	if strings.HasPrefix(reason, "unexpected end") {
		at, reason = len(src), "the file ends too early, it seems to be cut off"
	}
	return &problem{at, "not valid JSON: " + reason}
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

// flat reports whether the document is one list: {"tag": ..., "tasks": [...]}, or {"tasks": [...], "metadata": ...}. Task Master leaves
// an old list beside its tags in some files, and does not look at it any more.
func (d *document) flat() bool {
	m, ok := d.find("tasks")
	if !ok || d.src[m.start] != '[' {
		return false
	}
	if d.flatTag() != "" {
		return true
	}
	for _, m := range d.members {
		if _, ok := d.list(m); ok {
			return false
		}
	}
	return true
}

// flatTag returns the tag that a flat document names, "" if none.
func (d *document) flatTag() string {
	m, ok := d.find("tag")
	if !ok || d.src[m.start] != '"' {
		return ""
	}
	return unquote(d.src[m.start:m.end])
}

// decodeFlat reads {"tag": ..., "tasks": [...]}. Declared waves, the summary and everything else are left alone.
func decodeFlat(d *document, f *File) *problem {
	name := d.flatTag()
	if f.tag == "" {
		f.tag = name
	}
	if name != f.tag && name != "" {
		f.find("tag", fmt.Sprintf("the file says that its tag is %s, it is read as %s", prose.Short(name), f.tag))
	}
	m, _ := d.find("tasks")
	return decodeTasks(d, f, m)
}

// tags returns the tags of a multi-tag document, {"<tag>": {"name": ..., "tasks": [...]}, ...}: its members that hold a task list.
func (d *document) tags() []string {
	if d.flat() {
		return nil
	}
	var names []string
	for _, m := range d.members {
		if _, ok := d.list(m); ok {
			names = append(names, m.name)
		}
	}
	return names
}

// list returns the tasks member of one tag.
func (d *document) list(tag member) (member, bool) {
	if d.src[tag.start] != '{' {
		return member{}, false
	}
	inner := &document{src: d.src[:tag.end]}
	inner.split(&scanner{src: inner.src, pos: tag.start})
	m, ok := inner.find("tasks")
	return m, ok && d.src[m.start] == '['
}

// decodeTagged reads one tag of {"<tag>": {"name": ..., "tasks": [...]}, ...}. It reports false if the tag is not there.
func decodeTagged(d *document, f *File) (bool, *problem) {
	m, ok := d.find(f.tag)
	if !ok {
		return false, nil
	}
	list, ok := d.list(m)
	if !ok {
		return true, &problem{m.start, "the tag holds no array of tasks"}
	}
	return true, decodeTasks(d, f, list)
}

// scanner walks over a JSON text that is known to be valid, and knows where it is: statuses are changed in place.
type scanner struct {
	src string
	pos int
}

func (s *scanner) space() {
	for s.pos < len(s.src) && strings.IndexByte(" \n\r\t", s.src[s.pos]) >= 0 {
		s.pos++
	}
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

// open enters the array or object that begins here and reports whether it has a first element.
func (s *scanner) open(closing byte) bool {
	s.pos++
	s.space()
	return !s.close(closing)
}

// next goes to the following element of an array or object, or behind its end.
func (s *scanner) next(closing byte) bool {
	s.space()
	if s.close(closing) {
		return false
	}
	s.pos++ // a comma
	s.space()
	return true
}

func (s *scanner) close(closing byte) bool {
	if s.peek() != closing {
		return false
	}
	s.pos++
	return true
}

// key reads the name of a member and goes to its value.
func (s *scanner) key() string {
	start := s.pos
	s.str()
	name := unquote(s.src[start:s.pos])
	s.space()
	s.pos++ // a colon
	s.space()
	return name
}

// value goes behind the value that begins here and returns how deep it is nested.
func (s *scanner) value() (deepest int) {
	depth := 0
	for {
		switch s.peek() {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
			s.pos++
		case '}', ']':
			depth--
			s.pos++
		case '"':
			s.str()
		case ' ', '\n', '\r', '\t', ',', ':':
			s.pos++
		default: // a number or a word
			for s.pos < len(s.src) && strings.IndexByte(" \n\r\t,]}", s.src[s.pos]) < 0 {
				s.pos++
			}
		}
		if depth == 0 {
			return deepest
		}
	}
}

func (s *scanner) str() {
	for s.pos++; s.src[s.pos] != '"'; s.pos++ {
		if s.src[s.pos] == '\\' {
			s.pos++
		}
	}
	s.pos++
}

// unquote returns the text of a string token. Without escapes it is a part of the source and costs nothing.
func unquote(token string) string {
	if strings.IndexByte(token, '\\') < 0 {
		return token[1 : len(token)-1]
	}
	var text string
	_ = json.Unmarshal([]byte(token), &text) // a valid token
	return text
}
