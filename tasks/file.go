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
	"time"

	"descartes/internal/plainfile"

	"descartes/tasks/prose"
)

// File is one tag of one task file as it was read: its bytes, its tasks, and where each status is. It is not safe for
// concurrent use.
type File struct {
	path, tag string
	real      string // path without links, as it was when the file was read
	src       string
	tasks     []Task
	sites     []site
	inserts   map[int]string // by task: what has to precede a status that does not exist yet
	index     map[string]int // id to the first task that has it
	findings  []Finding
	remarks   []Finding // what only Lint reports about how it is written
	master    bool      // a Task Master file
	letters   bool      // statuses are SCG letters, not JSON strings
	binary    binary
	updated   span // SCG: the time of the last change of the tag; empty where it has none
	clock     func() time.Time
	replace   func(path string, data []byte) error
	mirror    *File // of tasks.scg: the tag in tasks.json beside it, once examined
}

// span is a part of the source.
type span struct{ start, end int32 }

// FormatError says that a file is not a task file, and where.
type FormatError struct {
	Path   string
	Line   int // from 1; 0 if no line is to blame
	Reason string
}

func (e *FormatError) Error() string {
	if e.Line == 0 {
		return e.Path + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.Path, e.Line, e.Reason)
}

// OpenPath reads the tag from the file at path, of any format. An empty tag is the tag that the file names, or its only one. A missing file is an
// fs.ErrNotExist; a tag missing from a file with several is a *NotFoundError.
func OpenPath(path, tag string) (*File, error) {
	t, err := load(path)
	if err != nil {
		return nil, err
	}
	return t.open(tag)
}

// text is a task file that was read and split into its tags.
type text struct {
	path, src string
	graph     bool
	phases    []phase
	doc       *document
	entries   *checklist // of a Markdown list
	names     []string   // its tags
}

func load(path string) (*text, error) {
	reading := read
	if filepath.Base(path) == graphText {
		reading = readGraph
	}
	src, err := reading(path)
	if err != nil {
		return nil, err
	}
	return takeApart(path, src)
}

func takeApart(path, src string) (*text, error) {
	t := &text{path: path, src: src, graph: isGraph(path, src)}
	var p *problem
	switch {
	case t.graph:
		t.phases, p = cutGraph(src)
	case isChecklist(path):
		t.doc = &document{src: src}
		t.entries, p = readChecklist(src)
	default:
		t.doc, p = parse(src)
	}
	if p != nil {
		return nil, (&File{path: path, src: src}).refuse(p)
	}
	t.names = t.findTags()
	return t, nil
}

// Parse is OpenPath for the bytes of a file.
func Parse(path, tag string, src []byte) (*File, error) {
	t, err := takeApart(path, string(src))
	if err != nil {
		return nil, err
	}
	return t.open(tag)
}

// tags returns the tags of the file, in its order.
func (t *text) tags() []string { return t.names }

// findTags is tags. A list that does not name its own is "master" to Task Master.
func (t *text) findTags() []string {
	switch {
	case t.graph:
		return graphTags(t.phases)
	case t.entries != nil:
		return []string{checklistTag(t.path)}
	case !t.doc.flat():
		if _, ok := t.doc.stories(); ok {
			return []string{t.doc.storiesTag()}
		}
		return t.doc.lists()
	}
	if tag := t.doc.flatTag(); tag != "" {
		return []string{tag}
	}
	if t.taskMaster() {
		return []string{master}
	}
	return nil
}

// nameless says why a readable file has no tags; nil for a graph, which may have none.
func (t *text) nameless() error {
	if t.graph || len(t.tags()) > 0 {
		return nil
	}
	p := t.doc.lookalike()
	if t.doc.flat() {
		p = &problem{0, "a task list that does not name its tag"}
	}
	return (&File{path: t.path, src: t.src}).refuse(p)
}

