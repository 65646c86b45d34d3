package loop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// otherLists names the task lists beside the loop's own. They are no part of its work: whoever changes them
// meanwhile keeps the change, and no commit of the loop holds it.
func (l *Loop) otherLists() []string {
	dir := filepath.Join(l.job.Root, ".scud", "tasks")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		own := path == l.job.File.Path() || l.saver.mirror != nil && path == l.saver.mirror.path
		if ext := filepath.Ext(path); !own && !e.IsDir() && (ext == ".json" || ext == ".scg") {
			out = append(out, path)
		}
	}
	return out
}

// missLists says which of the other lists went away during an attempt, once for each.
func (l *Loop) missLists(tr *trial, who string) []string {
	var gone []string
	tr.lists = slices.DeleteFunc(tr.lists, func(path string) bool {
		_, err := os.Lstat(path)
		if err != nil {
			gone = append(gone, l.relative(path))
		}
		return err != nil
	})
	if len(gone) == 0 {
		return nil
	}
	return []string{"the " + who + " deleted other task lists, which are left so: " + strings.Join(gone, ", ") +
		"; git restore brings back what was committed of them"}
}
