package results

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const pytestVerbose = `============================= test session starts ==============================
platform linux -- Python 3.12.3, pytest-8.2.0, pluggy-1.5.0 -- /usr/bin/python3
collected 6 items

tests/test_a.py::test_one PASSED                                         [ 16%]
tests/test_a.py::test_two[a b] FAILED                                    [ 33%]
tests/test_a.py::TestC::test_m SKIPPED (not here)                        [ 50%]
tests/test_a.py::test_x XFAIL (known)                                    [ 66%]
tests/test_a.py::test_e ERROR                                            [ 83%]

=================================== FAILURES ===================================
=========================== short test summary info ============================
FAILED tests/test_a.py::test_two[a b] - assert 1 == 2
ERROR tests/test_a.py::test_e - RuntimeError: no - way
========= 1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error in 0.12s ===========
`

const pytestPlain = `.F..s                                                                    [100%]
=========================== short test summary info ============================
FAILED tests/test_a.py::test_two - assert 1 == 2
ERROR tests/test_b.py
1 failed, 3 passed, 1 skipped, 1 error in 0.03s
`

// Each tool's own words are read, whatever stands around them; what is no result of a test is none.
func TestOutput(t *testing.T) {
	t.Parallel()
	golang, tap := file(t, "go.json"), file(t, "node.tap")
	for name, c := range map[string]struct {
		text string
		want *Set
	}{
		"go test -json": {"make[1]: Entering directory\n" + golang + "make: *** [test] Error 1\n",
			&Set{Passed: []string{"s.TestA/one", "s.TestB", "s/b.TestX"},
				Failed:  []string{"s.TestA", "s.TestA/two", "s/b (package)", "s/c (build)"},
				Skipped: []string{"s.TestC"}}},
		"go without tests": {`{"Action":"start","Package":"x"}` + "\n" +
			`{"Action":"skip","Package":"x","Elapsed":0}` + "\n", &Set{}},
		"node --test": {tap, &Set{Passed: []string{"in", "one", "sub"}, Failed: []string{"two"},
			Skipped: []string{"skipped", "todo"}}},
		"TAP, plan at end": {"ok 1\nnot ok 2 - b\nok 3 - b\n1..3\n",
			&Set{Passed: []string{"b (2)", "test 1"}, Failed: []string{"b"}}},
		"TAP of nothing": {"TAP version 14\n1..0 # SKIP nothing\n", &Set{}},
		"pytest -v": {pytestVerbose, &Set{Passed: []string{"tests/test_a.py::test_one"},
			Failed:  []string{"tests/test_a.py::test_e", "tests/test_a.py::test_two[a b]"},
			Skipped: []string{"tests/test_a.py::TestC::test_m", "tests/test_a.py::test_x"}}},
		"pytest": {pytestPlain, &Set{Failed: []string{"tests/test_a.py::test_two", "tests/test_b.py"},
			More: 3, Omitted: 1}},
		"pytest in colour":  {"\x1b[32m\x1b[1m2 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m\n", &Set{More: 2}},
		"pytest -n":         {"[gw0] [ 50%] PASSED a.py::x \n[gw1] [100%] FAILED a.py::y \n=== 1 failed, 1 passed in 61.20s (0:01:01) ===\n", &Set{Passed: []string{"a.py::x"}, Failed: []string{"a.py::y"}}},
		"pytest of nothing": {"collected 0 items\n\n============ no tests ran in 0.00s ============\n", &Set{}},
		"all skipped":       {"===== 3 skipped in 0.01s =====\n", &Set{Omitted: 3}},
		"two tools": {"TAP version 13\nok 1 - a\n1..1\n=== 1 passed in 0.01s ===\n",
			&Set{Passed: []string{"a"}, More: 1}},
		"go test":            {"ok  \tx\t0.1s\nok  \ty\t(cached)\nFAIL\tz\t0.2s\n", nil},
		"TAP without a plan": {"ok 1 - a\nnot ok 2 - b\n", nil},
		"a build":            {"{\"version\": 1}\n12 files in 0.3s\nPASSED everything\nok\n", nil},
		"nothing":            {"", nil},
		"a long line":        {strings.Repeat("x", maxLine*3) + "\n=== 1 passed in 0.01s ===\n", &Set{More: 1}},
		"a name of many": {"1..1\nok 1 - " + strings.Repeat("ä", 400) + "\n",
			&Set{Passed: []string{nameOf(strings.Repeat("ä", 400))}}},
	} {
		got, err := Output(strings.NewReader(c.text))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	var many strings.Builder
	many.WriteString("1..30000\n")
	for i := range Most + 1 {
		fmt.Fprintf(&many, "ok %d - %[1]d\n", i)
	}
	if got, err := Output(strings.NewReader(many.String())); got != nil || err != nil {
		t.Errorf("more tests than can be told apart: got %d, %v", got.Ran(), err)
	}
	if n := len(nameOf(strings.Repeat("ä", 400))); n > maxName {
		t.Errorf("a name of %d bytes", n)
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Only files that the run wrote count, and only below the project.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := `<testsuite><testcase classname="c" name="old"/></testsuite>`
	write("out/old.xml", old)
	write("out/again.xml", old)
	outside := filepath.Join(t.TempDir(), "x.xml")
	if err := os.WriteFile(outside, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	watch := func(patterns ...string) *Files {
		f, err := Watch(dir, patterns)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := watch("out/*.xml", "**/deep.xml")
	if set, none, err := f.Read(); set != nil || !none || err != nil {
		t.Errorf("old files count: %+v, %v, %v", set, none, err)
	}
	write("out/new.xml", `<?xml version="1.0" encoding="ISO-8859-1"?>
<testsuites><testsuite name="s"><properties><property name="failure" value="1"/></properties>
<testcase classname="c" name="fails"><failure message="m"><![CDATA[<error>]]></failure></testcase>
<testcase classname="c" name="errs"><system-out>x</system-out><error/></testcase>
<testsuite><testcase name="alone" time="1"/><testcase classname="c" name="off"><skipped/></testcase></testsuite>
<testcase classname="c" name="both"><failure/><skipped/></testcase></testsuite></testsuites>`)
	write("out/again.xml", strings.Replace(old, `name="old"`, `name="anew"`, 1))
	write("a/b/deep.xml", `<testsuite><testcase classname="d" name="deep"/><testcase classname="c" name="fails"/></testsuite>`)
	set, none, err := f.Read()
	want := &Set{Passed: []string{"alone", "c.anew", "d.deep"}, Failed: []string{"c.both", "c.errs", "c.fails"},
		Skipped: []string{"c.off"}}
	if err != nil || none || !reflect.DeepEqual(set, want) {
		t.Errorf("got %+v, %v, want %+v", set, err, want)
	}
	f = watch("out/bad.xml")
	write("out/bad.xml", "<testsuite><testcase")
	if _, _, err := f.Read(); err == nil || !strings.Contains(err.Error(), "out/bad.xml: not JUnit XML") {
		t.Errorf("got %v", err)
	}
	f = watch("out/big.xml")
	write("out/big.xml", "<testsuite>")
	if err := os.Truncate(filepath.Join(dir, "out/big.xml"), maxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Read(); err == nil || err.Error() != "out/big.xml: it has more than 64 MiB" {
		t.Errorf("got %v", err)
	}
	f = watch("out/html.xml")
	write("out/html.xml", "<html></html>")
	if _, _, err := f.Read(); err == nil || !strings.Contains(err.Error(), "it has no testsuite") {
		t.Errorf("got %v", err)
	}
	f = watch("out/link.xml")
	if err := os.Symlink(outside, filepath.Join(dir, "out/link.xml")); err != nil {
		t.Fatal(err)
	}
	if set, none, err := f.Read(); err == nil && (set != nil || !none) {
		t.Errorf("a link out of the project is read: %+v", set)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	before := &Set{Passed: []string{"a", "b"}, Failed: []string{"c", "d"}}
	for name, c := range map[string]struct {
		before, now *Set
		want        Change
	}{
		"the same": {before, before, Change{}},
		"fixed and added": {before, &Set{Passed: []string{"a", "b", "c", "e"}, Failed: []string{"d"}},
			Change{Fixed: []string{"c"}, Added: []string{"e"}}},
		"broken": {before, &Set{Passed: []string{"a"}, Failed: []string{"b", "c", "d"}},
			Change{Broken: []string{"b"}}},
		"gone": {before, &Set{Passed: []string{"a"}, Failed: []string{"d"}, Skipped: []string{"b"}},
			Change{Gone: []string{"b", "c"}, Fewer: 2}},
		"renamed": {before, &Set{Passed: []string{"a", "z"}, Failed: []string{"c", "d"}},
			Change{Added: []string{"z"}, Gone: []string{"b"}}},
		"a new one fails": {before, &Set{Passed: []string{"a", "b"}, Failed: []string{"c", "d", "e"}},
			Change{Broken: []string{"e"}}},
		"numbers: better": {&Set{Failed: []string{"c"}, More: 4}, &Set{More: 6},
			Change{Fixed: []string{"c"}, More: 1}},
		"numbers: the same": {&Set{Failed: []string{"c"}, More: 4}, &Set{Failed: []string{"c"}, More: 4}, Change{}},
		"numbers: fewer":    {&Set{Failed: []string{"c"}, More: 4}, &Set{More: 3}, Change{Fewer: 2}},
	} {
		if got := Compare(c.before, c.now); !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, *got, c.want)
		}
	}
}

func FuzzOutput(f *testing.F) {
	f.Add(pytestVerbose)
	f.Add("1..2\nok 1 - a # skip\n{\"Action\":\"fail\",\"Package\":\"x\",\"Test\":\"T\"}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := Output(strings.NewReader(text)); err != nil || s != nil && (s.Ran() < 0 || s.Omitted < 0) {
			t.Errorf("%+v, %v", s, err)
		}
		_ = readJUnit(strings.NewReader(text), &collector{})
		Plain(text)
	})
}
