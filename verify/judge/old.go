package judge

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/lazyregexp"
)

// mostBytes bounds what is read of one file, mostFiles the changed files that are read, and mostRead their bytes. What is
// not read is put back like the rest.
const (
	mostBytes = 1 << 20
	mostFiles = 10000
	mostRead  = 64 << 20
)

// change is one file that differs. nil: it does not exist, or is no plain file, or too long to read.
type change struct {
	path          string
	kind          Kind // "": the user says that it may change
	protected     bool // it must not change
	op            byte // as gitops.Change has it
	before, after []byte
}

// read reads what changed.
func (j *judging) read() error {
	list, err := j.Repo.Changed(j.ctx, j.Base, j.New)
	if err != nil {
		return err
	}
	var commands []string
	for _, c := range j.Checks {
		commands = append(commands, c.Run)
	}
	base, err := j.Repo.Contents(j.Base)
	if err != nil {
		return err
	}
	after, err := j.Repo.Contents(j.New)
	if err != nil {
		return err
	}
	read := 0
	for i, c := range list {
		one := change{path: c.Path, kind: Of(c.Path, commands), op: c.Op}
		one.protected = c.Op != 'A' && ours.MatchString(c.Path)
		if j.Named != nil {
			protected, excepted := j.Named(c.Path)
			if one.protected = (one.protected || protected && c.Op != 'A') && !excepted; excepted {
				one.kind = ""
			}
		}
		if i < mostFiles && read < mostRead && !c.Module {
			if one.before, err = content(base, c.Path); err == nil {
				one.after, err = content(after, c.Path)
			}
			if err != nil {
				return err
			}
			read += len(one.before) + len(one.after)
		}
		j.changes = append(j.changes, one)
	}
	return nil
}

// ours are the files that say what the checks are.
var ours = lazyregexp.New(`^descartes\.ya?ml$`)

func content(c *gitops.Contents, path string) ([]byte, error) {
	f, err := c.File(path, mostBytes)
	if err != nil || f == nil || f.Link || f.Module {
		return nil, err
	}
	if f.Data == nil && f.Size == 0 {
		return []byte{}, nil
	}
	return f.Data, nil
}

// oldTree is the commit's code with the judges as they were before it.
type oldTree struct {
	tree   gitops.Tree
	back   []string    // what was put back
	alone  []string    // files of tests of which it is enough to run these; nil: all have to run
	canary gitops.Tree // the same with a test that must fail; "": nothing asks for one
	beside []string    // the files that have it
	only   bool        // files of tests were added, and nothing else that judges changed
}

// needed reports whether a check has to run again. Where the commit only adds files of tests, and all that ran before
// passes now too, the old ones have been run already.
func (o *oldTree) needed(w *weighing) bool {
	if len(o.back) == 0 && o.canary == "" || !w.after.Passed {
		return false
	}
	ran := ranOf(tests(w.before))
	return !o.only || o.canary != "" || len(ran) == 0 || len(without(ran, passedOf(tests(w.after)))) > 0
}

// old is the tree with the judges as they were.
func (j *judging) old() (o oldTree, err error) {
	if o, err = j.putBack(); err != nil {
		return o, err
	}
	if j.suspect() {
		if o.canary, o.beside, err = j.canary(o.tree); err != nil {
			return o, err
		}
	}
	o.alone, err = j.alone(o)
	return o, err
}

// apart are the files of tests that a runner can run by their name, and of which none needs another one; those of Go
// need the others of their folder, and run with them.
var apart = lazyregexp.New(`_test\.go$|(?:^|/)test_[^/]*\.py$|_test\.py$|[._-](?:test|spec)\.[cm]?[jt]sx?$`)

// alone are the files that were put back, where nothing but files of tests was, and no other file names one of them.
func (j *judging) alone(o oldTree) ([]string, error) {
	var stems []string
	for _, c := range j.changes {
		if !slices.Contains(o.back, c.path) {
			continue
		}
		if c.kind != Test || !apart.MatchString(c.path) || lowers.Match(c.after) && !strings.HasSuffix(c.path, ".go") {
			return nil, nil
		}
		if name := path.Base(c.path); path.Ext(name) != ".go" {
			stems = append(stems, strings.TrimSuffix(name, path.Ext(name)))
		}
	}
	if len(stems) == 0 {
		return o.back, nil
	}
	others := 0
	err := j.judgesIn(o.tree, func(p string, text []byte) bool {
		others++
		for _, s := range stems {
			if !slices.Contains(o.back, p) && strings.Contains(string(text), s) {
				others = mostTests + 1
			}
		}
		return others <= mostTests
	})
	if others > mostTests {
		return nil, err
	}
	return o.back, err
}

// judgesIn reads the files of tests and what they import, until it is enough.
func (j *judging) judgesIn(tree gitops.Tree, read func(path string, text []byte) bool) error {
	list, err := j.Repo.Changed(j.ctx, j.Repo.EmptyTree(), tree)
	if err != nil {
		return err
	}
	files, err := j.Repo.Contents(tree)
	if err != nil {
		return err
	}
	for _, c := range list {
		if k := Of(c.Path, nil); k != Test && k != Helper {
			continue
		}
		text, err := content(files, c.Path)
		if err != nil || !read(c.Path, text) {
			return err
		}
	}
	return nil
}

