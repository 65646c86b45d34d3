package judge

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
)

// Level says what a finding does to an attempt.
type Level string

// The levels, mildest first.
const (
	Off  Level = "off"
	Warn Level = "warn" // it is named
	Ask  Level = "ask"  // a person decides
	Fail Level = "fail"
)

// rank orders levels.
func (l Level) rank() int { return slices.Index([]Level{Off, Warn, Ask, Fail}, l) }

// All names every rule that says that the checks got weaker, in settings and in what a task allows.
const All = "all"

// Rule is a row of the table.
type Rule struct {
	Name  string
	Group string // tests, checks, ci, secrets, or work
	Level Level  // unless the settings say otherwise
	Finds string // for people
}

// Rules lists the rules.
func Rules() []Rule {
	return []Rule{
		{"stays-red", "tests", Fail, "with the tests as they were, more of those that failed still fail than pass now"},
		{"fewer", "tests", Fail, "fewer tests run, and no code is gone"},
		{"must-fail", "tests", Fail, "a test that must fail passes beside the others, or a check with nothing left to check"},
		{"protected", "checks", Fail, "a protected path was changed, or `descartes.yaml`"},
		{"old-fails", "tests", Warn, "with the tests as they were, some fail that passed, or they cannot be built"},
		{"lost", "tests", Warn, "tests went with their code, or have other names"},
		{"skipped", "tests", Warn, "a test is skipped"},
		{"assertions", "tests", Warn, "a file of tests asserts less"},
		{"changed", "tests", Warn, "an old test was changed, and the old one fails"},
		{"expected", "tests", Warn, "a fixture, a snapshot or expected output was changed"},
		{"expected-values", "tests", Warn, "new code has values that old tests expect"},
		{"knows-tests", "tests", Warn, "code can tell that it is tested"},
		{"reaches-tests", "tests", Warn, "code can reach into the tests, or end them"},
		{"settings", "checks", Warn, "settings of a runner, a script of the checks or a build file was changed"},
		{"silenced", "checks", Warn, "a linter or type checker was silenced"},
		{"installed", "checks", Warn, "installed tools of the checks, which git ignores, were changed"},
		{"ci", "ci", Warn, "the configuration of CI was changed"},
		{"secret", "secrets", Warn, "a key or token would be committed"},
		{"stub", "work", Warn, "code was added that says it is not implemented"},
		{"no-proof", "work", Warn, "tests were added, none turned green, and all of them pass without the work, too"},
		{"nothing", "work", Warn, "only documentation, comments, white space or tests were changed"},
	}
}

// Groups lists the groups of the rules.
func Groups() []string { return []string{"tests", "checks", "ci", "secrets", "work"} }

// Names lists what settings and tasks may name: All, the groups, the rules.
func Names() []string {
	names := append([]string{All}, Groups()...)
	for _, r := range Rules() {
		names = append(names, r.Name)
	}
	return names
}

// Policy says what counts.
type Policy struct {
	// by rule, by group, or All; what is missing has its rule's default
	Levels map[string]Level
	Allow  []string // rules and groups that the task may set off
}

// Of is what a finding does. What a task may do is named.
func (s *Policy) Of(f Finding) Level {
	i := slices.IndexFunc(Rules(), func(r Rule) bool { return r.Name == f.Rule })
	if i < 0 {
		return Off // it is said elsewhere
	}
	r := Rules()[i]
	most, names := Fail, []string{r.Name, r.Group}
	if r.Group != "work" {
		names = append(names, All)
	}
	level := r.Level
	if r.Level == Fail && !f.Refuses {
		level, most = Warn, Warn
	}
	for _, name := range slices.Backward(names) {
		if l, ok := s.Levels[name]; ok {
			level = l
		}
		if slices.Contains(s.Allow, name) {
			most = Warn
		}
	}
	if level.rank() > most.rank() {
		level = most
	}
	return level
}

// Permit says what a person writes where to allow what is refused: in the task if there is one.
func Permit(list []Finding, task bool) string {
	groups, paths := map[string]bool{}, map[string]bool{}
	for _, f := range list {
		for _, r := range Rules() {
			if r.Name == f.Rule {
				groups[cmp.Or(r.Group, r.Name)] = true
			}
		}
		if f.Path != "" && f.Rule == "protected" {
			paths["\"!"+f.Path+"\""] = true
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

// Texts that tell what they are: keys and tokens, and code that is still to be written.
var (
	secret = lazyregexp.New(
		`\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_\w{40}|\bglpat-[\w-]{20}|\bxox[abpr]-[\w-]{20}|\bsk-(?:ant-|proj-)?[\w-]{32}|\bAIza[\w-]{35}|-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----`)
	stub = lazyregexp.New(
		`(?i)\b(?:panic|todo|unimplemented|\w*Exception|\w*Error|fail|errors\.New|Errorf)!?\(["'\x60]?(?:todo|not (?:yet )?implemented|unimplemented|implement me)\b|\b(?:todo|unimplemented)!\(`)
)
