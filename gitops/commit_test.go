package gitops

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func commitWave(t *testing.T, r *Repo, w Wave) Commit {
	t.Helper()
	c, err := r.CommitWave(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// clean asks git whether index, HEAD and working tree agree, without refreshing anything first.
func (s *sandbox) clean() {
	s.t.Helper()
	if out := s.git("status", "--porcelain"); out != "" {
		s.t.Errorf("git status is not clean:\n%s", out)
	}
	s.checkCache()
	s.check()
}

// checkCache compares the tree that git makes of the index by means of its cache of trees with the one that it
// makes of the entries alone.
func (s *sandbox) checkCache() {
	s.t.Helper()
	cached := s.git("write-tree")
	s.sh("git ls-files -s >../entries; GIT_INDEX_FILE=../bare git update-index --index-info <../entries; GIT_INDEX_FILE=../bare git write-tree >../tree; rm ../bare")
	if plain, err := os.ReadFile(s.path("../tree")); err != nil || string(plain) != cached {
		s.t.Errorf("the index's cache of trees says %s, its entries make %s %v", cached, plain, err)
	}
}

func TestCommitWave(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	one := snap(t, r)
	s.sh("echo two >>f; mkdir -p new/deep; echo n >new/deep/n; echo m >new/m; rm src/a/y.go; chmod -x run.sh; rm link; ln -s docs link")
	two := snap(t, r)
	c := commitWave(t, r, Wave{Message: "feat(x): complete wave 1\n\n- 1 thing", Results: []Pair{{Base: one, Result: two}}})
	want := []string{"f", "link", "new/deep/n", "new/m", "run.sh", "src/a/y.go"}
	if c.Empty || !slices.Equal(c.Paths, want) {
		t.Errorf("committed %q, want %q", c.Paths, want)
	}
	s.clean()
	if got := strings.TrimSpace(s.git("rev-parse", "HEAD")); got != c.Hash {
		t.Errorf("HEAD is %s, want %s", got, c.Hash)
	}
	if got := strings.TrimSpace(s.git("rev-parse", "HEAD^{tree}")); got != string(two) {
		t.Errorf("tree is %s, want %s", got, two)
	}
	log := s.git("log", "-1", "--format=%an <%ae>%n%cn%n%B", "HEAD")
	if log != "A U Thor <author@example.com>\nA U Thor\nfeat(x): complete wave 1\n\n- 1 thing\n\n" {
		t.Errorf("commit reads\n%s", log)
	}
	for _, ref := range []string{"HEAD", "main"} {
		if got := s.git("reflog", "-1", "--format=%gs", ref); got != "commit: feat(x): complete wave 1\n" {
			t.Errorf("reflog of %s: %q", ref, got)
		}
	}
	if c := commitWave(t, r, Wave{Message: "again", Results: []Pair{{Base: one, Result: two}}}); !c.Empty || c.Hash != "" {
		t.Errorf("the same wave again: %+v, want empty", c)
	}
	if got := snap(t, r); got != two {
		t.Errorf("snapshot after the commit is %s, want %s", got, two)
	}
}

func TestCommitKeepsTheUsersStaging(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.sh("echo user >docs/d.md; git add docs/d.md; echo more >>docs/d.md; echo u >untracked; echo st >staged; git add staged")
	one := snap(t, r)
	s.sh("echo agent >f; echo a >src/new.go")
	two := snap(t, r)
	c := commitWave(t, r, Wave{Message: "w", Results: []Pair{{Base: one, Result: two}}})
	if want := []string{"f", "src/new.go"}; !slices.Equal(c.Paths, want) {
		t.Errorf("committed %q, want %q", c.Paths, want)
	}
	if got, want := s.git("status", "--porcelain"), "MM docs/d.md\nA  staged\n?? untracked\n"; got != want {
		t.Errorf("status:\n%swant\n%s", got, want)
	}
	s.checkCache()
	s.check()
}

func TestCommitLastResultWins(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	trees := []Tree{snap(t, r)}
	for i := range 3 {
		s.sh(fmt.Sprintf("echo %d >f; echo %d >n%d; rm -f n%d", i, i, i, i-1))
		trees = append(trees, snap(t, r))
	}
	// the second attempt was blocked: its work is not in the wave
	if _, err := r.Restore(t.Context(), trees[3], time.Time{}); err != nil {
		t.Fatal(err)
	}
	c := commitWave(t, r, Wave{Message: "w", Results: []Pair{{Base: trees[0], Result: trees[1]}, {Base: trees[2], Result: trees[3]}}})
	if want := []string{"f", "n0", "n2"}; !slices.Equal(c.Paths, want) {
		t.Errorf("committed %q, want %q", c.Paths, want)
	}
	if got := s.git("show", "HEAD:f"); got != "2\n" {
		t.Errorf("f is %q", got)
	}
	if got := s.git("status", "--porcelain"); got != " D n0\n" {
		t.Errorf("status:\n%s", got)
	}
	s.check()
}

func TestCommitFiles(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(base + "mkdir -p .scud/tasks; echo '{}' >.scud/tasks/x.json; echo '.descartes/' >>.gitignore; git add .; git commit -qm tasks")
	r := s.reopen(".scud/", ".descartes/")
	one := snap(t, r)
	s.sh("echo done >.scud/tasks/x.json; mkdir .descartes; echo s >.descartes/state; echo two >f")
	two := snap(t, r)
	c := commitWave(t, r, Wave{Message: "w", Results: []Pair{{Base: one, Result: two}}, UserPaths: []string{"f"},
		Files: map[string][]byte{".scud/tasks/x.json": []byte("done\n"), ".scud/tasks/new.json": []byte("new\n"), ".descartes/state": []byte("s\n")}})
	if want := []string{".scud/tasks/new.json", ".scud/tasks/x.json", "f"}; !slices.Equal(c.Paths, want) {
		t.Errorf("committed %q, want %q", c.Paths, want)
	}
	if len(c.Notes) != 1 || !strings.HasPrefix(c.Notes[0], "f ") {
		t.Errorf("notes: %q", c.Notes)
	}
	if got := s.git("status", "--porcelain"); got != " D .scud/tasks/new.json\n" {
		t.Errorf("status:\n%s", got)
	}
	head, err := r.HeadTree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := snap(t, r); got != head {
		t.Errorf("snapshot %s after the commit, want HEAD's tree %s", got, head)
	}
	s.check()
}

func TestCommitUnbornAndDetached(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh("git init -q .; echo 1 >a; mkdir d; echo 2 >d/b")
	r := s.reopen()
	empty, err := r.HeadTree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := commitWave(t, r, Wave{Message: "first", Results: []Pair{{Base: empty, Result: snap(t, r)}}})
	s.clean()
	if got := s.git("reflog", "-1", "--format=%gs"); got != "commit (initial): first\n" {
		t.Errorf("reflog %q", got)
	}
	s.sh("git checkout -q --detach; echo 2 >a")
	base, _ := r.HeadTree(t.Context())
	d := commitWave(t, r, Wave{Message: "second", Results: []Pair{{Base: base, Result: snap(t, r)}}})
	s.clean()
	if got := strings.TrimSpace(s.git("rev-parse", "HEAD", "HEAD^", "main")); got != d.Hash+"\n"+c.Hash+"\n"+c.Hash {
		t.Errorf("HEAD, its parent and main: %s", got)
	}
	h, err := r.Head(t.Context())
	if err != nil || h != (Head{Hash: d.Hash}) {
		t.Errorf("head %+v, %v", h, err)
	}
}

func TestCommitInLinkedWorktree(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(base + "git worktree add -q -b side ../linked")
	s.dir += "/../linked"
	r := s.reopen()
	one := snap(t, r)
	s.sh("echo two >f")
	commitWave(t, r, Wave{Message: "w", Results: []Pair{{Base: one, Result: snap(t, r)}}})
	s.clean()
	if got := s.git("log", "-1", "--format=%s", "side"); got != "w\n" {
		t.Errorf("side is at %q", got)
	}
}

func TestCommitWhileLocked(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	one := snap(t, r)
	s.sh("echo two >f; touch .git/index.lock")
	two := snap(t, r)
	head := s.git("rev-parse", "HEAD")
	_, err := r.CommitWave(t.Context(), Wave{Message: "w", Results: []Pair{{Base: one, Result: two}}})
	if err == nil || !strings.Contains(err.Error(), "index.lock") {
		t.Errorf("error %v, want one that names the lock", err)
	}
	if s.git("rev-parse", "HEAD") != head {
		t.Error("HEAD moved")
	}
	if err := os.Remove(s.path(".git/index.lock")); err != nil {
		t.Fatal(err)
	}
	commitWave(t, r, Wave{Message: "w", Results: []Pair{{Base: one, Result: two}}})
	s.clean()
}

func TestCommitReplacesFileByDirectory(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	one := snap(t, r)
	s.sh("rm f; mkdir f; echo in >f/in; rm -r docs; echo docs >docs")
	two := snap(t, r)
	commitWave(t, r, Wave{Message: "w", Results: []Pair{{Base: one, Result: two}}})
	s.clean()
	s.sh("rm -r f docs; echo f >f; mkdir -p docs/a; echo x >docs/a/b")
	commitWave(t, r, Wave{Message: "w", Results: []Pair{{Base: two, Result: snap(t, r)}}})
	s.clean()
}

// TestChangeRightAfterCommit: a change within the same tick of the clock, of the same size, must not hide.
func TestChangeRightAfterCommit(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	last := snap(t, r)
	for i := range 12 {
		s.put("f", fmt.Sprintf("%03d\n", i))
		now := snap(t, r)
		commitWave(t, r, Wave{Message: "w", Results: []Pair{{Base: last, Result: now}}})
		s.put("f", fmt.Sprintf("%03d\n", i+500))
		if out := s.git("status", "--porcelain"); out != " M f\n" {
			t.Fatalf("round %d: status %q", i, out)
		}
		last = now
	}
}

const leftAlone = " was committed by somebody else meanwhile and is left as it is"

// byHand commits entries as somebody else would, without the working tree.
func (s *sandbox) byHand(script string) {
	s.t.Helper()
	s.sh(`export GIT_INDEX_FILE=../by-hand; git read-tree HEAD
put() { git update-index --replace --add --cacheinfo 100644,$(printf '%s\n' "$2" | git hash-object -w --stdin),$1; }
` + script + `
git update-ref HEAD $(git commit-tree -p HEAD -m "by hand" $(git write-tree)); rm ../by-hand`)
}

// What somebody commits between a wave's attempts and its commit is not undone.
func TestWaveLeavesWhatOthersCommit(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "echo mine >>run.sh; echo 0 >gone; echo 0 >kept; git add gone kept; git commit -qm2 gone kept")
			first := Pair{Base: mustSnapshot(t, r)}
			s.sh("echo 1 >f; echo 1 >src/x.go; echo 1 >src/a/y.go; echo 1 >new; echo 1 >same; rm docs/d.md gone; echo 1 >run.sh; mkdir in; echo 1 >in/way; echo 1 >over; echo 1 >kept")
			first.Result = mustSnapshot(t, r)
			s.sh("echo user >src/a/y.go; git commit -qm user src/a/y.go")
			second := Pair{Base: mustSnapshot(t, r)}
			s.sh("echo user >>src/a/y.go; echo 2 >>src/a/y.go; echo 2 >second")
			second.Result = mustSnapshot(t, r)
			s.byHand(`put f user; put new user; put same 1; put docs/d.md user; put run.sh user; put in user; put over/n user; git update-index --force-remove gone`)

			wave := Wave{Message: waveMessage, Results: []Pair{first, second}, UserPaths: []string{"run.sh"}}
			done, err := r.CommitWave(t.Context(), wave)
			if want := []string{"kept", "run.sh", "second", "src/a/y.go", "src/x.go"}; err != nil || !slices.Equal(done.Paths, want) {
				t.Fatalf("committed %q, %v, want %q", done.Paths, err, want)
			}
			want := []string{"docs/d.md" + leftAlone, "f" + leftAlone, "in/way" + leftAlone, "new" + leftAlone, "over" + leftAlone,
				"run.sh had uncommitted changes of yours, which are in this commit too"}
			if !slices.Equal(done.Notes, want) {
				t.Errorf("notes\n%s", strings.Join(done.Notes, "\n"))
			}
			for name, want := range map[string]string{"f": "user", "new": "user", "same": "1", "docs/d.md": "user", "in": "user", "over/n": "user", "run.sh": "1", "src/x.go": "1",
				"src/a/y.go": "user\nuser\n2", "kept": "1", "second": "2"} {
				if got := s.git("show", "HEAD:"+name); got != want+"\n" {
					t.Errorf("%s is committed as %q", name, got)
				}
			}
			if out, code := s.tryGit("rev-parse", "-q", "--verify", "HEAD:gone"); code == 0 {
				t.Errorf("the deleted file is back: %s", out)
			}
			if out := s.git("fsck", "--strict", "--no-dangling", "--no-progress"); out != "" {
				t.Errorf("git fsck: %s", out)
			}
			again, err := r.CommitWave(t.Context(), wave)
			if err != nil || !again.Empty || !slices.Equal(again.Notes, want[:5]) {
				t.Errorf("again: %+v, %v", again, err)
			}
		})
	}
}

