package judge

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/verify"
)

// Texts that a reader should see where code gained them.
var (
	silences = lazyregexp.New(
		`//\s?nolint|#\s?noqa|eslint-disable|@ts-(?:ignore|nocheck|expect-error)|\bas any\b|#\s?type:\s?ignore|#!?\[allow\(|@SuppressWarnings|pylint:\s?disable|\bNOLINT|pragma:\s?no cover|(?:istanbul|c8|v8) ignore|phpcs:(?:ignore|disable)|rubocop:disable|#nosec|biome-ignore|pyright:\s?ignore`)
	knows = lazyregexp.New(
		`PYTEST_|in sys\.modules|JEST_WORKER_ID|os\.Executable|current_exe|npm_lifecycle|/proc/self|thread::current\(\)\.name|debug\.Stack|traceback\.|Error\(\)\.stack|BATS_|\bMOCHA|require\.main|(?:argv|environ|\benv\b|getenv|stack|__main__).*(?i:\btest|pytest|unittest|\bspec\b|mocha|jest|\bCI\b)|\bVITEST\b|NODE_ENV|import\.meta\.env|cfg!?\(\s*(?:test|debug_assertions)|cfg\(not\((?:test|debug_assertions)\)|testing\.Testing\(\)|os\.Args\[0\]|DESCARTES_|sys\._getframe|inspect\.(?:stack|currentframe)|runtime\.Caller|flag\.Lookup`)
	ends = lazyregexp.New(
		`os\._exit|atexit|syscall\.Exit|os\.Exit\(0\)|process\.(?:reallyExit|exitCode|exit\(\))|process::exit\(0\)|\b_?[eE]xit\(0\)|go:linkname|gc\.get_|sys\.set(?:trace|profile)|builtins\.|globalThis\.|asymmetricMatch|require\.cache|\bModule\._|Object\.is\s*=|macro_rules!\s*(?:assert|panic)|define\s+assert|ReadDir\("\.|listdir\(["'.]*\)|dirname\((?:os\.path\.)?dirname\(|parent\.parent|readdirSync\(["'.]|_test\.go|\.(?:test|spec)\.|["'/]test_|trap\b.*\bexit\b|sys\.exit\(0\)|process\.exit\(0\)|perf_counter\s*=|time\.time\s*=|def __eq__|__eq__\s*=|impl\s+PartialEq|unittest\.TestCase|require\(['"](?:node:)?assert['"]\)|\bassert\.\w+\s*=[^=]|testMethodPrefix|(?:import|from) (?:unittest|pytest|mock)\b|\beq\(\)|open\(['"]tests?/|ReadFile\("(?:\.\./)*(?:testdata|test)|golden`)
	asserts = lazyregexp.New(
		`\bassert|\bexpect\(|\bshould\b|\brequire\.\w+\(|\bt\.(?:Error|Fatal|Fail)|\bpanic!\(|\bself\.fail|\bEXPECT_|\bASSERT_|\babort\(\)|\bexit\(1\)|^\s*(?:\[ |test )`)
	// what code has that serves tests, wherever it stands, and how it is called where it has no framework
	helps = lazyregexp.New(
		`(?m)^\s*(?:import\s+)?(?:\w+ )?"testing"$|^\s*(?:import|from) (?:unittest|pytest)\b|(?:from|require\()\s*['"](?:vitest|@jest/globals|chai|node:test)['"]`)
	helper     = lazyregexp.New(`(?i)(?:^|/)\w*(?:assert|expect|check|harness|testing|helper|tap)\w*(?:/|\.\w+$)`)
	comment    = lazyregexp.New(`^(?:#(?:[^!\[]|$)|//|/\*|\*|--|<!--|;)`)
	directive  = lazyregexp.New(`^#(?:define|undef|include|if|ifdef|ifndef|elif|else|endif|pragma|error)\b`)
	definition = lazyregexp.New(
		`^(?:export\s+)?(?:default\s+)?(?:pub(?:\(\w+\))?\s+)?(?:async\s+)?(?:def|func|fn|function|class|type|struct|enum|interface)\s+(?:\([^)]*\)\s*)?(\w+)|\bexports\.(\w+)\s*=`)
	imported = lazyregexp.New(`^(?:import|from|use|require|#include)\b|^(?:[\w.]+\s+)?"[\w./@-]+"$`) // also a line of Go's import ( ... )
	// white space and comments decide nothing
	blank = lazyregexp.New(`\s+`)
)

