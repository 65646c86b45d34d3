package judge

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
)

// Kind is what a file of a project is to its checks.
type Kind string

// The kinds.
const (
	Code     Kind = "code"
	Test     Kind = "test"     // a file of tests
	Helper   Kind = "helper"   // what tests import, and what the runner loads before them
	Data     Kind = "data"     // fixtures, snapshots, expected output
	Settings Kind = "settings" // of runners, linters and type checkers
	Script   Kind = "script"   // that checks run
	Tool     Kind = "tool"     // it has the name of a program or a module that checks are made with
	Build    Kind = "build"    // it builds as well as judges
	CI       Kind = "ci"
	Doc      Kind = "doc"
)

// kinds is the table: the first row whose pattern a path matches says what the file is.
var kinds = []struct {
	Kind
	path *lazyregexp.Regexp
}{
	{Tool, lazyregexp.New(`(?:^|/)(?:go|gofmt|pytest|py\.test|python[\d.]*|npm|npx|yarn|pnpm|node|g?make|cargo|rustc|ruby|rspec|rake|bundle|java|mvn|gradle|(?:ba|da)?sh|env|test|true|false|\[|e?grep|diff|cmp|cat|sed|awk|jest|mocha|vitest|tsc|eslint|tox|dotnet|php|phpunit|ctest|cmake|bats|just|mypy|ruff|flake8)$`)},
	{Tool, lazyregexp.New(`^(?:src/|lib/|tests?/)?(?:_?pytest|unittest|doctest|pluggy|coverage|tox)(?:\.py|/__init__\.py)$`)},
	{CI, lazyregexp.New(`^(?:\.github/(?:workflows|actions)/|\.gitlab-ci\.ya?ml$|\.circleci/|\.travis\.ya?ml$|azure-pipelines.*\.ya?ml$|\.ci/|\.buildkite/|\.drone\.ya?ml$|bitbucket-pipelines\.ya?ml$|\.(?:forgejo|gitea)/workflows/)|(?:^|/)Jenkinsfile$`)},
	{Helper, lazyregexp.New(`(?:^|/)(?:conftest\.py|sitecustomize\.py|usercustomize\.py|[^/]*\.pth|(?:spec|rails|test)_helper\.rb|(?:jest|vitest)\.setup[^/]*|setup[_-]?tests?\.[cm]?[jt]sx?)$|(?:^|/)(?:testutils?|test_helpers?|__mocks__)/`)},
	{Data, lazyregexp.New(`(?:^|/)(?:testdata|fixtures|__fixtures__|goldens?|__snapshots__|snapshots|cassettes)/|\.(?:snap|golden|approved|expected)(?:\.\w+)?$`)},
	{Build, lazyregexp.New(`(?:^|/)(?:package\.json|pyproject\.toml|setup\.(?:py|cfg)|Cargo\.toml|go\.(?:mod|work)|(?:GNUm|[Mm])akefile|[^/]*\.mk|CMakeLists\.txt|[Jj]ustfile|Taskfile\.ya?ml|Rakefile|build\.gradle(?:\.kts)?|pom\.xml|(?:vite|babel)\.config\.[^/]+|\.babelrc[^/]*|tsconfig[^/]*\.json|\.npmrc|\.yarnrc[^/]*|\.envrc|\.env)$|(?:^|/)\.cargo/`)},
	{Settings, lazyregexp.New(`(?:^|/)(?:\.?pytest\.(?:ini|toml)|tox\.(?:ini|toml)|noxfile\.py|\.coveragerc|(?:vitest|jest|karma|cypress|playwright|ava|nyc|stryker)\.(?:config|conf|workspace|preset)[^/]*|\.mocharc[^/]*|mocha\.opts|\.nycrc[^/]*|\.c8rc[^/]*|\.taprc|\.rspec|phpunit\.xml[^/]*|\.?nextest\.toml|\.golangci\.[^/]+|\.eslintrc[^/]*|eslint\.config\.[^/]+|\.eslintignore|\.flake8|\.?pylintrc|\.?mypy\.ini|\.?ruff\.toml|\.?clippy\.toml|\.rubocop[^/]*\.yml|biome\.jsonc?|\.pre-commit-config\.yaml|lefthook\.ya?ml|pyrightconfig\.json|\.gitattributes|descartes\.ya?ml)$|(?:^|/)(?:\.husky|\.githooks)/`)},
	{Test, lazyregexp.New(`_test\.go$|(?:^|/)test_[^/]*\.\w+$|[._-](?:test|spec)\.[cm]?[jt]sx?$|_(?:tests?|spec)\.(?:py|rb|rs|exs?|sh|c|cc|cpp)$|\.bats$|(?:^|/)tests?\.(?:py|sh|[cm]?js|ts|c)$|(?:Tests?|Spec|IT)\.(?:java|kt|cs|swift|scala)$`)},
	{Test, lazyregexp.New(`(?i)(?:^|/)(?:tests?|specs?|__tests__|e2e)/.*\.(?:py|[cm]?[jt]sx?|rb|rs|go|sh|c|cc|cpp|java|kt|php|exs?|pl|t)$`)},
	{Data, lazyregexp.New(`(?i)(?:^|/)(?:tests?|specs?|__tests__|e2e)/`)},
	{Doc, lazyregexp.New(`\.(?:md|rst|adoc)$|(?:^|/)(?:README|LICENSE|CHANGELOG|NEWS|AUTHORS)[^/]*$|^docs?/`)},
	{Script, lazyregexp.New(`(?:^|/)(?:scripts?|ci|hack|tools)/|(?:^|/)(?:run-?tests?|check|verify|cover(?:age)?|test|lint)[^/]*\.(?:sh|py|js)$`)},
}

