package guard

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"descartes/internal/lazyregexp"
)

// files looks at each changed file that is no test, and at what of a test is not a matter of its cases.
func (l *look) files() {
	for _, c := range l.in.Changes {
		if l.over() {
			return
		}
		if l.isLink(c) {
			continue
		}
		l.named(c)
		l.replaced(c)
		if c.After != nil && c.After.Long || c.Before != nil && c.Before.Long {
			if isTest(c.Path) && c.After == nil {
				l.add("test-deleted", c.Path, 0, "deleted, with more than %d KiB of tests", MaxFile>>10)
			} else if what := l.part(c.Path); what != "" {
				l.add("too-long", c.Path, 0, "%s was changed, and is too long to check, or one file too many", what)
			}
			continue
		}
		l.script(c)
		l.makefile(c)
		l.pack(c)
		l.settings(c)
		l.code(c)
	}
	l.snapshots()
}

// part is what a path is to the checks, in words; "" for nothing.
func (l *look) part(p string) string {
	k := kindOf(p)
	switch {
	case l.checks.scripts[p] != "":
		return "a script of the checks"
	case len(l.checks.targets[p]) > 0, len(l.checks.packages[p]) > 0, strings.HasSuffix(p, ".mk") &&
		len(l.checks.targets) > 0:
		return "a file of the checks"
	case isTest(p):
		return "a test file"
	case golden.MatchString(p):
		return "expected output or a fixture"
	case k != "" && k != "environment":
		return "a file of settings of the checks"
	}
	return ""
}

// isLink finds links in the place of files of the checks, or of folders with them.
func (l *look) isLink(c Change) bool {
	if c.After == nil || c.After.Kind != Link {
		return false
	}
	what := l.part(c.Path)
	switch {
	case c.Before != nil && c.Before.Kind == Link && string(c.Before.Data) == string(c.After.Data):
		return true
	case c.Before == nil:
		what = or(l.tool(c.Path), "a program", "")
		for _, d := range l.in.Changes {
			if !strings.HasPrefix(d.Path, c.Path+"/") || d.Before == nil || d.After != nil {
				continue
			}
			if was := l.part(d.Path); was != "" {
				what = "a folder with " + was
				break
			}
		}
	}
	if what != "" {
		l.add("link", c.Path, 0, "a symbolic link to %s replaces %s", short(string(c.After.Data)), what)
	}
	return true
}

func (l *look) named(c Change) {
	if protected, excepted := l.in.named(c.Path); protected && !excepted && c.Before != nil {
		l.add("protected", c.Path, 0, "%s", or(c.After == nil, "deleted, though it is protected",
			"changed, though it is protected"))
	}
}

// tools are programs that checks are made with. A file of the repository with such a name that can be executed is
// meant to be found first.
var tools = lazyregexp.New(
	`^(?:go|gofmt|pytest|py\.test|python[\d.]*|pip3?|npm|npx|yarn|pnpm|node|make|gmake|cargo|rustc|ruby|rspec|rake|bundle|java|javac|mvn|gradle|sh|bash|dash|env|test|true|false|\[|grep|egrep|diff|cmp|cat|sed|awk|git|jest|mocha|vitest|ava|tsc|eslint|tox|nox|dotnet|php|phpunit|composer|ctest|cmake|bats|just|mypy|ruff|flake8|golangci-lint|staticcheck)$`)

func (l *look) tool(p string) bool {
	name := path.Base(p)
	return tools.MatchString(name) || l.checks.programs[name] && !strings.Contains(name, ".")
}

var (
	pythonStart  = lazyregexp.New(`(?:^|/)(?:sitecustomize|usercustomize)(?:\.py|/__init__\.py)$|\.pth$`)
	pythonModule = lazyregexp.New(
		`^(?:src/|lib/|tests?/)?(?:pytest|_pytest|unittest|doctest|pluggy|hypothesis|nose|nose2|coverage|tox)(?:\.py|/__init__\.py)$`)
	testLibrary = lazyregexp.New(
		`(?:^|/)vendor/(?:.*/)?(?:testify|gomega|ginkgo|goconvey|quicktest|go-cmp|gotest\.tools|rspec[^/]*|minitest[^/]*|phpunit|mockery|check\.v1)(?:/|$)|(?:^|/)(?:site-packages|dist-packages|\.venv|venv)/|(?:^|/)\.yarn/(?:releases|cache|plugins)/|^gradle/wrapper/|^\.mvn/wrapper/`)
	runnerName = lazyregexp.New(
		`(?i)^(?:@?(?:jest|vitest|mocha|chai|ava|jasmine|karma|tape|tap|nyc|c8|sinon|cypress|playwright|qunit|uvu)(?:[-/].*)?|@(?:jest|vitest|playwright|testing-library)/.*|ts-jest|babel-jest|pytest(?:[-_].*)?|tox|nox|coverage|hypothesis|nose2?|unittest2|rspec(?:-.*)?|minitest|simplecov|phpunit/phpunit|pestphp/.*)$`)
)

// libraryOfTests reports whether a file belongs to an installed tool or library of the checks.
func libraryOfTests(p string) bool {
	for _, m := range nodePackage.FindAllStringSubmatch(p, -1) {
		if m[1] == ".bin" || runnerName.MatchString(m[1]) {
			return true
		}
	}
	return testLibrary.MatchString(p)
}

