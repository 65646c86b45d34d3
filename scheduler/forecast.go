package scheduler

import (
	"path"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
)

// Footprint is what a task says about the files it will change.
type Footprint struct {
	Task  string
	Scope []string // paths and patterns with *, ? and **; if there are any, the text does not count
	Text  string   // of the task and of its section of the plan
}

// Forecast predicts which tasks are likely to change the same files, from what is said about them. A task that says nothing overlaps with no other.
// It is read-only and safe for concurrent use; a nil Forecast predicts nothing.
type Forecast struct {
	areas map[string][]area
}

// NewForecast reads what is said about some tasks.
func NewForecast(prints []Footprint) *Forecast {
	f := &Forecast{areas: map[string][]area{}}
	for _, p := range prints {
		names := p.Scope
		if len(names) == 0 {
			names = pathsIn(p.Text)
		}
		for _, name := range names {
			if a, ok := newArea(name); ok && len(f.areas[p.Task]) < maxAreas {
				f.areas[p.Task] = append(f.areas[p.Task], a)
			}
		}
	}
	return f
}

// Meet returns where two tasks are likely to overlap: the paths and patterns of the first that share a file with one of the second, the longer name
// of the two, each once.
func (f *Forecast) Meet(a, b string) []string {
	if f == nil {
		return nil
	}
	var where []string
	for i := range f.areas[a] {
		for k := range f.areas[b] {
			x, y := &f.areas[a][i], &f.areas[b][k]
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

// meets returns the first of the running tasks that a task is likely to meet, and where.
func (f *Forecast) meets(task string, running []string) (with, where string) {
	if f == nil || len(f.areas[task]) == 0 {
		return "", ""
	}
	for _, r := range running {
		if paths := f.Meet(task, r); len(paths) > 0 {
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

var (
	// A word that may be a path, with the backquote before and after it where it is code by itself.
	pathWord = lazyregexp.New("`?[\\w.@*?+/\\[\\]-]+(?::\\d+)*`?")
	fileName = lazyregexp.New(`^[\w.*?+-]*\.[a-z][a-z0-9]{0,9}$`)
	host     = lazyregexp.New(`^[\w-]+(\.[\w-]+)*\.[a-z]{2,}/`)
)

// pathsIn returns the paths in a text, each once: words with a slash that name a file or a folder ("docs/a.md", "cmd/", "./x"), and as
// code by themselves also `internal/x` and `main.go`. Addresses, absolute paths and paths out of the project are none.
func pathsIn(text string) []string {
	var paths []string
	met := map[string]bool{}
	for _, at := range pathWord.FindAllStringIndex(text, -1) {
		word := text[at[0]:at[1]]
		code := len(word) > 2 && word[0] == '`' && word[len(word)-1] == '`'
		if rest := text[:at[0]]; strings.HasSuffix(rest, ":") && strings.HasPrefix(word, "//") || strings.HasSuffix(rest, "~") {
			continue
		}
		word, _, _ = strings.Cut(strings.Trim(word, "`"), ":")
		word = strings.TrimRight(strings.TrimSuffix(word, "/..."), ".?")
		if isPath(word, code) && !met[word] {
			met[word] = true
			paths = append(paths, word)
		}
	}
	return paths
}

func isPath(word string, code bool) bool {
	if word == "" || strings.ContainsRune("-/@+", rune(word[0])) || strings.HasPrefix(word, "../") || host.MatchString(word) || strings.Trim(word, "./*?") == "" {
		return false
	}
	file := fileName.MatchString(path.Base(word))
	if !strings.Contains(word, "/") {
		return code && file
	}
	return code || file || strings.HasSuffix(word, "/") || strings.HasPrefix(word, "./")
}
