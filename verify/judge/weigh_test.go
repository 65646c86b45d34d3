package judge

import (
	"slices"
	"strings"
	"testing"

	"descartes/verify"
	"descartes/verify/results"
)

// set reads "a b -c ~d": a and b passed, c failed, d was skipped; -e! could not be built; "" is
// unknown.
func set(text string) *results.Set {
	if text == "" {
		return nil
	}
	s := &results.Set{}
	for _, w := range strings.Fields(text) {
		name := strings.Replace(w[1:], "!", " (build)", 1)
		switch w[0] {
		case '-':
			s.Failed = append(s.Failed, name)
		case '~':
			s.Skipped = append(s.Skipped, name)
		default:
			s.Passed = append(s.Passed, w)
		}
	}
	slices.Sort(s.Passed)
	slices.Sort(s.Failed)
	return s
}

// result is one of a check: "red", "green", or "known", red with failures that may be, and its tests.
func result(text string) *verify.Result {
	if text == "" {
		return nil
	}
	word, names, _ := strings.Cut(text, " ")
	return &verify.Result{Passed: word != "red", Code: map[bool]int{false: 1}[word == "green"], Tests: set(names)}
}

// What a check's results come to: the rules, those that refuse with a bang.
func TestWeigh(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after, old, canary string
		cut, asks, only            bool
		want                       string
	}{
		"nothing changed":                       {before: "green a b", after: "green a b"},
		"turned green, with the old tests too":  {before: "red a -b", after: "green a b", old: "green a b"},
		"stays red with the old test":           {before: "red a -b", after: "green a b", old: "red a -b", want: "stays-red!"},
		"stays red, as the task asks":           {before: "red a -b", after: "green a b", old: "red a -b", asks: true, want: "stays-red"},
		"more turn green than stay red":         {before: "red -a -b -c", after: "green a b c", old: "red a b -c", want: "stays-red"},
		"as many stay red":                      {before: "red -a -b", after: "green a b", old: "red a -b", want: "stays-red"},
		"red with the new tests too":            {before: "red -a -b", after: "known a -b", old: "red a -b"},
		"it passes though a test fails":         {before: "red -a -b", after: "green a -b", want: "stays-red!"},
		"a green one is red as it was":          {before: "green a b", after: "green a b", old: "red a -b", want: "old-fails"},
		"it cannot be built as it was":          {before: "green a b", after: "green a c", old: "red a -x!", want: "old-fails lost"},
		"what could not be built before is red": {before: "red -x!", after: "green a b", old: "red -a -b", want: "stays-red!"},
		"unknown, red before and as they were":  {before: "red", after: "green", old: "red", want: "stays-red!"},
		"unknown, only new files of tests":      {before: "red", after: "green", old: "red", only: true, want: "stays-red"},
		"unknown, green before":                 {before: "green", after: "green", old: "red", want: "stays-red"},
		"known in part, the rest was red":       {before: "red a", after: "green a", old: "red a", want: "stays-red!"},
		"known in part, what was red is known":  {before: "red -a", after: "green a", old: "red a", want: "stays-red"},
		"a test is gone":                        {before: "green a b", after: "green a", want: "fewer!"},
		"a test is gone with its code":          {before: "green a b", after: "green a", old: "green a", cut: true, want: "lost"},
		"a test is gone, as the task asks":      {before: "green a b", after: "green a", asks: true, want: "fewer"},
		"tests became one, and they pass":       {before: "green a b", after: "green c", old: "green a b", want: "lost"},
		"a test is replaced":                    {before: "green a b", after: "green a c", want: "lost"},
		"a test is skipped":                     {before: "green a b", after: "green a ~b", old: "green a b", want: "lost skipped"},
		"a test is skipped that is red":         {before: "red a -b", after: "green a ~b", old: "red a -b", want: "stays-red! fewer! skipped"},
		"none ran":                              {before: "green a b", after: "green ~a", want: "fewer!"},
		"results are gone":                      {before: "green a b", after: "green", want: "fewer!"},
		"the commit fails":                      {before: "green a", after: "red -a", want: "fails!"},
		"a test that must fail":                 {before: "green a", after: "green a", canary: "red a -canary_xq"},
		"a test that must fail passes":          {before: "green a", after: "green a", canary: "green a TestCanaryXq", want: "must-fail!"},
		"it passes, and another fails":          {before: "green a", after: "green a", canary: "red -a TestCanaryXq", want: "must-fail!"},
		"it does not make the check fail":       {before: "green a", after: "green a", canary: "green a", want: "must-fail!"},
	} {
		w := weighing{before: result(c.before), after: result(c.after), old: result(c.old), canary: result(c.canary),
			cut: c.cut, asks: c.asks, only: c.only}
		var got []string
		for _, f := range w.weigh() {
			word := f.Rule
			if f.Refuses {
				word += "!"
			}
			got = append(got, word)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: got %q, want %q", name, s, c.want)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]Kind{
		"a_test.go": Test, "pkg/sub/x_test.go": Test, "tests/test_a.py": Test, "test/unit/add.js": Test,
		"src/a.spec.tsx": Test, "tests/a.bats": Test, "src/test/java/ATest.java": Test, "spec/a_spec.rb": Test,
		"tests/conftest.py": Helper, "internal/testutil/db.go": Helper, "spec/spec_helper.rb": Helper,
		"testdata/a.golden": Data, "tests/data/orders.csv": Data, "src/__snapshots__/a.snap": Data,
		"pytest.ini": Settings, "web/vitest.config.ts": Settings, ".mocharc.yml": Settings, ".golangci.yml": Settings,
		"Makefile": Build, "web/package.json": Build, "pyproject.toml": Build, "vite.config.ts": Build,
		"scripts/check.sh": Script, "run-tests.sh": Script, "bin/ok": Script,
		".github/workflows/ci.yml": CI, ".gitlab-ci.yml": CI,
		"README.md": Doc, "docs/a.txt": Doc, "LICENSE": Doc,
		"a.go": Code, "src/contest.py": Code, "latest.js": Code, "src/lib.rs": Code, "tests.go": Code,
	} {
		if got := Of(path, []string{"make test && ./bin/ok"}); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

// A file that a check only reads is work.
func TestRuns(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]Kind{
		"in/a": Script, "./in/a": Script, "sh in/a": Script, "bash -e ./in/a x": Script, "make test && python3 in/a": Script,
		"A=1 in/a": Script, "sh -c 'x'; in/a": Script, "if true; then sh in/a; fi": Script, ". in/a": Script,
		"grep -q two in/a": Code, "test -f in/a": Code, "cat in/a | sh": Code, "make test in/a": Code, "diff in/a b": Code,
	} {
		if got := Of("in/a", []string{command}); got != want {
			t.Errorf("%s: got %s, want %s", command, got, want)
		}
	}
}

func TestSameChecks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, a, b string
		want       bool
	}{
		{"go.mod", "module a", "module a\n\nrequire b v1", true},
		{"package.json", `{"scripts":{"test":"x"},"dependencies":{}}`, `{"version":"2","scripts":{"test":"x"}}`, true},
		{"package.json", `{"scripts":{"test":"x"}}`, `{"scripts":{"test":"y"}}`, false},
		{"pyproject.toml", "[project]\nname = \"a\"\n\n[tool.pytest.ini_options]\naddopts = \"-q\"\n",
			"[project]\nname = \"b\"\n[project.scripts]\nx = \"y\"\n[tool.pytest.ini_options]\naddopts = \"-q\"\n", true},
		{"pyproject.toml", "[tool.pytest.ini_options]\naddopts = \"-q\"\n", "[tool.pytest.ini_options]\n", false},
		{"Makefile", "test:\n", "test:\n\ttrue\n", false},
	} {
		if got := sameChecks(c.path, []byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("%s: %s -> %s: got %v", c.path, c.a, c.b, got)
		}
	}
}

func TestAsks(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]bool{
		"Remove legacy and its tests": true, "Skip the slow test": true, "Moving tests to tests/unit": true,
		"Add a sum": false, "Remove legacy. Test strategy: unit tests": false, "Test the removal": false,
		"Update the tests": false, "Make the latest movement work": false,
	} {
		if got := Asks(title); got != want {
			t.Errorf("%q: got %v", title, got)
		}
	}
}

// Rust's tests stand in the file of their code.
func TestWithTests(t *testing.T) {
	t.Parallel()
	const mod = "#[cfg(test)]\nmod tests {\n    %\n}\n"
	old := "fn f() -> i32 { 0 }\n\n" + strings.Replace(mod, "%", "old", 1)
	now := "fn f() -> i32 { 1 }\n\n" + strings.Replace(mod, "%", "new", 1)
	got, ok := withTests(now, old)
	if want := "fn f() -> i32 { 1 }\n\n" + strings.Replace(mod, "%", "old", 1); !ok || got != want {
		t.Errorf("got %q %v, want %q", got, ok, want)
	}
	if _, ok := withTests(now, "fn f() {}\n"); ok {
		t.Error("of code without tests")
	}
}