var (
	nodePackage = lazyregexp.New(`(?:^|/)node_modules/((?:@[^/]+/)?[^/]+)/`)
	installed   = lazyregexp.New(`^((?:.*?/)?)(?:node_modules/(?:@[^/]+/)?[^/]+|\.yarn/cache/[^/]+|vendor/.+)(?:/|$)`)
)

// brought reports whether a package manager added a file with a new dependency: a manifest changed, and nothing stood
// in the file's place before.
func (in *Input) brought(c Change) bool {
	if c.Before != nil || c.After == nil {
		return false
	}
	p := c.Path
	if c.After.Kind == Link && path.Base(path.Dir(p)) == ".bin" {
		p = path.Join(path.Dir(p), string(c.After.Data))
	}
	m := installed.FindStringSubmatch(p)
	if m == nil {
		return false
	}
	root := strings.TrimSuffix(m[0], "/")
	if strings.HasPrefix(root, m[1]+"vendor/") {
		root = path.Dir(p)
	}
	return !in.There(root) && slices.ContainsFunc(in.Changes, func(d Change) bool {
		dir, _ := path.Split(d.Path)
		return Installs(d.Path) && dir == m[1] && (dir == "" || d.Before != nil) || d.Path == m[1]+"vendor/modules.txt"
	})
}

// replaced finds files that take the place of programs, modules and libraries that the checks use.
func (l *look) replaced(c Change) {
	if c.After == nil {
		return
	}
	p, name := c.Path, path.Base(c.Path)
	fresh := c.Before == nil || c.Before.Kind != Executable && c.After.Kind == Executable
	switch {
	case pythonStart.MatchString(p):
		l.add("shadow", p, 0, "python runs it before everything else")
	case pythonModule.MatchString(p) && c.Before == nil:
		l.add("shadow", p, 0, "python imports it instead of the real %s",
			strings.TrimSuffix(strings.TrimSuffix(name, ".py"), "/__init__"))
	case libraryOfTests(p):
		l.add("runner", p, 0, "a file of an installed or vendored library of the checks was %s",
			or(c.Before == nil, "added", "changed"))
	case fresh && c.After.Kind == Executable && l.tool(p) && l.checks.scripts[p] == "":
		l.add("shadow", p, 0, "an executable file called %s may be found instead of the real one", name)
	}
	if c.Before != nil {
		return
	}
	for _, file := range slices.Sorted(maps.Keys(l.checks.targets)) {
		dir := path.Dir(file)
		if i, j := slices.Index(makefiles, name), slices.Index(makefiles, path.Base(file)); i >= 0 && i < j &&
			path.Dir(p) == dir {
			l.add("shadow", p, 0, "make reads it instead of %s", file)
		}
	}
	if by, ok := l.makes()[p]; ok {
		l.add("shadow", p, 0, "a file with the name of the target %s in %s: make has nothing to do for it then", by[0], by[1])
	}
}

// makes are the files that make would make for the checks.
func (l *look) makes() map[string][2]string {
	if l.made != nil {
		return l.made
	}
	l.made = map[string][2]string{}
	for _, file := range slices.Sorted(maps.Keys(l.checks.targets)) {
		m := l.makeOf(file, false)
		for _, t := range m.uses(l.checks.targets[file]) {
			if r := m.rules[t]; !m.phony[t] && r != nil && len(r.recipe) > 0 {
				l.made[path.Join(path.Dir(file), t)] = [2]string{t, file}
			}
		}
	}
	return l.made
}

// Lines that make a check milder when they are added to it.
var (
	ignores = lazyregexp.New(
		`\|\|\s*(?:true\b|:(?:\s|$)|echo\b|exit 0|return 0|/bin/true)|;\s*(?:true|:|exit 0)\s*["';]?$|^(?:exit 0?|exit 0\b.*|true|:)$|;\s*exit 0\b` +
			`|^set \+\w*e|\bset \+o (?:errexit|pipefail)` +
			`|\bcontinue-on-error["']?:\s*(?:true|\$\{\{)|\ballow_failure["']?:\s*true|\bfailFast:\s*false\b.*ignore|\binformational["']?:\s*true` +
			`|(?i:--pass-?with-?no-?tests|\bpassWithNoTests["']?\s*[:=]\s*true|--collect-only\b|--co\b|--no-run\b|--exit-zero\b|--suppress-tests|--list-tests|--listTests|\b(?:make|just|ctest|gradlew?|mvn|pytest)\b.*--dry-run\b|--forgive|--bail=0\b)` +
			`|\b(?:ignoreFailures|ignoreExitValue|testFailureIgnore|skipTests|maven\.test\.(?:skip|failure\.ignore)|haltonfailure)["'>]?\s*[=:>]?\s*["']?(?:true|no)\b|-DskipTests\b|-Dmaven\.test\.skip\b|-x test\b`)
	narrows = lazyregexp.New(
		`(?:^|[\s"'=])-k[= ]?\\?["']?\(?\s*not\b|--deselect\b|--ignore(?:-glob)?[= ]|-m[= ]\\?["']?not\b|\s-run[= ]\S|\s-skip[= ]\S|\s--skip[= ]\S|--testNamePattern|--testPathIgnorePatterns|--exclude[= ]|-count[= ]0\b|\s-short\b|--grep\b.*--invert|\s--invert\b|--lf\b|--last-failed|--onlyChanged|--filter[= ]|--tests[= ]`)
	// strict are options without which a check is milder.
	strict = lazyregexp.New(
		`(?:^|[\s"'\[,=])(--exitfirst|--strict[\w-]*|-W[= ]?error\S*|-Werror\S*|-race|--cov-fail-under\S*|--fail-under\S*|--max-warnings\S*|--locked|--frozen-lockfile|-D ?warnings|-Dwarnings|--deny\S*|--runInBand|--ci|--check|-o ?pipefail|--all-features|--all-targets|--workspace|-vet=\w+|--failOnFlakyTests|--forbid-only|--forbidOnly|set -\w*e\w*|set -o pipefail)`)
	// overrides are lines that change the meaning of a script they are added to.
	overrides = lazyregexp.New(
		`^(?:exit\b|return\b|exec\b|alias\b|trap\b|if false\b|while false\b|:\s*<<|(?:export\s+)?PATH=|shopt\b|unset -f|enable -n|sys\.exit\(|process\.exit\(|os\._exit\(|raise SystemExit|quit\(\))`)
	shellFunction = lazyregexp.New(`^(?:function\s+)?([\w.:\[-]+)\s*\(\)`)
	shellVariable = lazyregexp.New(`^(?:export\s+|local\s+)?(\w+)=`)
)

