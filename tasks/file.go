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

	"github.com/tidwall/gjson"

	"descartes/internal/markdown"
	"descartes/internal/plainfile"
	"descartes/tasks/outline"
	"descartes/tasks/prose"
)

// Format is one kind of task list.
type Format interface {
	// Match reports whether a file is of this kind, by its name or its text.
	Match(t *text) bool
	// Tags are those of the file, in its order; none where it does not name its own.
	Tags(t *text) []string
	// Read reads the tag of f. The problem is noTag where the file does not have it.
	Read(t *text, f *File) *problem
	// SetStatus returns the words that say in the file that a task has a status, and the status that is read back.
	// Where that is the one that the task has, the file cannot say it, or says it already.
	SetStatus(t *Task, s Status) (Status, string)
}

// formats are all kinds of lists; the first that matches counts.
var formats = []Format{scg{}, checklist{}, beads{}, shrimp{}, taskMaster{}, scud{}, prd{}}

// File is one tag of one task file as it was read: its bytes, its tasks, and where each status is. It is not safe for
// concurrent use.
type File struct {
	path, tag string
	real      string // path without links, as it was when the file was read
	src       string
	format    Format
	tasks     []Task
	sites     []site
	index     map[string]int // id to the first task that has it
	findings  []Finding
	updated   span // SCG: the time of the last change of the tag; empty where it has none
	clock     func() time.Time
	replace   func(path string, data []byte) error
	mirror    *File // of tasks.scg: the tag in tasks.json beside it, once examined
	inOrder   bool
}

// InOrder reports whether the list has its author's order, as a plan does and a list that was made of one: "order":
// "list". Otherwise ids say it.
func (f *File) InOrder() bool { return f.inOrder }

// span is a part of the source.
type span struct{ start, end int }

// site is the place of a task and its status in the source.
type site struct {
	span              // of the status; where there is none yet, before goes there first
	before   string   // ,"status":
	children []string // ids of the subtasks that the task lists
	marked   bool     // called a parent in its title
	more     []span   // other boxes that are ticked with it
	at       int      // where the task begins
	up       int      // 1 + the place of the task that it is written in, 0 for none
}

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

// Next is what to do about it, "" where the message says that.
func (e *FormatError) Next() string { return "" }

// problem is a FormatError that still has a byte offset as its place.
type problem struct {
	pos    int
	reason string
}

var noTag = &problem{0, "the file does not have the tag"}

// text is a task file that was read and taken apart.
type text struct {
	path, src string
	format    Format
	document                  // of JSON
	phases    []phase         // of SCG
	choice    *outline.Choice // of Markdown
	issues    []gjson.Result  // of beads
	was       []Task          // of a plan with boxes that was read before
	wrong     *problem
}

// OpenPath reads the tag from the file at path, of any format. An empty tag is the tag that the file names, or its
// only one. A missing file is an fs.ErrNotExist; a tag missing from a file with several is a *NotFoundError.
func OpenPath(path, tag string) (*File, error) {
	t, err := load(path)
	if err != nil {
		return nil, err
	}
	return t.open(tag)
}

// Parse is OpenPath for the bytes of a file.
func Parse(path, tag string, src []byte) (*File, error) {
	t, err := takeApart(path, string(src))
	if err != nil {
		return nil, err
	}
	return t.open(tag)
}

func load(path string) (*text, error) {
	src, err := readShared(path)
	if err != nil {
		return nil, err
	}
	return takeApart(path, src)
}

func takeApart(path, src string) (*text, error) {
	t := &text{path: path, src: src, wrong: notText(src)}
	for _, f := range formats {
		if t.wrong == nil && t.format == nil && f.Match(t) {
			t.format = f
		}
	}
	if t.wrong == nil && t.format == nil {
		t.wrong = t.lookalike()
	}
	if t.wrong != nil {
		return nil, t.refuse(t.wrong)
	}
	return t, nil
}

// tags returns the tags of the file, in its order.
func (t *text) tags() []string { return t.format.Tags(t) }

// open decodes one tag.
func (t *text) open(tag string) (*File, error) {
	f := &File{path: t.path, tag: tag, real: t.path, src: t.src, format: t.format, index: map[string]int{}}
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
	switch p := t.format.Read(t, f); {
	case p == noTag && len(tags) == 0:
		return nil, &NotFoundError{Tag: tag, Path: t.path, Empty: []string{t.path}}
	case p == noTag:
		return nil, &NotFoundError{Tag: tag, Path: t.path, Known: tags}
	case p != nil:
		return nil, t.refuse(p)
	}
	return f, nil
}