// What an earlier run left uncommitted is in no commit yet, and nobody else's: where it is known what HEAD was.
func TestWaveOnUncommittedWork(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays {
		for name, known := range map[string]bool{"HEAD known": true, "HEAD unknown": false} {
			t.Run(way.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s, r := openBothWays(t, way.setup, "echo left >f; echo left >src/x.go")
				p := Pair{Base: mustSnapshot(t, r)}
				s.sh("echo 1 >>f; echo 1 >>src/x.go")
				p.Result = mustSnapshot(t, r)
				if known {
					p.Head = strings.TrimSpace(s.git("rev-parse", "HEAD"))
				}
				s.byHand("put src/x.go user")
				done, err := r.CommitWave(t.Context(), Wave{Message: waveMessage, Results: []Pair{p}})
				paths, notes := []string{"f"}, []string{"src/x.go" + leftAlone}
				if !known {
					paths, notes = nil, []string{"f" + leftAlone, "src/x.go" + leftAlone}
				}
				if err != nil || !slices.Equal(done.Paths, paths) || !slices.Equal(done.Notes, notes) {
					t.Errorf("committed %q, %v, notes %q", done.Paths, err, done.Notes)
				}
			})
		}
	}
}

// Of a repository inside the repository a commit holds no file.
func TestWaveTellsOfNestedRepositories(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "")
			last := mustSnapshot(t, r)
			for _, script := range []string{"git init -q inner; cd inner; echo 1 >f; git add f; git commit -qm1", "cd inner; echo 2 >f; git commit -qam2", "echo 3 >>f"} {
				s.sh(script)
				now := mustSnapshot(t, r)
				done, err := r.CommitWave(t.Context(), Wave{Message: waveMessage, Results: []Pair{{Base: last, Result: now}}})
				if err != nil {
					t.Fatal(err)
				}
				var want []string
				if strings.Contains(script, "inner") {
					want = []string{"inner is a repository of its own: the commit holds only the id of its commit"}
				}
				if !slices.Equal(done.Notes, want) {
					t.Errorf("%s: notes %q", script, done.Notes)
				}
				last = now
			}
		})
	}
}

