package results

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recorded is a project, a command over it, and what is noted of it.
type recorded struct {
	needs   []string // programs
	npm     string   // a package that the folder $RECORDER_NPM has, in node_modules below npm-NAME
	command string
	files   map[string]string
	want    Set
}

// The runners as they are on this machine, those that are missing left out: single results by name, and an output that
// is what it is without a recorder.
func recordings() map[string]recorded {
	return map[string]recorded{
		"go test": {needs: []string{"go"}, command: "go test ./...", files: map[string]string{
			"go.mod": "module g\n\ngo 1.22\n",
			"a_test.go": "package g\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Log(\"a\") }\n" +
				"func TestB(t *testing.T) {\n\tt.Log(\"ü\\t<\")\n\tt.Run(\"x\", func(t *testing.T) { t.Errorf(\"%q\", \"ä\") })\n}\n" +
				"func TestS(t *testing.T) { t.Skip() }\n",
			"bad/b_test.go": "package bad\n\nfunc f() { undefined() }\n",
			"ok/o_test.go":  "package ok\n\nimport \"testing\"\n\nfunc TestO(t *testing.T) {}\n"},
			want: Set{Passed: []string{"g.TestA", "g/ok.TestO"}, Skipped: []string{"g.TestS"},
				Failed: []string{"g.TestB", "g.TestB/x", "g/bad (build)"}}},
		"go test -v": {needs: []string{"go"}, command: "go test -v", files: map[string]string{
			"go.mod":    "module g\n\ngo 1.22\n",
			"a_test.go": "package g\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Log(\"a\") }\n"},
			want: Set{Passed: []string{"g.TestA"}}},
		"unittest": {needs: []string{"python3"}, command: "python3 -m unittest -q", files: map[string]string{
			"test_a.py": "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self): pass\n" +
				"    def test_b(self): self.assertEqual(1, 2)\n    @unittest.skip('x')\n    def test_s(self): pass\n" +
				"    def test_sub(self):\n        with self.subTest(i=1): self.fail()\n",
			"test_b.py": "import nosuch\n"},
			want: Set{Passed: []string{"test_a.T.test_a"}, Skipped: []string{"test_a.T.test_s"},
				Failed: []string{"test_a.T.test_b", "test_a.T.test_sub", "test_b (load)"}}},
		"pytest": {needs: []string{"/usr/bin/pytest-3"}, command: "/usr/bin/python3 -m pytest -q -p no:cacheprovider",
			files: map[string]string{"test_a.py": "import pytest\n\n\ndef test_a(): pass\n\n\ndef test_b(): assert 1 == 2\n\n\n" +
				"@pytest.mark.skip\ndef test_s(): pass\n\n\n@pytest.mark.parametrize('x', [1])\ndef test_x(x): pass\n"},
			want: Set{Passed: []string{"test_a.py::test_a", "test_a.py::test_x[1]"},
				Failed: []string{"test_a.py::test_b"}, Skipped: []string{"test_a.py::test_s"}}},
		"node --test": {needs: []string{"node"}, command: "node --test", files: map[string]string{
			"a.test.js": "const test = require('node:test');\ntest('a', () => {});\ntest('b', () => { throw 1; });\n" +
				"test('s', { skip: true }, () => {});\ntest.describe('d', () => { test.it('in', () => {}); });\n"},
			want: Set{Passed: []string{"a.test.js > a", "a.test.js > d > in"}, Skipped: []string{"a.test.js > s"},
				Failed: []string{"a.test.js > b"}}},
		"bats": {needs: []string{"bats"}, command: "bats .", files: map[string]string{
			"a.bats": "@test \"a\" { true; }\n@test \"b\" { false; }\n@test \"s\" { skip; }\n"},
			want: Set{Passed: []string{"a"}, Failed: []string{"b"}, Skipped: []string{"s"}}},
		"cargo test": {needs: []string{"cargo"}, command: "cargo test -q --offline --lib", files: map[string]string{
			"Cargo.toml": "[package]\nname = \"r\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
			"src/lib.rs": "#[test] fn a() {}\n#[test] fn b() { assert_eq!(1, 2) }\n#[test] #[ignore] fn s() {}\n"},
			want: Set{Passed: []string{"r::a"}, Failed: []string{"r::b"}, Skipped: []string{"r::s"}}},
		"mocha": {npm: "mocha", command: "node_modules/.bin/mocha a.test.js", files: map[string]string{
			"a.test.js": "describe('d', () => { it('a', () => {}); it('b', () => { throw 1; }); it.skip('s'); });\n"},
			want: Set{Passed: []string{"a.test.js > d > a"}, Failed: []string{"a.test.js > d > b"},
				Skipped: []string{"a.test.js > d > s"}}},
		"jest": {npm: "jest", command: "node_modules/.bin/jest", files: map[string]string{"package.json": "{}",
			"a.test.js": "it('a', () => {}); it('b', () => { throw new Error('x'); }); it.skip('s', () => {});\n",
			"b.test.js": "no script\n"},
			want: Set{Passed: []string{"a.test.js > a"}, Failed: []string{"a.test.js > b", "b.test.js (load)"},
				Skipped: []string{"a.test.js > s"}}},
		"vitest": {npm: "vitest", command: "node_modules/.bin/vitest run", files: map[string]string{
			"package.json": `{"type": "module"}`,
			"a.test.js":    "import { it } from 'vitest';\nit('a', () => {}); it('b', () => { throw 1; }); it.skip('s');\n",
			"b.test.js":    "no script\n"},
			want: Set{Passed: []string{"a.test.js > a"}, Failed: []string{"a.test.js > b", "b.test.js (load)"},
				Skipped: []string{"a.test.js > s"}}},
	}
}

