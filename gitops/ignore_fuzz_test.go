package gitops

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ignoreForest is a repository with one directory per seed, each with random files and random ignore files, so
// that git is asked once for all of them.
type ignoreForest struct {
	rand *rand.Rand
	s    *sandbox
	dir  string // of the seed
}

var (
	forestNames = []string{"a", "b", "c", "ab", "abc", "a.b", "a-b", "A", "x y", "#a", "!b", "[a]", "a*", "é", ".x", "-", "0", "a]", "b ", "\\c"}
	forestAtoms = []string{"a", "b", "c", "ab", "A", ".", "-", "*", "*", "**", "?", "[ab]", "[!a]", "[^b]", "[a-c]", "[[:alpha:]]", "[[:punct:]]", "[]a]", "[a", "\\a", "\\*", "\\[", "x y", "é", "#", "!", " ", "0", "\\ ", "\\"}
)

func (f *ignoreForest) pick(list []string) string { return list[f.rand.IntN(len(list))] }

// pattern makes one line: a few atoms in a few components, sometimes anchored, negated, for directories only.
func (f *ignoreForest) pattern() string {
	var b strings.Builder
	if f.rand.IntN(4) == 0 {
		b.WriteByte('!')
	}
	if f.rand.IntN(4) == 0 {
		b.WriteByte('/')
	}
	for i := range 1 + f.rand.IntN(3) {
		if i > 0 {
			b.WriteByte('/')
		}
		if f.rand.IntN(6) == 0 {
			b.WriteString("**")
			continue
		}
		if f.rand.IntN(3) == 0 {
			b.WriteString(f.pick(forestNames))
			continue
		}
		for range 1 + f.rand.IntN(3) {
			b.WriteString(f.pick(forestAtoms))
		}
	}
	if f.rand.IntN(4) == 0 {
		b.WriteByte('/')
	}
	return b.String()
}

func (f *ignoreForest) rules() string {
	lines := make([]string, 1+f.rand.IntN(6))
	for i := range lines {
		lines[i] = f.pattern()
	}
	end := f.pick([]string{"\n", "\n", "\n", "\r\n", ""})
	return f.pick([]string{"", "", "", "\xef\xbb\xbf", "# comment\n\n"}) + strings.Join(lines, "\n") + end
}

// grow makes files and ignore files below a directory.
func (f *ignoreForest) grow(dir string, depth int) {
	for range 2 + f.rand.IntN(4) {
		p := filepath.Join(dir, f.pick(forestNames))
		if _, err := os.Lstat(f.s.path(p)); err == nil {
			continue
		}
		if depth > 0 && f.rand.IntN(2) == 0 {
			f.grow(p, depth-1)
		} else {
			f.s.put(p, "x")
		}
	}
	if depth == 3 || f.rand.IntN(3) == 0 {
		f.s.put(filepath.Join(dir, ".gitignore"), f.rules())
	}
}

// Random trees with random rules: what a snapshot holds is what git calls tracked or untracked, and each path
// is ignored exactly when git check-ignore says so.
func TestIgnoreAsGit(t *testing.T) {
	t.Parallel()
	const forests, trees = 6, 50
	for forest := range forests {
		t.Run(fmt.Sprint(forest), func(t *testing.T) {
			t.Parallel()
			f := &ignoreForest{rand: rand.New(rand.NewPCG(uint64(forest), 1)), s: newSandbox(t)}
			f.s.sh("git init -q .")
			for i := range trees {
				f.grow(fmt.Sprintf("t%02d", i), 3)
			}
			if forest > 0 {
				f.s.put(".git/info/exclude", f.rules())
			}
			if forest > 2 {
				f.s.put(f.s.home+"/ignore", f.rules())
				f.s.git("config", "core.excludesFile", "~/ignore")
			}
			if forest%2 == 1 { // some files are tracked, ignored or not
				f.s.sh("git ls-files -oz | awk 'BEGIN{RS=ORS=\"\\0\"} NR%7==0' | git --literal-pathspecs add -f --pathspec-from-file=- --pathspec-file-nul")
			}
			compareIgnored(t, f.s)
		})
	}
}