// names finds what a reader should know besides what the tests say.
func (j *judging) names(old oldTree) {
	for _, c := range j.changes {
		gained, lost := minus(lines(c.after), lines(c.before)), minus(lines(c.before), lines(c.after))
		if c.protected {
			j.add(Finding{Rule: "protected", Refuses: true, Path: c.path, Text: "it is protected, and was " + doneTo(c)})
		}
		j.says(c, gained)
		switch c.kind {
		case CI:
			j.differs("ci", c, "CI was changed", lost, gained)
		case Settings, Script, Helper, Tool:
			if c.kind != Script || c.op != 'A' {
				j.differs("settings", c, "how the project is checked was "+doneTo(c), lost, gained)
			}
		case Build:
			if c.before == nil || !sameChecks(c.path, c.before, c.after) {
				if !(c.op == 'A' && strings.HasSuffix(c.path, "go.mod")) {
					j.differs("settings", c, "how the project is checked was "+doneTo(c), lost, gained)
				}
			}
		case Test:
			if n := asserting(c.before) - asserting(c.after); n > 0 && c.op != 'A' {
				j.differs("assertions", c, count(n, "assertion")+" fewer", onlyAsserting(lost), onlyAsserting(gained))
			} else if c.op != 'A' && old.back != nil {
				j.changed(c, lost, gained)
			}
		case Data:
			if c.op != 'A' {
				j.differs("expected", c, "what tests read or expect was "+doneTo(c), lost, gained)
			}
		case Code:
			j.code(c, gained)
			if c.before != nil && helps.Match(c.before) || helper.MatchString(c.path) && asserting(c.before) > 0 {
				j.differs("settings", c, "what tests are made with was "+doneTo(c), lost, gained)
			} else if was := minus(onlyAsserting(lost), onlyAsserting(gained)); len(was) > 0 {
				j.differs("assertions", c, "an assertion of the code was changed", was, onlyAsserting(gained))
			}
		}
	}
	j.values()
	j.nothing()
	if len(j.Checks) == 0 {
		j.unrun()
	}
}

// unrun refuses files of tests that are gone where nothing can be run that says what is lost with them.
func (j *judging) unrun() {
	if j.cut() {
		return
	}
	for _, c := range j.changes {
		moved := slices.ContainsFunc(j.changes, func(d change) bool {
			return d.op == 'A' && d.kind == Test && bytes.Equal(d.after, c.before)
		})
		if c.kind == Test && c.op == 'D' && !moved {
			j.add(Finding{Rule: "fewer", Refuses: !j.asks, Path: c.path, Text: "a file of tests was deleted, and no code is gone"})
		}
	}
}

// says names lines that tell what they are, whatever their file is.
func (j *judging) says(c change, gained []line) {
	for _, k := range []struct {
		rule, text string
		find       *lazyregexp.Regexp
	}{
		{"secret", "it looks like a secret, and would be committed", secret},
		{"stub", "it says that it does nothing yet", stub},
	} {
		for _, l := range gained {
			if !k.find.MatchString(l.text) || k.find == stub && c.kind != Code {
				continue
			}
			f := Finding{Rule: k.rule, Path: c.path, Line: l.n, Text: k.text, New: l.text}
			if k.find == secret {
				f.New = "" // it is not to be repeated
			}
			j.add(f)
			break
		}
	}
}

// doneTo is what happened to a file.
func doneTo(c change) string {
	switch c.op {
	case 'A':
		return "added"
	case 'D':
		return "deleted"
	}
	return "changed"
}

// differs names a file with the first line that is another now.
func (j *judging) differs(rule string, c change, text string, lost, gained []line) {
	f := Finding{Rule: rule, Path: c.path, Text: text}
	if len(lost) > 0 {
		f.Line, f.Old = lost[0].n, lost[0].text
	}
	if len(gained) > 0 {
		f.Line, f.New = gained[0].n, gained[0].text
	}
	j.add(f)
}

// changed names a file of tests whose lines were replaced, where with the old ones something fails.
func (j *judging) changed(c change, lost, gained []line) {
	fails := slices.ContainsFunc(j.found, func(f Finding) bool { return f.Rule == "stays-red" || f.Rule == "old-fails" })
	if fails && len(lost) > 0 {
		j.differs("changed", c, "an old test was changed", lost, gained)
	}
}

// isComment reports whether a line is one; C has other lines that begin so.
func isComment(line string) bool { return comment.MatchString(line) && !directive.MatchString(line) }

func asserting(text []byte) int { return len(onlyAsserting(lines(text))) }

func onlyAsserting(list []line) []line {
	return slices.DeleteFunc(slices.Clone(list), func(l line) bool {
		return isComment(l.text) || !asserts.MatchString(l.text)
	})
}

// code names lines of code that keep a linter silent, can tell that they are tested, or end or judge the tests.
func (j *judging) code(c change, gained []line) {
	for _, k := range []struct {
		rule, text string
		find       *lazyregexp.Regexp
	}{
		{"silenced", "a linter or type checker is silenced", silences},
		{"knows-tests", "it can tell that it is tested", knows},
		{"reaches-tests", "it can reach into the tests, or end them", ends},
	} {
		for _, l := range gained {
			if k.find.MatchString(l.text) {
				j.add(Finding{Rule: k.rule, Path: c.path, Line: l.n, Text: k.text, New: l.text})
				break
			}
		}
	}
}

var literal = lazyregexp.New("\"((?:[^\"\\\\]|\\\\.)*)\"|'((?:[^'\\\\]|\\\\.)*)'|`([^`]*)`|(?:^|[^\\w.])(\\d+(?:\\.\\d+)?)\\b")

