package guard

import (
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
		if l.isLink(c) {
			continue
		}
		l.named(c)
		l.replaced(c)
		if c.After != nil && c.After.Long || c.Before != nil && c.Before.Long {
			if isTest(c.Path) && c.After == nil {
				l.add("test-deleted", c.Path, 0, "deleted, with more than %d KiB of tests", MaxFile>>10)
			} else if what := l.ofChecks(c.Path); what != "" {
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

// ofChecks reports whether a path belongs to the checks, and as what.
func (l *look) ofChecks(p string) string {
	switch {
	case l.checks.scripts[p] != "":
		return "a script of the checks"
	case len(l.checks.targets[p]) > 0 || len(l.checks.packages[p]) > 0:
		return "a file of the checks"
	case isTest(p):
		return "a test file"
	case kindOf(p) != "" && kindOf(p) != "environment":
		return "a file of settings of the checks"
	}
	return ""
}

// isLink finds links in the place of files of the checks, or of folders with them.
func (l *look) isLink(c Change) bool {
	if c.After == nil || c.After.Kind != Link {
		return false
	}
	what := ""
	if c.Before != nil && c.Before.Kind == Link && string(c.Before.Data) == string(c.After.Data) {
		return true
	}
	if c.Before != nil {
		what = l.ofChecks(c.Path)
	} else {
		for _, d := range l.in.Changes {
			if strings.HasPrefix(d.Path, c.Path+"/") && d.Before != nil && d.After == nil && l.ofChecks(d.Path) != "" {
				what = "a folder with " + l.ofChecks(d.Path)
				break
			}
		}
		if l.tool(c.Path) {
			what = "a program"
		}
	}
	if what != "" {
		l.add("link", c.Path, 0, "a symbolic link to %s replaces %s", short(string(c.After.Data)), what)
	}
	return true
}

func (l *look) named(c Change) {
	if protected, excepted := l.in.named(c.Path); protected && !excepted && c.Before != nil {
		l.add("protected", c.Path, 0, "%s", or(c.After == nil, "deleted, though it is protected", "changed, though it is protected"))
	}
}

// tools are programs that checks are made with. A file of the repository with such a name that can be executed is meant to be found first.
var tools = lazyregexp.New(`^(?:go|gofmt|pytest|py\.test|python[\d.]*|pip3?|npm|npx|yarn|pnpm|node|make|gmake|cargo|rustc|ruby|rspec|rake|bundle|java|javac|mvn|gradle|sh|bash|dash|env|test|true|false|\[|grep|egrep|diff|cmp|cat|sed|awk|git|jest|mocha|vitest|ava|tsc|eslint|tox|nox|dotnet|php|phpunit|composer|ctest|cmake|bats|just|mypy|ruff|flake8|golangci-lint|staticcheck)$`)

func (l *look) tool(p string) bool {
	name := path.Base(p)
	return tools.MatchString(name) || l.checks.programs[name] && !strings.Contains(name, ".")
}

var (
	pythonStart  = lazyregexp.New(`(?:^|/)(?:sitecustomize|usercustomize)(?:\.py|/__init__\.py)$|\.pth$`)
	pythonModule = lazyregexp.New(`^(?:src/|lib/|tests?/)?(?:pytest|_pytest|unittest|doctest|pluggy|hypothesis|nose|nose2|coverage|tox)(?:\.py|/__init__\.py)$`)
	testLibrary  = lazyregexp.New(`(?:^|/)vendor/(?:.*/)?(?:testify|gomega|ginkgo|goconvey|quicktest|go-cmp|gotest\.tools|rspec[^/]*|minitest[^/]*|phpunit|mockery|check\.v1)(?:/|$)|(?:^|/)(?:site-packages|dist-packages|\.venv|venv)/|(?:^|/)\.yarn/(?:releases|cache|plugins)/|^gradle/wrapper/|^\.mvn/wrapper/`)
	runnerName   = lazyregexp.New(`(?i)^(?:@?(?:jest|vitest|mocha|chai|ava|jasmine|karma|tape|tap|nyc|c8|sinon|cypress|playwright|qunit|uvu)(?:[-/].*)?|@(?:jest|vitest|playwright|testing-library)/.*|ts-jest|babel-jest|pytest(?:[-_].*)?|tox|nox|coverage|hypothesis|nose2?|unittest2|rspec(?:-.*)?|minitest|simplecov|phpunit/phpunit|pestphp/.*)$`)
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

// brought reports whether a package manager added a file with a new dependency: a manifest changed, and nothing stood in the file's place before.
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
		l.add("shadow", p, 0, "python imports it instead of the real %s", strings.TrimSuffix(strings.TrimSuffix(name, ".py"), "/__init__"))
	case libraryOfTests(p):
		l.add("runner", p, 0, "a file of an installed or vendored library of the checks was %s", or(c.Before == nil, "added", "changed"))
	case fresh && c.After.Kind == Executable && l.tool(p) && l.checks.scripts[p] == "":
		l.add("shadow", p, 0, "an executable file called %s may be found instead of the real one", name)
	}
	if c.Before != nil {
		return
	}
	for _, file := range slices.Sorted(maps.Keys(l.checks.targets)) {
		dir := path.Dir(file)
		if i, j := slices.Index(makefiles, name), slices.Index(makefiles, path.Base(file)); i >= 0 && i < j && path.Dir(p) == dir {
			l.add("shadow", p, 0, "make reads it instead of %s", file)
		}
		m := l.makeOf(file, false)
		for _, t := range m.uses(l.checks.targets[file]) {
			if r := m.rules[t]; path.Join(dir, t) == p && !m.phony[t] && r != nil && len(r.recipe) > 0 {
				l.add("shadow", p, 0, "a file with the name of the target %s in %s: make has nothing to do for it then", t, file)
			}
		}
	}
}

// ignores makes a failure count for nothing.
var ignores = []*lazyregexp.Regexp{
	lazyregexp.New(`\|\|\s*(?:true\b|:(?:\s|$)|echo\b|exit 0|return 0|/bin/true)|;\s*(?:true|:|exit 0)\s*["';]?$|^(?:exit 0?|exit 0\b.*|true|:)$|;\s*exit 0\b`),
	lazyregexp.New(`^set \+\w*e|\bset \+o (?:errexit|pipefail)`),
	lazyregexp.New(`\bcontinue-on-error["']?:\s*(?:true|\$\{\{)|\ballow_failure["']?:\s*true|\bfailFast:\s*false\b.*ignore|\binformational["']?:\s*true`),
	lazyregexp.New(`(?i)--pass-?with-?no-?tests|\bpassWithNoTests["']?\s*[:=]\s*true|--collect-only\b|--co\b|--no-run\b|--exit-zero\b|--suppress-tests|--list-tests|--listTests|\b(?:make|just|ctest|gradlew?|mvn|pytest)\b.*--dry-run\b|--forgive|--bail=0\b`),
	lazyregexp.New(`\b(?:ignoreFailures|ignoreExitValue|testFailureIgnore|skipTests|maven\.test\.(?:skip|failure\.ignore)|haltonfailure)["'>]?\s*[=:>]?\s*["']?(?:true|no)\b|-DskipTests\b|-Dmaven\.test\.skip\b|-x test\b`),
}

// narrows leaves tests out.
var narrows = lazyregexp.New(`(?:^|[\s"'=])-k[= ]?\\?["']?\(?\s*not\b|--deselect\b|--ignore(?:-glob)?[= ]|-m[= ]\\?["']?not\b|\s-run[= ]\S|\s-skip[= ]\S|\s--skip[= ]\S|--testNamePattern|--testPathIgnorePatterns|--exclude[= ]|-count[= ]0\b|\s-short\b|--grep\b.*--invert|\s--invert\b|--lf\b|--last-failed|--onlyChanged|--filter[= ]|--tests[= ]`)

// keys leave tests out by settings of a runner.
var excludeKeys = lazyregexp.New(`^["']?(?:norecursedirs|collect_ignore(?:_glob)?|testPathIgnorePatterns|modulePathIgnorePatterns|exclude|default-filter|exclude_files)["']?\s*[:=\[+.(]|\b(?:harness|test|doctest|autotests|bench)\s*=\s*false\b`)

// wideKeys say which tests there are.
var wideKeys = lazyregexp.New(`^["']?(?:coveragePathIgnorePatterns|omit|exclude_also|exclude_lines|testpaths|python_files|python_functions|python_classes|testMatch|testRegex|spec|specs|include|files|test_files|roots|testDir)["']?\s*[:=]`)

// strict are options without which a check is milder.
var strict = lazyregexp.New(`(?:^|[\s"'\[,=])(--exitfirst|--strict[\w-]*|-W[= ]?error\S*|-Werror\S*|-race|--cov-fail-under\S*|--fail-under\S*|--max-warnings\S*|--locked|--frozen-lockfile|-D ?warnings|-Dwarnings|--deny\S*|--runInBand|--ci|--check|-o ?pipefail|--all-features|--all-targets|--workspace|-vet=\w+|--failOnFlakyTests|--forbid-only|--forbidOnly|set -\w*e\w*|set -o pipefail)`)

func ignored(s string) bool {
	return slices.ContainsFunc(ignores, func(re *lazyregexp.Regexp) bool { return re.MatchString(s) })
}

// milder finds in the lines of a check what makes it pass more easily.
func (l *look) milder(p string, before, after []line) (found bool) {
	n := len(l.found)
	for _, x := range minus(after, before) {
		switch {
		case ignored(x.text):
			l.add("always-passes", p, x.n, "a failure is ignored: %s", short(x.text))
		case narrows.MatchString(x.text):
			l.add("test-excluded", p, x.n, "tests are left out: %s", short(x.text))
		}
	}
	l.thresholds(p, before, after)
	lost := map[string]int{}
	for _, x := range minus(before, after) {
		for _, m := range strict.FindAllStringSubmatch(x.text, -1) {
			lost[m[1]] = x.n
		}
	}
	for _, x := range minus(after, before) {
		for _, m := range strict.FindAllStringSubmatch(x.text, -1) {
			delete(lost, m[1])
		}
	}
	for _, option := range slices.Sorted(maps.Keys(lost)) {
		if len(l.found) == n {
			l.add("check-target", p, lost[option], "the option %s was removed", short(option))
		}
	}
	return len(l.found) > n
}

var threshold = lazyregexp.New(`(?i)\b(fail[_-]under|cov-fail-under|minimum_coverage(?:_by_file)?|maximum_coverage_drop|branches|functions|lines|statements|threshold|target|min[_-]?coverage|minimum|coverage|check-coverage|max-warnings|max_warnings|maxWarnings|score|fail-under|min-score|break|low|high|coverage_threshold|max-complexity)["']?\s*[:=> ]\s*["']?(-?[\d.]+)`)

var upper = lazyregexp.New(`(?i)^(?:max|threshold|maximum)`)

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
		for i, old := range was[key] {
			if i >= len(is[key]) {
				if len(minus([]line{old.line}, after)) > 0 {
					l.add("threshold", p, old.n, "%s of %v was removed", key, old.v)
				}
				break
			}
			now := is[key][i]
			if now.v < old.v && !upper.MatchString(key) || now.v > old.v && upper.MatchString(key) && key != "threshold" || key == "threshold" && now.v != old.v && strings.Contains(p, "codecov") && now.v > old.v || key == "threshold" && !strings.Contains(p, "codecov") && now.v < old.v {
				l.add("threshold", p, now.n, "%s was %v and is %v", key, old.v, now.v)
			}
		}
	}
}