// excludeKeys leave tests out by settings of a runner.
var excludeKeys = lazyregexp.New(
	`^["']?(?:norecursedirs|collect_ignore(?:_glob)?|testPathIgnorePatterns|modulePathIgnorePatterns|exclude|default-filter|exclude_files)["']?\s*[:=\[+.(]|\b(?:harness|test|doctest|autotests|bench)\s*=\s*false\b`)

// lineRule is what a line means that is added somewhere.
type lineRule struct {
	where string // a kind of file, or what it is to the checks
	rule  string
	line  *lazyregexp.Regexp
	says  string
}

// lineRules is the table. Of each place the first that matches holds.
var lineRules = []lineRule{
	{"check", "always-passes", ignores, "a failure is ignored"},
	{"check", "test-excluded", narrows, "tests are left out"},
	{"product", "run-by-check", ignores, "it may end as if it had passed"},
	{"product", "run-by-check",
		lazyregexp.New(`\b(?:sys\.exit|process\.exit|os\._exit|exit!?)\((?:0|True)?\)|\bprocess\.exitCode\s*=\s*0`),
		"it may end as if it had passed"},
	{"code", "forced-pass", lazyregexp.New(
		`^def pytest_(?:runtest_makereport|runtest_call|runtest_protocol|runtestloop|pyfunc_call|report_teststatus|sessionfinish|exception_interact)\b|\b(?:rep|report|outcome|result|r)\.outcome\s*=\s*["']passed|\bexitstatus\s*=\s*(?:0|ExitCode\.OK)|\bos\._exit\(0\)|\bpytest\.(?:main|exit)\s*=|\bunittest\.TestCase\.\w+\s*=|\bsys\.modules\[["'](?:pytest|unittest)|\b(?:globalThis|global|window)\.(?:expect|it|test|describe|assert)\s*=|\bjest\.(?:setTimeout\(0\)|retryTimes)|\bassert\.(?:ok|equal|strictEqual|deepEqual|deepStrictEqual)\s*=\s`), "the result of the tests is overridden"},
	{"test", "forced-pass", lazyregexp.New(
		`\bprocess\.exit\((?:0?)\)|\bprocess\.exitCode\s*=\s*0|\bsys\.exit\((?:0?)\)|\bos\.Exit\(0\)|\bSystem\.exit\(0\)|\bprocess::exit\(0\)|^exit[ !]*\(?0?\)?;?$|\bat_exit\s*\{\s*exit!?\s*\(?0|\batexit\.register\(.*exit|\bEnvironment\.Exit\(0\)`), "the result of the tests is overridden"},
	{"code", "test-excluded",
		lazyregexp.New(`^def pytest_(?:collection_modifyitems|ignore_collect|collect_file|itemcollected|deselected|pycollect_makeitem|generate_tests_only)\b|^collect_ignore(?:_glob)?\b|\bitems(?:\[:\]\s*=|\.clear\(\))|\bitem\.add_marker\(.*(?:skip|xfail)|^def load_tests\(|\bconfig\.filter_run_excluding\b|\bconfig\.filter_run\b`), "the runner gets a list of tests"},
	{"untested", "knows-tests",
		lazyregexp.New(`\bPYTEST_CURRENT_TEST\b|["'](?:pytest|unittest|_pytest)["'] in sys\.modules|\btesting\.Testing\(\)|\bJEST_WORKER_ID\b|\bVITEST\b|NODE_ENV\W{1,8}test\b|\bcfg!\(test\)|flag\.Lookup\("test\.|HasSuffix\(os\.Args\[0\], ?"\.test|\bDESCARTES_\w+|\bRUST_TEST|typeof (?:jest|describe|it)\b|\binspect\.stack\(\)|\bruntime\.Caller\(.*_test|\bCARGO_(?:TARGET_TMPDIR|BIN_EXE)`), "the code detects that it is tested"},
	{"untested", "stub", lazyregexp.New(
		`(?i)\b(?:panic|todo|unimplemented|\w*Exception|\w*Error|fail|errors\.New|Errorf)!?\(["'\x60]?(?:todo|not (?:yet )?implemented|unimplemented|implement me)\b|\b(?:todo|unimplemented)!\(`), "it does nothing yet"},
	{"runner", "test-excluded", excludeKeys, "tests are left out"},
	{"runner", "check-config",
		lazyregexp.New(`^["']?(?:coveragePathIgnorePatterns|omit|exclude_also|exclude_lines|testpaths|python_files|python_functions|python_classes|testMatch|testRegex|spec|specs|include|files|test_files|roots|testDir)["']?\s*[:=]`), "it decides which tests run"},
	{"linter", "linter-off",
		lazyregexp.New(`(?i)\b(?:disable(?:-all|d)?|ignore[sd]?|exclude[sd]?|extend-ignore|extend-exclude|per-file-ignores|skip[\w-]*|allow|enabled\s*:\s*false|ignorePatterns|exclusions?|exclude-rules|exclude-(?:files|dirs)|ignore_errors|ignore_missing_imports)\b|["']?off["']?\s*[\],}]*$|:\s*0,?$|\bstrict["']?\s*[:=]\s*false|\bskipLibCheck["']?\s*:\s*true|\bnoEmitOnError["']?\s*:\s*false|\bcheckJs["']?\s*:\s*false|\b(?:no|strict)\w+["']?\s*:\s*false`), "a linter's settings now say"},
	{"environment", "shadow",
		lazyregexp.New(`(?i)\bPATH(?:_add)?\b|\bGOFLAGS\b|script-shell|\brunner\s*=|rustc-wrapper|rustc-workspace-wrapper|\blinker\s*=|^rustc\s*=|^rustflags.*cfg|PYTEST_ADDOPTS|PYTEST_PLUGINS|NODE_OPTIONS|PYTHONPATH|PYTHONSTARTUP|LD_PRELOAD|BASH_ENV|\bENV=|MAKEFLAGS|JEST_|RUBYOPT|PERL5OPT|JAVA_TOOL_OPTIONS|-DskipTests|maven\.test\.skip|^\[alias\]|^test\s*=|preload|GOTOOLCHAIN|yarnPath|^prefix\s*=|skip[_-]?tests`), "it sets what the checks' tools run"},
	{"manifest", "runner", lazyregexp.New(
		`^(?:replace\s+)?(\S*(?:testify|gomega|ginkgo|go-cmp|quicktest|check\.v1|gotest\.tools)\S*)\s.*=>`),
		"a library of the tests is replaced"},
	{"manifest", "always-passes", ignores, "a failure is ignored"},
	{"manifest", "test-excluded",
		lazyregexp.New(`\bexcludeTestsMatching\b|\bfilter\s*\{|\benabled\s*=\s*false|\bonlyIf\b|\buseJUnit\w*\b.*exclude|<exclude>[^<]*(?:Tests?|IT|Spec)\b|<groups>|<excludedGroups>|\bset_tests_properties\(.*(?:WILL_FAIL|DISABLED)|\bWILL_FAIL\b|<IsTestProject>\s*false`), "tests are left out"},
}

