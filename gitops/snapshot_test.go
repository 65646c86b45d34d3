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

func TestSnapshotAfterGarbageCollection(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	snap(t, r)
	s.sh("mkdir new; echo unreachable >new/file; echo two >f")
	second := snap(t, r)
	s.sh("git gc -q --prune=now; test -z \"$(find .git/objects -name '??' -type d)\"")
	if again := snap(t, r); again != second {
		t.Fatalf("tree %s, want %s", again, second)
	}
	commitWave(t, r, Wave{Message: "w", Tree: second, On: strings.TrimSpace(s.git("rev-parse", "HEAD"))})
	s.check()
}

// A file is never stamped with an earlier time than Now said before it was made.
func TestNow(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/f"
	for range 2000 {
		before := Now()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if at := changedAt(path); at.Before(before) {
			t.Fatalf("stamped %v, made after %v", at, before)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