// overrides are lines that change the meaning of a script they are added to.
var overrides = lazyregexp.New(`^(?:exit\b|return\b|exec\b|alias\b|trap\b|if false\b|while false\b|:\s*<<|(?:export\s+)?PATH=|shopt\b|unset -f|enable -n|sys\.exit\(|process\.exit\(|os\._exit\(|raise SystemExit|quit\(\))`)

var shellFunction = lazyregexp.New(`^(?:function\s+)?([\w.:\[-]+)\s*\(\)`)

var shellVariable = lazyregexp.New(`^(?:export\s+|local\s+)?(\w+)=`)

// script looks at a script that a check runs.
func (l *look) script(c Change) {
	if l.checks.product[c.Path] != "" {
		l.product(c)
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
	code := func(list []line) []line {
		return slices.DeleteFunc(slices.Clone(list), func(x line) bool { return strings.HasPrefix(x.text, "#") && x.n > 1 || strings.HasPrefix(x.text, "//") })
	}
	before, after = code(before), code(after)
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
		if overrides.MatchString(x.text) || m != nil && (l.tool(m[1]) || lazyregexp.New(`(?m)(?:^|[;&|(]\s*|\s)`+regexp.QuoteMeta(m[1])+`\b|\$\{?`+regexp.QuoteMeta(m[1])+`\b`).MatchString(old)) {
			l.add("check-script", c.Path, x.n, "it is run by %s, and was given: %s", by, short(x.text))
			return
		}
	}
}

