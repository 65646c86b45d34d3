package scheduler

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Wait says that a task could start, but for one under way that may change the same files.
type Wait struct{ Task, On, Path string }

func (w Wait) String() string {
	return fmt.Sprintf("waiting because it may change the same files as task %s: %s", w.On, w.Path)
}

// meeting returns where two scopes may have the same files. A scope is the files that a task says it will change: paths
// and patterns with *, ? and **, a folder with everything below; one that says nothing meets no other. It is the paths and patterns of the first that share a file with
// one of the second, the longer name of the two, each once.
func meeting(a, b []string) []string {
	var where []string
	for _, x := range a {
		for _, y := range b {
			long := x
			if len(y) > len(x) {
				long = y
			}
			if overlap(parts(x), parts(y)) && !slices.Contains(where, long) {
				where = append(where, long)
			}
		}
	}
	return where
}

// parts are those between the slashes of a path from the root of the project, nil for one outside. A name without a
// slash that has an extension may be in any folder.
func parts(name string) []string {
	plain := strings.Trim(path.Clean("/"+strings.TrimSpace(name)), "/")
	if plain == "" || strings.HasPrefix(path.Clean(strings.TrimSpace(name)), "..") {
		return nil
	}
	list := strings.Split(plain, "/")
	if !strings.Contains(name, "/") && !folder(name) {
		return append([]string{"**"}, list...)
	}
	return list
}

func folder(name string) bool { return strings.LastIndexByte(name, '.') < 1 }

// overlap reports whether some path is in both. Behind a ** only the names of files are compared, and two wildcards
// are taken to meet: then a task may wait for another without need, but never runs beside one that it should wait for.
func overlap(a, b []string) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	for k := range min(len(a), len(b)) {
		if a[k] == "**" || b[k] == "**" {
			x, y := a[len(a)-1], b[len(b)-1]
			return folder(x) || folder(y) || same(x, y)
		}
		if !same(a[k], b[k]) {
			return false
		}
	}
	return true
}

// same reports whether a name may match both patterns.
func same(x, y string) bool {
	const wild = "*?["
	one, errOne := path.Match(x, y)
	other, errOther := path.Match(y, x)
	return one || other || errOne != nil || errOther != nil || strings.ContainsAny(x, wild) &&
		strings.ContainsAny(y, wild)
}
