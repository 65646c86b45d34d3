package tasks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	manyTags  = "tasks.json" // SCUD's file of all tags
	graphText = "tasks.scg"
)

// NotFoundError says that no file holds the tag, and which tags there are.
type NotFoundError struct {
	Tag   string
	Path  string   // the directory or file that was searched
	Known []string // in natural order
}

func (e *NotFoundError) Error() string {
	switch {
	case e.Tag == "" && len(e.Known) > 0:
		return fmt.Sprintf("%s holds several tags, name one of: %s", e.Path, strings.Join(e.Known, ", "))
	case len(e.Known) == 0:
		return fmt.Sprintf("no tag %q: there are no task files in %s", e.Tag, e.Path)
	}
	return fmt.Sprintf("no tag %q in %s, known tags: %s", e.Tag, e.Path, strings.Join(e.Known, ", "))
}

// Known lists the tags of the project at root, in natural order.
func Known(root string) []string {
	dir := filepath.Join(root, ".scud", "tasks")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var tags []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		path := filepath.Join(dir, e.Name())
		switch {
		case !ok:
		case e.Name() == manyTags:
			more, _ := tagsOf(path) // a file that cannot be read has none
			tags = append(tags, more...)
		case ValidTag(name) == nil && beginsObject(path):
			tags = append(tags, name)
		}
	}
	slices.SortFunc(tags, CompareIDs)
	return slices.Compact(tags)
}

// notFound lists what there is. Where there is nothing, what is wrong with tasks.json matters more.
func notFound(root, tag string, manyErr error) error {
	known := Known(root)
	if len(known) == 0 && manyErr != nil && !errors.Is(manyErr, fs.ErrNotExist) {
		return manyErr
	}
	return &NotFoundError{Tag: tag, Path: filepath.Join(root, ".scud", "tasks"), Known: known}
}

// tagsOf returns the tags of a multi-tag file that can be named on a command line.
func tagsOf(path string) ([]string, error) {
	src, err := read(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, src: src}
	doc, p := parse(src)
	if p != nil {
		return nil, f.refuse(p)
	}
	tags := doc.tags()
	if doc.flat() {
		tags = []string{doc.flatTag()}
		p = &problem{0, "a task list that does not name its tag"}
	} else if len(tags) == 0 {
		p = doc.lookalike()
	}
	tags = slices.DeleteFunc(tags, func(tag string) bool { return ValidTag(tag) != nil })
	if len(tags) == 0 && p != nil {
		return nil, f.refuse(p)
	}
	return tags, nil
}

// beginsObject reports whether the file at path may be a task file: bare arrays lie in the same directory.
func beginsObject(path string) bool {
	file, err := openRegular(path)
	if err != nil {
		return false
	}
	defer file.Close()
	head := make([]byte, 512)
	n, _ := io.ReadFull(file, head)
	text := strings.TrimLeft(strings.TrimPrefix(string(head[:n]), byteOrder), " \t\r\n")
	return strings.HasPrefix(text, "{")
}
