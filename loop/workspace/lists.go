package workspace

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/plainfile"
)

// lists are the other task lists. They are not part of the loop's work: whoever changes them keeps the change, and no commit of the loop contains it.
type lists struct {
	root  string
	own   func(path string) bool // reports the loop's own list; nil: lists are not watched
	files map[string]otherList   // by path
}

// otherList is such a list as it was before an attempt.
type otherList struct {
	seen Look
	data []byte
}

// maxList limits, in bytes, the remembered lists of other tags.
const maxList = 16 << 20

// remember reads the lists that changed since the last call.
func (l *lists) remember() {
	if l.own == nil {
		return
	}
	dir := filepath.Join(l.root, ".scud", "tasks")
	entries, err := os.ReadDir(dir)
	if err != nil {
		l.files = nil
		return
	}
	now := make(map[string]otherList, len(entries))
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if ext := filepath.Ext(path); ext != ".json" && ext != ".scg" || l.own(path) {
			continue
		}
		if old, ok := l.files[path]; ok && old.seen.Same() {
			now[path] = old
		} else if one, ok := l.read(path); ok {
			now[path] = one
		}
	}
	l.files = now
}

func (l *lists) read(path string) (one otherList, ok bool) {
	var err error
	one.seen = LookAt(path)
	one.data, err = plainfile.Read(l.root, path, maxList)
	return one, err == nil
}

// missing reports the lists that this part of an attempt deleted or changed, and keeps their old text in the folder aside: it may have been
// uncommitted.
func (l *lists) missing(who, aside string) (notes []string, err error) {
	var gone, changed []string
	aside = filepath.Join(aside, who)
	for path, old := range l.files {
		if old.seen.Same() {
			continue
		}
		now, ok := l.read(path)
		if ok && bytes.Equal(now.data, old.data) {
			l.files[path] = now
			continue
		}
		if err := os.MkdirAll(aside, 0o755); err != nil {
			return nil, fmt.Errorf("save another task list: %w", err)
		}
		if err := os.WriteFile(filepath.Join(aside, filepath.Base(path)), old.data, 0o600); err != nil {
			return nil, fmt.Errorf("save another task list: %w", err)
		}
		if ok {
			changed, l.files[path] = append(changed, relative(l.root, path)), now
		} else {
			gone = append(gone, relative(l.root, path))
			delete(l.files, path)
		}
	}
	for _, x := range []struct {
		what  string
		paths []string
	}{{"deleted", gone}, {"changed", changed}} {
		if slices.Sort(x.paths); len(x.paths) > 0 {
			notes = append(notes, fmt.Sprintf("other task lists were %s during the %s and left so: %s; their previous text is kept in %s",
				x.what, who, strings.Join(x.paths, ", "), relative(l.root, aside)))
		}
	}
	return notes, nil
}

// relative is a path as a person in the project's folder would type it.
func relative(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil {
		return rel
	}
	return path
}
