package plan

import (
	"fmt"
	"io/fs"

	"descartes/tasks"
)

// Write makes the file .scud/tasks/<tag>.json of the project at root and returns its path. Where a task file has the
// tag already, wherever that is, nothing is written and the error is an fs.ErrExist.
func (d *Document) Write(root, tag string) (string, error) {
	list, err := d.List(root, tag)
	if err != nil {
		return "", err
	}
	if f, err := tasks.Open(root, tag); err == nil {
		return "", fmt.Errorf("import tasks to %s: the tag is in %s: %w", list.Path(), f.Path(), fs.ErrExist)
	}
	return list.Path(), list.Create()
}

// List is the task file that Write would make.
func (d *Document) List(root, tag string) (*tasks.File, error) {
	list, err := d.Tasks()
	if err != nil {
		return nil, err
	}
	return tasks.NewList(root, tag, list)
}
