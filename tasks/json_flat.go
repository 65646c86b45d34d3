package tasks

import (
	"fmt"

	"descartes/tasks/prose"
)

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
