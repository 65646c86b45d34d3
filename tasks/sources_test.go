package tasks

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSources(t *testing.T) {
	t.Parallel()
	const (
		own    = `{"tag":"x","tasks":[{"id":"own"}]}`
		graph  = "# SCUD Graph v1\n# Phase: x\n@nodes\ngraph | a | P | 1 | H\n"
		many   = `{"x":{"name":"x","tasks":[{"id":"many"}]}}`
		tm     = `{"x":{"tasks":[{"id":"tm"}],"metadata":{}}}`
		legacy = `{"tasks":[{"id":"legacy"}]}`
		list   = `[{"title":"to import"}]`
	)
	const (
		ownAt    = ".scud/tasks/x.json"
		graphAt  = ".scud/tasks/tasks.scg"
		manyAt   = ".scud/tasks/tasks.json"
		tmAt     = ".taskmaster/tasks/tasks.json"
		legacyAt = "tasks/tasks.json"
	)
	tests := []struct {
		name  string
		files map[string]string
		tag   string
		file  string // "" for an error
		want  []string
	}{
		{"the own file wins", map[string]string{ownAt: own, graphAt: graph, manyAt: many, tmAt: tm, legacyAt: tm}, "x",
			ownAt,
			[]string{"tasks.scg too; .scud/tasks/x.json is read", "tasks/tasks.json too",
				".taskmaster/tasks/tasks.json too", "the tag is in tasks/tasks.json too"}},
		{"then the graph", map[string]string{graphAt: graph, manyAt: many, tmAt: tm}, "x", graphAt,
			[]string{".scud/tasks/tasks.json too", ".taskmaster/tasks/tasks.json too"}},
		{"then SCUD's JSON", map[string]string{manyAt: many, tmAt: tm}, "x", manyAt,
			[]string{".taskmaster/tasks/tasks.json too"}},
		{"then Task Master", map[string]string{tmAt: tm, legacyAt: tm}, "x", tmAt, []string{"tasks/tasks.json too"}},
		{"then its old place", map[string]string{legacyAt: legacy, tmAt: tm}, "master", legacyAt, nil},
		{"the first tag for master", map[string]string{tmAt: tm, manyAt: many}, "master", tmAt,
			[]string{"there is no tag master: the first one is read: x"}},
		{"SCUD has no such rule", map[string]string{manyAt: many}, "master", "", []string{"known tags: x"}},
		{"an empty graph holds nothing", map[string]string{graphAt: "", manyAt: many}, "x", manyAt,
			[]string{"tasks.scg is beside it"}},
		{"a broken graph is not passed over", map[string]string{graphAt: "<<<<<<< ours\n", manyAt: many}, "x", "",
			[]string{"tasks.scg:1: merge conflict"}},
		{"nor a broken own file", map[string]string{ownAt: "{", graphAt: graph}, "x", "",
			[]string{"x.json:1: not valid JSON"}},
		{"nor a list to import", map[string]string{ownAt: list, graphAt: graph}, "x", "", []string{"bare array"}},
		{"another program's file is", map[string]string{manyAt: `{"tasks":{}}`, tmAt: tm}, "x", tmAt,
			[]string{"not read", `"tasks" is an object here`}},
		{"and named where there is nothing else", map[string]string{tmAt: `{"tasks":{}}`}, "x", "",
			[]string{`"tasks" is an object here`}},
		{"unknown, with what is known", map[string]string{graphAt: graph,
			tmAt: `{"b":{"tasks":[]},"a/b":{"tasks":[]}}`, legacyAt: legacy, ".scud/tasks/own.json": own,
			".scud/tasks/list.json": list}, "z", "", []string{"known tags: a/b, b, master, own, x"}},
	}
	for _, test := range tests {
		root := t.TempDir()
		place(t, root, test.files)
		f, err := Open(root, test.tag)
		var text string
		switch {
		case test.file == "" && err == nil:
			t.Errorf("%s: read %s", test.name, f.Path())
			continue
		case test.file == "":
			text = err.Error()
		case err != nil:
			t.Errorf("%s: %v", test.name, err)
			continue
		default:
			text = found(f)
			if got := below(root, f.Path()); got != test.file {
				t.Errorf("%s: read %s", test.name, got)
			}
			if test.want == nil && text != "" {
				t.Errorf("%s: findings %s", test.name, text)
			}
		}
		for _, part := range test.want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: got %s, want %q", test.name, text, part)
			}
		}
	}
}

