package tasks

import (
	"cmp"
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
	manyTags  = "tasks.json" // SCUD's and Task Master's file of all tags
	graphText = "tasks.scg"
	master    = "master" // the tag of Task Master's lists without tags
)

// NotFoundError says that no file has the tag, and which tags there are.
type NotFoundError struct {
	Tag   string
	Path  string   // the directory or file that was searched
	Known []string // in natural order

	// Broken lists files that may have the tag but cannot be read, each with the reason.
	Broken []string
	// Empty lists readable files without tags.
	Empty []string
}

func (e *NotFoundError) Error() string {
	text := e.text()
	for _, b := range e.Broken {
		text += "; " + b
	}
	return text
}

func (e *NotFoundError) text() string {
	switch {
	case len(e.Known) == 0 && len(e.Empty) > 0 && e.Tag == "":
		return e.Empty[0] + " has no tags"
	case len(e.Known) == 0 && len(e.Empty) > 0:
		return fmt.Sprintf("no tag %q: %s has no tags", e.Tag, e.Empty[0])
	case e.Tag == "" && len(e.Known) > 0:
		return fmt.Sprintf("%s holds several tags, name one of: %s", e.Path, strings.Join(e.Known, ", "))
	case len(e.Known) == 0:
		return fmt.Sprintf("no tag %q: there are no task files in %s", e.Tag, e.Path)
	}
	where := " in " + e.Path
	if _, err := os.Stat(e.Path); errors.Is(err, fs.ErrNotExist) { // the tags come from another tool's lists
		where = ""
	}
	return fmt.Sprintf("no tag %q%s, known tags: %s", e.Tag, where, strings.Join(e.Known, ", "))
}

// taskMaster reports whether a JSON file is Task Master's by its place: SCUD's are under .scud.
func (t *text) taskMaster() bool {
	path, err := filepath.Abs(t.path)
	return !t.graph && err == nil && filepath.Base(path) == manyTags && filepath.Base(filepath.Dir(filepath.Dir(path))) != ".scud"
}

// source is a place where a project may have tasks.
type source struct {
	path  string
	own   bool // the tag's own file
	other bool // a name that other programs use too: an unreadable file is not ours
}

// sources lists the places to look for the tag; the first that has it wins.
func sources(root, tag string) []source {
	scud := filepath.Join(root, ".scud", "tasks")
	list := []source{
		{path: filepath.Join(scud, graphText)},
		{path: filepath.Join(scud, manyTags)},
		{path: filepath.Join(root, ".taskmaster", "tasks", manyTags)},
		{path: filepath.Join(root, "tasks", manyTags)},
	}
	if own := filepath.Join(scud, tag+".json"); plainTag(tag) == nil && own != list[1].path {
		list = append([]source{{path: own, own: true}}, list...)
	}
	return append(list, otherSources(root, tag)...)
}

