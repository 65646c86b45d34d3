package gitops

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The rules of a wave hold whoever does the work.
var bothWays = []struct{ name, setup string }{
	{"natively", ""},
	{"by git", "git config core.sharedRepository group\n"},
	{"commit by git", hook("pre-commit", "true")},
}

func openBothWays(t *testing.T, setup, more string, protect ...string) (*sandbox, *Repo) {
	t.Helper()
	s := newTwin(t, &scenario{setup: setup + more})
	r, err := Open(t.Context(), Options{Dir: s.dir, Protect: protect, Git: gitProgram(t), Env: s.env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return s, r
}

func mustSnapshot(t *testing.T, r *Repo) Tree {
	t.Helper()
	tree, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// A wave of three attempts, one of them failed, beside a user's own changes, staged and not.
func TestWaveBothWays(t *testing.T) {
	t.Parallel()
	const user = `mkdir -p .scud/tasks; echo '{"v":1}' >.scud/tasks/t.json; git add .; git commit -qm2
echo mine >staged; git add staged; echo mine >>docs/d.md; echo both >>src/a/y.go; echo loose >loose; git rm -q --cached run.sh`
	for _, way := range bothWays {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, user, ".scud/tasks/t.json", ".descartes/")
			dirty, err := r.Dirty(t.Context())
			if want := []string{"docs/d.md", "loose", "run.sh", "src/a/y.go", "staged"}; err != nil || !slices.Equal(dirty, want) {
				t.Fatalf("dirty %q, %v, want %q", dirty, err, want)
			}
			base := mustSnapshot(t, r)

			s.sh(`echo 1 >>src/x.go; echo 1 >n1; echo 1 >n2; echo '{"v":"agent"}' >.scud/tasks/t.json; mkdir .descartes; echo 1 >.descartes/x`)
			first := mustSnapshot(t, r)
			if got := s.git("show", string(first)+":.scud/tasks/t.json"); got != "{\"v\":1}\n" {
				t.Errorf("the snapshot holds the protected file as %q", got)
			}

			s.sh("echo 2 >>src/x.go; echo 2 >>f; rm n1 docs/d.md; echo 2 >n1.log; mkdir -p deep/er; echo 2 >deep/er/f")
			mustSnapshot(t, r)
			put, err := r.Restore(t.Context(), first, time.Time{})
			if back, gone := []string{"docs/d.md", "f", "n1", "src/x.go"}, []string{"deep/er/f"}; err != nil || !slices.Equal(put.Back, back) || !slices.Equal(put.Removed, gone) || len(put.Left) > 0 {
				t.Errorf("restored %+v, %v, want %q back, %q removed", put, err, back, gone)
			}
			s.sh(`test ! -e deep; test "$(cat .scud/tasks/t.json)" = '{"v":"agent"}'; test -e .descartes/x; test -e n1.log; test "$(tail -n1 docs/d.md)" = mine`)

			s.sh("echo 3 >>src/x.go; rm n1; echo 3 >n3; echo 3 >>src/a/y.go; echo '{\"v\":2}' >.scud/tasks/t.json")
			second := mustSnapshot(t, r)
			wave := Wave{
				Message: waveMessage, Results: []Pair{{Base: base, Result: first}, {Base: first, Result: second}},
				Files:     map[string][]byte{".scud/tasks/t.json": []byte("{\"v\":2}\n"), "own.log": []byte("ignored")},
				UserPaths: dirty,
			}
			done, err := r.CommitWave(t.Context(), wave)
			if want := []string{".scud/tasks/t.json", "n2", "n3", "src/a/y.go", "src/x.go"}; err != nil || !slices.Equal(done.Paths, want) {
				t.Fatalf("committed %q, %v, want %q", done.Paths, err, want)
			}
			if len(done.Notes) != 1 || !strings.HasPrefix(done.Notes[0], "src/a/y.go ") {
				t.Errorf("notes %q", done.Notes)
			}
			if got := s.git("show", "HEAD:src/x.go"); got != "x\n1\n3\n" {
				t.Errorf("src/x.go is committed as %q", got)
			}
			const status = " M docs/d.md\nD  run.sh\nA  staged\n?? .descartes/x\n?? loose\n?? run.sh\n"
			if got := s.git("status", "--porcelain", "-uall"); got != status {
				t.Errorf("git status\n%swant\n%s", got, status)
			}
			if again, err := r.CommitWave(t.Context(), wave); err != nil || !again.Empty || again.Hash != "" {
				t.Errorf("committed again: %+v, %v", again, err)
			}
			if got := mustSnapshot(t, r); got == second {
				t.Error("the snapshot after the commit does not hold the task file")
			}
			if out := s.git("fsck", "--strict", "--no-dangling", "--no-progress"); out != "" {
				t.Errorf("git fsck: %s", out)
			}
		})
	}
}