// putBack puts back what judges.
func (j *judging) putBack() (o oldTree, err error) {
	edits := map[string][]byte{}
	o.only = true
	for _, c := range j.changes {
		switch {
		case c.kind.judges() && !(c.kind == Script && c.op == 'A'):
			o.back = append(o.back, c.path)
			o.only = o.only && c.op == 'A' && c.kind == Test && !lowers.Match(c.after)
		case strings.HasSuffix(c.path, ".rs") && c.before != nil && c.after != nil: // the tests stand in the file
			if merged, ok := withTests(string(c.after), string(c.before)); ok && merged != string(c.after) {
				edits[c.path] = []byte(merged)
				o.back, o.only = append(o.back, c.path), false
			}
		}
	}
	whole := slices.DeleteFunc(slices.Clone(o.back), func(p string) bool { return edits[p] != nil })
	if o.tree, err = j.Repo.TreeWith(j.ctx, j.New, j.Base, whole); err == nil && len(edits) > 0 {
		o.tree, err = j.Repo.WithContent(j.ctx, o.tree, edits)
	}
	return o, err
}

// lowers finds what a file of tests does to others when it is loaded.
var lowers = lazyregexp.New(
	`func TestMain\(|func init\(|os\.Args|unittest\.TestCase\.\w+\s*=|\bpytest\.(?:skip|exit)\(|os\._exit|process\.(?:exit|reallyExit)|sys\.exit|\bassert\.\w+\s*=[^=]|globalThis|atexit|\bexit 0\b`)

// withTests is Rust code with the tests of another version of its file.
func withTests(code, of string) (string, bool) {
	const mark = "#[cfg(test)]"
	at := strings.Index(of, mark)
	if at < 0 {
		return "", false
	}
	if cut := strings.Index(code, mark+"\nmod "); cut >= 0 {
		code = code[:cut]
	}
	return strings.TrimRight(code, " \t\n") + "\n\n" + of[at:], true
}

// suspect reports whether the commit's code could decide how it is judged.
func (j *judging) suspect() bool {
	return slices.ContainsFunc(j.changes, func(c change) bool {
		return c.kind == Code && slices.ContainsFunc(minus(lines(c.after), lines(c.before)), func(l line) bool {
			return ends.MatchString(l.text) || knows.MatchString(l.text)
		})
	})
}

// canaries puts a test that must fail beside those of a file, by what the file is: it gives the file to write and its
// text, "" where it knows no way.
var canaries = []struct {
	file, has *lazyregexp.Regexp
	beside    string // name of a file of its own; "": the text goes to the end of the file
	text      string // %s is the package's name
}{
	{lazyregexp.New(`_test\.go$`), lazyregexp.New(`(?m)^package (\w+)`), "canary_xq_test.go",
		"package %s\n\nimport \"testing\"\n\nfunc TestCanaryXq(t *testing.T) { t.Fail() }\n"},
	{lazyregexp.New(`(?:^|/)tests?[^/]*\.py$`), lazyregexp.New(`(?m)\bTestCase\b()|^class \w+\([\w.]+\):()`), "",
		"\n\nimport unittest as unittest_xq\n\n\nclass TestCanaryXq(unittest_xq.TestCase):\n    def test_canary_xq(self):\n        self.assertEqual(1, 2)\n"},
	{lazyregexp.New(`(?:^|/)test_[^/]*\.py$`), lazyregexp.New(`(?m)^(?:async )?def test_()`), "",
		"\n\ndef test_canary_xq():\n    assert 1 == 2\n"},
	{lazyregexp.New(`\.[cm]?[jt]sx?$`), lazyregexp.New(`['"]vitest['"]()`), "",
		"\nimport { expect as expectXq, it as itXq } from 'vitest';\nitXq('canary xq', () => { expectXq(1).toBe(2); });\n"},
	{lazyregexp.New(`\.[cm]?[jt]s$`), lazyregexp.New(`require\(['"]node:test['"]\)()`), "",
		"\nrequire('node:test')('canary xq', () => { require('node:assert').strictEqual(1, 2); });\n"},
	{lazyregexp.New(`\.[cm]?js$`), lazyregexp.New(`\bdescribe\(|\bit\(()`), "",
		"\nit('canary xq', () => { require('assert').strictEqual(1, 2); });\n"},
	{lazyregexp.New(`\.bats$`), lazyregexp.New(`(?m)^@test ()`), "", "\n@test \"canary xq\" {\n\tfalse\n}\n"},
}

func isCanary(name string) bool {
	return strings.Contains(strings.ToLower(strings.NewReplacer("_", "", " ", "").Replace(name)), "canaryxq")
}

// canary is a tree with a test that must fail beside the tests of each kind; "" where no file of tests is of a kind
// that is known.
func (j *judging) canary(tree gitops.Tree) (gitops.Tree, []string, error) {
	edits, done := map[string][]byte{}, map[string]bool{}
	err := j.judgesIn(tree, func(file string, text []byte) bool {
		if Of(file, nil) != Test {
			return true
		}
		for i, k := range canaries {
			key := fmt.Sprint(i)
			if k.beside != "" {
				key += path.Dir(file)
			}
			if !k.file.MatchString(file) || done[key] {
				continue
			}
			m := k.has.FindStringSubmatch(string(text))
			if m == nil {
				continue
			}
			if done[key] = true; k.beside != "" {
				edits[path.Join(path.Dir(file), k.beside)] = fmt.Appendf(nil, k.text, m[1])
			} else {
				edits[file] = append(slices.Clip(text), k.text...)
			}
			break
		}
		return true
	})
	if err != nil || len(edits) == 0 {
		return "", nil, err
	}
	tree, err = j.Repo.WithContent(j.ctx, tree, edits)
	return tree, slices.Sorted(maps.Keys(edits)), err
}
