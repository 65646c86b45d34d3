package guard

import (
	"path"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
)

// tests compares the tests of all changed files.
func (l *look) tests() {
	var before, after []*testCase
	type both struct {
		c        Change
		old, new *parsed
	}
	var files []both
	for _, c := range l.in.Changes {
		if l.over() {
			return
		}
		f := both{c, parse(c.Path, c.Before), parse(c.Path, c.After)}
		if f.old == nil && f.new == nil {
			continue
		}
		files = append(files, f)
		if f.old != nil {
			before = append(before, f.old.cases...)
		}
		if f.new != nil {
			after = append(after, f.new.cases...)
		}
	}
	match(before, after)
	m := &mover{added: map[string]int{}, text: map[string]bool{}}
	for _, f := range files {
		m.note(f.old, f.new)
	}
	for _, f := range files {
		if l.over() {
			return
		}
		if f.old == nil {
			l.fresh(f.new)
			continue
		}
		l.deleted(f.c, f.old, f.new)
		l.twice(f.old, f.new)
		l.elsewhere(f.c, f.old)
		for _, c := range f.old.cases {
			if c.pair != nil {
				l.compare(f.old.lang, c, c.pair, m)
			}
		}
		if f.new == nil {
			continue
		}
		if isTest(f.c.Path) {
			l.compare(f.old.lang, f.old.rest, f.new.rest, m)
		}
		l.fresh(f.new)
		for _, x := range minus(f.new.focuses, f.old.focuses) {
			l.add("test-focused", f.c.Path, x.n, "only this is run now: %s", short(x.text))
		}
		if isTest(f.c.Path) || f.old.lang.test == nil {
			for _, x := range minus(f.new.excludes, f.old.excludes) {
				l.add("test-excluded", f.c.Path, x.n, "the file is left out unless this is true: %s", short(x.text))
			}
		}
	}
}

// mover knows what was added to the tests anywhere: what is there has only moved.
type mover struct {
	added map[string]int
	text  map[string]bool // values
}

func (m *mover) note(old, new *parsed) {
	if new == nil {
		return
	}
	var was []line
	if old != nil {
		was = old.all()
	}
	for _, x := range minus(new.all(), was) {
		m.added[x.text]++
		for _, v := range values(x.text) {
			m.text[v] = true
		}
	}
}

func (p *parsed) all() []line {
	out := append([]line(nil), p.rest.lines...)
	for _, c := range p.cases {
		out = append(out, c.lines...)
	}
	return out
}

// moved reports whether a line, or the values in it, stands elsewhere in the tests now.
func (m *mover) moved(x line) bool {
	if m.added[x.text] > 0 {
		m.added[x.text]--
		return true
	}
	list := values(x.text)
	for _, v := range list {
		if !m.text[v] || len(v) < 3 {
			return false
		}
	}
	return len(list) > 0
}

// fresh looks at the tests that are new in a file.
func (l *look) fresh(p *parsed) {
	for _, c := range p.cases {
		if c.pair == nil && len(c.skips) > 0 && !c.group {
			l.add("new-skipped", c.file, c.skips[0].n, "the new test %s is skipped: %s", c.title(),
				short(c.skips[0].text))
		}
	}
	if len(p.cases) == 0 || p.cases[0].pair == nil {
		for _, x := range p.focuses {
			l.add("test-focused", p.rest.file, x.n, "only this is run now: %s", short(x.text))
		}
	}
}

// deleted finds the tests that are nowhere any more.
func (l *look) deleted(c Change, old, now *parsed) {
	var lost []*testCase
	tests := 0
	for _, t := range old.cases {
		if t.group {
			continue
		}
		if tests++; t.pair == nil || t.pair.group {
			lost = append(lost, t)
		}
	}
	if now == nil && (c.After == nil || c.After.Kind != Link) {
		switch {
		case tests > 0 && len(lost) == tests:
			if l.subjectGone(old.all()) {
				l.add("removed-code", c.Path, 0, "the file with %s was deleted, and so was the code that it tests",
					plural(tests, "test"))
			} else {
				l.add("test-deleted", c.Path, 0, "%s with %s", or(c.After == nil, "deleted", "no test file any more:"),
					plural(tests, "test"))
			}
			return
		case isTest(c.Path) && tests == 0 && len(old.rest.asserts) > 0 && c.After == nil &&
			!l.textKept(old.rest.lines):
			l.add("test-deleted", c.Path, 0, "deleted with %s", plural(len(old.rest.asserts), "assertion"))
			return
		case len(lost) == 0:
			return
		}
	}
	for _, t := range lost {
		if t.above != nil && t.above.pair == nil && !t.above.group {
			continue // reported with the test around it
		}
		lines := t.lines
		if l.subjectGone(lines) {
			l.add("removed-code", c.Path, t.first.n, "the test %s was deleted, and so was the code that it tests",
				t.title())
			continue
		}
		l.add("case-deleted", c.Path, t.first.n, "the test %s was deleted", t.title())
	}
}

