package gitops

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"descartes/internal/oscall"
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
	done, err := r.Restore(t.Context(), first, time.Time{})
	if err != nil || !slices.Equal(done.touched(), []string{"f"}) {
		t.Errorf("restored %+v, %v; want only f", done, err)
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

// TestManyFolders is large enough for several workers in every step.
func TestManyFolders(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh("git init -q .; for i in $(seq 300); do mkdir -p d$((i%17))/e$i; echo $i >d$((i%17))/e$i/f; echo $i >d$((i%17))/e$i/g; done; git add .; git commit -qm base")
	r := s.reopen()
	first := snap(t, r)
	for i, script := range []string{
		"for i in $(seq 3 5 300); do echo more >>d$((i%17))/e$i/f; done",
		"for i in $(seq 100); do mkdir -p n$i/m; echo $i >n$i/m/f; done",
		"rm -rf d3 n5*; for i in $(seq 7 9 300); do rm -f d$((i%17))/e$i/g; done",
		"touch $(git ls-files | head -400 | xargs ls -d 2>/dev/null) || true",
		"rm .git/index; git reset -q",
	} {
		s.sh(script)
		tree := snap(t, r)
		if want := s.gitTree(); string(tree) != want {
			t.Fatalf("step %d: tree %s, git makes %s", i, tree, want)
		}
	}
	// without a cache of trees, those of HEAD are not written again
	s.sh("git clean -qfdx; git checkout -qf .; find .git/objects -type f | wc -l >../before; git read-tree HEAD; git update-index --refresh >/dev/null || true; git update-index --force-remove d0; rm -f .git/index; git ls-files -o --exclude-standard -z | git update-index -z --add --stdin")
	fresh := s.reopen()
	if got := snap(t, fresh); got != first {
		t.Errorf("tree %s, want %s", got, first)
	}
	s.sh("find .git/objects -type f | wc -l >../after; cmp ../before ../after")
	s.check()
}

func TestSnapshotAfterGarbageCollection(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	first := snap(t, r)
	s.sh("mkdir new; echo unreachable >new/file; echo two >f")
	second := snap(t, r)
	s.sh("git gc -q --prune=now; test -z \"$(find .git/objects -name '??' -type d)\"")
	if again := snap(t, r); again != second {
		t.Fatalf("tree %s, want %s", again, second)
	}
	commitWave(t, r, Wave{Message: "w", Results: []Pair{{Base: first, Result: second}}})
	s.clean()
}

func TestSnapshotStopsWhenToldTo(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.sh("head -c 20000000 /dev/zero >large; echo 1 >small")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if tree, err := r.Snapshot(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("tree %s, %v; want it cancelled", tree, err)
	}
	if err := r.scan(ctx, readAndStore); !errors.Is(err, context.Canceled) {
		t.Errorf("scan: %v; want it cancelled", err)
	}
	if got, want := snap(t, r), s.gitTree(); string(got) != want {
		t.Errorf("tree %s afterwards, git makes %s", got, want)
	}
}

// TestRulesChangeWhileAFolderIsAway: what a rule said of a folder must not be remembered beyond the rule.
func TestRulesChangeWhileAFolderIsAway(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	for i, script := range []string{"echo docs >>.gitignore; echo 1 >docs/new", "mv docs ../docs", "echo none >.gitignore", "mv ../docs docs", "rm -r docs; echo docs >.gitignore", "mkdir docs; echo 2 >docs/other"} {
		s.sh(script)
		if got, want := snap(t, r), s.gitTree(); string(got) != want {
			t.Errorf("step %d: tree %s, git makes %s\n%s", i, got, want, s.git("diff-tree", "-r", want, string(got)))
		}
	}
}

// What no commit can hold is left out of a snapshot and named; a restore removes what the attempt made of it.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "mkdir -p old/.GIT; echo mine >old/.GIT/x")
			for info, err := r.statBelow("old/.GIT/x"); err == nil && !olderThan(info, Now()); {
				runtime.Gosched()
			}
			base, began := mustSnapshot(t, r), Now()
			s.sh("mkdir -p 'x/.git '; echo 1 >'x/.git /config'; echo 1 >git~1; echo 2 >new")
			makeDeep(t, s.dir)
			want := []string{"git~1", "x/.git /config"}
			if way.setup == "" {
				s.sh("truncate -s 20G huge") // git would read it, however long that takes
				want = []string{"git~1", "huge", "x/.git /"}
			}
			if os.Geteuid() != 0 {
				s.sh("echo 3 >closed; chmod 0 closed; chmod 0 f")
				want = append(want, "closed", "f")
			}
			result := mustSnapshot(t, r)
			recent, old := r.LeftOut(began)
			var got []string
			for _, x := range recent {
				got = append(got, x.Path)
			}
			slices.Sort(want)
			if !slices.Equal(got, want) || len(old) == 0 || !strings.HasPrefix(old[len(old)-1].Path, "old/.GIT/") {
				t.Errorf("left out %q and before %v, want %q", got, old, want)
			}
			if got := s.git("diff", "--name-only", string(base), string(result)); got != "new\n" {
				t.Errorf("the snapshot adds\n%s", got)
			}
			done, err := r.Restore(t.Context(), base, began)
			if err != nil {
				t.Fatal(err)
			}
			s.sh("test -f old/.GIT/x; test ! -e new; test ! -e huge; test ! -e git~1; test ! -e closed; test \"$(cat f)\" = one")
			if now := mustSnapshot(t, r); now != base {
				t.Errorf("restored %+v: the next snapshot is %s, not %s", done, now, base)
			}
		})
	}
}

