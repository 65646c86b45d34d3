package tasks

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
)

// Mirror returns SCUD's tasks.json beside a tasks.scg, if it has the tag with the same tasks and statuses. Save keeps
// it so. Its bytes are those on disk when Save or Mirror last looked.
func (f *File) Mirror() (*File, bool) {
	m := f.beside()
	return m, m != nil && m.has(f.statuses())
}

// has reports whether the statuses are those of all tasks.
func (f *File) has(set map[string]Status) bool { return maps.Equal(f.statuses(), set) }

// mirrorWritable rejects a read-only mirror that is in step: it could not follow.
func (f *File) mirrorWritable() error {
	m, ok := f.Mirror()
	if !ok {
		return nil
	}
	if err := writable(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s would no longer match %s: %w", manyTags, f.path, err)
	}
	return nil
}

// beside returns the tag in tasks.json beside a tasks.scg as it is now, nil if there is none.
func (f *File) beside() *File {
	if filepath.Base(f.path) != graphText {
		return nil
	}
	m := f.mirror
	if m != nil {
		m, _, _ = m.current()
	}
	if m == nil {
		m, _ = OpenPath(filepath.Join(filepath.Dir(f.path), manyTags), f.tag)
	}
	f.mirror = m
	return m
}