func TestOpenPathOfEveryFormat(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	place(t, root, map[string]string{
		"notes.txt":          smallGraph,
		"old/tasks.json":     `{"tasks":[{"id":1}]}`,
		"archive/2026_x.scg": smallGraph,
		"list.json":          `{"tasks":[{"id":1}]}`,
	})
	for name, tag := range map[string]string{"notes.txt": "x", "old/tasks.json": "master", "archive/2026_x.scg": "x",
		"list.json": "list"} {
		f, err := OpenPath(filepath.Join(root, name), "")
		if err != nil || f.Tag() != tag {
			t.Errorf("%s: %v %v", name, f, err)
		}
	}
	var missing *NotFoundError
	if _, err := OpenPath(filepath.Join(root, "notes.txt"), "y"); !errors.As(err, &missing) ||
		!slices.Equal(missing.Known, []string{"x"}) {
		t.Errorf("got %v", err)
	}
}

func TestActive(t *testing.T) {
	t.Parallel()
	const (
		tagAt   = ".scud/active-tag"
		flowAt  = ".scud/workflow-state.json"
		stateAt = ".taskmaster/state.json"
		tmAt    = ".taskmaster/tasks/tasks.json"
	)
	two := `{"one":{"tasks":[]},"two":{"tasks":[]}}`
	tests := []struct {
		name      string
		files     map[string]string
		tag, from string
	}{
		{"active-tag first", map[string]string{tagAt: "river\n", flowAt: `{"active_group":"old"}`,
			stateAt: `{"currentTag":"tm"}`}, "river", tagAt},
		{"without a newline", map[string]string{tagAt: "river"}, "river", tagAt},
		{"an empty active-tag", map[string]string{tagAt: " \n",
			flowAt: `{"version":"1.0","active_group":"old","active_epic":"older"}`}, "old", flowAt},
		{"a path is no tag", map[string]string{tagAt: "../x", stateAt: `{"currentTag":"tm","branchTagMapping":{}}`},
			"tm", stateAt},
		{"active_epic", map[string]string{flowAt: `{"active_group":null,"active_epic":"older"}`}, "older", flowAt},
		{"no active group", map[string]string{flowAt: `{"active_group":null}`, stateAt: `{"currentTag":"tm"}`}, "tm",
			stateAt},
		{"broken state", map[string]string{flowAt: `{"active_group":`, stateAt: `[]`, tmAt: two}, "", ""},
		{"the only one", map[string]string{".scud/tasks/tasks.scg": smallGraph}, "x", ".scud/tasks/tasks.scg"},
		{"the only one, in an old file", map[string]string{"tasks/tasks.json": `{"tasks":[]}`}, "master",
			"tasks/tasks.json"},
		{"of several", map[string]string{tmAt: two}, "", ""},
		{"Task Master's own default", map[string]string{tmAt: `{"one":{"tasks":[]},"master":{"tasks":[]}}`}, "master",
			tmAt},
		{"not in SCUD's file", map[string]string{
			".scud/tasks/tasks.json": `{"one":{"tasks":[]},"master":{"tasks":[]}}`}, "", ""},
		{"not beside SCUD's files", map[string]string{tmAt: `{"one":{"tasks":[]},"master":{"tasks":[]}}`,
			".scud/tasks/x.json": `{"tasks":[]}`}, "", ""},
		{"nothing", nil, "", ""},
	}
	for _, test := range tests {
		root := t.TempDir()
		place(t, root, test.files)
		tag, from, ok := Active(root)
		if from != "" {
			from = below(root, from)
		}
		if tag != test.tag || from != test.from || ok != (test.tag != "") {
			t.Errorf("%s: got %q %q %v", test.name, tag, from, ok)
		}
	}
}

func TestActiveOfAHugeFile(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	place(t, root, map[string]string{".scud/active-tag": "x"})
	if err := os.Truncate(filepath.Join(root, ".scud", "active-tag"), 1<<30); err != nil {
		t.Fatal(err)
	}
	if tag, _, ok := Active(root); ok {
		t.Errorf("got %q", tag)
	}
}

