package tasks

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	manyTags      = "tasks.json" // SCUD's and Task Master's file of all tags
	graphText     = "tasks.scg"
	checklistName = "tasks.md"
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
	text := ""
	if e.Tag != "" {
		text = fmt.Sprintf("no tag %q: ", e.Tag)
	}
	switch {
	case e.Tag == "" && len(e.Known) > 0:
		text = fmt.Sprintf("%s holds several tags, name one of: %s", e.Path, strings.Join(e.Known, ", "))
	case len(e.Known) > 0:
		text += "known tags: " + strings.Join(e.Known, ", ")
	case len(e.Empty) > 0:
		text += e.Empty[0] + " has no tags"
	default:
		text += "there are no task files in " + e.Path
	}
	return strings.Join(append([]string{text}, e.Broken...), "; ")
}

// Next is how to get a list where there is none.
func (e *NotFoundError) Next() string {
	if len(e.Known) > 0 {
		return ""
	}
	return "write .scud/tasks/" + cmp.Or(e.Tag, "<tag>") + ".json first, or make it of a plan with --plan plan.md"
}

// Near are the tags that there are in place of the one that there is not.
func (e *NotFoundError) Near() (wrong string, known []string) { return e.Tag, e.Known }

// source is a place where a project may have tasks.
type source struct {
	path  string
	own   bool // the tag's own file
	other bool // a name that other programs use too: a file that is no list is not ours
}

// sources lists the places to look for the tag; the first that has it wins.
func sources(root, tag string) []source {
	at := func(names ...string) string { return filepath.Join(root, filepath.Join(names...)) }
	list := []source{
		{path: at(".scud", "tasks", graphText)},
		{path: at(".scud", "tasks", manyTags)},
		{path: at(".taskmaster", "tasks", manyTags)},
		{path: at("tasks", manyTags)},
	}
	if plainTag(tag) == nil {
		if own := at(".scud", "tasks", tag+".json"); own != list[1].path {
			list = append([]source{{path: own, own: true}}, list...)
		}
		for _, dir := range checklistDirs() {
			list = append(list, source{path: at(dir, tag, checklistName), own: true})
		}
	}
	return append(list, source{path: at("prd.json"), other: true}, source{path: at(".ralph", "prd.json"), other: true},
		source{path: at("scripts", "ralph", "prd.json"), other: true})
}

// checklistDirs are the folders in which a tag has one of its own with a tasks.md: those of spec-kit, OpenSpec and
// Kiro.
func checklistDirs() []string {
	return []string{"specs", filepath.Join("openspec", "changes"), filepath.Join(".kiro", "specs")}
}

// Open reads the tag of the project at root from the first of these that holds it: .scud/tasks/<tag>.json,
// .scud/tasks/tasks.scg, .scud/tasks/tasks.json, .taskmaster/tasks/tasks.json, tasks/tasks.json, specs/<tag>/tasks.md,
// openspec/changes/<tag>/tasks.md, .kiro/specs/<tag>/tasks.md, and prd.json in the root, in .ralph or in
// scripts/ralph. File.Path says which it was, and a finding names others that hold the tag too. Where no file holds
// the tag "master", it is the first tag of a Task Master file, and File.Tag says which. Open returns a *TagError,
// *NotFoundError or *FormatError where those apply.
func Open(root, tag string) (*File, error) {
	if err := ValidTag(tag); err != nil {
		return nil, err
	}
	missing := &NotFoundError{Tag: tag, Path: filepath.Join(root, ".scud", "tasks")}
	var found *File
	var first *text // a Task Master file that has other tags
	var also []string
	var broken []error
	for _, s := range sources(root, tag) {
		t, err := load(s.path)
		if err == nil && !s.own && len(t.tags()) == 0 && t.format != (scg{}) {
			err = t.refuse(&problem{0, "a task list that does not name its tag"})
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), err != nil && s.other:
		case err != nil && found == nil && (s.own || filepath.Base(s.path) == graphText):
			return nil, err // it may have the tag, and would win
		case err != nil:
			broken = append(broken, err)
		case s.holds(t, tag) && found == nil:
			var absent *NotFoundError
			if found, err = t.open(tag); err != nil && !errors.As(err, &absent) {
				return nil, err
			}
		case s.holds(t, tag):
			also = append(also, below(root, s.path))
		case len(t.tags()) == 0:
			missing.Empty = append(missing.Empty, below(root, s.path))
		case first == nil && t.format == (taskMaster{}) && tag == master:
			first = t
		}
	}
	switch {
	case found != nil:
		found.nameSources(root, also, broken)
		return found, nil
	case first != nil:
		return first.open(tag)
	}
	return nil, missing.explained(root, broken)
}