func literals(text string, to map[string]bool) {
	for _, m := range literal.FindAllStringSubmatch(text, -1) {
		for _, s := range m[1:] {
			if s != "" {
				to[s] = true
			}
		}
	}
}

// values names values that old tests expect and that stand in new code, and neither in the old code of these files
// nor in the title.
func (j *judging) values() {
	code := slices.DeleteFunc(slices.Clone(j.changes), func(c change) bool { return c.kind != Code || c.after == nil })
	if len(code) == 0 {
		return
	}
	expected, err := j.expected()
	if err != nil || len(expected) == 0 {
		return // it is advice only
	}
	old, fresh := map[string]bool{}, map[string]bool{}
	for _, c := range code {
		literals(string(c.before), old)
		for _, l := range minus(lines(c.after), lines(c.before)) {
			if !isComment(l.text) && !imported.MatchString(l.text) {
				literals(l.text, fresh)
			}
		}
	}
	var hits []string
	for s := range fresh {
		if expected[s] && !old[s] && !strings.Contains(j.Title, s) && !slices.Contains([]string{"0", "1", "2", "10", "100"}, s) {
			hits = append(hits, s)
		}
	}
	slices.Sort(hits)
	if len(hits) >= 2 {
		j.add(Finding{Rule: "expected-values", Path: code[0].path,
			Text: fmt.Sprintf("new code has %d values that old tests expect", len(hits)), New: strings.Join(hits[:min(4, len(hits))], ", ")})
	}
}

// mostTests bounds the files of tests whose values are read.
const mostTests = 500

// expected are the literals of the tests before the commit.
func (j *judging) expected() (map[string]bool, error) {
	list, err := j.Repo.Changed(j.ctx, j.Repo.EmptyTree(), j.Base)
	if err != nil {
		return nil, err
	}
	base, err := j.Repo.Contents(j.Base)
	if err != nil {
		return nil, err
	}
	out, n := map[string]bool{}, 0
	for _, c := range list {
		k := Of(c.Path, nil)
		if k != Test && k != Data {
			continue
		}
		if n++; n > mostTests {
			break
		}
		text, err := content(base, c.Path)
		if err != nil {
			return nil, err
		}
		if literals(string(text), out); k == Data {
			for _, w := range strings.Fields(string(text)) {
				out[w] = true
			}
		}
	}
	return out, nil
}

// cut reports whether code is gone: a file whose name says its language, or what has a name, or lines where the task
// asks that something goes. What has moved, or has other parameters, is there.
func (j *judging) cut() bool {
	was, is, gone, less := map[string]bool{}, map[string]bool{}, false, false
	for _, c := range j.changes {
		if c.kind != Code {
			continue
		}
		defined(c.before, was)
		defined(c.after, is)
		gone = gone || c.op == 'D' && path.Ext(c.path) != ""
		less = less || len(minus(lines(c.before), lines(c.after))) > 0
	}
	for name := range was {
		gone = gone || !is[name]
	}
	return gone || removes.MatchString(j.Title) && less
}

// removes finds that a task, or the subject of a commit, asks that something goes.
var removes = lazyregexp.New(`(?i)^\W*(?:remov|delet|drop|retir|deprecat)(?:e|es|ed|ing|s)?\b`)

// defined adds the names of what a file of code defines.
func defined(text []byte, to map[string]bool) {
	for _, l := range lines(text) {
		if m := definition.FindStringSubmatch(l.text); m != nil {
			to[m[1]+m[2]] = true
		}
	}
}

// nothing names a commit that does nothing to the code, or nothing that a test notices.
func (j *judging) nothing() {
	real, code := 0, 0
	for _, c := range j.changes {
		if c.kind == Doc || c.before != nil && c.after != nil && bytes.Equal(bare(c.before), bare(c.after)) {
			continue
		}
		if real++; c.kind != Test && c.kind != Data && c.kind != CI {
			code++
		}
	}
	f := j.facts()
	switch {
	case len(j.changes) == 0:
		j.add(Finding{Rule: "nothing", Text: "nothing was changed"})
	case real == 0:
		j.add(Finding{Rule: "nothing", Text: "only documentation, comments or white space was changed"})
	case code == 0:
		j.add(Finding{Rule: "nothing", Text: "only tests were changed"})
	case f.Known && f.Turned+f.Added == 0:
		j.add(Finding{Rule: "regression-only", Text: "no test went from red to green, and none was added"})
	case !f.Known && !slices.ContainsFunc(j.Before, func(r *verify.Result) bool { return !r.Passed }) &&
		!slices.ContainsFunc(j.changes, func(c change) bool { return c.kind == Test }):
		j.add(Finding{Rule: "regression-only", Text: "the checks passed before, and no test was changed"})
	}
}

// bare is a text without comments and white space.
func bare(text []byte) []byte {
	var b bytes.Buffer
	for _, l := range lines(text) {
		if !isComment(l.text) {
			b.WriteString(blank.ReplaceAllString(l.text, "") + "\n")
		}
	}
	return b.Bytes()
}