// lines looks for added lines that mean something in a place.
func (l *look) lines(where, p string, added []line) {
	for _, x := range added {
		for _, r := range lineRules {
			if r.where == where && r.line.MatchString(x.text) {
				l.add(r.rule, p, x.n, "%s: %s", r.says, short(x.text))
				break
			}
		}
	}
}

// milder finds in the lines of a check what makes it pass more easily.
func (l *look) milder(p string, before, after []line) (found bool) {
	n := len(l.found)
	l.lines("check", p, minus(after, before))
	l.thresholds(p, before, after)
	if len(l.found) > n {
		return true
	}
	now := text(minus(after, before))
	for _, x := range minus(before, after) {
		for _, m := range strict.FindAllStringSubmatch(x.text, -1) {
			if !strings.Contains(now, m[1]) {
				l.add("check-target", p, x.n, "the option %s was removed", short(m[1]))
				return true
			}
		}
	}
	return false
}

var threshold = lazyregexp.New(
	`(?i)\b(fail[_-]under|cov-fail-under|minimum_coverage(?:_by_file)?|maximum_coverage_drop|branches|functions|lines|statements|threshold|target|min[_-]?coverage|minimum|coverage|check-coverage|max-warnings|max_warnings|maxWarnings|score|fail-under|min-score|break|low|high|coverage_threshold|max-complexity)["']?\s*[:=> ]\s*["']?(-?[\d.]+)`)

var upper = lazyregexp.New(`(?i)^(?:max|maximum)`)

// thresholds compares the limits in a file, one after the other by name.
func (l *look) thresholds(p string, before, after []line) {
	type limit struct {
		v float64
		line
	}
	read := func(list []line) map[string][]limit {
		out := map[string][]limit{}
		for _, x := range list {
			for _, m := range threshold.FindAllStringSubmatch(x.text, -1) {
				if v, err := strconv.ParseFloat(m[2], 64); err == nil {
					key := strings.ToLower(m[1])
					out[key] = append(out[key], limit{v, x})
				}
			}
		}
		return out
	}
	was, is := read(before), read(after)
	for _, key := range slices.Sorted(maps.Keys(was)) {
		most := upper.MatchString(key) || key == "threshold" && strings.Contains(p, "codecov")
		for i, old := range was[key] {
			if i >= len(is[key]) {
				if len(minus([]line{old.line}, after)) > 0 {
					l.add("threshold", p, old.n, "%s of %v was removed", key, old.v)
				}
				break
			}
			if now := is[key][i]; now.v != old.v && now.v > old.v == most {
				l.add("threshold", p, now.n, "%s was %v and is %v", key, old.v, now.v)
			}
		}
	}
}