// lastOne are files in which the last function of a name is the one that runs.
var lastOne = lazyregexp.New(`\.(?:py|sh|bash|rb)$`)

var shellTests = lazyregexp.New(`\.(?:sh|bash|bats)$`)

// twice finds tests that another one of the same name takes the place of, and programs that a function of the file
// takes the place of.
func (l *look) twice(old, now *parsed) {
	if now == nil {
		return
	}
	if file := now.rest.file; shellTests.MatchString(file) {
		for _, x := range minus(now.all(), old.all()) {
			if m := shellFunction.FindStringSubmatch(x.text); m != nil && tools.MatchString(m[1]) {
				l.add("assertion-weakened", file, x.n, "a function replaces the program %s: %s", m[1], short(x.text))
			}
		}
	}
	if !lastOne.MatchString(now.rest.file) {
		return
	}
	was, is := map[string]int{}, map[string]int{}
	for _, c := range old.cases {
		was[c.name]++
	}
	for _, c := range now.cases {
		if is[c.name]++; !c.group && was[c.name] == 1 && is[c.name] == 2 {
			l.add("assertion-removed", c.file, c.first.n,
				"the test %s is written a second time: only the last one runs", c.title())
		}
	}
}

var system = lazyregexp.New(
	`_(?:aix|android|darwin|dragonfly|freebsd|illumos|ios|js|linux|netbsd|openbsd|plan9|solaris|wasip1|windows|386|amd64|arm|arm64|loong64|mips\w*|ppc64\w*|riscv64|s390x|wasm)_test\.go$`)

// Names and folders by which runners know tests.
var (
	testName = lazyregexp.New(
		`(?:[._-](?:tests?|specs?)\.\w+|(?:^|/)(?:test|spec)[_-][^/]*|(?:Tests?|Spec|IT)\.\w+|\.bats)$`)
	testFolder = lazyregexp.New(`(?:^|/)(?:tests?|specs?|__tests__|t|e2e)/`)
	byName     = lazyregexp.New(`_test\.go$|\.(?:test|spec)\.\w+$|\.rs$`) // wherever they are
)

// elsewhere finds tests that are in a file now which runners may pass over: by its name, by its folder, or because
// only some systems have it.
func (l *look) elsewhere(c Change, old *parsed) {
	for _, t := range old.cases {
		if t.pair == nil || t.pair.file == c.Path || t.group {
			continue
		}
		if to := t.pair.file; testName.MatchString(c.Path) && !testName.MatchString(to) ||
			testFolder.MatchString(c.Path) && !testFolder.MatchString(to) && !byName.MatchString(to) {
			l.add("test-excluded", to, 0,
				"tests of %s are now in a file that a runner may skip because of its name or folder", c.Path)
			return
		}
		if system.MatchString(t.pair.file) && !system.MatchString(c.Path) {
			l.add("test-excluded", t.pair.file, 0, "tests of %s are now in a file for one system only", c.Path)
			return
		}
	}
}