// runs finds what a command runs: its first word, or what an interpreter gets.
var runs = lazyregexp.New(
	`(?:^|[\n;&|({])\s*(?:(?:if|then|do|else|elif|while|until|!|exec|time|env)\s+)*(?:\w+=\S*\s+)*(?:(?:(?:ba|da|z|k)?sh|source|\.|python[\d.]*|node|ruby|perl|php|awk -f|make -f)\s+(?:-\w+\s+)*)?["']?(?:\./)?([^\s"';&|()]+)`)

// Of says what a file is to the checks with these commands: one that a command runs judges, whatever its name.
func Of(path string, commands []string) Kind {
	for _, k := range kinds {
		if k.path.MatchString(path) {
			return k.Kind
		}
	}
	for _, c := range commands {
		for _, m := range runs.FindAllStringSubmatch(c, -1) {
			if m[1] == path {
				return Script
			}
		}
	}
	return Code
}

// judges reports whether a file of that kind is put back to see what the old one says. One that builds as well is put
// back in a run of its own.
func (k Kind) judges() bool {
	return k == Test || k == Helper || k == Data || k == Settings || k == Script || k == Tool
}

// Parts of files that build as well as judge and that say nothing about how checks run.
var (
	dependencies = []string{"dependencies", "devDependencies", "peerDependencies", "optionalDependencies", "version",
		"description", "license", "author", "repository", "keywords", "homepage", "bugs", "exports", "main", "module",
		"types", "bin", "files", "name"}
	tomlSection = lazyregexp.New(`(?m)^\[`)
	tomlOthers  = lazyregexp.New(`^\[+(?:project(?:\.[\w.-]+)?|.*dependencies.*|build-system|package|workspace)\]`)
)

// sameChecks reports whether two versions of a file that builds as well as judges run the same checks.
func sameChecks(path string, a, b []byte) bool {
	switch name := path[strings.LastIndexByte(path, '/')+1:]; {
	case name == "go.mod":
		return true
	case name == "package.json":
		var x, y map[string]any
		if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
			return false
		}
		for _, m := range []map[string]any{x, y} {
			maps.DeleteFunc(m, func(k string, _ any) bool { return slices.Contains(dependencies, k) })
		}
		return reflect.DeepEqual(x, y)
	case strings.HasSuffix(name, ".toml"):
		return checksOf(string(a)) == checksOf(string(b))
	}
	return false
}

// checksOf are the sections of a TOML file that may say how checks run.
func checksOf(text string) string {
	var b strings.Builder
	last := 0
	for _, at := range append(tomlSection.FindAllStringIndex(text, -1), []int{len(text), 0}) {
		if part := text[last:at[0]]; !tomlOthers.MatchString(part) {
			b.WriteString(strings.TrimSpace(part) + "\n")
		}
		last = at[0]
	}
	return b.String()
}

// What asks for a change of tests in a task's own words.
var (
	sentence  = lazyregexp.New(`[.;!?\n]+`)
	testVerbs = lazyregexp.New(`(?i)\b(?:delet|remov|renam|mov|skip)(?:e|es|ing|s)?\b`)
	testNoun  = lazyregexp.New(`(?i)\btests?\b`)
)

// Asks reports whether the title of a task, or the subject of a commit, asks that tests go, are renamed, moved or
// skipped: then what would be refused is named.
func Asks(title string) bool {
	return slices.ContainsFunc(sentence.Split(title, -1), func(s string) bool {
		return testVerbs.MatchString(s) && testNoun.MatchString(s)
	})
}
