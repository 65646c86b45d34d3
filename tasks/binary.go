package tasks

import (
	"os"
	"path/filepath"
	"strings"
)

// binary is a format that says of a task only whether it is done. A status that it has no word for is "not done" in the file: setting
// it unticks a task that was done, and otherwise changes nothing. What else a run knows of the task is in its own state.
type binary uint8

const (
	notBinary binary = iota
	boxes            // - [x], in a tasks.md
	flags            // "passes": true, in a prd.json
)

// plain is the status that can be read back after s was written.
func (b binary) plain(s Status) Status {
	if b == notBinary || s == Done {
		return s
	}
	return Pending
}

// word is what is written for a status.
func (b binary) word(s Status) string {
	switch {
	case b == boxes && s == Done:
		return "x"
	case b == boxes:
		return " "
	case s == Done:
		return "true"
	}
	return "false"
}

// has reports whether the file, whose task is at now, has nothing to write for s.
func (b binary) has(now, s Status) bool {
	return b != notBinary && (now == s || now != Done && s != Done && s != Pending)
}

// Holds reports whether the file has a word for a status. A tasks.md and a prd.json know only done and not done.
func (f *File) Holds(s Status) bool { return f.binary.plain(s) == s }

const (
	checklistName = "tasks.md"
	storiesName   = "prd.json"
)

// isChecklist reports whether a file is Markdown by its name.
func isChecklist(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".md" || ext == ".markdown" || ext == ".mdx"
}

// otherSources lists the places outside of SCUD and Task Master in which the tag is looked for, after all of theirs: spec-kit's
// tasks.md in the directory of the tag, and prd.json, which names its own.
func otherSources(root, tag string) []source {
	list := []source{
		{path: filepath.Join(root, storiesName), other: true},
		{path: filepath.Join(root, ".ralph", storiesName), other: true},
		{path: filepath.Join(root, "scripts", "ralph", storiesName), other: true},
	}
	if plainTag(tag) == nil {
		list = append([]source{{path: filepath.Join(root, "specs", tag, checklistName), own: true}}, list...)
	}
	return list
}

// checklistTags returns the tags that have a tasks.md in the project at root.
func checklistTags(root string) []string {
	entries, err := os.ReadDir(filepath.Join(root, "specs"))
	if err != nil {
		return nil
	}
	var tags []string
	for _, e := range entries {
		path := filepath.Join(root, "specs", e.Name(), checklistName)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if _, err := load(path); err == nil {
			tags = append(tags, e.Name())
		}
	}
	return tags
}
