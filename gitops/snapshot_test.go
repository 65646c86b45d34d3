package gitops

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// start makes a repository with a few files and opens it.
func start(t *testing.T, protect ...string) (*sandbox, *Repo) {
	t.Helper()
	s := newSandbox(t)
	s.sh(base)
	return s, s.reopen(protect...)
}

func (s *sandbox) reopen(protect ...string) *Repo {
	s.t.Helper()
	r, err := Open(s.t.Context(), Options{Dir: s.dir, Protect: protect, Env: s.env})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { r.Close() })
	return r
}

// gitTree is the tree that git itself makes of the working tree, with an index of its own.
func (s *sandbox) gitTree() string {
	s.t.Helper()
	tmp := filepath.Join(s.t.TempDir(), "index")
	// the copy keeps its time: a newer one would make git trust entries that it must look at
	if err := os.Link(filepath.Join(s.layout().gitDir, "index"), tmp); err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	env := s.env
	s.env = append(slices.Clip(env), "GIT_INDEX_FILE="+tmp)
	defer func() { s.env = env }()
	s.git("add", "-A")
	return strings.TrimSpace(s.git("write-tree"))
}

func snap(t *testing.T, r *Repo) Tree {
	t.Helper()
	tree, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// check asks git whether all is well.
func (s *sandbox) check() {
	s.t.Helper()
	if out := s.git("fsck", "--strict", "--no-dangling"); strings.TrimSpace(out) != "" {
		s.t.Errorf("git fsck: %s", out)
	}
}

func TestSnapshotIsWhatGitAdds(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	steps := []struct{ name, script string }{
		{"nothing", "true"},
		{"edit", "echo two >>f"},
		{"same size at once", "printf 'owt\\n' >f; printf 'uno\\n' >src/x.go"},
		{"add", "mkdir -p new/deep/er; echo 1 >new/deep/er/a; echo 2 >new/b; echo log >x.log"},
		{"add beside", "echo 1 >new.go; echo 2 >new-b; mkdir new0; echo 3 >new0/c"},
		{"delete", "rm f src/a/y.go"},
		{"delete all of a directory", "rm -r new"},
		{"mode", "chmod +x src/x.go; chmod -x run.sh"},
		{"file to directory", "rm -f src/x.go; mkdir src/x.go; echo in >src/x.go/in"},
		{"directory to file", "rm -rf docs; echo file >docs"},
		{"file to link", "rm run.sh; ln -s docs run.sh"},
		{"directory to link", "rm -rf src; ln -s new0 src"},
		{"link to directory", "rm src; mkdir src; echo back >src/x.go"},
		{"ignore more", "echo new0/ >>.gitignore; echo 'new-*' >>.gitignore"},
		{"ignore less", "echo '!x.log' >>.gitignore"},
		{"ignore in a directory", "mkdir sub; echo 1 >sub/a.o; echo 2 >sub/b.c; echo '*.o' >sub/.gitignore"},
		{"exclude", "mkdir -p .git/info; echo b.c >.git/info/exclude"},
		{"exclude no more", ": >.git/info/exclude"},
		{"touch", "touch -d 2001-01-01 sub/b.c docs"},
		{"strange names", "printf a >'a b'; printf b >'q\"uote'; printf c >\"$(printf 'new\\nline')\"; printf d >\"$(printf 'bad\\377utf')\"; echo >.gitx; echo >.git-x"},
		{"empty directory", "mkdir -p empty/very"},
		{"fifo", "mkfifo pipe"},
		{"back again", "git checkout -q -f HEAD -- ."},
		{"clean", "git clean -qfdx; git checkout -q -f HEAD -- ."},
	}
	for _, st := range steps {
		s.sh(st.script)
		got := snap(t, r)
		if want := s.gitTree(); string(got) != want {
			t.Fatalf("%s: tree %s, git makes %s\n%s", st.name, got, want, s.git("diff-tree", "-r", want, string(got)))
		}
		if again := snap(t, r); again != got {
			t.Errorf("%s: a second snapshot is %s", st.name, again)
		}
	}
	s.check()
}

func TestSnapshotOfRootReplaced(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	first := snap(t, r)
	s.sh("cd ..; cp -a repo copy; rm -rf repo; mv copy repo")
	if got := snap(t, r); got != first {
		t.Errorf("tree %s after the directory was replaced, want %s", got, first)
	}
}

func TestProtectedPathsStay(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(base + "mkdir -p .scud/tasks; echo '{}' >.scud/tasks/x.json; echo plan >plan.md; git add -f .; git commit -qm tasks")
	r := s.reopen(".scud/", "plan.md", "untracked.md")
	first := snap(t, r)
	s.sh("echo changed >.scud/tasks/x.json; echo new >.scud/new; echo other >plan.md; echo u >untracked.md; echo two >f")
	second := snap(t, r)
	changes, err := r.Changed(t.Context(), first, second)
	if err != nil || len(changes) != 1 || changes[0] != (Change{"f", 'M'}) {
		t.Errorf("changed: %v, %v; want only f", changes, err)
	}
	if dirty, err := r.Dirty(t.Context()); err != nil || !slices.Equal(dirty, []string{"f"}) {
		t.Errorf("dirty: %q, %v; want only f", dirty, err)
	}
	touched, err := r.Restore(t.Context(), first)
	if err != nil || !slices.Equal(touched, []string{"f"}) {
		t.Errorf("restore touched %q, %v; want only f", touched, err)
	}
	if got := s.git("status", "--porcelain"); got != " M .scud/tasks/x.json\n M plan.md\n?? .scud/new\n?? untracked.md\n" {
		t.Errorf("status after restore:\n%s", got)
	}
}

func TestDirty(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	if d, err := r.Dirty(t.Context()); err != nil || len(d) > 0 {
		t.Fatalf("dirty when clean: %q, %v", d, err)
	}
	s.sh("echo staged >f; git add f; echo one >f; echo n >new; rm src/x.go; echo s >docs/s; git add docs/s; rm docs/s; echo l >y.log")
	d, err := r.Dirty(t.Context())
	if want := []string{"docs/s", "f", "new", "src/x.go"}; err != nil || !slices.Equal(d, want) {
		t.Errorf("dirty: %q, %v; want %q", d, err, want)
	}
}