// What stands in the way of a restore and is in no snapshot is not ours to delete.
func TestRestoreStopsAtIgnoredFiles(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "")
			base := mustSnapshot(t, r)
			s.sh("rm f; mkdir f; echo 1 >f/keep.log; echo 2 >f/new; echo 3 >run.sh")
			mustSnapshot(t, r)
			put, err := r.Restore(t.Context(), base, time.Time{})
			if want := []LeftOut{{"f", "it is a directory now, and holds f/keep.log, which is in no snapshot"}}; err != nil || !slices.Equal(put.Left, want) {
				t.Errorf("left %v, %v, want %v", put.Left, err, want)
			}
			s.sh("test -e f/keep.log; test ! -e f/new; test \"$(cat run.sh)\" = '#!/bin/sh'")

			s.sh("rm -r f docs; echo 1 >f; mkdir build; echo 3 >build/x")
			s.put(".git/info/exclude", "/docs\n")
			s.sh("echo not a directory >docs")
			mustSnapshot(t, r)
			put, err = r.Restore(t.Context(), base, time.Time{})
			if want := []LeftOut{{"docs/d.md", "docs is a file now, which is in no snapshot"}}; err != nil || !slices.Equal(put.Left, want) {
				t.Errorf("left %v, %v, want %v", put.Left, err, want)
			}
			s.sh(`test -f docs; test "$(cat build/x)" = 3`)
		})
	}
}

// A file that a snapshot holds and a rule covers later is ignored from then on, unless it is tracked.
func TestRuleComesLater(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "echo 1 >tracked.tmp; git add .; git commit -qm2")
			base := mustSnapshot(t, r)
			s.sh("echo 1 >new.tmp; echo 2 >tracked.tmp; mkdir d; echo 3 >d/x")
			if got := s.git("diff", "--name-only", string(base), string(mustSnapshot(t, r))); got != "d/x\nnew.tmp\ntracked.tmp\n" {
				t.Errorf("first\n%s", got)
			}
			s.sh("printf '*.tmp\n/d/\n' >>.gitignore")
			if got := s.git("diff", "--name-only", string(base), string(mustSnapshot(t, r))); got != ".gitignore\ntracked.tmp\n" {
				t.Errorf("covered\n%s", got)
			}
			s.sh("git checkout -q .gitignore")
			if got := s.git("diff", "--name-only", string(base), string(mustSnapshot(t, r))); got != "d/x\nnew.tmp\ntracked.tmp\n" {
				t.Errorf("uncovered\n%s", got)
			}
		})
	}
}

// A nested repository without a commit is nothing that git can record: it is left out, and left alone.
func TestSnapshotLeavesOutUncommittedRepositories(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "")
			base := mustSnapshot(t, r)
			s.sh("git init -q inner; echo 1 >inner/f; git init -q docs/two; echo 2 >new")
			result := mustSnapshot(t, r)
			if got := s.git("diff", "--name-status", string(base), string(result)); got != "A\tnew\n" {
				t.Errorf("the snapshot adds\n%s", got)
			}
			if _, err := r.Restore(t.Context(), base, time.Time{}); err != nil {
				t.Error(err)
			}
			s.sh("test -e inner/f; test ! -e new")
		})
	}
}