var passes = lazyregexp.New(`\b(?:sys\.exit|process\.exit|os\._exit|exit!?)\((?:0|True)?\)|\bprocess\.exitCode\s*=\s*0`)

// product looks at a program of the project that a check runs. What it does is the work itself.
func (l *look) product(c Change) {
	for _, x := range minus(split(c.After), split(c.Before)) {
		if ignored(x.text) || passes.MatchString(x.text) {
			l.add("run-by-check", c.Path, x.n, "%s runs it, and it may end as if it had passed: %s", l.checks.product[c.Path], short(x.text))
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
		if now {
			for _, c := range l.in.Changes {
				if c.Path == p {
					if c.After == nil {
						return "", false
					}
					return string(c.After.Data), true
				}
			}
		}
		b, ok := l.in.Base(p)
		return string(b), ok
	}
	src, _ := read(file)
	return readMake(src, func(name string) (string, bool) { return read(path.Join(path.Dir(file), name)) })
}

// makefile compares what the targets do that the checks ask for. A file that another one includes is looked at with that one.
func (l *look) makefile(c Change) {
	file := c.Path
	goals := l.checks.targets[file]
	if len(goals) == 0 {
		if !strings.HasSuffix(file, ".mk") {
			return
		}
		for _, f := range slices.Sorted(maps.Keys(l.checks.targets)) {
			file, goals = f, l.checks.targets[f]
		}
		if len(goals) == 0 {
			return
		}
	} else if c.Before == nil {
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
			at, what := changedAt(old, now)
			if len(lost) == 0 {
				at, what = now[len(now)-1].n, short(now[len(now)-1].text)+" was added"
			}
			l.add("check-target", file, at, "the variable %s, which %s uses, was changed: %s", name, strings.Join(goals, ", "), what)
		}
	}
	for _, x := range minus(is.special, was.special) {
		l.add("check-target", file, x.n, "it changes how every target is made: %s", short(x.text))
	}
}