func compareIgnored(t *testing.T, s *sandbox) {
	t.Helper()
	r, err := s.open("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tree, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := nulSplit([]byte(s.git("ls-tree", "-r", "-z", "--name-only", string(tree))))
	want := nulSplit([]byte(s.git("ls-files", "-z", "-c", "-o", "--exclude-standard")))
	slices.Sort(want)
	slices.Sort(got)
	for _, p := range without(got, want) {
		t.Errorf("%q is in the snapshot, and git ignores it%s", p, rulesAbove(s, p))
	}
	for _, p := range without(want, got) {
		t.Errorf("%q is not in the snapshot%s", p, rulesAbove(s, p))
	}
	all := nulSplit([]byte(s.git("ls-files", "-z", "-o")))
	s.put(s.home+"/paths", strings.Join(all, "\x00")+"\x00")
	s.sh("git check-ignore --no-index -z --stdin <$HOME/paths >$HOME/ignored || test $? = 1")
	b, err := os.ReadFile(s.home + "/ignored")
	if err != nil {
		t.Fatal(err)
	}
	ignoredByGit := map[string]bool{}
	for _, p := range nulSplit(b) {
		ignoredByGit[p] = true
	}
	for _, p := range all {
		if got := r.pathIgnored(p); got != ignoredByGit[p] {
			t.Errorf("%q: ignored %v, git %v%s", p, got, ignoredByGit[p], rulesAbove(s, p))
		}
	}
}

// rulesAbove shows the rules that have a say in a path.
func rulesAbove(s *sandbox, p string) string {
	var b strings.Builder
	for _, f := range []string{".git/info/exclude", s.home + "/ignore"} {
		if text, err := os.ReadFile(s.path(f)); err == nil {
			fmt.Fprintf(&b, "\n\t%s: %q", f, text)
		}
	}
	for dir := filepath.Dir(p); dir != "."; dir = filepath.Dir(dir) {
		if text, err := os.ReadFile(s.path(dir + "/.gitignore")); err == nil {
			fmt.Fprintf(&b, "\n\t%s/.gitignore: %q", dir, text)
		}
	}
	return b.String()
}

// FuzzIgnore compares one rule file and one path with git check-ignore.
func FuzzIgnore(f *testing.F) {
	for _, seed := range [][2]string{
		{"*.log\n!keep.log\n", "a/keep.log"}, {"/a/\n", "a/b"}, {"a/**/b\n", "a/x/y/b"}, {"**/b", "b"}, {"[!a]*\n", "ba"},
		{"\\#x\n", "#x"}, {"a \n", "a"}, {"a\\ \n", "a "}, {"[[:digit:]-]\r\n", "-"}, {"\xef\xbb\xbfa", "a"}, {"a**/b", "ax/b"}, {"**", "x"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, rules, path string) {
		if !safePath(path) || len(path) > 200 || len(rules) > 1000 || strings.ContainsRune(rules, 0) || strings.Contains(path, ".gitignore") {
			return
		}
		s := newSandbox(t)
		s.put(".git/HEAD", "ref: refs/heads/main\n")
		for _, d := range []string{"objects", "refs"} {
			if err := os.MkdirAll(s.path(".git/"+d), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		s.put(".gitignore", rules)
		s.put(path, "x")
		r, err := s.open("", "")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		out, code := s.tryGit("check-ignore", "--no-index", "-q", "--", "./"+path)
		if code > 1 {
			t.Fatalf("git check-ignore: exit %d %s", code, out)
		}
		if got := r.pathIgnored(path); got != (code == 0) {
			t.Errorf("rules %q, path %q: ignored %v, git %v", rules, path, got, code == 0)
		}
	})
}