// A source that cannot be read is never passed over in silence.
func TestBrokenSources(t *testing.T) {
	t.Parallel()
	const graph = "# SCUD Graph v1\n# Phase: x\n@nodes\n1 | a | P | 1 | H\n"
	for name, c := range map[string]struct {
		files map[string]string
		tag   string
		want  string
	}{
		"unknown tag, broken beside": {map[string]string{".scud/tasks/tasks.scg": graph,
			".taskmaster/tasks/tasks.json": "{"}, "z",
			"known tags: x; not read: .taskmaster/tasks/tasks.json:1: not valid JSON"},
		"unknown tag, look-alike": {map[string]string{".scud/tasks/tasks.scg": graph,
			"tasks/tasks.json": `{"tasks":{}}`}, "z", `; not read: tasks/tasks.json:1: "tasks" is an object here`},
		"known tag, broken behind": {map[string]string{".scud/tasks/tasks.scg": graph,
			".scud/tasks/tasks.json": `{"x":{"ta`}, "x", ".scud/tasks/tasks.json:1: not valid JSON"},
		"known tag, broken before": {map[string]string{".scud/tasks/tasks.json": `{`,
			".taskmaster/tasks/tasks.json": `{"x":{"tasks":[]}}`}, "x", "not read"},
		"a foreign file is none": {map[string]string{".scud/tasks/tasks.scg": graph, "prd.json": `{"a":1}`}, "x", ""},
		"an empty graph": {map[string]string{".scud/tasks/tasks.scg": ""}, "x",
			`no tag "x": .scud/tasks/tasks.scg has no tags`},
		"nothing": {nil, "x", "there are no task files in"},
	} {
		root := t.TempDir()
		place(t, root, c.files)
		var text string
		if f, err := Open(root, c.tag); err != nil {
			text = err.Error()
		} else {
			text = found(f)
		}
		if !strings.Contains(text, c.want) || c.want == "" && text != "" {
			t.Errorf("%s: got %s, want %q", name, text, c.want)
		}
	}
	root := t.TempDir()
	path := filepath.Join(root, ".scud", "tasks", "tasks.scg")
	place(t, root, map[string]string{".scud/tasks/tasks.scg": ""})
	for _, tag := range []string{"", "x"} {
		if _, err := OpenPath(path, tag); err == nil || !strings.Contains(err.Error(), "tasks.scg has no tags") {
			t.Errorf("got %v", err)
		}
	}
}

// A tag with a / is one of SCUD's and Task Master's lists, never a file below .scud/tasks.
func TestSlashTags(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	place(t, root, map[string]string{
		".scud/tasks/tasks.scg":         "# SCUD Graph v1\n# Phase: feature/auth\n@nodes\n1 | a | P | 1 | H\n",
		".taskmaster/tasks/tasks.json":  `{"fix/ui":{"tasks":[{"id":1}]},"../x":{"tasks":[{"id":1}]},"a/../b":{"tasks":[]}}`,
		".scud/tasks/feature/own.json":  `{"tag":"feature/own","tasks":[{"id":1}]}`,
		"specs/feature/spec/tasks.md":   "- [ ] T001 A\n",
		".scud/tasks/feature/auth.json": `{"tag":"feature/auth","tasks":[{"id":"wrong"}]}`,
		".scud/active-tag":              "feature/auth",
	})
	if got := Known(root); !slices.Equal(got, []string{"feature/auth", "fix/ui"}) {
		t.Errorf("got %q", got)
	}
	for tag, path := range map[string]string{"feature/auth": ".scud/tasks/tasks.scg",
		"fix/ui": ".taskmaster/tasks/tasks.json"} {
		if f, err := Open(root, tag); err != nil || below(root, f.Path()) != path || found(f) != "" {
			t.Errorf("%s: got %v, %v", tag, f, err)
		}
	}
	var missing *NotFoundError
	for _, tag := range []string{"feature/own", "feature/spec"} {
		if _, err := Open(root, tag); !errors.As(err, &missing) {
			t.Errorf("%s: got %v", tag, err)
		}
	}
	var invalid *TagError
	for _, tag := range []string{"../x", "a/../b", "/a", "a/", "a//b", "./a", "a/.", "a/.git", `a\b`, "..", "."} {
		if _, err := Open(root, tag); !errors.As(err, &invalid) {
			t.Errorf("%s: got %v", tag, err)
		}
	}
	if tag, _, ok := Active(root); !ok || tag != "feature/auth" {
		t.Errorf("got %q", tag)
	}
	if _, err := TagPath(root, "new/one"); !errors.As(err, &invalid) {
		t.Errorf("got %v", err)
	}
}