func (l *look) target(file, t string, was, is *makeText) {
	old, now := was.rules[t], is.rules[t]
	if old == nil {
		return
	}
	if now == nil {
		l.add("check-target", file, old.at, "the target %s was removed", t)
		return
	}
	if was.phony[t] && !is.phony[t] {
		l.add("check-target", file, now.at, "the target %s is no longer .PHONY", t)
	}
	n := len(l.found)
	l.milder(file, old.recipe, now.recipe)
	for _, x := range minus(now.recipe, old.recipe) {
		if strings.HasPrefix(strings.TrimLeft(x.text, "@+"), "-") && slices.ContainsFunc(old.recipe, func(y line) bool { return strings.TrimLeft(x.text, "-@+") == strings.TrimLeft(y.text, "@+") }) {
			l.add("always-passes", file, x.n, "a failure is ignored: %s", short(x.text))
		}
	}
	if len(l.found) > n {
		return
	}
	if now.bodies > max(1, old.bodies) {
		l.add("check-target", file, now.at, "the target %s is given a second recipe", t)
		return
	}
	for _, p := range old.prereqs {
		if !slices.Contains(now.prereqs, p) {
			l.add("check-target", file, now.at, "the target %s no longer needs %s", t, p)
			return
		}
	}
	if added, grown := within(old.recipe, now.recipe); !grown && !wordier(old.recipe, now.recipe) {
		at, what := changedAt(old.recipe, now.recipe)
		l.add("check-target", file, at, "the target %s was changed: %s", t, what)
	} else if len(old.recipe) == 0 && len(added) > 0 && !was.phony[t] && len(old.prereqs) == 0 {
		l.add("check-target", file, now.at, "the target %s is given a recipe", t)
	}
}

// wordier reports whether each line of a recipe is as before or has words besides.
func wordier(before, after []line) bool {
	if len(before) != len(after) {
		return false
	}
	for i, x := range before {
		var a, b []line
		for w := range strings.FieldsSeq(x.text) {
			a = append(a, line{text: w})
		}
		for w := range strings.FieldsSeq(after[i].text) {
			b = append(b, line{text: w})
		}
		if added, ok := within(a, b); !ok || len(added) > 0 && a[0].text != b[0].text || strings.ContainsAny(text(added), ";|&#") {
			return false
		}
	}
	return true
}

// steps reports whether a command has all steps that another one has, each with all of its words.
func steps(old, now string) bool {
	var list []line
	for s := range strings.SplitSeq(now, "&&") {
		list = append(list, line{text: strings.TrimSpace(s)})
	}
	for s := range strings.SplitSeq(old, "&&") {
		step := []line{{text: strings.TrimSpace(strings.ReplaceAll(s, " --bail", ""))}}
		if !slices.ContainsFunc(list, func(x line) bool { return x.text == step[0].text || wordier(step, []line{x}) }) {
			return false
		}
	}
	return true
}

// packageSettings are the members of a package.json that set how checks run.
var packageSettings = []string{"jest", "vitest", "mocha", "ava", "nyc", "c8", "tap", "eslintConfig", "babel"}

