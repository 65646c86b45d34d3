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

// File is one tag of one task file as it was read: its bytes, its tasks, and where each status stands.
// It is not safe for concurrent use.
type File struct {
	path, tag string
	src       string
	tasks     []Task
	sites     []site
	inserts   map[int]string // by task: what has to come before a status that is not there yet
	index     map[string]int // id to the first task that has it
	findings  []Finding
}

// FormatError says that a file is no task file, and where that shows.
type FormatError struct {
	Path   string
	Line   int // from 1; 0 where no line is to blame
	Reason string
}

func (e *FormatError) Error() string {
	if e.Line == 0 {
		return e.Path + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.Path, e.Line, e.Reason)
}

// Open reads the tag of the project at root: .scud/tasks/<tag>.json, or else .scud/tasks/tasks.json if that holds the tag.
// It returns a *TagError, *NotFoundError or *FormatError where those apply.
func Open(root, tag string) (*File, error) {
	if err := ValidTag(tag); err != nil {
		return nil, err
	}
	dir := filepath.Join(root, ".scud", "tasks")
	own, many := filepath.Join(dir, tag+".json"), filepath.Join(dir, manyTags)
	f, err := OpenPath(own, tag)
	if err != nil && !absent(err) {
		return nil, err
	}
	tags, manyErr := tagsOf(many)
	both := own != many && slices.Contains(tags, tag)
	switch {
	case err == nil && both:
		f.find("source", fmt.Sprintf("%s holds the tag too, it is not read", many))
		return f, nil
	case err == nil:
		return f, nil
	case !both:
		return nil, notFound(root, tag, manyErr)
	}
	if f, err = OpenPath(many, tag); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, graphText)); err == nil {
		f.find("source", fmt.Sprintf("%s lies beside it; what SCUD changed there since does not show here", graphText))
	}
	return f, nil
}

func absent(err error) bool {
	var missing *NotFoundError
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &missing)
}

// OpenPath reads the tag from the file at path. An empty tag is the tag that the file names, or its only one.
// A missing file is an error that is fs.ErrNotExist, a tag missing in a multi-tag file a *NotFoundError.
func OpenPath(path, tag string) (*File, error) {
	src, err := read(path)
	if err != nil {
		return nil, err
	}
	return decode(path, tag, src)
}

// decode makes a File of the bytes of one.
func decode(path, tag, src string) (*File, error) {
	f := &File{path: path, tag: tag, src: src, index: map[string]int{}}
	doc, p := parse(src)
	if p != nil {
		return nil, f.refuse(p)
	}
	if doc.flat() {
		p = decodeFlat(doc, f)
	} else {
		if tags := doc.tags(); tag == "" && len(tags) == 1 {
			f.tag = tags[0]
		}
		var ok bool
		if ok, p = decodeTagged(doc, f); !ok {
			if known := doc.tags(); len(known) > 0 {
				return nil, &NotFoundError{Tag: tag, Path: path, Known: known}
			}
			p = doc.lookalike()
		}
	}
	if p != nil {
		return nil, f.refuse(p)
	}
	return f, nil
}

func (f *File) refuse(p *problem) error {
	line := 0
	if p.pos > 0 || !strings.HasPrefix(p.reason, "the file") {
		line = 1 + strings.Count(f.src[:min(p.pos, len(f.src))], "\n")
	}
	return &FormatError{Path: f.path, Line: line, Reason: p.reason}
}

// read returns the bytes of a regular file of bearable size.
func read(path string) (string, error) {
	file, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var b strings.Builder
	if info, err := file.Stat(); err == nil && info.Size() <= maxFile {
		b.Grow(int(info.Size()))
	} else if err == nil {
		return "", tooLarge(path)
	}
	n, err := io.Copy(&b, io.LimitReader(file, maxFile+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if n > maxFile {
		return "", tooLarge(path)
	}
	return b.String(), nil
}

func tooLarge(path string) error {
	return &FormatError{Path: path, Reason: fmt.Sprintf("larger than %d MiB", maxFile>>20)}
}

// openRegular opens path for reading, and never a FIFO, on which that would hang.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		if target, linkErr := os.Readlink(path); linkErr == nil && errors.Is(err, fs.ErrNotExist) {
			return nil, &FormatError{Path: path, Reason: fmt.Sprintf("a symbolic link to %s, which does not exist", target)}
		}
		return nil, err
	}
	if info.IsDir() {
		return nil, &FormatError{Path: path, Reason: "is a directory"}
	}
	if !info.Mode().IsRegular() {
		return nil, &FormatError{Path: path, Reason: "is not a regular file"}
	}
	return os.Open(path)
}

// Tag returns the tag that was read.
func (f *File) Tag() string { return f.tag }

// Path returns the file that was read.
func (f *File) Path() string { return f.path }

// Tasks returns all tasks in file order: containers too, and tasks whose id an earlier one has. The caller must not change them;
// Save does not either, it makes a new list, so that a list once returned may be read beside a later Save.
func (f *File) Tasks() []Task { return f.tasks }

// Findings returns what the reader went on from, in file order.
func (f *File) Findings() []Finding { return f.findings }

// Task returns the first task with that id. "tag:id" is the same as "id".
func (f *File) Task(id string) (*Task, bool) {
	i, ok := f.index[ownID(f.tag, id)]
	if !ok {
		return nil, false
	}
	return &f.tasks[i], true
}

// Bytes returns a copy of the whole file as it was read or last saved.
func (f *File) Bytes() []byte { return []byte(f.src) }

// grow makes room for n tasks.
func (f *File) grow(n int) {
	f.tasks, f.sites = make([]Task, 0, n), make([]site, 0, n)
	f.index = make(map[string]int, n)
}

// add appends one entry.
func (f *File) add(e *entry) {
	t := &e.task
	if first, ok := f.index[t.ID]; ok {
		f.note(t, "duplicate", fmt.Sprintf("the id is taken by line %d, this task is not used", f.tasks[first].Line))
	} else {
		f.index[t.ID] = len(f.tasks)
	}
	if !t.Status.Known() {
		f.findings = append(f.findings, Finding{Line: t.Line, ID: t.ID, Kind: "unknown-status", Message: UnknownStatus(t.ID, t.Status)})
	}
	for _, finding := range e.findings {
		f.note(t, finding.Kind, finding.Message)
	}
	if e.status == 0 {
		if f.inserts == nil {
			f.inserts = map[int]string{}
		}
		f.inserts[len(f.tasks)] = "," + e.gap + `"status"` + e.colon
	}
	f.tasks = append(f.tasks, *t)
	f.sites = append(f.sites, e.site)
}

func (f *File) note(t *Task, kind, message string) {
	f.findings = append(f.findings, Finding{Line: t.Line, ID: t.ID, Kind: kind, Message: "task " + t.ID + ": " + message})
}

func (f *File) find(kind, message string) {
	f.findings = append(f.findings, Finding{Kind: kind, Message: message})
}