// open decodes one tag.
func (t *text) open(tag string) (*File, error) {
	f := &File{path: t.path, tag: tag, real: t.path, src: t.src, index: map[string]int{}, master: t.taskMaster()}
	if real, err := filepath.EvalSymlinks(t.path); err == nil {
		f.real = real
	}
	tags := t.tags()
	switch base := filepath.Base(t.path); {
	case tag != "":
	case len(tags) == 1:
		f.tag = tags[0]
	case len(tags) == 0 && base != manyTags:
		f.tag = strings.TrimSuffix(base, ".json")
	}
	if tag == master && t.taskMaster() && len(tags) > 0 && !slices.Contains(tags, tag) {
		f.tag = tags[0] // as Task Master does
		f.find("tag", fmt.Sprintf("there is no tag %s: the first one is read: %s", master, prose.Short(f.tag)))
	}
	var found bool
	var p *problem
	switch {
	case t.graph:
		found, p = decodeGraph(t.phases, f)
	case t.entries != nil:
		found, p = true, t.entries.decode(f)
	case t.doc.flat():
		found, p = true, decodeFlat(t.doc, f)
	default:
		if list, ok := t.doc.stories(); ok {
			found, p = true, decodeStories(f, list)
		} else {
			found, p = decodeTagged(t.doc, f)
		}
	}
	if !found && (len(tags) > 0 || t.graph) {
		missing := &NotFoundError{Tag: tag, Path: t.path, Known: tags}
		if len(tags) == 0 {
			missing.Empty = []string{t.path}
		}
		return nil, missing
	}
	if !found {
		p = t.doc.lookalike()
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

// read returns the bytes of a regular file of bounded size.
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

// openRegular opens path for reading. It refuses a FIFO, which would block, and a link that leads out of the repository.
func openRegular(path string) (*os.File, error) {
	file, err := plainfile.Open("", path)
	var refused *plainfile.Error
	switch {
	case errors.As(err, &refused):
		return nil, &FormatError{Path: path, Reason: refused.Reason}
	case errors.Is(err, fs.ErrNotExist):
		if target, linkErr := os.Readlink(path); linkErr == nil {
			return nil, &FormatError{Path: path, Reason: fmt.Sprintf("a symbolic link to %s, which does not exist", target)}
		}
	}
	return file, err
}

// Tag returns the tag that was read.
func (f *File) Tag() string { return f.tag }

// Path returns the file that was read.
func (f *File) Path() string { return f.path }

// Target returns the file that Save replaces: Path with links resolved, as of when the file was read.
func (f *File) Target() string { return f.real }

// Tasks returns all tasks in file order, including containers and tasks with a duplicate id. The caller must not change them; Save makes a new list,
// so an older one stays valid.
func (f *File) Tasks() []Task { return f.tasks }

// Findings returns what the reader had to assume, in file order.
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

// enter takes the task at place i into the index.
func (f *File) enter(i int) {
	t := &f.tasks[i]
	if first, ok := f.index[t.ID]; ok {
		f.note(i, "duplicate", fmt.Sprintf("the id is already used in line %d: this task is ignored", f.tasks[first].Line))
	} else {
		f.index[t.ID] = i
	}
	if !t.Status.Known() {
		f.findings = append(f.findings, Finding{Line: t.Line, ID: t.ID, Kind: "unknown-status", Message: UnknownStatus(t.ID, t.Status)})
	}
}

func (f *File) note(i int, kind, message string) {
	t := &f.tasks[i]
	f.findings = append(f.findings, Finding{Line: t.Line, ID: t.ID, Kind: kind, Message: "task " + t.ID + ": " + message})
}

func (f *File) remark(line int, id, kind, format string, args ...any) {
	f.remarks = append(f.remarks, Finding{Line: line, ID: id, Kind: kind, Message: fmt.Sprintf(format, args...)})
}

func (f *File) find(kind, message string) {
	f.findings = append(f.findings, Finding{Kind: kind, Message: message})
}