func or(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

// textKept reports whether a new test file contains most of a deleted file.
func (l *look) textKept(was []line) bool {
	for _, d := range l.in.Changes {
		if !l.over() && d.Before == nil && d.After != nil && (isTest(d.Path) || path.Base(path.Dir(d.Path)) == "tests") &&
			similar(was, split(d.After)) > 0.5 {
			return true
		}
	}
	return false
}

// compare compares a test with what it is now.
func (l *look) compare(lang *language, old, now *testCase, m *mover) {
	if old.group && now.group && len(old.skips) == len(now.skips) && len(old.asserts) == 0 {
		return
	}
	if gained := minus(now.skips, old.skips); len(now.skips) > len(old.skips) && len(gained) > 0 {
		l.add("test-skipped", now.file, gained[0].n, "%s is skipped: %s", now.title(), short(gained[0].text))
	}
	added := minus(now.lines, old.lines)
	l.ends(now, added)
	l.assertions(lang, old, now, added, m)
}

// early ends a test before its assertions, or catches what they say.
var (
	never = lazyregexp.New(
		`\bfalse && |&& false\b|\|\| true\b|\bFalse and |\band False\b|\bor True\b|\bif \(?(?:0|false) `)
	early = lazyregexp.New(
		`^(?:return(?: 0| nil| None| true| True)?;?|if \(?(?:false|False|0)\b.*|if \(?(?:true|True|1)\)? ?\{? ?return.*|if false.*)$`)
	swallow = lazyregexp.New(
		`^except(?: \(?(?:Exception|AssertionError|BaseException)\b.*)?:(?:\s*pass)?$|\bcatch\s*(?:\(\w*\s*\w*\))?\s*\{\s*\}|\bcontextlib\.suppress\((?:Exception|AssertionError|BaseException)|\brescue\s*(?:Exception)?\s*(?:=>\s*\w+)?$|\bif _ ?= recover\(\)|\bdefer func\(\) ?\{ ?_? ?=? ?recover\(\)`)
)

// ends finds lines that end an existing test early or hide that it fails.
func (l *look) ends(now *testCase, added []line) {
	if now.name == "" || now.group {
		return
	}
	last := 0
	for _, x := range now.lines {
		if x.n > now.first.n && strings.Trim(x.text, "})];") != "" {
			last = x.n
		}
	}
	body := 1 << 20
	for _, x := range now.lines[min(1, len(now.lines)):] {
		if x.indent > now.first.indent {
			body = min(body, x.indent)
		}
	}
	for _, x := range added {
		if early.MatchString(x.text) && x.indent == body && (x.n < last || !strings.HasPrefix(x.text, "return")) {
			l.add("assertion-removed", now.file, x.n, "%s ends before its assertions: %s", now.title(), short(x.text))
		}
		if never.MatchString(x.text) && len(now.asserts) > 0 {
			l.add("assertion-weakened", now.file, x.n, "%s has a condition that never changes: %s", now.title(),
				short(x.text))
		}
		if swallow.MatchString(x.text) {
			l.add("assertion-weakened", now.file, x.n, "%s hides its failures: %s", now.title(), short(x.text))
		}
	}
}

// assertions compares what two versions of a test assert and expect.
func (l *look) assertions(lang *language, old, now *testCase, added []line, m *mover) {
	gained, lost := minus(now.asserts, old.asserts), minus(old.asserts, now.asserts)
	for _, x := range gained {
		if lang.trivial.MatchString(x.text) && len(lost) > 0 {
			l.add("assertion-weakened", now.file, x.n, "%s asserts nothing with: %s", now.title(), short(x.text))
			return
		}
	}
	masks := map[string]int{}
	for _, x := range added {
		masks[mask(x.text)]++
	}
	var gone, changed []line
	for _, x := range minus(old.lines, now.lines) {
		k, asserts := mask(x.text), lang.asserts.MatchString(x.text)
		switch {
		case masks[k] > 0 && (asserts || now.name != "" && k != x.text):
			masks[k]--
			changed = append(changed, x)
		case asserts && !m.moved(x) && !rewritten(x, gained):
			gone = append(gone, x)
		case !asserts && row.MatchString(x.text) && !m.moved(x):
			changed = append(changed, x)
		}
	}
	if fewer := len(old.asserts) - len(now.asserts); fewer > 0 && len(gone) > 0 && !l.subjectGone(gone) {
		l.add("assertion-removed", now.file, gone[0].n, "%s has %s fewer: %s", now.title(),
			plural(min(fewer, len(gone)), "assertion"), short(gone[0].text))
		return
	} else if fewer <= 0 {
		changed = append(changed, gone...)
	}
	if len(changed) > 0 {
		l.add("expected-changed", now.file, changed[0].n, "%s: %s of its text changed: %s", now.title(),
			plural(len(changed), "line"), short(changed[0].text))
	}
}

// row is a line of a table of tests.
var row = lazyregexp.New(`^[{\[(].{3,},$`)

// rewritten reports whether an assertion begins as one does that is new.
func rewritten(x line, gained []line) bool {
	return slices.ContainsFunc(gained, func(y line) bool {
		n := 0
		for n < min(len(x.text), len(y.text)) && x.text[n] == y.text[n] {
			n++
		}
		return 5*n >= 3*len(x.text)
	})
}

var (
	definition = lazyregexp.New(
		`\b(?:func(?: \([^)]*\))?|def|fn|function|class|struct|enum|trait|interface|type|module|fun|macro_rules!|mod)\s+(\w+)|\b(?:const|let|var|val)\s+(\w+)\s*[:=]|^(?:exports|module\.exports|\w+)\.(\w+)\s*=|^(?:(?:public|private|protected|static|final|async)\s+)+[\w<>\[\]]*\s*(\w+)\s*\(|^pub (?:const|static) (\w+)`)
	word = lazyregexp.New(`\w{3,}`)
)

// subjectGone reports whether a test speaks of something that the code defined before and does not define any more.
func (l *look) subjectGone(lines []line) bool {
	if l.removed == nil {
		l.removed = map[string]bool{}
		defined := map[string]bool{}
		for _, c := range l.in.Changes {
			if languageOf(c.Path) == nil || isTest(c.Path) {
				continue
			}
			was, is := split(c.Before), split(c.After)
			for _, x := range minus(was, is) {
				for _, m := range definition.FindAllStringSubmatch(x.text, -1) {
					// a short name of a variable says little
					if name := strings.Join(m[1:], ""); len(name) >= 4 || len(m[1]) == 3 {
						l.removed[name] = true
					}
				}
			}
			if p := parse(c.Path, c.Before); p != nil { // Rust's
				for _, t := range p.cases {
					delete(l.removed, t.own)
				}
			}
			for _, x := range is {
				for _, m := range definition.FindAllStringSubmatch(x.text, -1) {
					defined[strings.Join(m[1:], "")] = true
				}
			}
		}
		for name := range defined {
			delete(l.removed, name)
		}
	}
	if len(l.removed) == 0 {
		return false
	}
	for _, x := range lines {
		for _, w := range word.FindAllString(x.text, -1) {
			if l.removed[w] {
				return true
			}
		}
	}
	return false
}