func TestRecorder(t *testing.T) {
	t.Parallel()
	for name, c := range recordings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := c.project(t)
			plain, _ := outputOf(t, dir, "sh", "-c", c.command)
			at := filepath.Join(t.TempDir(), "a recorder")
			if name == "cargo test" { // it takes no runner with a space in its path
				at = filepath.Join(t.TempDir(), "recorder")
			}
			r, err := Lay(at)
			if err != nil {
				t.Fatal(err)
			}
			beside, failed := outputOf(t, dir, r.Argv(at, "sh", "-c", c.command)...)
			if failed != (len(c.want.Failed) > 0) {
				t.Errorf("it failed: %v", failed)
			}
			if plain != beside {
				t.Errorf("printed\n%s\nand with a recorder\n%s", plain, beside)
			}
			got, err := r.Read()
			if err != nil || got == nil || !reflect.DeepEqual(*got, c.want) {
				t.Errorf("noted %+v %v, want %+v\n%s", got, err, c.want, beside)
			}
		})
	}
}

// However a check comes to its runner, the results are noted.
func TestRecorderWays(t *testing.T) {
	t.Parallel()
	all := recordings()
	for name, c := range map[string]struct {
		like, command string
		files         map[string]string
		want          []string // passed
	}{
		"go by make":            {like: "go test", command: "make t", files: map[string]string{"Makefile": "t:\n\t@go test .\n"}, want: []string{"g.TestA"}},
		"go in a clean world":   {like: "go test -v", command: `env -i PATH="$PATH" HOME="$HOME" timeout 60 go test ./...`, want: []string{"g.TestA"}},
		"unittest, with a path": {like: "unittest", command: "PYTHONPATH=src time -p python3 -m unittest -q test_a", want: []string{"test_a.T.test_a"}},
		"unittest, all anew":    {like: "unittest", command: `env -i PATH="$PATH" PYTHONPATH=src python3 -m unittest -q test_a`, want: []string{"test_a.T.test_a"}},
		"pytest, with a path":   {like: "pytest", command: `sh -c "PYTHONPATH=src pytest-3 -q test_a.py::test_a"`, want: []string{"test_a.py::test_a"}},
		"two runners": {like: "unittest", command: "python3 -m unittest -q test_a; go test .",
			files: map[string]string{"go.mod": all["go test"].files["go.mod"], "a_test.go": all["go test -v"].files["a_test.go"]},
			want:  []string{"g.TestA", "test_a.T.test_a"}},
		"node by npm": {like: "node --test", command: "npm test", files: map[string]string{"package.json": `{"scripts": {"test": "node --test"}}`},
			want: []string{"a.test.js > a", "a.test.js > d > in"}},
		"mocha, with options of node": {like: "mocha", command: "NODE_OPTIONS=--no-warnings node_modules/.bin/mocha a.test.js", want: []string{"a.test.js > d > a"}},
		"jest in a clean world":       {like: "jest", command: `env -i PATH="$PATH" node_modules/.bin/jest`, want: []string{"a.test.js > a"}},
		"vitest with reporters": {like: "vitest", command: "node_modules/.bin/vitest run",
			files: map[string]string{"vitest.config.js": "export default { test: { reporters: ['dot'] } };\n"}, want: []string{"a.test.js > a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := all[c.like]
			way.command, way.files = c.command, maps.Clone(way.files)
			maps.Copy(way.files, c.files)
			got, _ := way.record(t, nil)
			if got == nil || !reflect.DeepEqual(got.Passed, c.want) {
				t.Errorf("noted %+v, want %q passed", got, c.want)
			}
		})
	}
}