// Open reads the tag of the project at root from the first of these that holds it: .scud/tasks/<tag>.json, .scud/tasks/tasks.scg,
// .scud/tasks/tasks.json, .taskmaster/tasks/tasks.json, tasks/tasks.json, specs/<tag>/tasks.md, openspec/changes/<tag>/tasks.md, .kiro/specs/<tag>/tasks.md, and prd.json in the root, in .ralph or
// in scripts/ralph. File.Path says which it was, and a finding names others
// that hold the tag too. Where no file holds the tag "master", it is the first tag of a Task Master file, and File.Tag says which.
// Open returns a *TagError, *NotFoundError or *FormatError where those apply.
func Open(root, tag string) (*File, error) {
	if err := ValidTag(tag); err != nil {
		return nil, err
	}
	var found *File
	var first *text // a Task Master file that has other tags
	var broken []error
	var foreign error
	var also, empty []string
	for _, s := range sources(root, tag) {
		t, err := load(s.path)
		array := err == nil && !t.graph && t.doc.array // a list to import may be in the place of a tag's own file
		if err == nil && (!s.own || array) {
			err = t.nameless()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case found != nil && err != nil:
			if !s.other && !array {
				broken = append(broken, err)
			}
		case found != nil:
			if s.holds(t, tag) {
				also = append(also, s.path)
			}
		case err != nil && !array && (s.own || strings.HasSuffix(s.path, graphText)):
			return nil, err // it may have the tag, and would win
		case err != nil && s.other:
			foreign = cmp.Or(foreign, err)
		case err != nil:
			broken = append(broken, err)
		case s.holds(t, tag):
			if found, err = t.open(tag); absent(err) {
				found, err = nil, nil
			}
			if err != nil {
				return nil, err
			}
		case first == nil && tag == master && t.taskMaster() && len(t.tags()) > 0:
			first = t
		case t.graph && len(t.tags()) == 0:
			empty = append(empty, below(root, s.path))
		}
	}
	if found == nil && first != nil {
		return first.open(tag)
	}
	if found == nil {
		return nil, notFound(root, tag, broken, foreign, empty)
	}
	found.nameSources(root, also, broken)
	return found, nil
}

// Ahead lists the places before f in Open's order that have no file now: a file made there would be read instead. If f is in no such place, these are
// all places.
func (f *File) Ahead(root string) []string {
	var ahead []string
	for _, s := range sources(root, f.tag) {
		if s.path == f.path {
			break
		}
		if _, err := os.Lstat(s.path); errors.Is(err, fs.ErrNotExist) {
			ahead = append(ahead, s.path)
		}
	}
	return ahead
}

// holds reports whether a text has the tag. A file named after the tag may call it differently, or not at all.
func (s source) holds(t *text, tag string) bool {
	return s.own && !t.graph || slices.Contains(t.tags(), tag)
}

func absent(err error) bool {
	var missing *NotFoundError
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &missing)
}

// nameSources reports the tag's other sources.
func (f *File) nameSources(root string, also []string, broken []error) {
	for _, path := range also {
		f.find("source", fmt.Sprintf("the tag is in %s too; %s is read", below(root, path), below(root, f.path)))
	}
	for _, err := range broken {
		f.find("source", fmt.Sprintf("not read: %v", err))
	}
	graph := filepath.Join(filepath.Dir(f.path), graphText)
	if _, err := os.Stat(graph); err == nil && filepath.Base(f.path) == manyTags {
		f.find("source", fmt.Sprintf("%s is beside it and does not have the tag; what SCUD has changed there since is not visible here", graphText))
	}
}

// below is a path as a person in the project would write it.
func below(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return path
}

// Known lists the tags of the project at root, in natural order. Files that cannot be read have none.
func Known(root string) []string {
	var tags []string
	for _, s := range sources(root, "tasks") {
		if t, err := load(s.path); err == nil {
			tags = append(tags, t.tags()...)
		}
	}
	tags = append(tags, ownFiles(filepath.Join(root, ".scud", "tasks"))...)
	tags = append(tags, checklistTags(root)...)
	tags = slices.DeleteFunc(tags, func(tag string) bool { return ValidTag(tag) != nil })
	slices.SortFunc(tags, CompareIDs)
	return slices.Compact(tags)
}

// ownFiles returns the tags that have a file of their own in dir.
func ownFiles(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var tags []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && e.Name() != manyTags && beginsObject(filepath.Join(dir, e.Name())) {
			tags = append(tags, name)
		}
	}
	return tags
}

// notFound lists what there is. If there is nothing, a file that could not be read matters more.
func notFound(root, tag string, broken []error, foreign error, empty []string) error {
	e := &NotFoundError{Tag: tag, Path: filepath.Join(root, ".scud", "tasks"), Known: Known(root), Empty: empty}
	if len(e.Known) == 0 && len(broken) > 0 {
		return broken[0]
	}
	if len(e.Known) == 0 && len(empty) == 0 && foreign != nil {
		return foreign
	}
	for _, err := range broken {
		e.Broken = append(e.Broken, unreadable(root, err))
	}
	return e
}

