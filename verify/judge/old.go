package judge

import (
	"fmt"
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
	canary gitops.Tree // the same with a test that must fail; "": nothing asks for one
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
	if o, err = j.putBack(); err == nil && j.suspect() {
		o.canary, err = j.canary(o.tree)
	}
	return o, err
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
	{lazyregexp.New(`(?:^|/)tests?[^/]*\.py$`), lazyregexp.New(`\bTestCase\b()`), "",
		"\n\nimport unittest as unittest_xq\n\n\nclass TestCanaryXq(unittest_xq.TestCase):\n    def test_canary_xq(self):\n        self.assertEqual(1, 2)\n"},
	{lazyregexp.New(`(?:^|/)test_[^/]*\.py$`), lazyregexp.New(`(?m)^(?:async )?def test_()`), "",
		"\n\ndef test_canary_xq():\n    assert 1 == 2\n"},
	{lazyregexp.New(`\.[cm]?[jt]sx?$`), lazyregexp.New(`['"]vitest['"]()`), "",
		"\nimport { expect as expectXq, it as itXq } from 'vitest';\nitXq('canary xq', () => { expectXq(1).toBe(2); });\n"},
	{lazyregexp.New(`\.[cm]?[jt]s$`), lazyregexp.New(`require\(['"]node:test['"]\)()`), "",
		"\nrequire('node:test')('canary xq', () => { require('node:assert').strictEqual(1, 2); });\n"},
	{lazyregexp.New(`\.[cm]?js$`), lazyregexp.New(`\bdescribe\(|\bit\(()`), "",
		"\nit('canary xq', () => { throw new Error('xq'); });\n"},
	{lazyregexp.New(`\.bats$`), lazyregexp.New(`(?m)^@test ()`), "", "\n@test \"canary xq\" {\n\tfalse\n}\n"},
}

func isCanary(name string) bool {
	return strings.Contains(strings.ToLower(strings.NewReplacer("_", "", " ", "").Replace(name)), "canaryxq")
}

// canary is a tree with a test that must fail beside the tests of each kind; "" where no file of tests is of a kind
// that is known.
func (j *judging) canary(tree gitops.Tree) (gitops.Tree, error) {
	list, err := j.Repo.Changed(j.ctx, j.Repo.EmptyTree(), tree)
	if err != nil {
		return "", err
	}
	files, err := j.Repo.Contents(tree)
	if err != nil {
		return "", err
	}
	edits, done := map[string][]byte{}, map[string]bool{}
	for _, c := range list {
		if Of(c.Path, nil) != Test {
			continue
		}
		for i, k := range canaries {
			key := fmt.Sprint(i)
			if k.beside != "" {
				key += path.Dir(c.Path)
			}
			if !k.file.MatchString(c.Path) || done[key] {
				continue
			}
			text, err := content(files, c.Path)
			if err != nil {
				return "", err
			}
			m := k.has.FindStringSubmatch(string(text))
			if m == nil {
				continue
			}
			if done[key] = true; k.beside != "" {
				edits[path.Join(path.Dir(c.Path), k.beside)] = fmt.Appendf(nil, k.text, m[1])
			} else {
				edits[c.Path] = append(slices.Clip(text), k.text...)
			}
			break
		}
	}
	if len(edits) == 0 {
		return "", nil
	}
	return j.Repo.WithContent(j.ctx, tree, edits)
}
