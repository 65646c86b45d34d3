package judge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/gitops"
	"descartes/internal/docs"
	"descartes/verify"
)

// project is a repository to make trees in.
func project(t *testing.T) *gitops.Repo {
	t.Helper()
	dir, env := t.TempDir(), append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+t.TempDir())
	c := exec.CommandContext(t.Context(), "git", "init", "-q", dir)
	c.Env = env
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	repo, err := gitops.Open(t.Context(), gitops.Options{Dir: dir, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// tree has these files; one whose text is "-" is not there.
func tree(t *testing.T, repo *gitops.Repo, files ...map[string]string) gitops.Tree {
	t.Helper()
	all := map[string]string{}
	for _, m := range files {
		maps.Copy(all, m)
	}
	content := map[string][]byte{}
	for path, text := range all {
		if text != "-" {
			content[path] = []byte(text)
		}
	}
	made, err := repo.WithContent(t.Context(), repo.EmptyTree(), content)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// before is the project of the table.
var before = map[string]string{
	"add.go":                   "package add\n\nfunc Add(a, b int) int { return a - b }\n",
	"old.go":                   "package add\n\nfunc Old() {}\n",
	"add_test.go":              "package add\n\nfunc TestAdd(t *testing.T) {\n\tassert(Add(1234, 1), 1235)\n\tassert(Add(7, 5671), 5678)\n}\n",
	"testdata/a.txt":           "one\n",
	"pytest.ini":               "[pytest]\naddopts = -q\n",
	"Makefile":                 "test:\n\tgo test ./...\n",
	".github/workflows/ci.yml": "run: make test\n",
	"descartes.yaml":           "verify: make test\n",
	"sql/schema.sql":           "create table a;\n",
	"README.md":                "# add\n",
}

// Each rule is found by what it is for, and by nothing that looks like it. The check's results are those that a row
// gives: before the change, with it, and with the tests as they were.
func TestRules(t *testing.T) {
	t.Parallel()
	repo, seen := project(t), map[string]bool{}
	base := tree(t, repo, before)
	fixed := map[string]string{"add.go": "package add\n\nfunc Add(a, b int) int { return a + b }\n"}
	for name, c := range map[string]struct {
		change              map[string]string
		before, after, then string // results; "" for then: it is not run
		hollow              bool   // the check passes by the new build file, whatever else there is
		title               string
		want                []string
	}{
		"work":       {change: fixed, before: "red -TestAdd", after: "green TestAdd"},
		"a new test": {change: map[string]string{"add.go": fixed["add.go"], "more_test.go": "package add\n"}, before: "red -TestAdd", after: "green TestAdd TestMore"},
		"a new test that says nothing": {change: map[string]string{"add.go": fixed["add.go"], "more_test.go": "package add\n"},
			before: "green TestAdd", after: "green TestAdd TestMore", then: "green TestAdd TestMore", want: []string{"no-proof"}},
		"a new test of new work": {change: map[string]string{"add.go": fixed["add.go"], "more_test.go": "package add\n"},
			before: "green TestAdd", after: "green TestAdd TestMore", then: "red TestAdd -TestMore"},
		"what the test expects": {change: map[string]string{"add_test.go": "package add\n\nfunc TestAdd(t *testing.T) {\n\tassert(Add(1234, 1), 1233)\n\tassert(Add(7, 5671), 5678)\n}\n"},
			before: "red -TestAdd", after: "green TestAdd", then: "red -TestAdd", want: []string{"changed", "nothing", "stays-red!"}},
		"an old test that the new code fails": {change: map[string]string{"add.go": fixed["add.go"], "add_test.go": "package add\n\nfunc TestAdd(t *testing.T) {\n\tassert(Add(2, 1), 3)\n\tassert(1, 1)\n}\n"},
			before: "green TestAdd", after: "green TestAdd", then: "red -TestAdd", want: []string{"changed", "old-fails"}},
		"a deleted test": {change: map[string]string{"add.go": fixed["add.go"], "add_test.go": "-"},
			before: "red -TestAdd TestTwo", after: "green TestTwo", then: "red -TestAdd TestTwo", want: []string{"assertions", "fewer!", "stays-red!"}},
		"a deleted test, as the title says": {title: "Delete the tests of add", change: map[string]string{"add_test.go": "-"},
			before: "green TestAdd TestTwo", after: "green TestTwo", then: "green TestAdd TestTwo", want: []string{"assertions", "lost", "nothing"}},
		"code that goes with its test": {change: map[string]string{"old.go": "-", "add.go": fixed["add.go"], "add_test.go": "-"},
			before: "green TestAdd TestTwo", after: "green TestTwo", then: "red -add! TestTwo", want: []string{"assertions", "lost", "old-fails"}},
		"a skipped test": {change: map[string]string{"add.go": fixed["add.go"], "add_test.go": before["add_test.go"] + "func TestMore(t *testing.T) { t.Skip() }\n"},
			before: "red -TestAdd", after: "green TestAdd ~TestMore", then: "green TestAdd", want: []string{"skipped"}},
		"a fixture":                           {change: map[string]string{"add.go": fixed["add.go"], "testdata/a.txt": "two\n"}, before: "red -TestAdd", after: "green TestAdd", then: "green TestAdd", want: []string{"expected"}},
		"values of the tests":                 {change: map[string]string{"add.go": "package add\n\nfunc Add(a, b int) int {\n\tif a == 1234 {\n\t\treturn 1235\n\t}\n\treturn 5678\n}\n"}, before: "red -TestAdd", after: "green TestAdd", want: []string{"expected-values"}},
		"imports and arguments are no values": {change: map[string]string{"add.go": "package add\n\nimport (\n\t\"1234\"\n\tb \"1235\"\n)\n\nfunc Add(a, b int) int { return a + b + len(os.Args[1:]) }\n"}, before: "red -TestAdd", after: "green TestAdd"},
		"it knows that it is tested":          {change: map[string]string{"add.go": fixed["add.go"] + "var t = testing.Testing()\n"}, before: "red -TestAdd", after: "green TestAdd", then: "red TestAdd -TestCanaryXq", want: []string{"knows-tests"}},
		"a test that must fail":               {change: map[string]string{"add.go": fixed["add.go"] + "func init() { syscall.Exit(0) }\n"}, before: "red -TestAdd", after: "green TestAdd", then: "green TestAdd", want: []string{"must-fail!", "reaches-tests"}},
		"settings of a runner":                {change: map[string]string{"add.go": fixed["add.go"], "pytest.ini": "[pytest]\naddopts = -q -k none\n"}, before: "red -TestAdd", after: "green TestAdd", then: "green TestAdd", want: []string{"settings"}},
		"another program of that name":        {change: map[string]string{"add.go": fixed["add.go"], "bin/go": "true\n"}, before: "red -TestAdd", after: "green TestAdd", then: "green TestAdd", want: []string{"settings"}},
		"a build file":                        {change: map[string]string{"add.go": fixed["add.go"], "Makefile": "test:\n\ttrue\n"}, before: "red -TestAdd", after: "green TestAdd", then: "green TestAdd", want: []string{"settings"}},
		"a build file that checks nothing":    {hollow: true, change: map[string]string{"add.go": fixed["add.go"], "Makefile": "test:\n\ttrue\n"}, before: "red", after: "green", then: "red", want: []string{"must-fail!", "settings"}},
		"a quiet linter":                      {change: map[string]string{"add.go": fixed["add.go"] + "var x = 1 //nolint\n"}, before: "red -TestAdd", after: "green TestAdd", want: []string{"silenced"}},
		"CI":                                  {change: map[string]string{"add.go": fixed["add.go"], ".github/workflows/ci.yml": "run: true\n"}, before: "red -TestAdd", after: "green TestAdd", want: []string{"ci"}},
		"the settings of runs":                {change: map[string]string{"add.go": fixed["add.go"], "descartes.yaml": "verify: \"true\"\n"}, before: "red -TestAdd", after: "green TestAdd", then: "green TestAdd", want: []string{"protected!", "settings"}},
		"a protected path":                    {change: map[string]string{"add.go": fixed["add.go"], "sql/schema.sql": "drop table a;\n"}, before: "red -TestAdd", after: "green TestAdd", want: []string{"protected!"}},
		"a token":                             {change: map[string]string{"add.go": fixed["add.go"] + "var k = \"ghp_0123456789abcdefghijABCDEFGHIJ012345\"\n"}, before: "red -TestAdd", after: "green TestAdd", want: []string{"secret"}},
		"a stub":                              {change: map[string]string{"add.go": fixed["add.go"] + "func More() { panic(\"not implemented\") }\n"}, before: "red -TestAdd", after: "green TestAdd", want: []string{"stub"}},
		"only words":                          {change: map[string]string{"README.md": "# add adds\n"}, before: "green TestAdd", after: "green TestAdd", want: []string{"nothing"}},
	} {
		var ran []gitops.Tree
		then := result(c.then)
		v, err := Judge(t.Context(), Case{Repo: repo, Base: base, New: tree(t, repo, before, c.change), Title: c.title,
			Checks: []verify.Check{{Run: "make test"}}, Before: []*verify.Result{result(c.before)},
			After: []verify.Result{*result(c.after)},
			Named: func(path string) (bool, bool) { return strings.HasPrefix(path, "sql/"), false },
			Run: func(_ context.Context, tree gitops.Tree, _ verify.Check, _ verify.How) (verify.Result, error) {
				ran = append(ran, tree)
				if contents, err := repo.Contents(tree); err != nil {
					return verify.Result{}, err
				} else if f, err := contents.File("add.go", 100); err != nil || f == nil { // nothing is left to check
					m, merr := contents.File("Makefile", 100)
					if err = errors.Join(err, merr); err != nil {
						return verify.Result{}, err
					}
					return verify.Result{Passed: c.hollow && !bytes.Contains(m.Data, []byte("go test")), Code: 1}, nil
				}
				if then == nil {
					return *result("green TestAdd TestCanaryXq"), nil
				}
				return *then, nil
			}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, f := range v.Findings {
			if (&Policy{}).Of(f) == Off {
				continue // it is said elsewhere
			}
			seen[f.Rule] = true
			rule := f.Rule
			if f.Refuses {
				rule += "!"
			}
			got = append(got, rule)
			if strings.Contains(f.String(), "ghp_") {
				t.Errorf("%s: it says the secret: %s", name, f)
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q; %d runs", name, got, c.want, len(ran))
		}
	}
	for _, r := range Rules() {
		if !seen[r.Name] && r.Name != "installed" { // which is no matter of commits
			t.Errorf("no row shows %s", r.Name)
		}
	}
}

// The changed files of tests run alone where nothing else that judges was changed and no other file names them; what the
// others came to on the commit counts for them.
func TestAlone(t *testing.T) {
	t.Parallel()
	repo := project(t)
	start := map[string]string{"a.py": "x = 0\n", "tests/test_a.py": "import a\n", "tests/test_b.py": "import b\n", "tests/conftest.py": "\n",
		"a_test.go": "package a\n", "tests/data/x.txt": "1\n"}
	base := tree(t, repo, start)
	for name, c := range map[string]struct {
		change map[string]string
		after  string
		runs   []string // results of the runs with the old tests
		only   []string // files of each, "": all
		want   []string
	}{
		"one file":              {change: map[string]string{"tests/test_a.py": "import a, x\n"}, runs: []string{"green a"}, only: []string{"tests/test_a.py"}},
		"it stays red":          {change: map[string]string{"tests/test_a.py": "import a, x\n"}, runs: []string{"red -a"}, only: []string{"tests/test_a.py"}, want: []string{"stays-red!"}},
		"of Go":                 {change: map[string]string{"a_test.go": "package a // func TestMain(\n"}, runs: []string{"green a"}, only: []string{"a_test.go"}},
		"it cannot be loaded":   {change: map[string]string{"tests/test_a.py": "import a, x\n"}, runs: []string{"red -a!", "green a b"}, only: []string{"tests/test_a.py", ""}},
		"it fails for no test":  {change: map[string]string{"tests/test_a.py": "import a, x\n"}, runs: []string{"red a", "green a b"}, only: []string{"tests/test_a.py", ""}},
		"another one names it":  {change: map[string]string{"tests/test_a.py": "import a, x\n", "tests/conftest.py": "\n"}, after: "test_a", runs: []string{"green a b"}, only: []string{""}},
		"a helper":              {change: map[string]string{"tests/test_a.py": "import a, x\n", "tests/conftest.py": "x = 1\n"}, runs: []string{"green a b"}, only: []string{""}},
		"it reaches the others": {change: map[string]string{"tests/test_a.py": "unittest.TestCase.run = 1\n"}, runs: []string{"green a b"}, only: []string{""}},
		"results are unknown":   {change: map[string]string{"tests/test_a.py": "import a, x\n"}, after: "unknown", runs: []string{"green"}, only: []string{""}},
	} {
		from, earlier, after := base, result("red -a b"), result("green a b new")
		if c.after == "test_a" {
			from = tree(t, repo, start, map[string]string{"tests/conftest.py": "import test_a\n"})
			c.change["tests/conftest.py"] = "import test_a\n"
		} else if c.after != "" {
			earlier, after = result("red"), result("green")
		}
		var only []string
		v, err := Judge(t.Context(), Case{Repo: repo, Base: from, New: tree(t, repo, start, map[string]string{"a.py": "x = 1\n"}, c.change),
			Checks: []verify.Check{{Run: "make test"}}, Before: []*verify.Result{earlier}, After: []verify.Result{*after},
			Run: func(_ context.Context, _ gitops.Tree, _ verify.Check, how verify.How) (verify.Result, error) {
				r := *result(c.runs[len(only)])
				only, r.Narrowed = append(only, strings.Join(how.Only, " ")), how.Only != nil
				return r, nil
			}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, f := range v.Findings {
			if f.Refuses || f.Rule == "lost" || f.Rule == "stays-red" {
				got = append(got, f.Rule+"!")
			}
		}
		if !slices.Equal(only, c.only) || !slices.Equal(got, c.want) {
			t.Errorf("%s: ran %q, want %q; found %q, want %q", name, only, c.only, got, c.want)
		}
	}
}

// What settings and tasks say of a finding.
func TestPolicy(t *testing.T) {
	t.Parallel()
	refused, named, asked := Finding{Rule: "fewer", Refuses: true}, Finding{Rule: "ci"}, Finding{Rule: "fewer"}
	work := Finding{Rule: "nothing"}
	for name, c := range map[string]struct {
		Policy
		want [4]Level
	}{
		"nothing":        {want: [4]Level{Fail, Warn, Warn, Warn}},
		"all fail":       {Policy{Levels: map[string]Level{All: Fail}}, [4]Level{Fail, Fail, Warn, Warn}},
		"all off":        {Policy{Levels: map[string]Level{All: Off}}, [4]Level{Off, Off, Off, Warn}},
		"a group":        {Policy{Levels: map[string]Level{All: Fail, "tests": Warn, "ci": Off}}, [4]Level{Warn, Off, Warn, Warn}},
		"a rule":         {Policy{Levels: map[string]Level{"tests": Off, "fewer": Ask, "work": Off}}, [4]Level{Ask, Warn, Warn, Off}},
		"a task's own":   {Policy{Levels: map[string]Level{All: Fail}, Allow: []string{"tests"}}, [4]Level{Warn, Fail, Warn, Warn}},
		"what is unsaid": {Policy{Levels: map[string]Level{"ci": Ask}}, [4]Level{Fail, Ask, Warn, Warn}},
	} {
		if got := [4]Level{c.Of(refused), c.Of(named), c.Of(asked), c.Of(work)}; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// What is known of a commit's tests, in a line.
func TestSays(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]Facts{
		"single results of its tests are unknown": {},
		"1 test":             {Known: true, Ran: 1},
		"8 tests, none lost": {Known: true, Before: true, Ran: 8},
		"8 tests, 6 turned green, 1 added, none lost": {Known: true, Before: true, Ran: 8, Turned: 6, Added: 1},
		"1 test, 2 lost": {Known: true, Before: true, Ran: 1, Lost: 2},
	} {
		if got := f.Says(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// docs/guard.md has the rules.
func TestDocs(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# What is refused, and what is named\n\nBesides that its checks pass, this counts of a commit. Refused:\n\n")
	for _, r := range Rules() {
		if r.Level == Fail {
			fmt.Fprintf(&b, "- `%s`: %s\n", r.Name, r.Finds)
		}
	}
	b.WriteString("\nNamed, with the old line and the new one:\n\n")
	for _, group := range Groups() {
		var list []string
		for _, r := range Rules() {
			if r.Group == group && r.Level == Warn {
				list = append(list, fmt.Sprintf("`%s` (%s)", r.Name, r.Finds))
			}
		}
		if len(list) > 0 {
			fmt.Fprintf(&b, "- **%s**: %s\n", group, strings.Join(list, "; "))
		}
	}
	b.WriteString("\n| key | what it is now |\n|---|---|\n" +
		"| `guard` | `off`, `warn`, `ask` or `fail` for a rule, a group (" + strings.Join(Groups(), ", ") + ") or `all`, which is every group but `work` |\n" +
		"| `protect` | paths that no attempt may change; tests need not stand there: they are put back as they were |\n" +
		"| `prove` | `red-without`: tests that an attempt adds have to fail without its work; a part of `care: careful`. Where it is not set, `no-proof` names them |\n" +
		"| `require` | `verified`: a test has to turn green or be added; a part of `care: careful`. What had nothing to do is `unchanged`, and no matter of it |\n" +
		"| `allow` of a task | rules and groups that it may set off: then they are named. So does a title that asks to delete, remove, rename, move or skip tests |\n")
	docs.Page(t, filepath.Join("docs", "guard.md"), b.String())
}
