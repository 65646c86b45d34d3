package config

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestTrustClasses gives each setting of descartes.yaml, one at a time, values that it may have there: those whose tag
// says so are demands, and no others. A setting without the tag fails.
func TestTrustClasses(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, s := range All() {
		if !s.YAML {
			continue
		}
		if !slices.Contains([]string{harmless, always, confined, outside}, s.Trust) {
			t.Errorf("%s: its trust tag is %q: does it need the user's trust? %s", s.Key, s.Trust,
				"no, yes, confined or outside")
			continue
		}
		for _, sample := range s.samples() {
			for off, want := range map[string]bool{"": s.Trust == always || s.Trust == outside &&
				strings.Contains(sample, ".."),
				"sandbox: off\n": s.Trust == always || s.Trust == confined || s.Trust == outside &&
					strings.Contains(sample, "..")} {
				if s.Key == "sandbox" {
					off = ""
				}
				if slices.Contains(s.safe, strings.Trim(sample, "[]")) || s.Key == "mask" && sample == "[x]" {
					want = false
				}
				got := slices.ContainsFunc(demandsOf(t, root, off+inYAML(s.Key, sample)), func(d Ask) bool {
					return d.Key == s.Key || strings.HasPrefix(d.Key, s.Key+".") || s.Key == "verify" &&
						strings.HasSuffix(d.Key, "verification_command")
				})
				if got != want {
					t.Errorf("%s%s: %s: a demand: %v, want %v", off, s.Key, sample, got, want)
				}
			}
		}
	}
}

// samples are values as descartes.yaml has them: each allowed word, else some of the setting's type.
func (s *Setting) samples() []string {
	if s.Words != nil && s.kind == "string" {
		return s.Words
	}
	switch s.kind {
	case "bool":
		return []string{"true"}
	case "int", "float64", "time", "breaker":
		return []string{"7"}
	case "size":
		return []string{"7G"}
	case "path":
		return []string{"a/b", "../b", "a/../../b"}
	case "paths":
		return []string{"[a, ../b]", "[a]"}
	case "lines", "words":
		out := []string{"[x]"}
		for _, word := range s.safe {
			out = append(out, "["+word+"]")
		}
		return out
	case "mask":
		return []string{"off", `["!X"]`, "[x]"}
	case "patterns":
		return []string{"[x]"}
	case "guard":
		return []string{"off", "{tests: off}"}
	case "checks":
		return []string{"make test", "[{name: a, run: make test}]"}
	case "criteria":
		return []string{`["works :: make test"]`}
	case "prices":
		return []string{"{big: {input: 1, output: 2}}"}
	case "backends":
		return []string{"{codex: {command: ./x}}"}
	case "map[string]string":
		return []string{"{A: b}"}
	case "map[string]config.AgentType":
		return []string{"{a: {backend: codex}}"}
	}
	if s.Trust == outside {
		return []string{"a/b", ".."}
	}
	return append([]string{"x"}, s.safe...)
}

// inYAML is a setting in a file.
func inYAML(key, value string) string {
	parts := strings.Split(key, ".")
	var b strings.Builder
	for depth, part := range parts {
		b.WriteString(strings.Repeat("  ", depth) + part + ":")
		if depth < len(parts)-1 {
			b.WriteString("\n")
		}
	}
	if strings.HasPrefix(value, "!") {
		value = `"` + value + `"`
	}
	return b.String() + " " + value + "\n"
}

func demandsOf(t *testing.T, root, text string) []Ask {
	t.Helper()
	path := filepath.Join(t.TempDir(), "descartes.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := ReadFile(path, true)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f.Demands(root)
}

// TestTrustInside does the same for what settings have inside: a key of a row, a check or a price that is in no list
// here was classified by nobody.
func TestTrustInside(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rows := map[string]string{ // values that are demands
		"command": "./x", "args": "[x]", "stdin_args": "[x]", "env": "{A: b}", "unset_env": "[A]", "env_pass": "[A]",
		"model_args": "[x]", "exit_codes": "{7: fatal}",
		"stderr_limit": "[x]", "session_args": `["--resume", "{session}"]`, "prompt": "stdin", "parser": "text",
	}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		if got := demandsOf(t, root, "backends: {codex: {"+key+": "+rows[key]+"}}"); len(got) != 1 ||
			got[0].Key != "backends.codex" || !strings.HasPrefix(got[0].Text, key+": ") {
			t.Errorf("backends.codex.%s: demands %+v", key, got)
		}
	}
	for key, value := range map[string]string{"prices": "{big: {input: 1, output: 2}}", "model": "big",
		"model_tiers": "{a: big}"} {
		if got := demandsOf(t, root, "backends: {codex: {"+key+": "+value+"}}"); len(got) > 0 {
			t.Errorf("backends.codex.%s: demands %+v", key, got)
		}
		rows[key] = value
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[row]()) {
		if key := strings.TrimSuffix(f.Tag.Get("yaml"), ",inline"); key != "" && key != "-" && rows[key] == "" {
			t.Errorf("backends: does its key %s need the user's trust?", key)
		}
	}
}

// TestTrustPaths follows links, and finds where a file that does not exist yet would be.
func TestTrustPaths(t *testing.T) {
	t.Parallel()
	root, elsewhere := t.TempDir(), t.TempDir()
	for link, to := range map[string]string{"out": elsewhere, "in": "sub"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"sub": false, "in": false, "in/none/yet": false,
		filepath.Join(root, "x"): false, ".": false,
		"out": true, "out/none/yet": true, "..": true, "sub/../../x": true, "~/x": true, "/etc/passwd": true,
		root + "x": true} {
		if got := Leaves(root, path); got != want {
			t.Errorf("%s leads out of the project: %v, want %v", path, got, want)
		}
	}
}