// script looks at a script that a check runs. What a program of the project does that one runs is the work itself.
func (l *look) script(c Change) {
	if l.checks.product[c.Path] != "" {
		l.lines("product", c.Path, minus(split(c.After), split(c.Before)))
		return
	}
	by := l.checks.scripts[c.Path]
	if by == "" || c.Before == nil {
		if by = l.checks.missing[c.Path]; by != "" && c.Before == nil && c.After.Kind != Link {
			l.add(or(ofTools(c.Path), "check-script", "run-by-check"), c.Path, 0, "it is new, and %s runs it", by)
		}
		return
	}
	if c.After == nil {
		l.add("check-script", c.Path, 0, "deleted; it is run by %s", by)
		return
	}
	before, after := split(c.Before), split(c.After)
	if l.milder(c.Path, before, after) {
		return
	}
	before, after = plain(before), plain(after)
	added, grown := within(before, after)
	if !grown {
		at, what := changedAt(before, after)
		l.add("check-script", c.Path, at, "changed; it is run by %s: %s", by, what)
		return
	}
	old := text(before)
	for _, p := range slices.Sorted(maps.Keys(l.checks.scripts)) { // one sets what another one asks
		if b, ok := l.in.Base(p); ok && isShell(p, b) {
			old += string(b)
		}
	}
	for _, x := range added {
		m := shellFunction.FindStringSubmatch(x.text)
		if m == nil {
			m = shellVariable.FindStringSubmatch(x.text)
		}
		if overrides.MatchString(x.text) || m != nil && (l.tool(m[1]) ||
			lazyregexp.New(`(?m)(?:^|[;&|(]\s*|\s)`+regexp.QuoteMeta(m[1])+`\b|\$\{?`+regexp.QuoteMeta(m[1])+
				`\b`).MatchString(old)) {
			l.add("check-script", c.Path, x.n, "it is run by %s, and was given: %s", by, short(x.text))
			return
		}
	}
}

// changedAt says where two texts differ first.
func changedAt(before, after []line) (at int, what string) {
	if lost := minus(before, after); len(lost) > 0 {
		return lost[0].n, short(lost[0].text) + or(len(minus(after, before)) > 0, " was replaced", " was removed")
	}
	return 0, "its lines are in a different order"
}

// makeOf reads a makefile as it was or as it is.
func (l *look) makeOf(file string, now bool) *makeText {
	read := func(p string) (string, bool) {
		if i := slices.IndexFunc(l.in.Changes, func(c Change) bool { return c.Path == p }); now && i >= 0 {
			if c := l.in.Changes[i]; c.After != nil {
				return string(c.After.Data), true
			}
			return "", false
		}
		b, ok := l.in.Base(p)
		return string(b), ok
	}
	src, _ := read(file)
	return readMake(src, func(name string) (string, bool) { return read(path.Join(path.Dir(file), name)) })
}

// makefile compares what the targets do that the checks ask for. A file that another one includes is looked at with
// that one.
func (l *look) makefile(c Change) {
	file := c.Path
	goals := l.checks.targets[file]
	if len(goals) == 0 && strings.HasSuffix(file, ".mk") {
		for _, f := range slices.Sorted(maps.Keys(l.checks.targets)) {
			file, goals = f, l.checks.targets[f]
		}
	}
	if len(goals) == 0 || file == c.Path && c.Before == nil {
		return
	}
	if c.After == nil && file == c.Path {
		l.add("check-target", file, 0, "deleted with the targets %s", strings.Join(goals, ", "))
		return
	}
	was, is := l.makeOf(file, false), l.makeOf(file, true)
	used := was.uses(goals)
	for _, t := range used {
		l.target(file, t, was, is)
	}
	for _, name := range was.used(used) {
		old, now := was.vars[name], is.vars[name]
		if lost := minus(old, now); len(lost) > 0 || len(old) > 0 && len(now) > len(old) {
			l.add("check-target", file, append(lost, now[max(0, len(now)-1):]...)[0].n,
				"the variable %s, which %s uses, was changed", name, strings.Join(goals, ", "))
		}
	}
	for _, x := range minus(is.special, was.special) {
		l.add("check-target", file, x.n, "it changes how every target is made: %s", short(x.text))
	}
}

func (l *look) target(file, t string, was, is *makeText) {
	old, now := was.rules[t], is.rules[t]
	switch {
	case old == nil:
		return
	case now == nil:
		l.add("check-target", file, old.at, "the target %s was removed", t)
		return
	case was.phony[t] && !is.phony[t]:
		l.add("check-target", file, now.at, "the target %s is no longer .PHONY", t)
	}
	n := len(l.found)
	l.milder(file, old.recipe, now.recipe)
	for _, x := range minus(now.recipe, old.recipe) {
		if strings.HasPrefix(strings.TrimLeft(x.text, "@+"), "-") &&
			slices.ContainsFunc(old.recipe, func(y line) bool {
				return strings.TrimLeft(x.text, "-@+") == strings.TrimLeft(y.text, "@+")
			}) {
			l.add("always-passes", file, x.n, "a failure is ignored: %s", short(x.text))
		}
	}
	needed := slices.IndexFunc(old.prereqs, func(p string) bool { return !slices.Contains(now.prereqs, p) })
	switch {
	case len(l.found) > n:
	case now.bodies > max(1, old.bodies):
		l.add("check-target", file, now.at, "the target %s is given a second recipe", t)
	case needed >= 0:
		l.add("check-target", file, now.at, "the target %s no longer needs %s", t, old.prereqs[needed])
	case !stepsKept(old.recipe, now.recipe):
		at, what := changedAt(old.recipe, now.recipe)
		l.add("check-target", file, at, "the target %s was changed: %s", t, what)
	case len(old.recipe) == 0 && len(now.recipe) > 0 && !was.phony[t] && len(old.prereqs) == 0:
		l.add("check-target", file, now.at, "the target %s is given a recipe", t)
	}
}

