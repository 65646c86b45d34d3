// Package guard finds what a change did to the checks that judge it: tests deleted, skipped or emptied, the checks'
// own scripts and settings made weaker, their tools replaced. It reads two versions of files and runs nothing.
package guard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"descartes/internal/lockfile"
)

// MaxFile is how many bytes of a file are read; of a longer one only the path counts.
const MaxFile = 1 << 20

// Kind is the kind of thing at a path.
type Kind byte

// The kinds, apart from folders.
const (
	Plain Kind = iota
	Executable
	Link
	Module // a submodule
)

// Version is a file before or after a change.
type Version struct {
	Kind Kind
	Data []byte // of a link its target; nil where it is longer than MaxFile
	Long bool   // longer than MaxFile
}

// Change is one file that differs. Nil: the file does not exist.
type Change struct {
	Path          string // with slashes, from the top of the repository
	Before, After *Version
	Hidden        bool // git ignores it since the change: it is new, and in no commit
}

// Level says what a finding does to an attempt.
type Level string

// The levels, mildest first.
const (
	Off  Level = "off"
	Warn Level = "warn" // it is reported
	Ask  Level = "ask"  // a person decides
	Fail Level = "fail"
)

// rank orders levels.
func (l Level) rank() int { return slices.Index([]Level{Off, Warn, Ask, Fail}, l) }

// Input is what is looked at.
type Input struct {
	Changes  []Change
	Commands []string // of the checks
	// a file as it was before, whether it changed or not; false where there is none
	Base  func(path string) ([]byte, bool)
	There func(dir string) bool // whether a folder existed before
	Settings
}

// Settings say what counts.
type Settings struct {
	// by rule, by group, or All; what is missing has its rule's default
	Levels map[string]Level
	Allow  []string                                     // rules and groups that the task may set off
	Named  func(path string) (protected, excepted bool) // by the user; nil: nothing
}

// Finding is one thing that a change did to the checks.
type Finding struct {
	Rule  string `json:"rule"`
	Path  string `json:"path"`
	Line  int    `json:"line,omitempty"` // in the file after the change, or before it where the line is gone
	Text  string `json:"text"`           // what happened, for people
	Level Level  `json:"level"`
}

func (f Finding) String() string {
	at := f.Path
	if f.Line > 0 {
		at += fmt.Sprintf(":%d", f.Line)
	}
	return at + ": " + f.Text + " (" + f.Rule + ")"
}

// Permit says what a person writes where to allow what fails of these: in the task if there is one.
func Permit(list []Finding, task bool) string {
	groups, paths := map[string]bool{}, map[string]bool{}
	for _, f := range list {
		if f.Level != Fail {
			continue
		}
		groups[ruleOf(f.Rule).Group] = true
		if f.Path != "" {
			paths[fmt.Sprintf("%q", "!"+f.Path)] = true
		}
	}
	names := slices.Sorted(maps.Keys(groups))
	s := "guard: {" + strings.Join(names, ": warn, ") + ": warn} in descartes.yaml"
	if task {
		s = `"allow": ["` + strings.Join(names, `", "`) + `"] in the task`
	}
	if n := len(paths); n > 0 && n <= 3 {
		s += ", or protect: [" + strings.Join(slices.Sorted(maps.Keys(paths)), ", ") + "] in descartes.yaml"
	}
	return s
}

// Worst is the highest level among findings, Off where there are none.
func Worst(list []Finding) Level {
	worst := Off
	for _, f := range list {
		if f.Level.rank() > worst.rank() {
			worst = f.Level
		}
	}
	return worst
}

// All names every rule, in settings and in what a task allows.
const All = "all"

// Rule is a row of the table.
type Rule struct {
	Name  string
	Group string // tests, checks, ci or secrets
	Level Level  // unless the settings say otherwise
	Finds string // for people
}

// Rules lists the rules.
func Rules() []Rule {
	return []Rule{
		{"test-deleted", "tests", Fail, "a test file was deleted"},
		{"case-deleted", "tests", Fail, "a test was deleted from a file"},
		{"test-skipped", "tests", Fail, "a test that ran is skipped"},
		{"test-focused", "tests", Fail, "one test was marked so that the others do not run"},
		{"test-excluded", "tests", Fail, "tests are left out by a build tag, a setting or a hook of the runner"},
		{"assertion-removed", "tests", Fail, "a test asserts less"},
		{"assertion-weakened", "tests", Fail, "an assertion was replaced by one that cannot fail"},
		{"forced-pass", "tests", Fail, "the result of the tests is overridden"},
		{"check-script", "checks", Fail, "a script that a check runs was changed"},
		{"check-target", "checks", Fail, "a build target or package script that a check uses was changed"},
		{"always-passes", "checks", Fail, "a failure of a check is ignored"},
		{"threshold", "checks", Fail, "a threshold was lowered"},
		{"runner", "checks", Fail, "a tool or library of the checks was replaced"},
		{"shadow", "checks", Fail, "a file replaces a program or module that the checks use"},
		{"link", "checks", Fail, "a symbolic link replaced a file of the checks"},
		{"protected", "checks", Fail, "a protected path was changed"},
		{"too-long", "checks", Fail, "a changed file of the checks is too long to check, or one of too many"},
		{"check-config", "checks", Warn, "settings of the checks, or variables of their tools, were changed"},
		{"run-by-check", "checks", Warn, "a program of the project that a check runs may end as if it had passed"},
		{"linter-off", "checks", Warn, "a linter or type checker was silenced"},
		{"installed", "checks", Warn, "installed tools of the checks, which git ignores, were changed"},
		{"knows-tests", "tests", Warn, "code behaves differently under test"},
		{"stub", "tests", Ask, "code was added that says it is not implemented"},
		{"expected-changed", "tests", Warn, "what an existing test expects was changed, or a row of its table"},
		{"golden", "tests", Warn, "expected output, a snapshot or a fixture was changed"},
		{"removed-code", "tests", Warn, "a test was deleted together with the code that it tests"},
		{"new-skipped", "tests", Warn, "a new test is skipped"},
		{"secret", "secrets", Warn, "a key or token would be committed"},
		{"ci", "ci", Warn, "the configuration of CI was changed"},
	}
}

