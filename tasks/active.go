package tasks

import (
	"path/filepath"
	"slices"
	"strings"
)

// Active returns the tag that the project at root works on, and the file that says so: .scud/active-tag, else SCUD's older
// .scud/workflow-state.json, else .taskmaster/state.json, else the file of the only tag there is, else Task Master's tag of lists
// that have none, if all tags are Task Master's. What a file says is not checked: the tag may be gone.
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
		if m, ok := doc.find(name); ok && src[m.start] == '"' {
			if tag := strings.TrimSpace(unquote(src[m.start:m.end])); ValidTag(tag) == nil {
				return tag
			}
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