// pack compares a package.json: scripts that the checks run, settings of runners, their versions.
func (l *look) pack(c Change) {
	if path.Base(c.Path) != "package.json" || c.Before == nil || c.After == nil {
		return
	}
	was, is := readPackage(c.Before.Data), readPackage(c.After.Data)
	for _, name := range l.checks.packages[c.Path] {
		old, now := was.Scripts[name], is.Scripts[name]
		switch {
		case old == now:
		case now == "" && old != "":
			l.add("check-target", c.Path, 0, "the script %s was removed", name)
		case ignored(now) && !ignored(old), narrows.MatchString(now) && !narrows.MatchString(old):
			l.milder(c.Path, []line{{text: old}}, []line{{text: now}})
		case old != "" && !steps(old, now):
			l.add("check-target", c.Path, 0, "the script %s was changed from `%s` to `%s`", name, short(old), short(now))
		}
	}
	for _, name := range packageSettings {
		l.compareSettings(c.Path+": "+name, c.Path, "runner", pretty(was.All[name]), pretty(is.All[name]), was.All[name] != nil)
	}
	old, now := was.dependencies(), is.dependencies()
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if v, ok := now[name]; runnerName.MatchString(name) && ok && v != old[name] {
			l.version(c.Path, 0, name, old[name], v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, ok := old[name]; !ok && runnerName.MatchString(name) && local.MatchString(now[name]) {
			l.version(c.Path, 0, name, "", now[name])
		}
	}
}

var local = lazyregexp.New(`(?:^|\s|["'=@])(?:file:|link:|portal:|workspace:\./|git[+:]|https?:|npm:|\.{1,2}/|-e\s)|path\s*[:=>]`)

// version tells of another version of a runner; one that comes from somewhere else is another runner.
func (l *look) version(p string, n int, name, was, is string) {
	if local.MatchString(is) && !local.MatchString(was) {
		l.add("runner", p, n, "%s comes from %s now", name, short(is))
	} else {
		l.add("runner-version", p, n, "%s was %s and is %s", name, short(was), short(is))
	}
}

// pretty gives the lines of a JSON value, one member a line.
func pretty(raw json.RawMessage) []line {
	if raw == nil {
		return nil
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return nil
	}
	lines := split(&Version{Data: b})
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
	for _, x := range minus(split(c.After), split(c.Before)) {
		if !c.Hidden && secret.MatchString(x.text) {
			l.add("secret", c.Path, x.n, "it looks like a secret, and would be committed")
		}
	}
	lang := languageOf(c.Path)
	if lang == nil || strings.HasPrefix(c.Path, "vendor/") {
		return
	}
	test := isTest(c.Path) || path.Base(c.Path) == "conftest.py" || path.Base(c.Path) == "spec_helper.rb"
	before, after := split(c.Before), split(c.After)
	quiet, firstQuiet := 0, line{}
	for i, x := range after {
		if i > 0 && x.text == "return True" && strings.HasPrefix(after[i-1].text, "def __eq__(") && len(minus(after[i-1:i+1], before)) > 0 {
			l.add("forced-pass", c.Path, after[i-1].n, "an object is equal to everything")
		}
	}
	for _, x := range minus(after, before) {
		if quieted.MatchString(x.text) {
			if quiet++; quiet == 1 {
				firstQuiet = x
			}
		}
		if isComment(lang, x.text) {
			continue
		}
		switch {
		case forced.MatchString(x.text) || test && forcedInTest.MatchString(x.text) && !(lang.comment == "//" && strings.HasSuffix(c.Path, ".go") && strings.Contains(x.text, "m.Run()")):
			l.add("forced-pass", c.Path, x.n, "the result of the tests is overridden: %s", short(x.text))
		case hooks.MatchString(x.text):
			l.add("test-excluded", c.Path, x.n, "the runner gets a list of tests: %s", short(x.text))
		case !test && knows.MatchString(x.text):
			l.add("knows-tests", c.Path, x.n, "the code detects that it is tested: %s", short(x.text))
		}
	}
	if quiet > 0 {
		l.add("linter-off", c.Path, firstQuiet.n, "%s more that a linter, type checker or coverage skips: %s", plural(quiet, "place"), short(firstQuiet.text))
	}
	l.testMain(c, after)
}

// secret are keys and tokens that tell what they are.
var secret = lazyregexp.New(`\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_\w{40}|\bglpat-[\w-]{20}|\bxox[abpr]-[\w-]{20}|\bsk-(?:ant-|proj-)?[\w-]{32}|\bAIza[\w-]{35}|-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----`)

var (
	forced       = lazyregexp.New(`^def pytest_(?:runtest_makereport|runtest_call|runtest_protocol|runtestloop|pyfunc_call|report_teststatus|sessionfinish|exception_interact)\b|\b(?:rep|report|outcome|result|r)\.outcome\s*=\s*["']passed|\bexitstatus\s*=\s*(?:0|ExitCode\.OK)|\bos\._exit\(0\)|\bpytest\.(?:main|exit)\s*=|\bunittest\.TestCase\.\w+\s*=|\bsys\.modules\[["'](?:pytest|unittest)|\b(?:globalThis|global|window)\.(?:expect|it|test|describe|assert)\s*=|\bjest\.(?:setTimeout\(0\)|retryTimes)|\bassert\.(?:ok|equal|strictEqual|deepEqual|deepStrictEqual)\s*=\s`)
	forcedInTest = lazyregexp.New(`\bprocess\.exit\((?:0?)\)|\bprocess\.exitCode\s*=\s*0|\bsys\.exit\((?:0?)\)|\bos\.Exit\(0\)|\bSystem\.exit\(0\)|\bprocess::exit\(0\)|^exit[ !]*\(?0?\)?;?$|\bat_exit\s*\{\s*exit!?\s*\(?0|\batexit\.register\(.*exit|\bEnvironment\.Exit\(0\)`)
	hooks        = lazyregexp.New(`^def pytest_(?:collection_modifyitems|ignore_collect|collect_file|itemcollected|deselected|pycollect_makeitem|generate_tests_only)\b|^collect_ignore(?:_glob)?\b|\bitems(?:\[:\]\s*=|\.clear\(\))|\bitem\.add_marker\(.*(?:skip|xfail)|^def load_tests\(|\bconfig\.filter_run_excluding\b|\bconfig\.filter_run\b`)
	knows        = lazyregexp.New(`\bPYTEST_CURRENT_TEST\b|["'](?:pytest|unittest|_pytest)["'] in sys\.modules|\btesting\.Testing\(\)|\bJEST_WORKER_ID\b|\bVITEST\b|NODE_ENV\W{1,8}test\b|\bcfg!\(test\)|flag\.Lookup\("test\.|HasSuffix\(os\.Args\[0\], ?"\.test|\bDESCARTES_\w+|\bRUST_TEST|typeof (?:jest|describe|it)\b|\binspect\.stack\(\)|\bruntime\.Caller\(.*_test|\bCARGO_(?:TARGET_TMPDIR|BIN_EXE)`)
	quieted      = lazyregexp.New(`//\s?nolint|#\s?noqa|eslint-disable|tslint:disable|@ts-(?:ignore|nocheck|expect-error)|#\s?type:\s?ignore|#!?\[allow\(|rubocop:disable|@SuppressWarnings|@Suppress\(|pylint:\s?disable|\bNOLINT|pragma:\s?no cover|(?:istanbul|c8|v8) ignore|phpcs:(?:ignore|disable)|@phpstan-ignore|@codeCoverageIgnore|LCOV_EXCL|#\s?nosec|#nosec|shellcheck disable|biome-ignore|pyright:\s?ignore|coverage:ignore|#pragma warning disable`)
)

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
			runs = runs || strings.Contains(y.text, ".Run()") || strings.Contains(y.text, "Main(m") || strings.Contains(y.text, "(m)") || strings.Contains(y.text, "(m,")
		}
		if !runs {
			l.add("forced-pass", c.Path, x.n, "TestMain does not run the tests")
		}
	}
}