// stepsKept reports whether all steps of a recipe or a command are still there, each as it was or with words besides.
func stepsKept(before, after []line) bool {
	steps := func(list []line) (out [][]line) {
		for _, x := range list {
			for s := range strings.SplitSeq(strings.ReplaceAll(x.text, " --bail", ""), "&&") {
				out = append(out, lined(strings.Fields(s)))
			}
		}
		return out
	}
	now := steps(after)
	return !slices.ContainsFunc(steps(before), func(old []line) bool {
		return !slices.ContainsFunc(now, func(step []line) bool {
			added, ok := within(old, step)
			return ok && (len(added) == 0 || len(old) > 0 && old[0].text == step[0].text &&
				!strings.ContainsAny(text(added), ";|&#"))
		})
	})
}

// packageSettings are the members of a package.json that set how checks run.
var packageSettings = []string{"jest", "vitest", "mocha", "ava", "nyc", "c8", "tap", "eslintConfig", "babel"}

// pack compares a package.json: scripts that the checks run, settings of runners, where they come from.
func (l *look) pack(c Change) {
	if path.Base(c.Path) != "package.json" || c.Before == nil || c.After == nil {
		return
	}
	was, is := readPackage(c.Before.Data), readPackage(c.After.Data)
	for _, name := range l.checks.packages[c.Path] {
		old, now := []line{{text: was.Scripts[name]}}, []line{{text: is.Scripts[name]}}
		n := len(l.found)
		l.lines("check", c.Path, minus(now, old))
		if len(l.found) == n && !stepsKept(old, now) {
			l.add("check-target", c.Path, 0, "the script %s was changed from `%s` to `%s`", name, short(old[0].text),
				short(now[0].text))
		}
	}
	for _, name := range packageSettings {
		l.compareSettings(c.Path, "runner", pretty(was.All[name]), pretty(is.All[name]), was.All[name] != nil)
	}
	for _, key := range []string{"dependencies", "devDependencies", "resolutions", "overrides"} {
		l.foreign(c.Path, minus(pretty(is.All[key]), pretty(was.All[key])))
	}
}

var (
	local = lazyregexp.New(
		`(?:^|\s|["'=@])(?:file:|link:|portal:|workspace:\./|git[+:]|https?:|npm:|\.{1,2}/|-e\s)|path\s*[:=>]`)
	dependency = lazyregexp.New(`^["']?(?:gem\s+["'])?([\w./@-]+)["']?\s*(.*)$`)
)

// foreign finds tools of the checks that come from another place than those of that name usually do.
func (l *look) foreign(p string, added []line) {
	for _, x := range added {
		if m := dependency.FindStringSubmatch(x.text); m != nil && runnerName.MatchString(m[1]) &&
			local.MatchString(m[2]) {
			l.add("runner", p, x.n, "a tool of the checks comes from elsewhere: %s", short(x.text))
		}
	}
}

// pretty gives the lines of a JSON value, one member a line.
func pretty(raw json.RawMessage) []line {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", " ") != nil {
		return nil
	}
	lines := split(&Version{Data: b.Bytes()})
	for i := range lines {
		lines[i].n, lines[i].text = 0, strings.TrimSuffix(lines[i].text, ",")
	}
	return lines
}

// code looks at lines that were added to code, of tests or not.
func (l *look) code(c Change) {
	if c.After == nil {
		return
	}
	before, after := split(c.Before), split(c.After)
	added := minus(after, before)
	for _, x := range added {
		if !c.Hidden && secret.MatchString(x.text) {
			l.add("secret", c.Path, x.n, "it looks like a secret, and would be committed")
		}
	}
	lang := languageOf(c.Path)
	if lang == nil || strings.HasPrefix(c.Path, "vendor/") {
		return
	}
	for i, x := range after {
		if i > 0 && x.text == "return True" && strings.HasPrefix(after[i-1].text, "def __eq__(") &&
			len(minus(after[i-1:i+1], before)) > 0 {
			l.add("forced-pass", c.Path, after[i-1].n, "an object is equal to everything")
		}
	}
	quiet := slices.DeleteFunc(slices.Clone(added), func(x line) bool { return !quieted.MatchString(x.text) })
	if len(quiet) > 0 {
		l.add("linter-off", c.Path, quiet[0].n, "%s more that a linter, type checker or coverage skips: %s",
			plural(len(quiet), "place"), short(quiet[0].text))
	}
	added = slices.DeleteFunc(added, func(x line) bool { return isComment(lang, x.text) })
	test := isTest(c.Path) || path.Base(c.Path) == "conftest.py" || path.Base(c.Path) == "spec_helper.rb"
	l.lines("code", c.Path, added)
	l.lines(or(test, "test", "untested"), c.Path, added)
	l.testMain(c, after)
}

// secret are keys and tokens that tell what they are.
var secret = lazyregexp.New(
	`\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_\w{40}|\bglpat-[\w-]{20}|\bxox[abpr]-[\w-]{20}|\bsk-(?:ant-|proj-)?[\w-]{32}|\bAIza[\w-]{35}|-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----`)

