package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"descartes/config"
)

// TestInitSettings reads the settings that init writes with every comment that holds a setting taken
// for one: an example that is no setting any more would mislead.
func TestInitSettings(t *testing.T) {
	t.Parallel()
	text, err := initFiles.ReadFile("init/project/descartes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^#([^ ]|  )`).ReplaceAll(text, []byte("$1"))
	path := filepath.Join(t.TempDir(), "descartes.yaml")
	if err := os.WriteFile(path, all, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.ReadFile(path, true)
	if err != nil {
		t.Fatalf("%v in\n%s", err, all)
	}
	if c.Scud.Tag != "feature-x" || c.Backend.Model != "opus" || len(c.Backends) != 1 {
		t.Errorf("not all settings were read: %+v", c)
	}
}

// TestInitDefaults reads what init writes without its examples: that must be what holds without any file.
func TestInitDefaults(t *testing.T) {
	t.Parallel()
	text, err := initFiles.ReadFile("init/project/descartes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	example := -1 // how deep the example stands whose lines are left out
	for line := range strings.Lines(string(text)) {
		setting, ok := strings.CutPrefix(line, "#")
		depth := len(setting) - len(strings.TrimLeft(setting, " "))
		if !ok || depth == 1 {
			continue
		}
		if example >= 0 && depth > example {
			continue
		}
		example = -1
		if strings.Contains(setting, "example") {
			example = depth
			continue
		}
		kept = append(kept, setting)
	}
	path := filepath.Join(t.TempDir(), "descartes.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := config.ReadFile(path, true)
	if err != nil {
		t.Fatalf("%v in\n%s", err, strings.Join(kept, ""))
	}
	want, got := config.New(), file.Settings
	want.Fill()
	got.Fill()
	shown := func(s *config.Settings) map[string]string {
		out := map[string]string{}
		for _, v := range s.Show() {
			out[v.Key] = v.Text()
		}
		return out
	}
	w := shown(&want)
	for key, v := range shown(&got) {
		if v != w[key] {
			t.Errorf("%s: the file says %s, the default is %s", key, v, w[key])
		}
	}
	if len(kept) < 15 {
		t.Errorf("only %d settings are no examples", len(kept))
	}
}

// TestInitAsks answers the three questions as a person does: what is wrong is asked again, an empty line takes what is
// offered, an end writes nothing.
func TestInitAsks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{"todo.md": "## Task 1: One\n", "prose.md": "Nothing to do.\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	offered := answers{source: "shop", agent: "claude", verify: "make test", known: []string{"shop"}}
	for name, tt := range map[string]struct {
		typed string
		want  answers
		fails bool
	}{
		"as offered": {typed: "\n\n\n", want: offered},
		"a plan": {typed: "prose.md\ntodo.md\nnope\ncodex\ngo test ./...\n",
			want: answers{source: "todo", plan: "todo.md", agent: "codex", verify: "go test ./...",
				known: offered.known}},
		"a command line": {typed: "\nno-such-agent --yes\ngeneric\nsh agent.sh\n\n",
			want: answers{source: "shop", command: "sh agent.sh", verify: "make test", known: offered.known}},
		"out of the tree": {typed: "../todo.md\nshop\n\n\n", want: offered},
		"left in between": {typed: "\ncodex\n", fails: true},
		"never an answer": {typed: strings.Repeat("nothing\n", 9), fails: true},
		"the sample after": {typed: "sample\n\nnone\n", want: answers{source: "sample", agent: "claude",
			verify: "none", known: offered.known}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := offered
			var out strings.Builder
			h := &person{out: &out, want: make(chan struct{}, 99), lines: make(chan string, 99)}
			for line := range strings.Lines(tt.typed) {
				h.lines <- line
			}
			close(h.lines)
			err := got.ask(t.Context(), h, root)
			if (err != nil) != tt.fails {
				t.Fatalf("error %v\n%s", err, out.String())
			}
			if err == nil && !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v\n%s", got, tt.want, out.String())
			}
		})
	}
}