// snapshots looks at expected output in files.
func (l *look) snapshots() {
	many := 0
	for _, c := range l.in.Changes {
		if !golden.MatchString(c.Path) || isTest(c.Path) || c.Before == nil {
			continue
		}
		if c.After == nil {
			if !l.keptElsewhere(c) {
				l.add("golden", c.Path, 0, "expected output or a fixture was deleted")
			}
			continue
		}
		before, after := split(c.Before), split(c.After)
		if lost := minus(before, after); len(lost) > 0 {
			many++
			l.add("golden", c.Path, lost[0].n, "%s of expected output or a fixture changed", plural(len(lost), "line"))
			if len(before) >= 5 && 2*len(lost) >= len(before) {
				l.add("snapshot", c.Path, 0, "rewritten: %d of %s", len(lost), plural(len(before), "line"))
			}
		}
	}
	if many >= 5 {
		l.add("snapshot", "", 0, "%d files with expected output were rewritten at once", many)
	}
}

func (l *look) keptElsewhere(c Change) bool {
	return slices.ContainsFunc(l.in.Changes, func(d Change) bool {
		return d.Before == nil && d.After != nil && string(d.After.Data) == string(c.Before.Data)
	})
}

var golden = lazyregexp.New(`\.snap$|(?:^|/)__snapshots__/|(?:^|/)(?:testdata|fixtures|goldens?|snapshots|expected|__fixtures__|test-fixtures|cassettes)/|\.(?:golden|expected|approved)(?:\.\w+)?$`)

// kind is what a file sets, "" for nothing that is known.
type kind string

// kinds of files by their paths. The first that matches holds.
var kinds = []struct {
	kind
	paths *lazyregexp.Regexp
}{
	{"descartes", lazyregexp.New(`^descartes\.ya?ml$`)},
	{"ci", lazyregexp.New(`^\.github/(?:workflows|actions)/|^\.gitlab-ci\.ya?ml$|^\.gitlab/ci/|^\.circleci/|^(?:.*/)?Jenkinsfile$|^azure-pipelines.*\.ya?ml$|^\.azure-pipelines/|^\.travis\.ya?ml$|^\.buildkite/|^\.drone\.ya?ml$|^bitbucket-pipelines\.ya?ml$|^\.?appveyor\.ya?ml$|^\.cirrus\.ya?ml$|^\.woodpecker|^\.forgejo/workflows/|^\.gitea/workflows/|^cloudbuild\.ya?ml$`)},
	{"runner", lazyregexp.New(`(?:^|/)(?:\.?pytest\.ini|\.?pytest\.toml|tox\.ini|tox\.toml|noxfile\.py|Rakefile|conftest\.py|\.coveragerc|jest\.(?:config|setup|preset)[^/]*|vitest\.(?:config|workspace|setup)[^/]*|\.mocharc[^/]*|mocha\.opts|karma\.conf[^/]*|cypress\.(?:config|json)[^/]*|playwright\.config[^/]*|ava\.config[^/]*|\.nycrc[^/]*|\.c8rc[^/]*|nyc\.config[^/]*|\.?codecov\.ya?ml|\.rspec|spec_helper\.rb|rails_helper\.rb|test_helper\.rb|\.simplecov|phpunit\.xml(?:\.dist)?|\.?nextest\.toml|\.config/nextest\.toml|[^/]*\.runsettings|web-test-runner\.config[^/]*|\.taprc|junit-platform\.properties|stryker\.conf[^/]*|Taskfile\.ya?ml)$|^\.config/nextest\.toml$`)},
	{"linter", lazyregexp.New(`(?:^|/)(?:\.golangci\.(?:ya?ml|toml|json)|\.eslintrc[^/]*|eslint\.config\.[^/]*|\.eslintignore|\.?ruff\.toml|\.flake8|\.?pylintrc|\.?mypy\.ini|\.?clippy\.toml|\.?rustfmt\.toml|\.rubocop[^/]*\.yml|\.prettier[^/]*|biome\.jsonc?|tslint\.json|\.stylelintrc[^/]*|\.pre-commit-config\.yaml|phpstan\.neon(?:\.dist)?|phpcs\.xml(?:\.dist)?|\.shellcheckrc|pyrightconfig\.json|tsconfig[^/]*\.json|detekt\.yml|\.editorconfig|checkstyle\.xml|\.clang-tidy|deny\.toml|\.yamllint|staticcheck\.conf)$|^\.(?:husky|githooks)/`)},
	{"manifest", lazyregexp.New(`(?:^|/)(?:pyproject\.toml|setup\.cfg|Cargo\.toml|go\.mod|go\.work|Gemfile|[^/]*requirements[^/]*\.(?:txt|in)|requirements/[^/]*\.(?:txt|in)|composer\.json|build\.gradle(?:\.kts)?|pom\.xml|[^/]*\.csproj|Directory\.Build\.(?:props|targets)|mix\.exs|Package\.swift|CMakeLists\.txt|Pipfile|BUILD(?:\.bazel)?)$`)},
	{"environment", lazyregexp.New(`(?:^|/)(?:\.envrc|\.env(?:\.test)?|\.npmrc|\.yarnrc(?:\.yml)?|\.pnpmfile\.cjs|go\.env|\.bazelrc|gradle\.properties|\.tool-versions|\.?mise\.toml|\.python-version|\.nvmrc|\.node-version|\.ruby-version|\.bashrc|\.profile|\.bash_env|pip\.conf|bunfig\.toml|rust-toolchain(?:\.toml)?)$|(?:^|/)\.cargo/config(?:\.toml)?$|(?:^|/)\.mvn/(?:maven|jvm)\.config$|(?:^|/)\.bundle/config$`)},
}