var quieted = lazyregexp.New(
	`//\s?nolint|#\s?noqa|eslint-disable|tslint:disable|@ts-(?:ignore|nocheck|expect-error)|#\s?type:\s?ignore|#!?\[allow\(|rubocop:disable|@SuppressWarnings|@Suppress\(|pylint:\s?disable|\bNOLINT|pragma:\s?no cover|(?:istanbul|c8|v8) ignore|phpcs:(?:ignore|disable)|@phpstan-ignore|@codeCoverageIgnore|LCOV_EXCL|#\s?nosec|#nosec|shellcheck disable|biome-ignore|pyright:\s?ignore|coverage:ignore|#pragma warning disable`)

// testMain finds a TestMain of Go's that does not run the tests.
func (l *look) testMain(c Change, after []line) {
	if !strings.HasSuffix(c.Path, "_test.go") {
		return
	}
	for i, x := range after {
		if !strings.HasPrefix(x.text, "func TestMain(") {
			continue
		}
		runs := strings.Contains(x.text, ".Run()")
		for _, y := range after[i+1:] {
			if y.indent == 0 {
				break
			}
			runs = runs || strings.Contains(y.text, ".Run()") || strings.Contains(y.text, "Main(m") ||
				strings.Contains(y.text, "(m)") || strings.Contains(y.text, "(m,")
		}
		if !runs {
			l.add("forced-pass", c.Path, x.n, "TestMain does not run the tests")
		}
	}
}

// snapshots looks at expected output in files.
func (l *look) snapshots() {
	for _, c := range l.in.Changes {
		if l.over() {
			return
		}
		if !golden.MatchString(c.Path) || isTest(c.Path) || c.Before == nil || c.After == nil && l.keptElsewhere(c) {
			continue
		}
		if lost := minus(split(c.Before), split(c.After)); len(lost) > 0 {
			l.add("golden", c.Path, lost[0].n, "%s of expected output or a fixture changed or were deleted",
				plural(len(lost), "line"))
		}
	}
}

func (l *look) keptElsewhere(c Change) bool {
	return slices.ContainsFunc(l.in.Changes, func(d Change) bool {
		return d.Before == nil && d.After != nil && string(d.After.Data) == string(c.Before.Data)
	})
}

var golden = lazyregexp.New(
	`\.snap$|(?:^|/)__snapshots__/|(?:^|/)(?:testdata|fixtures|goldens?|snapshots|expected|__fixtures__|test-fixtures|cassettes)/|\.(?:golden|expected|approved)(?:\.\w+)?$`)

// kind is what a file sets, "" for nothing that is known.
type kind string

// kinds of files by their paths. The first that matches holds.
var kinds = []struct {
	kind
	paths *lazyregexp.Regexp
}{
	{"descartes", lazyregexp.New(`^descartes\.ya?ml$`)},
	{"ci", lazyregexp.New(`^\.github/(?:workflows|actions)/|^\.gitlab-ci\.ya?ml$|^\.gitlab/ci/|^\.circleci/|^(?:.*/)?Jenkinsfile$|^azure-pipelines.*\.ya?ml$|^\.azure-pipelines/|^\.travis\.ya?ml$|^\.buildkite/|^\.drone\.ya?ml$|^bitbucket-pipelines\.ya?ml$|^\.?appveyor\.ya?ml$|^\.cirrus\.ya?ml$|^\.woodpecker|^\.forgejo/workflows/|^\.gitea/workflows/|^cloudbuild\.ya?ml$`)},
	{"runner", lazyregexp.New(
		`(?:^|/)(?:\.?pytest\.ini|\.?pytest\.toml|tox\.ini|tox\.toml|noxfile\.py|Rakefile|conftest\.py|\.coveragerc|jest\.(?:config|setup|preset)[^/]*|vitest\.(?:config|workspace|setup)[^/]*|\.mocharc[^/]*|mocha\.opts|karma\.conf[^/]*|cypress\.(?:config|json)[^/]*|playwright\.config[^/]*|ava\.config[^/]*|\.nycrc[^/]*|\.c8rc[^/]*|nyc\.config[^/]*|\.?codecov\.ya?ml|\.rspec|spec_helper\.rb|rails_helper\.rb|test_helper\.rb|\.simplecov|phpunit\.xml(?:\.dist)?|\.?nextest\.toml|\.config/nextest\.toml|[^/]*\.runsettings|web-test-runner\.config[^/]*|\.taprc|junit-platform\.properties|stryker\.conf[^/]*|Taskfile\.ya?ml)$|^\.config/nextest\.toml$`)},
	{"linter", lazyregexp.New(
		`(?:^|/)(?:\.golangci\.(?:ya?ml|toml|json)|\.eslintrc[^/]*|eslint\.config\.[^/]*|\.eslintignore|\.?ruff\.toml|\.flake8|\.?pylintrc|\.?mypy\.ini|\.?clippy\.toml|\.?rustfmt\.toml|\.rubocop[^/]*\.yml|\.prettier[^/]*|biome\.jsonc?|tslint\.json|\.stylelintrc[^/]*|\.pre-commit-config\.yaml|phpstan\.neon(?:\.dist)?|phpcs\.xml(?:\.dist)?|\.shellcheckrc|pyrightconfig\.json|tsconfig[^/]*\.json|detekt\.yml|\.editorconfig|checkstyle\.xml|\.clang-tidy|deny\.toml|\.yamllint|staticcheck\.conf)$|^\.(?:husky|githooks)/`)},
	{"manifest", lazyregexp.New(
		`(?:^|/)(?:pyproject\.toml|setup\.cfg|Cargo\.toml|go\.mod|go\.work|Gemfile|[^/]*requirements[^/]*\.(?:txt|in)|requirements/[^/]*\.(?:txt|in)|composer\.json|build\.gradle(?:\.kts)?|pom\.xml|[^/]*\.csproj|Directory\.Build\.(?:props|targets)|mix\.exs|Package\.swift|CMakeLists\.txt|Pipfile|BUILD(?:\.bazel)?)$`)},
	{"environment", lazyregexp.New(
		`(?:^|/)(?:\.envrc|\.env(?:\.test)?|\.npmrc|\.yarnrc(?:\.yml)?|\.pnpmfile\.cjs|go\.env|\.bazelrc|gradle\.properties|\.tool-versions|\.?mise\.toml|\.python-version|\.nvmrc|\.node-version|\.ruby-version|\.bashrc|\.profile|\.bash_env|pip\.conf|bunfig\.toml|rust-toolchain(?:\.toml)?)$|(?:^|/)\.cargo/config(?:\.toml)?$|(?:^|/)\.mvn/(?:maven|jvm)\.config$|(?:^|/)\.bundle/config$`)},
}