// Where only some files of tests are wanted, a runner that is asked for all runs these; one that is asked for some does.
func TestRecorderOnly(t *testing.T) {
	t.Parallel()
	all := recordings()
	for name, c := range map[string]struct {
		like, command string // "": as it is
		files         map[string]string
		only          string
		want          []string // passed; empty: all ran
	}{
		"go":         {like: "go test", command: "go test -count 1 ./...", only: "sub/ok/o_test.go", want: []string{"g/ok.TestO"}},
		"go, some":   {like: "go test", command: "go test ./ok/...", only: "a_test.go"},
		"unittest":   {like: "unittest", files: map[string]string{"test_b.py": "import unittest\nclass B(unittest.TestCase):\n    def test(self): pass\n"}, only: "test_b.py", want: []string{"test_b.B.test"}},
		"pytest":     {like: "pytest", files: map[string]string{"test_b.py": "def test_b(): pass\n"}, only: "test_b.py", want: []string{"test_b.py::test_b"}},
		"node":       {like: "node --test", files: map[string]string{"b.test.js": "require('node:test')('b', () => {});\n"}, only: "b.test.js", want: []string{"b.test.js > b"}},
		"node, some": {like: "node --test", command: "node --test a.test.js", files: map[string]string{"b.test.js": "require('node:test')('b', () => {});\n"}, only: "b.test.js"},
		"mocha":      {like: "mocha", command: "node_modules/.bin/mocha '*.test.js'", files: map[string]string{"b.test.js": "it('b', () => {});\n"}, only: "b.test.js", want: []string{"b.test.js > b"}},
		"jest":       {like: "jest", files: map[string]string{"b.test.js": "it('b', () => {});\n"}, only: "b.test.js", want: []string{"b.test.js > b"}},
		"vitest":     {like: "vitest", files: map[string]string{"b.test.js": "import { it } from 'vitest';\nit('b', () => {});\n"}, only: "b.test.js", want: []string{"b.test.js > b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := all[c.like]
			way.command, way.files = cmp.Or(c.command, way.command), maps.Clone(way.files)
			maps.Copy(way.files, c.files)
			got, narrowed := way.record(t, strings.Fields(c.only))
			if narrowed != (c.want != nil) {
				t.Errorf("narrowed: %v", narrowed)
			}
			if got == nil || c.want != nil && (!reflect.DeepEqual(got.Passed, c.want) || len(got.Failed) > 0) {
				t.Errorf("noted %+v, want %q passed", got, c.want)
			}
		})
	}
}

// record runs the command in the project, and says what was noted.
func (c *recorded) record(t *testing.T, only []string) (got *Set, narrowed bool) {
	t.Helper()
	dir, at := c.project(t), filepath.Join(t.TempDir(), "recorder")
	r, err := Lay(at)
	if err != nil {
		t.Fatal(err)
	}
	if only != nil {
		if err := r.Only(only); err != nil {
			t.Fatal(err)
		}
	}
	outputOf(t, dir, r.Argv(at, "sh", "-c", c.command)...)
	if got, err = r.Read(); err != nil {
		t.Fatal(err)
	}
	return got, r.Narrowed()
}

// A program that is not there is not there beside the recorder either, and what tests start notes nothing.
func TestRecorderAbsent(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for _, p := range []string{"sh", "ln", "mkdir", "dirname"} {
		if real, err := exec.LookPath(p); err == nil {
			if err := os.Symlink(real, filepath.Join(bin, p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := filepath.Join(t.TempDir(), "recorder")
	r, err := Lay(at)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", r.Argv(at, "sh", "-c", "command -v go || command -v python3 || command -v bats || echo none")[1:]...)
	cmd.Env = []string{"PATH=" + bin}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "none\n" {
		t.Errorf("%s %v", out, err)
	}
}

// project makes the folder, or skips the test where a program is missing.
func (c *recorded) project(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range c.needs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip(err)
		}
	}
	if c.npm != "" {
		modules := filepath.Join(os.Getenv("RECORDER_NPM"), "npm-"+c.npm, "node_modules")
		if _, err := os.Stat(modules); os.Getenv("RECORDER_NPM") == "" || err != nil {
			t.Skip("$RECORDER_NPM has no " + c.npm)
		}
		if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range c.files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var changing = regexp.MustCompile(
	`\(\d+\) panicked|duration_ms.*|[\d.]+ ?m?s\b|\d\d:\d\d:\d\d|\(cached\)| *\(@\)|\n[# ]+at .*`)

// outputOf is what a command prints, without what differs from run to run, in the order of its lines: packages are
// tested side by side.
func outputOf(t *testing.T, dir string, argv ...string) (text string, failed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "CARGO_TARGET_DIR="+filepath.Join(dir, "target"))
	out, err := cmd.CombinedOutput()
	lines := strings.Split(changing.ReplaceAllString(string(out), "@"), "\n")
	slices.Sort(lines)
	return strings.TrimSpace(strings.Join(lines, "\n")), err != nil
}

// What code under test leaves in the recorder's folder is read as far as it is ours, and nothing is followed.
func TestRecorderOdd(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "lab")
	r, err := Lay(at)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Read(); got != nil || err != nil {
		t.Errorf("of nothing: %+v %v", got, err)
	}
	in := filepath.Join(at, "results")
	for name, text := range map[string]string{"py.1.ndjson": "[\"a\",\"pass\"]\n[\"b\",\"what\"]\n{}\n[\"c\"",
		"go.1.json": "{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"T\"}\n{\"", "rust.": "ok x\n"} {
		if err := os.WriteFile(filepath.Join(in, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(in, "js.2.ndjson")); err != nil {
		t.Fatal(err)
	}
	got, err := r.Read()
	if want := (&Set{Passed: []string{"::x", "a", "p.T"}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v %v, want %+v", got, err, want)
	}
}
