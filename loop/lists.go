package loop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/plainfile"
)

// otherList is a task list beside the loop's own, as it was before an attempt.
type otherList struct {
	seen look
	data []byte
}

// maxOther bounds, in bytes, the lists of other tags that are remembered.
const maxOther = 16 << 20

// rememberLists reads the settings and the task lists beside the loop's own, those that changed since the last time. The lists are no
// part of its work: whoever changes them meanwhile keeps the change, and no commit of the loop holds it.
func (l *Loop) rememberLists() {
	l.fixed.remember(l.fixedPaths())
	dir := filepath.Join(l.job.Root, ".scud", "tasks")
	entries, err := os.ReadDir(dir)
	if err != nil {
		l.lists = nil
		return
	}
	now := make(map[string]otherList, len(entries))
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if ext := filepath.Ext(path); ext != ".json" && ext != ".scg" || l.saver.writes(path) {
			continue
		}
		if old, ok := l.lists[path]; ok && old.seen.same() {
			now[path] = old
		} else if one, ok := l.readList(path); ok {
			now[path] = one
		}
	}
	l.lists = now
}

func (l *Loop) readList(path string) (one otherList, ok bool) {
	var err error
	one.seen = lookAt(path)
	one.data, err = plainfile.Read(l.job.Root, path, maxOther)
	return one, err == nil
}

// missLists says which of the other lists went away or changed during an attempt, and keeps their text: the
// attempt may have thrown away what nobody had committed.
func (l *Loop) missLists(tr *trial, who string) (notes []string, err error) {
	var gone, changed []string
	aside := filepath.Join(strings.TrimSuffix(tr.log, ".log")+".lists", who)
	for path, old := range l.lists {
		if old.seen.same() {
			continue
		}
		now, ok := l.readList(path)
		if ok && bytes.Equal(now.data, old.data) {
			l.lists[path] = now
			continue
		}
		if err := os.MkdirAll(aside, 0o755); err != nil {
			return nil, fmt.Errorf("keep another task list: %w", err)
		}
		if err := os.WriteFile(filepath.Join(aside, filepath.Base(path)), old.data, 0o600); err != nil {
			return nil, fmt.Errorf("keep another task list: %w", err)
		}
		if ok {
			changed, l.lists[path] = append(changed, l.relative(path)), now
		} else {
			gone = append(gone, l.relative(path))
			delete(l.lists, path)
		}
	}
	for _, x := range []struct {
		what  string
		paths []string
	}{{"deleted", gone}, {"changed", changed}} {
		if slices.Sort(x.paths); len(x.paths) > 0 {
			notes = append(notes, fmt.Sprintf("other task lists were %s during the %s and are left so: %s; their text before it is kept in %s",
				x.what, who, strings.Join(x.paths, ", "), l.relative(aside)))
		}
	}
	return notes, nil
}