// explained is the error with the tags that there are, and with the lists that cannot be read; where those are all,
// the first of them.
func (e *NotFoundError) explained(root string, broken []error) error {
	if e.Known = Known(root); len(e.Known) == 0 && len(broken) > 0 {
		return broken[0]
	}
	for _, err := range broken {
		e.Broken = append(e.Broken, fmt.Sprintf("not read: %s",
			strings.TrimPrefix(err.Error(), root+string(filepath.Separator))))
	}
	return e
}

// Ahead lists the places before f in Open's order that have no file now: a file made there would be read instead. If f
// is in no such place, these are all places.
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
func (s source) holds(t *text, tag string) bool { return s.own || slices.Contains(t.tags(), tag) }

// nameSources reports the tag's other sources.
func (f *File) nameSources(root string, also []string, broken []error) {
	for _, path := range also {
		f.find("source", fmt.Sprintf("the tag is in %s too; %s is read", path, below(root, f.path)))
	}
	for _, err := range broken {
		f.find("source", fmt.Sprintf("not read: %v", err))
	}
	graph := filepath.Join(filepath.Dir(f.path), graphText)
	if _, err := os.Stat(graph); err == nil && filepath.Base(f.path) == manyTags {
		f.find("source", fmt.Sprintf(
			"%s is beside it and does not have the tag; what SCUD has changed there since is not visible here",
			graphText))
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
	tags = append(tags, ownTags(root)...)
	for _, dir := range checklistDirs() { // OpenSpec's archive has a folder for each, and is none
		entries, _ := os.ReadDir(filepath.Join(root, dir))
		for _, e := range entries {
			if _, err := load(filepath.Join(root, dir, e.Name(), checklistName)); err == nil {
				tags = append(tags, e.Name())
			}
		}
	}
	tags = slices.DeleteFunc(tags, func(tag string) bool { return ValidTag(tag) != nil })
	slices.SortFunc(tags, CompareIDs)
	return slices.Compact(tags)
}

// ownTags returns the tags that have a file of their own, which may be broken. A bare array beside them is a list to
// import.
func ownTags(root string) (tags []string) {
	dir := filepath.Join(root, ".scud", "tasks")
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && e.Name() != manyTags {
			if src, err := read(filepath.Join(dir, e.Name())); err == nil &&
				strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(src, byteOrder), " \t\r\n"), "{") {
				tags = append(tags, name)
			}
		}
	}
	return tags
}

// Active returns the tag that the project at root works on, and the file that says so: .scud/active-tag, else SCUD's
// older .scud/workflow-state.json, else .taskmaster/state.json, else the file of the only tag, else Task Master's tag
// for lists without tags, if all tags are Task Master's. What a file says is not checked: the tag may be gone.
func Active(root string) (tag, from string, ok bool) {
	for _, state := range []struct {
		path  string
		names []string
	}{
		{filepath.Join(".scud", "active-tag"), nil},
		{filepath.Join(".scud", "workflow-state.json"), []string{"active_group", "active_epic"}},
		{filepath.Join(".taskmaster", "state.json"), []string{"currentTag"}},
	} {
		path := filepath.Join(root, state.path)
		info, err := os.Stat(path)
		if err != nil || info.Size() > 1<<20 {
			continue
		}
		src, _ := read(path)
		said := []string{strings.TrimPrefix(src, byteOrder)}
		if state.names != nil {
			said = nil
			doc, _ := parse(src)
			for _, name := range state.names {
				said = append(said, doc.get(name).Str)
			}
		}
		for _, tag := range said {
			if tag = strings.TrimSpace(tag); ValidTag(tag) == nil {
				return tag, path, true
			}
		}
	}
	return onlyTag(root)
}

// onlyTag returns the tag of a project that has no choice.
func onlyTag(root string) (tag, from string, ok bool) {
	known, scud := Known(root), filepath.Join(root, ".scud", "tasks")
	_, err := os.Stat(scud)
	switch {
	case len(known) == 1:
		tag, from = known[0], scud
	case err != nil && slices.Contains(known, master):
		tag = master
	}
	if f, err := Open(root, tag); err == nil && (len(known) == 1 || f.format == (taskMaster{})) {
		from = f.path
	}
	return tag, from, from != ""
}
