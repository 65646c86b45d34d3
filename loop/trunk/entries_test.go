package trunk

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"descartes/gitops"
)

// field is a repository with a chain in it.
type field struct {
	t    *testing.T
	repo *gitops.Repo
	env  []string
	Chain
}

func newField(t *testing.T) *field {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &field{t: t, env: []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.c", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.c"}}
	f.git(dir, "init", "-qb", "main")
	f.git(dir, "commit", "-q", "--allow-empty", "-m", "begin")
	if f.repo, err = gitops.Open(t.Context(), gitops.Options{Dir: dir, Env: f.env}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.repo.Close() })
	f.Chain = Chain{Repo: f.repo, Ref: "refs/descartes/r/trunk", Now: time.Now}
	f.do(f.Plan(t.Context(), f.head()))
	f.do(f.Save(t.Context()))
	return f
}

func (f *field) git(dir string, args ...string) string {
	f.t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Env = dir, f.env
	out, err := c.CombinedOutput()
	if err != nil {
		f.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (f *field) do(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *field) head() string { return f.git(f.repo.Root(), "rev-parse", "main") }

// merge merges a unit's work, made on a commit, that writes a file.
func (f *field) merge(unit, on, path, text string) {
	f.t.Helper()
	ctx := f.t.Context()
	was, err := f.repo.CommitTree(on)
	f.do(err)
	tree, err := f.repo.WithContent(ctx, was, map[string][]byte{path: []byte(text)})
	f.do(err)
	made, err := f.repo.Link(ctx, on, gitops.Link{Tree: tree, Message: unit, When: time.Unix(0, 0)})
	f.do(err)
	next, met, err := f.repo.Merge(ctx, f.Tip, made)
	if f.do(err); len(met) > 0 {
		f.t.Fatalf("unit %s: %v", unit, met)
	}
	f.do(f.Add(ctx, f.Bring(unit, unit, made, next)))
}

// writes has somebody commit a file to the branch.
func (f *field) writes(path, text string) {
	f.t.Helper()
	at := filepath.Join(f.repo.Root(), path)
	f.do(os.MkdirAll(filepath.Dir(at), 0o755))
	f.do(os.WriteFile(at, []byte(text), 0o644))
	f.git(f.repo.Root(), "add", "-A")
	f.git(f.repo.Root(), "commit", "-qm", path)
}

// commit brings the first n entries, and a list, to the branch.
func (f *field) commit(n int, list string) {
	f.t.Helper()
	ctx, head := f.t.Context(), f.head()
	onto, met, err := f.Onto(ctx, n)
	if f.do(err); len(met) > 0 {
		f.t.Fatalf("onto %s: %v", head, met)
	}
	tree, err := f.repo.WithContent(ctx, onto, map[string][]byte{"list": []byte(list)})
	f.do(err)
	units, message := f.Loose(n), "wave\n\nDescartes-Loop: r\n"
	for _, u := range units {
		message += "Descartes-Task: x/" + u + "\n"
	}
	made, err := f.repo.Link(ctx, head, gitops.Link{Tree: tree, When: time.Unix(0, 0), Message: message})
	f.do(err)
	next, met, err := f.Under(ctx, onto, tree)
	if f.do(err); len(met) > 0 {
		f.t.Fatalf("under %s: %v", made, met)
	}
	f.do(f.Chain.Committed(ctx, made, next, units))
	f.git(f.repo.Root(), "reset", "-q", "--hard", made)
}

// takeIn takes in what the branch has.
func (f *field) takeIn() {
	f.t.Helper()
	m, err := f.TakeIn(f.t.Context(), f.repo, f.head(), "x", "r")
	if f.do(err); len(m.Met) > 0 {
		f.t.Fatalf("take in: %v", m.Met)
	}
	f.do(f.Took(f.t.Context(), f.head(), m.Tree, m.Has))
}

// is is the chain in words: each entry, one that the branch has with a plus, then the files at its tip.
func (f *field) is() string {
	f.t.Helper()
	again := Chain{Repo: f.repo, Ref: f.Ref, Now: time.Now}
	if _, err := again.Read(context.Background()); err != nil || again.Tip != f.Tip ||
		!slices.Equal(again.Entries(), f.Entries()) || again.On != f.On {
		f.t.Fatalf("the chain reads as %+v, %v, and is %+v", again, err, f.Chain)
	}
	var words []string
	for _, e := range f.Entries() {
		word := e.Unit
		if e.Commit != "" {
			word = "branch"
		}
		if e.In {
			word += "+"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ") + " | " + f.files(f.Tip) + " | " + f.files(f.head())
}

// files are those of a commit, with what they say.
func (f *field) files(commit string) string {
	var list []string
	for name := range strings.FieldsSeq(f.git(f.repo.Root(), "ls-tree", "-r", "--name-only", commit)) {
		list = append(list, name+"="+strings.ReplaceAll(f.git(f.repo.Root(), "show", commit+":"+name), "\n", ","))
	}
	return strings.Join(list, " ")
}

// The branch gets the chain up to some entry, whatever came into either meanwhile.
func TestEntries(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		do   func(f *field)
		want string
	}{
		"all of it": {func(f *field) {
			f.merge("A", f.Tip, "f", "a\n")
			f.merge("B", f.Tip, "f", "a\nb\n")
			f.commit(2, "1")
		}, "A+ B+ | f=a,b list=1 | f=a,b list=1"},
		"one entry, and what follows changed the same line": {func(f *field) {
			f.merge("A", f.Tip, "f", "a\n")
			f.merge("B", f.Tip, "f", "b\n")
			f.commit(1, "1")
		}, "A+ B | f=b list=1 | f=a list=1"},
		"each of three by itself": {func(f *field) {
			f.merge("A", f.Tip, "f", "a\n")
			f.merge("B", f.Tip, "f", "b\n")
			f.merge("C", f.Tip, "f", "c\n")
			f.commit(1, "1")
			f.commit(2, "2")
			f.commit(3, "3")
		}, "A+ B+ C+ | f=c list=3 | f=c list=3"},
		"somebody commits between two": {func(f *field) {
			f.merge("A", f.Tip, "f", "a\n")
			f.merge("B", f.Tip, "f", "b\n")
			f.merge("C", f.Tip, "f", "c\n")
			f.commit(1, "1")
			f.writes("his", "h")
			f.takeIn()
			f.commit(2, "2")
		}, "A+ B+ C branch+ | f=c his=h list=2 | f=b his=h list=2"},
		"what he committed is before it": {func(f *field) {
			f.merge("A", f.Tip, "f", "a\n")
			f.writes("his", "h")
			f.takeIn()
			f.merge("B", f.Tip, "his", "h\nb\n")
			f.commit(3, "1")
		}, "A+ branch+ B+ | f=a his=h,b list=1 | f=a his=h,b list=1"},
		"the list alone": {func(f *field) {
			f.merge("A", f.Tip, "f", "a\n")
			f.commit(0, "1")
			f.commit(1, "2")
		}, "A+ | f=a list=2 | f=a list=2"},
		"an earlier run's are not counted": {func(f *field) {
			f.merge("A", f.Tip, "f", "a\n")
			f.merge("B", f.Tip, "f", "b\n")
			f.commit(1, "1")
			f.do(f.GoOn(f.t.Context(), "s"))
			f.merge("A", f.Tip, "f", "again\n")
			f.commit(2, "2")
		}, "B+ A+ | f=again list=2 | f=again list=2"},
		"it is cut": {func(f *field) {
			f.merge("A", f.Tip, "f", "a\n")
			f.commit(1, "1")
			f.merge("B", f.Tip, "g", "b\n")
			f.merge("C", f.Tip, "h", "c\n")
			f.do(f.Cut(f.t.Context(), f.repo, 1, f.head(), "x", "r", nil))
			f.merge("C", f.Tip, "h", "c\n")
			f.commit(2, "2")
		}, "A+ C+ | f=a h=c list=2 | f=a h=c list=2"},
		"it is cut where work behind that is in the branch": {func(f *field) {
			f.merge("A", f.Tip, "f", "a\n")
			f.commit(1, "1")
			f.merge("B", f.Tip, "g", "b\n")
			f.commit(2, "2")
			f.merge("C", f.Tip, "h", "c\n")
			f.git(f.repo.Root(), "rm", "-q", "f")
			f.git(f.repo.Root(), "commit", "-qm", "revert")
			f.do(f.Cut(f.t.Context(), f.repo, 0, f.head(), "x", "r", []string{"A"}))
			f.merge("A", f.Tip, "f", "again\n")
			f.commit(4, "3")
		}, "B+ branch+ A+ | f=again g=b list=3 | f=again g=b list=3"},
		"a unit takes in what clashes": {func(f *field) {
			f.merge("A", f.Tip, "f", "a\n")
			f.writes("f", "h\n")
			tree, _, err := f.repo.Merge(f.t.Context(), f.Tip, f.head())
			f.do(err)
			tree, err = f.repo.WithContent(f.t.Context(), tree, map[string][]byte{"f": []byte("both\n")})
			f.do(err)
			made, err := f.repo.Link(f.t.Context(), f.Tip, gitops.Link{Tree: tree, Second: f.head(), When: time.Unix(0, 0)})
			f.do(err)
			f.do(f.Add(f.t.Context(), f.BringTaken("T", "T", made, tree, f.head())))
			f.commit(2, "1")
		}, "A+ T+ | f=both list=1 | f=both list=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newField(t)
			tt.do(f)
			if got := f.is(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if f.In() != slices.IndexFunc(append(f.Entries(), Entry{}), func(e Entry) bool { return !e.In }) {
				t.Error(fmt.Sprint(f.In(), f.Entries()))
			}
		})
	}
}