// unreadable says in words that a file cannot be read.
func unreadable(root string, err error) string {
	var format *FormatError
	var path *fs.PathError
	switch {
	case errors.As(err, &format) && format.Line > 0:
		return fmt.Sprintf("%s cannot be read: line %d: %s", below(root, format.Path), format.Line, format.Reason)
	case errors.As(err, &format):
		return fmt.Sprintf("%s cannot be read: %s", below(root, format.Path), format.Reason)
	case errors.As(err, &path):
		return fmt.Sprintf("%s cannot be read: %v", below(root, path.Path), path.Err)
	}
	return err.Error()
}

// beginsObject reports whether the file at path may be a task file: bare arrays are in the same directory.
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

// Active returns the tag that the project at root works on, and the file that says so: .scud/active-tag, else SCUD's older .scud/workflow-state.json,
// else .taskmaster/state.json, else the file of the only tag, else Task Master's tag for lists without tags, if all tags are Task Master's. What a
// file says is not checked: the tag may be gone.
func Active(root string) (tag, from string, ok bool) {
	if states := stateTags(root); len(states) > 0 {
		return states[0].tag, states[0].from, true
	}
	return onlyTag(root)
}

// stateFile is a tag, and the file that says that it is the active one.
type stateFile struct{ tag, from string }

// stateTags returns what the files of a project say about its active tag, the one that counts first.
func stateTags(root string) (states []stateFile) {
	path := filepath.Join(root, ".scud", "active-tag")
	if text, err := readState(path); err == nil {
		if tag := strings.TrimSpace(strings.TrimPrefix(text, byteOrder)); ValidTag(tag) == nil {
			states = append(states, stateFile{tag, path})
		}
	}
	for _, state := range []struct {
		path  []string
		names []string
	}{
		{[]string{".scud", "workflow-state.json"}, []string{"active_group", "active_epic"}},
		{[]string{".taskmaster", "state.json"}, []string{"currentTag"}},
	} {
		path := filepath.Join(root, filepath.Join(state.path...))
		if tag := stateTag(path, state.names); tag != "" {
			states = append(states, stateFile{tag, path})
		}
	}
	return states
}

// onlyTag returns the tag of a project that has no choice.
func onlyTag(root string) (tag, from string, ok bool) {
	known := Known(root)
	if len(known) == 1 {
		if f, err := Open(root, known[0]); err == nil {
			return known[0], f.path, true
		}
		return known[0], filepath.Join(root, ".scud", "tasks"), true
	}
	if !slices.Contains(known, master) {
		return "", "", false
	}
	scud := filepath.Join(root, ".scud", "tasks")
	if len(ownFiles(scud)) > 0 {
		return "", "", false
	}
	for _, s := range sources(root, "tasks") {
		switch t, err := load(s.path); {
		case err != nil || len(t.tags()) == 0:
		case filepath.Dir(s.path) == scud:
			return "", "", false
		case from == "" && slices.Contains(t.tags(), master):
			from = s.path
		}
	}
	if from == "" {
		return "", "", false
	}
	return master, from, true
}

// stateTag returns the first of the named members of a JSON object that is a tag.
func stateTag(path string, names []string) string {
	src, err := readState(path)
	if err != nil {
		return ""
	}
	doc, p := parse(src)
	if p != nil {
		return ""
	}
	for _, name := range names {
		v, _ := doc.find(name)
		if tag := strings.TrimSpace(v.Str); ValidTag(tag) == nil {
			return tag
		}
	}
	return ""
}

// readState reads a small file.
func readState(path string) (string, error) {
	const limit = 1 << 20
	src, err := read(path)
	if len(src) > limit {
		return "", tooLarge(path)
	}
	return src, err
}