// A tracked file that became a pipe counts as deleted, and comes back.
func TestFileBecomesPipe(t *testing.T) {
	t.Parallel()
	s, r := openBothWays(t, "", "")
	base := mustSnapshot(t, r)
	s.sh("rm f; mkfifo f")
	result := mustSnapshot(t, r)
	if got := s.git("diff", "--name-status", string(base), string(result)); got != "D\tf\n" {
		t.Errorf("the snapshot says\n%s", got)
	}
	if _, err := r.Restore(t.Context(), base, time.Time{}); err != nil {
		t.Error(err)
	}
	s.sh("test -f f")
}

// The index lock of another git command is waited for, then reported; nothing is committed meanwhile.
func TestCommitBehindALock(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "")
			base := mustSnapshot(t, r)
			s.sh("echo 2 >>f; : >.git/index.lock")
			wave := Wave{Message: waveMessage, Results: []Pair{{Base: base, Result: mustSnapshot(t, r)}}}
			head := s.git("rev-parse", "HEAD")
			if _, err := r.CommitWave(t.Context(), wave); err == nil || !strings.Contains(err.Error(), "index.lock is held") {
				t.Errorf("got %v", err)
			}
			if now := s.git("rev-parse", "HEAD"); now != head {
				t.Errorf("HEAD moved to %s", now)
			}
			s.sh("rm .git/index.lock")
			if done, err := r.CommitWave(t.Context(), wave); err != nil || !slices.Equal(done.Paths, []string{"f"}) {
				t.Errorf("got %+v, %v", done, err)
			}
		})
	}
}

// What is only looked at is not stored: it may be large or secret, and no run may come of it.
func TestLookingStoresNothing(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "")
			base := mustSnapshot(t, r)
			s.sh("echo staged >docs/s; git add docs/s; echo later >>docs/s; echo 2 >>f; head -c 100000 /dev/urandom >large; rm src/x.go; mkdir -p deep/er; echo 1 >deep/er/x; git rm -q --cached run.sh; chmod +x src/a/y.go")
			objects := func() string { return s.git("count-objects", "-v") }
			before := objects()
			changed := []string{"deep/er/x", "docs/s", "f", "large", "src/a/y.go", "src/x.go"}
			for range 2 {
				if got, err := r.ChangedSince(t.Context(), base); err != nil || !slices.Equal(got, changed) {
					t.Errorf("changed since the snapshot: %q, %v, want %q", got, err, changed)
				}
				want := slices.Sorted(slices.Values(append(slices.Clone(changed), "run.sh")))
				if got, err := r.Dirty(t.Context()); err != nil || !slices.Equal(got, want) {
					t.Errorf("dirty: %q, %v, want %q", got, err, want)
				}
			}
			if after := objects(); after != before {
				t.Errorf("objects before\n%sand after\n%s", before, after)
			}
			result := mustSnapshot(t, r)
			if got, err := r.ChangedSince(t.Context(), result); err != nil || len(got) > 0 {
				t.Errorf("changed since the last snapshot: %q, %v", got, err)
			}
			if _, err := r.Keep(t.Context(), "refs/descartes/l/1/1", result, nil, "kept"); err != nil {
				t.Error(err)
			}
			s.check()
		})
	}
}

// A protected folder may be ignored too.
func TestSnapshotBesideAnIgnoredFolder(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "echo /own >>.gitignore; git commit -qam rule", "own/")
			base := mustSnapshot(t, r)
			s.sh("mkdir own; echo 1 >own/f; echo 1 >new; rm run.sh")
			if got := s.git("diff", "--name-status", string(base), string(mustSnapshot(t, r))); got != "A\tnew\nD\trun.sh\n" {
				t.Errorf("the snapshot says\n%s", got)
			}
		})
	}
}