// makeDeep makes a chain of directories with a file at its end, longer than a path may be.
func makeDeep(t *testing.T, dir string) {
	t.Helper()
	fd, err := oscall.Open(dir, openDirFlags, 0)
	for range 50 {
		if err == nil {
			name := strings.Repeat("d", 100)
			err = oscall.Mkdirat(fd, name, 0o777)
			at := fd
			fd, _ = oscall.Openat(at, name, openDirFlags, 0)
			oscall.Close(at)
		}
	}
	if err == nil {
		at := fd
		fd, err = oscall.Openat(at, "f", syscall.O_CREAT|syscall.O_WRONLY, 0o666)
		oscall.Close(at)
		oscall.Close(fd)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A file that is appended to while it is read is taken as far as it was read.
func TestFileThatGrows(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "")
			f, err := os.Create(s.path("server.out"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
						if n < 1<<20 {
							f.WriteString("another line of it\n")
						}
					}
				}
			}()
			_, err = r.Snapshot(t.Context())
			left, _ := r.LeftOut(time.Time{})
			close(stop)
			<-done
			if err != nil || len(left) > 0 {
				t.Errorf("left out %v, %v", left, err)
			}
			if got, want := string(mustSnapshot(t, r)), s.gitTree(); got != want {
				t.Errorf("tree %s afterwards, git makes %s", got, want)
			}
		})
	}
}

// A file that takes long to read is given up with the run.
func TestLargeFileIsGivenUp(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	snap(t, r)
	s.sh("truncate -s 4G large")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Snapshot(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	s.sh("rm large; echo 2 >f")
	snap(t, r)
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
		st, err := stampOf(path)
		if err != nil || time.Unix(st.ctime.Unix()).Before(before) {
			t.Fatalf("stamped %v, %v, made after %v", time.Unix(st.ctime.Unix()), err, before)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// What an agent or the verification prunes is stored again: the commit and the kept attempt are whole.
func TestPrunedObjectsAreStoredAgain(t *testing.T) {
	t.Parallel()
	blob := hashObject(kindBlob, []byte("work\n")).String()
	for _, prune := range []struct{ name, script string }{
		{"prune", "git prune"},
		{"gc", "git gc -q --prune=now"},
		{"repack and prune", "git repack -adq; git prune"},
		{"one blob", "rm -f .git/objects/" + blob[:2] + "/" + blob[2:]},
	} {
		for _, way := range bothWays {
			t.Run(prune.name+" "+way.name, func(t *testing.T) {
				t.Parallel()
				s, r := openBothWays(t, way.setup, "")
				base := mustSnapshot(t, r)
				s.sh("echo work >new; mkdir -p deep/er; echo more >deep/er/f; echo 2 >>src/x.go")
				result := mustSnapshot(t, r)
				s.sh(prune.script)
				if now := mustSnapshot(t, r); now != result {
					t.Fatalf("the snapshot is another one: %s, %s", now, result)
				}
				// the git program's trees may be whole where a blob is not: the commit is the place to see it
				if prune.name != "one blob" {
					if _, err := r.Keep(t.Context(), "refs/descartes/l/1/1", result, nil, "kept"); err != nil {
						t.Fatal(err)
					}
					s.check()
					s.sh("git update-ref -d refs/descartes/l/1/1")
				}
				s.sh(prune.script) // once more, before the commit
				if _, err := r.CommitWave(t.Context(), Wave{Message: waveMessage, Results: []Pair{{Base: base, Result: result}}}); err != nil {
					t.Fatal(err)
				}
				s.check()
				if got := s.git("show", "HEAD:new"); got != "work\n" {
					t.Errorf("committed %q", got)
				}
			})
		}
	}
}
