package tasks

import (
	"fmt"
	"strings"

	"descartes/tasks/prose"
)

// dependencies reads an array of ids. What cannot be an id is kept as its literal text: it names no task, so the task is held
// rather than started too early.
func (r *reader) dependencies(e *entry) {
	if r.peek() != '[' {
		r.looseDependencies(e)
		return
	}
	var seen map[string]bool
	for more := r.open(']'); more; more = r.next(']') {
		first := r.peek()
		start := r.pos
		id := strings.TrimSpace(r.text())
		if first != '"' && first != '-' && (first < '0' || first > '9') || id == "" {
			id = prose.Short(r.src[start:r.pos])
			r.note(e, "dependency", fmt.Sprintf("a dependency must be an id, found %s", id))
		}
		seen = e.depend(ownID(r.file.tag, id), seen)
	}
}

// looseDependencies reads a lone id, or several in one string.
func (r *reader) looseDependencies(e *entry) {
	start, first := r.pos, r.peek()
	text := r.text()
	if text == "" {
		return
	}
	ids := []string{prose.Short(r.src[start:r.pos])}
	if first != '{' {
		ids = strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
	}
	r.note(e, "dependency", "dependencies should be an array of ids, read as "+prose.Short(strings.Join(ids, ", ")))
	var seen map[string]bool
	for _, id := range ids {
		seen = e.depend(ownID(r.file.tag, id), seen)
	}
}

// depend adds one dependency unless it is there already; seen appears with the first long list.
func (e *entry) depend(id string, seen map[string]bool) map[string]bool {
	list := e.dependsOn
	if seen == nil && len(list) >= 16 {
		seen = make(map[string]bool, 2*len(list))
		for _, d := range list {
			seen[d] = true
		}
	}
	if seen != nil {
		if !seen[id] {
			seen[id] = true
			e.dependsOn = append(list, id)
		}
		return seen
	}
	for _, d := range list {
		if d == id {
			return nil
		}
	}
	e.dependsOn = append(list, id)
	return nil
}

// keep copies a list out of the memory that the next task uses; many lists share one allocation.
func (r *reader) keep(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	if cap(r.pool)-len(r.pool) < len(list) {
		r.pool = make([]string, 0, max(1024, len(list)))
	}
	from := len(r.pool)
	r.pool = append(r.pool, list...)
	return r.pool[from:len(r.pool):len(r.pool)]
}
