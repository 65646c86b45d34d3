package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestWhy reads outputs as the tools printed them.
func TestWhy(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"cargo_check":      "src/lib.rs:12:36: error[E0425]: cannot find value `missing` in this scope",
		"cargo_test":       "src/lib.rs:6:20: assertion `left == right` failed: sums, left: 1, right: 4",
		"eslint":           "/home/dev/app/e/a.js:2:7: 'unused' is assigned a value but never used (no-unused-vars)",
		"go_build":         "words/panic_test.go:3:32: undefined: undefinedFunc",
		"go_module":        "words/panic_test.go:2:20: cannot find module providing package example.com/missing/x: module lookup disabled by GOPROXY=off",
		"go_panic":         "panic: assignment to entry in nil map",
		"go_test":          "words_test.go:7: Of(\"sø\") counts 3 characters, want 2",
		"go_test_v":        "words_test.go:7: Of(\"sø\") counts 3 characters, want 2",
		"go_testify":       "sum_test.go:10: Not equal: expected: 3, actual : -1",
		"go_timeout":       "panic: test timed out after 1s",
		"go_vet":           "words/panic_test.go:3:32: undefined: undefinedFunc",
		"jest_suite":       "Cannot find module './gone' from 'src/gone.test.js'",
		"jest_test":        "sum › adds two numbers: Expected: 3, Received: -1",
		"make_gcc":         "a.c:1:24: error: ‘foo’ undeclared (first use in this function)",
		"make_go":          "words_test.go:7: Of(\"sø\") counts 3 characters, want 2",
		"make_ld":          "a.c:(.text+0x5): undefined reference to `foo'",
		"make_norule":      "make: *** No rule to make target 'nosuch'. Stop.",
		"mocha":            "adds: AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:",
		"node_test":        "adds: Expected values to be strictly equal:",
		"npm_jest":         "sum › adds two numbers: Expected: 3, Received: -1",
		"npm_missing":      "sh: 1: nosuchjest: not found",
		"pytest":           "test_a.py::test_adds: AssertionError: sums",
		"pytest_import":    "test_b.py:1: ModuleNotFoundError: No module named 'nosuchmodule'",
		"pytest_short":     "test_a.py:4: AssertionError: sums",
		"python_traceback": "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
		"script":           "a_test.go:7: nested folder lost",
		"tsc":              "t/a.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'.",
		"tsc_pretty":       "t/a.ts:1:7: error TS2322: Type 'string' is not assignable to type 'number'.",
		"unittest":         "test_adds: AssertionError: -1 != 3",
		"unknown":          "3 links are broken: a.md, b.md",
		"vitest_suite":     "v/gone.test.ts: Error: Cannot find module './gone' imported from /home/dev/app/v/gone.test.ts",
		"vitest_test":      "v/sum.test.ts > sum > adds two numbers: AssertionError: expected -1 to be 3 // Object.is equality",
	}
	files, err := filepath.Glob(filepath.Join("testdata", "why", "*.txt"))
	if err != nil || len(files) != len(want) {
		t.Errorf("%d recorded outputs, %d rows, %v", len(files), len(want), err)
	}
	for _, path := range files {
		output, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		if got := Why(string(output)); got != want[name] {
			t.Errorf("%q: %q,", name, got)
		}
	}
}

func TestWhyLong(t *testing.T) {
	t.Parallel()
	got := Why(strings.Repeat("wörter ", 100))
	if len(got) > whyLimit+len("…") || !utf8.ValidString(got) || !strings.HasSuffix(got, "wörter…") {
		t.Errorf("got %q", got)
	}
	if got := Why("\n \n"); got != "" {
		t.Errorf("got %q of nothing", got)
	}
}
