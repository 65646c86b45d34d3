package scheduler

import (
	"path"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
)

// scopes are the files that tasks say they will change: paths and patterns with *, ? and **. A task that says nothing meets no other.
type scopes map[string][]area

func (g *Graph) scopes() scopes {
	out := scopes{}
	for _, id := range g.Leaves() {
		t, _ := g.Task(id)
		for _, name := range t.Scope {
			if a, ok := newArea(name); ok && len(out[id]) < maxAreas {
				out[id] = append(out[id], a)
			}
		}
	}
	return out
}

// meet returns where two tasks may change the same files: the paths and patterns of the first that share a file with one of the second, the longer
// name of the two, each once.
func (s scopes) meet(a, b string) []string {
	var where []string
	for i := range s[a] {
		for k := range s[b] {
			x, y := &s[a][i], &s[b][k]
			if !x.meets(y) {
				continue
			}
			if len(y.name) > len(x.name) {
				x = y
			}
			if !slices.Contains(where, x.name) {
				where = append(where, x.name)
			}
		}
	}
	return where
}

// meets returns the first of the running tasks that a task meets, and where.
func (s scopes) meets(task string, running []string) (with, where string) {
	for _, r := range running {
		if paths := s.meet(task, r); len(paths) > 0 {
			return r, strings.Join(paths, ", ")
		}
	}
	return "", ""
}

// area is the files that a path or pattern stands for: those that match, and for a folder everything below.
type area struct {
	name   string
	parts  []string // between slashes; ** for any number of folders
	folder bool
}

const (
	maxAreas     = 256 // of one task
	maxAreaParts = 32
	maxAreaPart  = 128
)

// newArea reads a path or pattern from the root of the project. A name without a slash that has an extension may be in any folder.
func newArea(name string) (area, bool) {
	name = strings.TrimSpace(name)
	plain := strings.Trim(path.Clean(strings.TrimPrefix(name, "/")), "/")
	if name == "" || plain == "." || plain == ".." || strings.HasPrefix(plain, "../") {
		return area{}, false
	}
	a := area{name: name, parts: strings.Split(plain, "/")}
	last := a.parts[len(a.parts)-1]
	a.folder = strings.HasSuffix(name, "/") || strings.LastIndexByte(last, '.') < 1
	if !a.folder && !strings.Contains(name, "/") {
		a.parts = append([]string{"**"}, a.parts...)
	}
	if len(a.parts) > maxAreaParts {
		a.parts = a.parts[:maxAreaParts]
	}
	for _, part := range a.parts {
		if len(part) > maxAreaPart {
			return area{}, false
		}
	}
	return a, true
}

// meets reports whether some path is in both areas.
func (a *area) meets(b *area) bool {
	if x, y := a.parts[0], b.parts[0]; x != y && !strings.ContainsAny(x, "*?[") && !strings.ContainsAny(y, "*?[") {
		return false // most pairs
	}
	return common(*a, *b, "**", namesMeet)
}

// namesMeet reports whether some name matches two patterns with * and ?; a class in brackets counts as ?.
func namesMeet(a, b string) bool {
	if !strings.ContainsAny(a, "*?[") && !strings.ContainsAny(b, "*?[") {
		return a == b
	}
	return common(area{parts: symbols(a)}, area{parts: symbols(b)}, "*", func(x, y string) bool { return x == y || x == "?" || y == "?" })
}

var symbol = lazyregexp.New(`\[[^\]]+\]|(?s:.)`)

// symbols cuts a pattern into what it matches one after another.
func symbols(pattern string) []string {
	list := symbol.FindAllString(pattern, -1)
	for i, s := range list {
		if len(s) > 1 && s[0] == '[' {
			list[i] = "?"
		}
	}
	return list
}

// common reports whether some sequence of parts is in both areas; star stands for any number of parts.
func common(x, y area, star string, same func(a, b string) bool) bool {
	a, b := x.parts, y.parts
	next := make([]bool, len(b)+1) // by k: whether a[i+1:] and b[k:] have a sequence in common
	for i := len(a); i >= 0; i-- {
		now := make([]bool, len(b)+1)
		for k := len(b); k >= 0; k-- {
			switch {
			case i == len(a) && (x.folder || k == len(b)), k == len(b) && y.folder:
				now[k] = true
			case i < len(a) && a[i] == star:
				now[k] = next[k] || k < len(b) && now[k+1]
			case k < len(b) && b[k] == star:
				now[k] = now[k+1] || i < len(a) && next[k]
			case i < len(a) && k < len(b):
				now[k] = same(a[i], b[k]) && next[k+1]
			}
		}
		next = now
	}
	return next[0]
}
