package tasks

import (
	"fmt"
	"path/filepath"
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