// notText rejects what no program wrote as a list.
func notText(src string) *problem {
	if err := markdown.CheckText([]byte(src)); err != nil {
		return &problem{0, "the file " + err.Error()}
	}
	if strings.HasPrefix(src, "version https://git-lfs") {
		return &problem{0, `this is a Git LFS pointer, not the file itself ("git lfs pull" fetches it)`}
	}
	if at := strings.Index("\n"+src, "\n<<<<<<< "); at >= 0 {
		return &problem{at, "merge conflict markers: resolve the conflict first"}
	}
	return nil
}

func (t *text) refuse(p *problem) error {
	line := 0
	if p.pos > 0 || !strings.HasPrefix(p.reason, "the file") {
		line = 1 + strings.Count(t.src[:min(p.pos, len(t.src))], "\n")
	}
	return &FormatError{Path: t.path, Line: line, Reason: p.reason}
}

const maxFile = 64 << 20

// read returns the bytes of a regular file of bounded size. It refuses a FIFO, which would block, and a link that
// leads out of the repository.
func read(path string) (string, error) {
	file, err := plainfile.Open("", path)
	var refused *plainfile.Error
	switch {
	case errors.As(err, &refused):
		return "", &FormatError{Path: path, Reason: refused.Reason}
	case errors.Is(err, fs.ErrNotExist):
		if target, linkErr := os.Readlink(path); linkErr == nil {
			return "", &FormatError{Path: path, Reason: fmt.Sprintf("a symbolic link to %s, which does not exist",
				target)}
		}
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	var b strings.Builder
	if info, err := file.Stat(); err == nil {
		b.Grow(int(min(info.Size(), maxFile)))
	}
	n, err := io.Copy(&b, io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", path, err)
	case n > maxFile:
		return "", &FormatError{Path: path, Reason: fmt.Sprintf("larger than %d MiB", maxFile>>20)}
	}
	return b.String(), nil
}

// Tag returns the tag that was read.
func (f *File) Tag() string { return f.tag }

// Path returns the file that was read.
func (f *File) Path() string { return f.path }

// Target returns the file that Save replaces: Path with links resolved, as of when the file was read.
func (f *File) Target() string { return f.real }

// Tasks returns all tasks in file order, including containers and tasks with a duplicate id. The caller must not
// change them; Save makes a new list, so an older one stays valid.
func (f *File) Tasks() []Task { return f.tasks }

// Findings returns what the reader had to assume, in file order.
func (f *File) Findings() []Finding { return f.findings }

// LeftOut says in one line which lines look like work and are no tasks, and why: the findings of this kind. It is ""
// without any.
func LeftOut(findings []Finding) string {
	const most = 3
	var shown []string
	count := 0
	for _, f := range findings {
		if f.Kind != KindLeft {
			continue
		}
		if count++; count <= most {
			shown = append(shown, fmt.Sprintf("line %d: %s", f.Line, f.Message))
		}
	}
	switch {
	case count == 0:
		return ""
	case count > most:
		shown = append(shown, "...")
	}
	return fmt.Sprintf("left out: %d (%s)", count, strings.Join(shown, "; "))
}

// LeftOpen reports whether there are such lines that somebody waits for.
func LeftOpen(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Kind == KindLeft && !f.Closed })
}

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

const maxTasks = 250_000

// add appends a whole task. Its id may stand in paths, refs and messages.
func (f *File) add(t Task, s site) *problem {
	if reason := prose.IDProblem(t.ID); reason != "" {
		return &problem{s.at, reason}
	}
	if p := f.hold(t, s); p != nil {
		return p
	}
	f.enter(len(f.tasks) - 1)
	return nil
}

// hold appends a task that is still to be completed and entered.
func (f *File) hold(t Task, s site) *problem {
	if len(f.tasks) == maxTasks {
		return &problem{s.at, fmt.Sprintf("more than %d tasks", maxTasks)}
	}
	f.tasks, f.sites = append(f.tasks, t), append(f.sites, s)
	return nil
}

// enter takes the task at place i into the index.
func (f *File) enter(i int) {
	t := &f.tasks[i]
	if first, ok := f.index[t.ID]; ok {
		f.note(i, "duplicate", fmt.Sprintf("the id is already used in line %d: this task is ignored",
			f.tasks[first].Line))
	} else {
		f.index[t.ID] = i
	}
	if !t.Status.Known() {
		f.findings = append(f.findings, Finding{Line: t.Line, ID: t.ID, Kind: "unknown-status",
			Message: UnknownStatus(t.ID, t.Status)})
	}
}

func (f *File) note(i int, kind, message string) {
	t := &f.tasks[i]
	f.findings = append(f.findings, Finding{Line: t.Line, ID: t.ID, Kind: kind,
		Message: "task " + t.ID + ": " + message})
}

func (f *File) find(kind, message string) {
	f.findings = append(f.findings, Finding{Kind: kind, Message: message})
}
