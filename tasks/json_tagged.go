package tasks

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