// Names lists what settings and tasks may name: All, the groups, the rules.
func Names() []string {
	seen := map[string]bool{}
	for _, r := range Rules() {
		seen[r.Name], seen[r.Group] = true, true
	}
	return append([]string{All}, slices.Sorted(maps.Keys(seen))...)
}

// level is what a rule's findings have.
func (s *Settings) level(r Rule) Level {
	for _, name := range []string{r.Name, r.Group, All} {
		if slices.Contains(s.Allow, name) {
			return Off
		}
	}
	for _, name := range []string{r.Name, r.Group, All} {
		if l, ok := s.Levels[name]; ok {
			return l
		}
	}
	return r.Level
}

// named says what the user's list says of a path.
func (s *Settings) named(path string) (protected, excepted bool) {
	if s.Named == nil {
		return false, false
	}
	return s.Named(path)
}

// perRule bounds the findings of one rule.
const perRule = 20

// Find looks at the changes. Findings are sorted, worst first. An error is the context's: what an agent wrote can take
// as long to look at as it likes.
func Find(ctx context.Context, in Input) ([]Finding, error) {
	l := newLook(ctx, &in)
	l.files()
	l.tests()
	return l.result(), ctx.Err()
}

// look is one run of Find.
type look struct {
	ctx     context.Context
	in      *Input
	checks  *checks
	found   []Finding
	removed map[string]bool      // what the changes took from the code: names of functions and types
	made    map[string][2]string // path to the target that makes it, for a check, and its makefile
}

// over reports whether the look has to end; what it found is not used then.
func (l *look) over() bool { return l.ctx.Err() != nil }

func newLook(ctx context.Context, in *Input) *look {
	if in.Base == nil {
		in.Base = func(string) ([]byte, bool) { return nil, false }
	}
	if in.There == nil {
		in.There = func(string) bool { return false }
	}
	in.Changes = slices.DeleteFunc(slices.Clone(in.Changes), func(c Change) bool {
		return ctx.Err() == nil && in.brought(c)
	})
	slices.SortFunc(in.Changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return &look{ctx: ctx, in: in, checks: follow(in.Commands, in.Base)}
}

func (l *look) add(rule, path string, line int, format string, args ...any) {
	l.found = append(l.found, Finding{Rule: rule, Path: path, Line: line, Text: fmt.Sprintf(format, args...)})
}

// result gives each finding its level and drops those that are off or excepted.
func (l *look) result() []Finding {
	count, seen := map[string]int{}, map[string]bool{}
	var out []Finding
	for _, f := range l.found {
		_, excepted := l.in.named(f.Path)
		key := fmt.Sprint(f.Rule, "\x00", f.Path, "\x00", f.Line)
		if f.Line == 0 {
			key += f.Text
		}
		if f.Level = l.in.LevelOf(f.Rule); f.Level == Off || excepted || seen[key] {
			continue
		}
		seen[key] = true
		if count[f.Rule]++; count[f.Rule] <= perRule {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, Compare)
	return out
}

// Compare orders findings: the worst first, then by path and line.
func Compare(a, b Finding) int {
	return cmp.Or(b.Level.rank()-a.Level.rank(), strings.Compare(a.Path, b.Path), a.Line-b.Line)
}

// LevelOf is the level for a rule's findings.
func (s *Settings) LevelOf(rule string) Level {
	return s.level(ruleOf(rule))
}

func ruleOf(name string) Rule {
	rules := Rules()
	return rules[slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })]
}

// Installs reports whether a file says which tools are installed.
func Installs(p string) bool {
	_, locks := lockfile.Of(p)
	return locks || path.Base(p) == "package.json" || kindOf(p) == "manifest"
}

// line is one line of a file.
type line struct {
	n      int
	text   string // without the white space around it
	indent int
}

// split gives the lines of a file that are not blank.
func split(v *Version) (out []line) {
	if v == nil || v.Kind == Link || v.Kind == Module {
		return nil
	}
	n := 0
	for s := range strings.Lines(string(v.Data)) {
		n++
		s = strings.TrimRight(s, " \t\r\n")
		text := strings.TrimLeft(s, " \t")
		if text == "" {
			continue
		}
		indent := 0
		for _, c := range s[:len(s)-len(text)] {
			if indent++; c == '\t' {
				indent += 3
			}
		}
		out = append(out, line{n, text, indent})
	}
	return out
}

// minus gives the lines of a that b does not have, each as often as it is missing.
func minus(a, b []line) (out []line) {
	have := map[string]int{}
	for _, x := range b {
		have[x.text]++
	}
	for _, x := range a {
		if have[x.text]--; have[x.text] < 0 {
			out = append(out, x)
		}
	}
	return out
}

// within reports whether b has all lines of a in their order, and gives those that it has besides.
func within(a, b []line) (added []line, ok bool) {
	for _, x := range b {
		if len(a) > 0 && a[0].text == x.text {
			a = a[1:]
		} else {
			added = append(added, x)
		}
	}
	return added, len(a) == 0
}

// short cuts a text for a finding.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 100 {
		return string(r[:97]) + "..."
	}
	return s
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