// A file of the wave that a rule ignores is committed where the user staged it, and else left out.
func TestWaveFilesIgnored(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.sh("echo list/ >>.gitignore; git commit -qam rule; mkdir list; echo 1 >list/staged; echo 1 >list/loose; git add -f list/staged")
	c := commitWave(t, r, Wave{Message: "w", Files: map[string][]byte{"list/staged": []byte("2\n"), "list/loose": []byte("2\n")}})
	if !slices.Equal(c.Paths, []string{"list/staged"}) {
		t.Errorf("committed %q", c.Paths)
	}
}

// However many files of the wave there are, a commit with hooks takes the same few calls of git.
func TestWaveFilesTakeNoCallEach(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{setup: hook("pre-commit", "true")})
	s.gitScript("echo . >>../calls; exec " + gitProgram(t) + " \"$@\"\n")
	r, err := s.open("", s.path("../git"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	calls := func(files map[string][]byte) int {
		s.put("../calls", "")
		if done := commitWave(t, r, Wave{Message: waveMessage, Files: files}); len(done.Paths) != len(files) {
			t.Errorf("committed %q", done.Paths)
		}
		b, err := os.ReadFile(s.path("../calls"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "\n")
	}
	one := calls(map[string][]byte{"a": []byte("1\n")})
	if three := calls(map[string][]byte{"a": []byte("2\n"), "b": []byte("2\r\n"), "c": nil}); three != one || one > 5 {
		t.Errorf("one file takes %d calls, three take %d", one, three)
	}
	if got := s.git("show", "HEAD:a", "HEAD:b"); got != "2\n2\r\n" {
		t.Errorf("committed %q", got)
	}
}