func kindOf(p string) kind {
	for _, k := range kinds {
		if k.paths.MatchString(p) {
			return k.kind
		}
	}
	return ""
}

// settings looks at files that set how checks are run.
func (l *look) settings(c Change) {
	k := kindOf(c.Path)
	before, after, there := plain(split(c.Before)), plain(split(c.After)), c.Before != nil
	switch {
	case k == "" || l.checks.scripts[c.Path] != "" || c.After == nil && (k == "manifest" || l.keptElsewhere(c)):
	case k == "descartes":
		if there {
			l.add("protected", c.Path, 0, "it defines the checks, and was %s",
				or(c.After == nil, "deleted", "changed"))
		}
	case k == "manifest":
		for _, s := range []struct {
			kind
			of *lazyregexp.Regexp
		}{{"runner", runnerSection}, {"linter", linterSection}} {
			l.compareSettings(c.Path, s.kind, inSections(c.Before, s.of), inSections(c.After, s.of), there)
		}
		if !there {
			return
		}
		added := minus(after, before)
		l.foreign(c.Path, added)
		l.lines("manifest", c.Path, added)
		if builds.MatchString(c.Path) {
			l.thresholds(c.Path, before, after)
		}
	case c.After == nil:
		l.add(or(k == "ci", "ci", "check-config"), c.Path, 0, "the settings were deleted")
		l.thresholds(c.Path, before, nil)
	default:
		l.compareSettings(c.Path, k, before, after, there)
	}
}

var builds = lazyregexp.New(`\.(?:gradle|kts|csproj)$|pom\.xml$`)

// inSections are the lines of the sections of a TOML or INI file with such names.
func inSections(v *Version, of *lazyregexp.Regexp) (list []line) {
	in := false
	for _, x := range plain(split(v)) {
		if m := section.FindStringSubmatch(x.text); m != nil {
			in = of.MatchString(m[1])
		}
		if in {
			list = append(list, x)
		}
	}
	return list
}

var comments = lazyregexp.New(`^(?:#[^!]|#$|//|; |<!--)`)

// plain are the lines without comments.
func plain(list []line) []line {
	return slices.DeleteFunc(slices.Clone(list), func(x line) bool { return comments.MatchString(x.text) })
}

// compareSettings compares the settings of a runner, a linter, CI or the environment; there says that there were any.
func (l *look) compareSettings(p string, k kind, before, after []line, there bool) {
	gained := minus(after, before)
	n := len(l.found)
	if k == "linter" {
		l.thresholds(p, before, after)
	} else {
		l.milder(p, before, after)
	}
	if there || k == "environment" {
		l.lines(string(k), p, gained)
	} else if i := slices.IndexFunc(gained, func(x line) bool { return excludeKeys.MatchString(x.text) }); i >= 0 &&
		k == "runner" {
		l.add("check-config", p, gained[i].n, "a new file of settings leaves out tests: %s", short(gained[i].text))
	}
	// another version, or a limit that is stricter now
	lost := slices.DeleteFunc(minus(before, after), func(x line) bool {
		return slices.ContainsFunc(gained, func(y line) bool {
			return pinned(x.text) == pinned(y.text) || threshold.MatchString(y.text) && mask(x.text) == mask(y.text)
		})
	})
	if k == "environment" && there {
		lost = append(lost, gained...)
	}
	if len(lost) > 0 && len(l.found) == n && !strings.HasSuffix(p, "conftest.py") {
		l.add(or(k == "ci", "ci", "check-config"), p, lost[0].n, "settings of the checks were changed: %s",
			short(lost[0].text))
	}
}

var pins = lazyregexp.New(`@[\w./-]+(?:\s+#.*)?$|\bv?\d+(?:\.[\dx]+)*\b`)

// pinned is a line without the versions in it.
func pinned(s string) string { return pins.ReplaceAllString(s, "@") }

var (
	section       = lazyregexp.New(`^\[\[?\s*([^\]]+?)\s*\]\]?`)
	runnerSection = lazyregexp.New(
		`^(?:tool[.:])?(?:pytest|tox|coverage|testenv|nox|hatch\.envs|pdm\.scripts|poe|taskipy|unittest)|^tool:pytest|^(?:lib|bin|test|bench|profile\.test)$|^metadata\.nextest|^tool\.cargo-nextest`)
	linterSection = lazyregexp.New(
		`^(?:tool[.:])?(?:ruff|mypy|flake8|pylint|black|isort|bandit|pyright|pydocstyle|pycodestyle)|^(?:workspace\.)?lints`)
)