func kindOf(p string) kind {
	for _, k := range kinds {
		if k.paths.MatchString(p) {
			return k.kind
		}
	}
	return ""
}

// loaded sets what programs are run, or what they are given.
var loaded = lazyregexp.New(`(?i)\bPATH(?:_add)?\b|\bGOFLAGS\b|script-shell|\brunner\s*=|rustc-wrapper|rustc-workspace-wrapper|\blinker\s*=|^rustc\s*=|^rustflags.*cfg|PYTEST_ADDOPTS|PYTEST_PLUGINS|NODE_OPTIONS|PYTHONPATH|PYTHONSTARTUP|LD_PRELOAD|BASH_ENV|\bENV=|MAKEFLAGS|JEST_|RUBYOPT|PERL5OPT|JAVA_TOOL_OPTIONS|-DskipTests|maven\.test\.skip|^\[alias\]|^test\s*=|preload|GOTOOLCHAIN|yarnPath|^prefix\s*=|skip[_-]?tests`)

// settings looks at files that set how checks are run.
func (l *look) settings(c Change) {
	k := kindOf(c.Path)
	if k == "" || l.checks.scripts[c.Path] != "" {
		return
	}
	before, after := plain(split(c.Before)), plain(split(c.After))
	switch k {
	case "descartes":
		if c.Before != nil {
			l.add("protected", c.Path, 0, "it defines the checks, and was %s", or(c.After == nil, "deleted", "changed"))
		}
		return
	case "environment":
		l.environment(c, before, after)
		return
	case "manifest":
		l.manifest(c, before, after)
		return
	case "ci":
		if c.After == nil {
			l.add("ci", c.Path, 0, "the configuration was deleted")
			return
		}
	default:
		if c.After == nil {
			if !l.keptElsewhere(c) {
				l.add("check-config", c.Path, 0, "the settings were deleted")
				l.thresholds(c.Path, before, nil)
			}
			return
		}
	}
	l.compareSettings(c.Path, c.Path, k, before, after, c.Before != nil)
}

// plain are the lines without comments.
func plain(list []line) []line {
	return slices.DeleteFunc(list, func(x line) bool {
		return strings.HasPrefix(x.text, "#") && !strings.HasPrefix(x.text, "#!") || strings.HasPrefix(x.text, "//") || strings.HasPrefix(x.text, "; ") || strings.HasPrefix(x.text, "<!--")
	})
}

// linterOff makes a linter quiet.
var linterOff = lazyregexp.New(`(?i)\b(?:disable(?:-all|d)?|ignore[sd]?|exclude[sd]?|extend-ignore|extend-exclude|per-file-ignores|skip[\w-]*|allow|enabled\s*:\s*false|ignorePatterns|exclusions?|exclude-rules|exclude-(?:files|dirs)|ignore_errors|ignore_missing_imports)\b|["']?off["']?\s*[\],}]*$|:\s*0,?$|\bstrict["']?\s*[:=]\s*false|\bskipLibCheck["']?\s*:\s*true|\bnoEmitOnError["']?\s*:\s*false|\bcheckJs["']?\s*:\s*false|\b(?:no|strict)\w+["']?\s*:\s*false`)

// compareSettings compares the settings of a runner, a linter or CI.
func (l *look) compareSettings(title, p string, k kind, before, after []line, there bool) {
	gained, lost := minus(after, before), minus(before, after)
	if len(gained) == 0 && len(lost) == 0 {
		return
	}
	lost = slices.DeleteFunc(lost, func(x line) bool { // another version, and nothing else
		return slices.ContainsFunc(gained, func(y line) bool { return x.text != y.text && pinned(x.text) == pinned(y.text) }) && !threshold.MatchString(x.text)
	})
	if k == "linter" {
		for _, x := range gained {
			if linterOff.MatchString(x.text) && there {
				l.add("linter-off", p, x.n, "a linter's settings now say: %s", short(x.text))
				return
			}
		}
		l.thresholds(p, before, after)
		if len(lost) > 0 {
			l.add("check-config", p, lost[0].n, "settings of a linter were changed: %s", short(lost[0].text))
		}
		return
	}
	if l.milder(p, before, after) {
		return
	}
	if k == "runner" {
		for _, x := range gained {
			switch {
			case excludeKeys.MatchString(x.text) && (there || strings.HasPrefix(x.text, "collect_ignore")):
				l.add("test-excluded", p, x.n, "tests are left out: %s", short(x.text))
				return
			case excludeKeys.MatchString(x.text) || wideKeys.MatchString(x.text) && there:
				l.add("check-config", p, x.n, "%s decides which tests run: %s", title, short(x.text))
				return
			}
		}
		raised := map[string]bool{}
		for _, x := range gained {
			raised[mask(x.text)] = threshold.MatchString(x.text)
		}
		lost = slices.DeleteFunc(lost, func(x line) bool { return raised[mask(x.text)] })
		if len(lost) > 0 && !strings.HasSuffix(p, "conftest.py") {
			l.add("check-config", p, lost[0].n, "settings of the checks were changed: %s", short(lost[0].text))
		}
		return
	}
	if len(lost) > 0 {
		l.add("ci", p, lost[0].n, "a line of the configuration was changed or removed: %s", short(lost[0].text))
	}
}

