package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"descartes/tasks/prose"
)

const (
	maxFile     = 64 << 20
	maxTasks    = 250_000
	maxDepth    = 100 // of subtasks in subtasks; real files reach two
	byteOrder   = "\ufeff"
	scgFirst    = "# SCUD Graph"
	lfsFirst    = "version https://git-lfs"
	mergeMarker = "<<<<<<< "
)

// problem is a FormatError that still has a byte offset as its place.
type problem struct {
	pos    int
	reason string
}

// member is one member of an object. A value's Index is its place in the source.
type member struct {
	name  string
	value gjson.Result
}

// members are those of an object.
func members(object gjson.Result) []member {
	list := []member{}
	object.ForEach(func(key, value gjson.Result) bool {
		list = append(list, member{key.Str, value})
		return true
	})
	return list
}

// last returns the last member with a name, as JSON readers do.
func last(list []member, name string) (gjson.Result, bool) {
	for _, m := range slices.Backward(list) {
		if m.name == name {
			return m.value, true
		}
	}
	return gjson.Result{}, false
}

// end is where a value ends in the source.
func end(v gjson.Result) int { return v.Index + len(v.Raw) }

// plain returns a string, "" for null, and the literal text of anything else.
func plain(v gjson.Result) string {
	switch v.Type {
	case gjson.String:
		return v.Str
	case gjson.Null:
		return ""
	}
	return v.Raw
}

// document is a JSON text known to be valid, with the members of its top level.
type document struct {
	src     string
	members []member // nil unless the top level is an object
	array   bool     // the top level is an array
}

func (d *document) find(name string) (gjson.Result, bool) { return last(d.members, name) }

// parse validates src as a whole and takes its top level apart.
func parse(src string) (*document, *problem) {
	if p := notText(src); p != nil {
		return nil, p
	}
	text := strings.TrimLeft(strings.TrimPrefix(src, byteOrder), " \n\r\t")
	start := len(src) - len(text)
	if text == "" {
		return nil, &problem{0, "the file is empty"}
	}
	if !json.Valid([]byte(text)) {
		return nil, notJSON(src, start, json.Unmarshal([]byte(text), new(any)))
	}
	doc := &document{src: src, array: text[0] == '['}
	if text[0] == '{' {
		doc.members = members(gjson.Result{Type: gjson.JSON, Raw: text, Index: start})
	}
	return doc, nil
}

// notText rejects text that is not UTF-8.
func notText(src string) *problem {
	if strings.HasPrefix(src, "\xff\xfe") || strings.HasPrefix(src, "\xfe\xff") {
		return &problem{0, "the file is UTF-16 text, and must be UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"}
	}
	if utf8.ValidString(src) {
		return nil
	}
	for i, r := range src {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(src[i:]); n == 1 {
				return &problem{i, fmt.Sprintf("the file is not UTF-8 text (byte 0x%02x); if it is Latin-1: iconv -f LATIN1 -t UTF-8 FILE > NEW", src[i])}
			}
		}
	}
	return nil
}

// notJSON explains what encoding/json says about the text from start on, and what the file seems to be instead.
func notJSON(src string, start int, err error) *problem {
	text := strings.TrimPrefix(src, byteOrder)
	switch {
	case strings.HasPrefix(text, scgFirst):
		return &problem{0, "this is SCUD's graph text (SCG), not JSON"}
	case strings.HasPrefix(text, lfsFirst):
		return &problem{0, `this is a Git LFS pointer, not the file itself ("git lfs pull" fetches it)`}
	}
	if at := strings.Index("\n"+src, "\n"+mergeMarker); at >= 0 {
		return &problem{at, "merge conflict markers: resolve the conflict first"}
	}
	var syntax *json.SyntaxError
	at, reason := start, err.Error()
	if errors.As(err, &syntax) {
		at += int(max(syntax.Offset-1, 0))
	}
	if strings.HasPrefix(reason, "unexpected end") {
		at, reason = len(src), "the file ends too early: it seems to be cut off"
	}
	if strings.HasPrefix(reason, "invalid character '}' looking for beginning of object key") || strings.HasPrefix(reason, "invalid character ']' looking for beginning of value") {
		if last := strings.TrimRight(src[:min(at, len(src))], " \t\r\n"); strings.HasSuffix(last, ",") {
			at, reason = len(last)-1, "there is a comma after the last member, which JSON does not allow"
		}
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
	if v, ok := d.find("tasks"); ok && v.IsObject() {
		return &problem{v.Index, `"tasks" is an object here, not an array: this is some other program's file`}
	}
	if v, ok := d.find("parallel_execution_plan"); ok {
		return &problem{v.Index, "a hand-made wave list (parallel_execution_plan), not a task file"}
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
	return &problem{0, `no task list: expected "tasks" or tags that contain "tasks", found ` + strings.Join(names, ", ")}
}

// flat reports whether the document is one list: {"tag": ..., "tasks": [...]}, or {"tasks": [...], "metadata": ...}. Task Master leaves an old list
// beside its tags in some files, and ignores it.
func (d *document) flat() bool {
	v, ok := d.find("tasks")
	return ok && v.IsArray() && (d.flatTag() != "" || len(d.lists()) == 0)
}

// flatTag returns the tag that a flat document names, "" if none.
func (d *document) flatTag() string {
	v, _ := d.find("tag")
	return v.Str
}

// decodeFlat reads {"tag": ..., "tasks": [...]}. Declared waves, the summary and everything else are left alone.
func decodeFlat(d *document, f *File) *problem {
	name := d.flatTag()
	if f.tag == "" {
		f.tag = name
	}
	if name != f.tag && name != "" {
		f.find("tag", fmt.Sprintf("the file says that its tag is %s: it is read as %s", prose.Short(name), f.tag))
	}
	list, _ := d.find("tasks")
	return decodeTasks(f, list)
}

// lists are the tags of a multi-tag document, {"<tag>": {"name": ..., "tasks": [...]}, ...}: its members that hold a task list.
func (d *document) lists() (tags []string) {
	for _, m := range d.members {
		if v, ok := last(members(m.value), "tasks"); ok && m.value.IsObject() && v.IsArray() {
			tags = append(tags, m.name)
		}
	}
	return tags
}

// decodeTagged reads one tag of {"<tag>": {"name": ..., "tasks": [...]}, ...}. ok is false if the tag does not exist.
func decodeTagged(d *document, f *File) (bool, *problem) {
	tag, ok := d.find(f.tag)
	if !ok {
		return false, nil
	}
	list, ok := last(members(tag), "tasks")
	if !ok || !tag.IsObject() || !list.IsArray() {
		return true, &problem{tag.Index, "the tag has no array of tasks"}
	}
	return true, decodeTasks(f, list)
}