var pins = lazyregexp.New(`@[\w./-]+(?:\s+#.*)?$|\bv?\d+(?:\.[\dx]+)*\b`)

// pinned is a line without the versions in it.
func pinned(s string) string { return pins.ReplaceAllString(s, "@") }

func (l *look) environment(c Change, before, after []line) {
	for _, x := range minus(after, before) {
		if loaded.MatchString(x.text) {
			l.add("shadow", c.Path, x.n, "it sets what the checks' tools run: %s", short(x.text))
			return
		}
	}
	if changed := append(minus(before, after), minus(after, before)...); len(changed) > 0 && c.Before != nil {
		l.add("environment", c.Path, changed[0].n, "changed: %s", short(changed[0].text))
	}
}

var (
	section        = lazyregexp.New(`^\[\[?\s*([^\]]+?)\s*\]\]?`)
	runnerSection  = lazyregexp.New(`^(?:tool[.:])?(?:pytest|tox|coverage|testenv|nox|hatch\.envs|pdm\.scripts|poe|taskipy|unittest)|^tool:pytest|^(?:lib|bin|test|bench|profile\.test)$|^metadata\.nextest|^tool\.cargo-nextest`)
	linterSection  = lazyregexp.New(`^(?:tool[.:])?(?:ruff|mypy|flake8|pylint|black|isort|bandit|pyright|pydocstyle|pycodestyle)|^(?:workspace\.)?lints`)
	testDependency = lazyregexp.New(`^["']?(?:gem\s+["'])?([\w./@-]+)["']?\s*(.*)$`)
	goReplace      = lazyregexp.New(`^(?:replace\s+)?(\S*(?:testify|gomega|ginkgo|go-cmp|quicktest|check\.v1|gotest\.tools)\S*)\s.*=>`)
	buildTest      = lazyregexp.New(`\bexcludeTestsMatching\b|\bfilter\s*\{|\benabled\s*=\s*false|\bonlyIf\b|\buseJUnit\w*\b.*exclude|<exclude>[^<]*(?:Tests?|IT|Spec)\b|<groups>|<excludedGroups>|\bset_tests_properties\(.*(?:WILL_FAIL|DISABLED)|\bWILL_FAIL\b|<IsTestProject>\s*false`)
)

// manifest looks at those parts of a project's manifest that are about the checks.
func (l *look) manifest(c Change, before, after []line) {
	if c.After == nil {
		return
	}
	sections := func(list []line, re *lazyregexp.Regexp) (out []line) {
		in := false
		for _, x := range list {
			if m := section.FindStringSubmatch(x.text); m != nil && x.indent == 0 {
				in = re.MatchString(m[1])
			} else if in {
				out = append(out, x)
			}
		}
		return out
	}
	there := c.Before != nil
	l.compareSettings(c.Path, c.Path, "runner", sections(before, runnerSection), sections(after, runnerSection), there)
	l.compareSettings(c.Path, c.Path, "linter", sections(before, linterSection), sections(after, linterSection), there)
	if !there {
		return
	}
	was := map[string]string{}
	for _, x := range before {
		if m := testDependency.FindStringSubmatch(x.text); m != nil && runnerName.MatchString(m[1]) {
			was[m[1]] = m[2]
		}
	}
	for _, x := range minus(after, before) {
		if m := testDependency.FindStringSubmatch(x.text); m != nil && runnerName.MatchString(m[1]) {
			if old, ok := was[m[1]]; ok || local.MatchString(m[2]) {
				l.version(c.Path, x.n, m[1], old, m[2])
			}
		}
		switch {
		case goReplace.MatchString(x.text):
			l.add("runner", c.Path, x.n, "a library of the tests is replaced: %s", short(x.text))
		case ignored(x.text):
			l.add("always-passes", c.Path, x.n, "a failure is ignored: %s", short(x.text))
		case buildTest.MatchString(x.text):
			l.add("test-excluded", c.Path, x.n, "tests are left out: %s", short(x.text))
		}
	}
	if strings.HasSuffix(c.Path, ".gradle") || strings.HasSuffix(c.Path, ".kts") || strings.HasSuffix(c.Path, "pom.xml") || strings.HasSuffix(c.Path, ".csproj") {
		l.thresholds(c.Path, before, after)
	}
}
