package gitops

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What an agent does to the git directory, and what becomes of it: HEAD, branch, index, configuration, hooks
// and state are as before, the working tree is as the agent left it, and each undoing is told in one note.
var guardRows = []struct {
	name, setup, attempt string
	notes                []string // a part of each, in order
	commits              bool     // the agent's own are reported
	tree                 bool     // what is put back lies in the working tree
	keeps, loses         string   // refs that there are afterwards besides those of before, or not any more
}{
	{name: "nothing", attempt: "echo 2 >>f"},
	{name: "git status", attempt: "touch f src/x.go; git status >/dev/null"},
	{name: "commit", attempt: "echo 2 >>f; git commit -qam own", notes: []string{"branch main went from", "own commits up to"}, commits: true},
	{name: "several commits", attempt: "echo 2 >>f; git commit -qam own; echo 3 >n; git add n; git commit -qm own2", notes: []string{"branch main went", "own commits"}, commits: true},
	{name: "amend", attempt: "echo 2 >>f; git commit -qa --amend -m other", notes: []string{"branch main went", "own commits"}, commits: true},
	{name: "reset to an older commit", setup: "git commit -qm2 --allow-empty", attempt: "git reset -q --hard HEAD~1", notes: []string{"branch main went"}},
	{name: "commit on an unborn branch", setup: "!git init -q .", attempt: "echo 1 >f; git add f; git commit -qm own", notes: []string{"branch main went from nothing", "own commits"}, commits: true},
	{name: "commit when detached", setup: "git checkout -q --detach", attempt: "echo 2 >>f; git commit -qam own", notes: []string{"HEAD was at commit", "own commits"}, commits: true},
	{name: "new branch", attempt: "git checkout -qb side", notes: []string{"branch side was checked out; switched back to branch main", "branch side was made"}, keeps: "refs/heads/side"},
	{name: "new branch with a commit", attempt: "git checkout -qb side; echo 2 >>f; git commit -qam own", notes: []string{"branch side was checked out", "own commits", "branch side was made"}, commits: true, keeps: "refs/heads/side"},
	{name: "old branch", setup: "git branch old; echo 2 >>f; git commit -qam2", attempt: "git checkout -q old", notes: []string{"branch old was checked out"}},
	{name: "detached by the attempt", attempt: "git checkout -q --detach", notes: []string{"HEAD was at commit"}},
	{name: "orphan branch", attempt: "git checkout -q --orphan fresh", notes: []string{"branch fresh was checked out"}},
	{name: "branch deleted", attempt: "git checkout -q --detach; git branch -qD main", notes: []string{"HEAD was", "branch main went"}},
	{name: "other branch deleted", setup: "git branch old", attempt: "git branch -qD old", notes: []string{"branch old was deleted during the attempt and put back"}},
	{name: "packed branch deleted", setup: "git branch old; git tag v1; git pack-refs --all", attempt: "git branch -qD old; git tag -d v1 >/dev/null", notes: []string{"branch old was deleted", "tag v1 was deleted"}},
	{name: "other branch moved", setup: "git branch old; git commit -qm2 --allow-empty", attempt: "git branch -f old", notes: []string{"branch old was moved"}},
	{name: "branch renamed", attempt: "git branch -m main trunk", notes: []string{"branch trunk was checked out; switched back to branch main", "branch main went", "branch trunk was made"}, keeps: "refs/heads/trunk"},
	{name: "tag", attempt: "git tag v1", notes: []string{"tag v1 was made"}, keeps: "refs/tags/v1"},
	{name: "refs packed", setup: "git branch old", attempt: "git pack-refs --all; git gc -q"},
	{name: "add", attempt: "echo 2 >>f; git add f"},
	{name: "rm --cached", attempt: "git rm -q --cached f"},
	{name: "index deleted", attempt: "rm .git/index"},
	{name: "index damaged", attempt: "echo x >.git/index", notes: []string{"index was changed"}},
	{name: "index split", attempt: "git update-index --split-index; echo 2 >>f; git add f", notes: []string{"index was changed"}},
	{name: "stash", attempt: "echo 2 >>f; git stash -q", notes: []string{"ran git stash; its entry"}, keeps: "refs/stash"},
	{name: "stash and pop", attempt: "echo 2 >>f; git stash -q; git stash pop -q"},
	{name: "user's stash dropped", setup: "echo 2 >>f; git stash -q", attempt: "git stash drop -q", notes: []string{"dropped the stash entry"}},
	{name: "user's stashes cleared", setup: "for n in 2 3; do echo $n >>f; git stash -q; done", attempt: "git stash clear", notes: []string{"dropped the stash entry", "dropped the stash entry"}},
	{name: "one stash of two dropped", setup: "for n in 2 3; do echo $n >>f; git stash -q; done", attempt: "git stash drop -q", notes: []string{"brings it back"}},
	{name: "log of the stash deleted", setup: "echo 2 >>f; git stash -q", attempt: "rm .git/logs/refs/stash", notes: []string{"; it was put back"}},
	{name: "ref of the stash deleted", setup: "echo 2 >>f; git stash -q", attempt: "rm .git/refs/stash", notes: []string{"refs/stash was deleted during the attempt and put back"}},
	{name: "refs of other tools deleted", setup: "git update-ref refs/jj/keep/1 HEAD; git update-ref refs/original/refs/heads/main HEAD; git pack-refs --all; git update-ref refs/one HEAD",
		attempt: "for r in jj/keep/1 original/refs/heads/main one; do git update-ref -d refs/$r; done", notes: []string{"refs/jj/keep/1 was deleted during the attempt and put back", "refs/one was deleted", "refs/original/refs/heads/main was deleted"}},
	{name: "merge left", setup: conflict, attempt: "git merge -q x || true", notes: []string{"the attempt's git commands left unfinished: .git/MERGE_HEAD .git/MERGE_MODE .git/MERGE_MSG; kept: commit"}},
	{name: "merge done", setup: "git checkout -qb x; echo x >n; git add n; git commit -qm2; git checkout -q main; git commit -qm3 --allow-empty", attempt: "git merge -q -m merged x", notes: []string{"branch main went", "own commits"}, commits: true},
	{name: "rebase left", setup: conflict, attempt: "git rebase -q x || true", notes: []string{".git/rebase-merge", "HEAD was"}},
	{name: "cherry-pick left", setup: conflict, attempt: "git cherry-pick x || true", notes: []string{".git/CHERRY_PICK_HEAD"}},
	{name: "bisect left", setup: "git commit -qm2 --allow-empty", attempt: "git bisect start -q HEAD HEAD~1", notes: []string{"BISECT"}},
	{name: "config", attempt: "git config core.hooksPath /tmp/evil; git config user.name Agent", notes: []string{".git/config was changed"}},
	{name: "config deleted", attempt: "rm .git/config", notes: []string{".git/config was changed"}},
	{name: "worktree config added", attempt: "echo '[core]' >.git/config.worktree", notes: []string{".git/config.worktree was changed"}},
	{name: "hook added", attempt: hook("pre-commit", "exit 1"), notes: []string{"hook pre-commit was added"}},
	{name: "hook changed", setup: hook("pre-push", "exit 0"), attempt: hook("pre-push", "exit 1"), notes: []string{"hook pre-push was changed"}},
	{name: "hook made executable", setup: hook("pre-push", "exit 0") + "chmod -x .git/hooks/pre-push", attempt: "chmod +x .git/hooks/pre-push", notes: []string{"hook pre-push was changed"}},
	{name: "hooks are a link", setup: "mkdir h; rm -r .git/hooks; ln -s ../h .git/hooks", attempt: "echo 1 >h/pre-commit; chmod +x h/pre-commit", tree: true, notes: []string{"hook h/pre-commit was added during the attempt and removed"}},
	{name: "hooks are a link outside", setup: "mkdir ../h; rm -r .git/hooks; ln -s ../../h .git/hooks", attempt: "echo 1 >../h/pre-commit; chmod +x ../h/pre-commit"},
	{name: "hook in what hooks are a link to", setup: "mkdir h; echo 1 >h/pre-push; rm -r .git/hooks; ln -s ../h .git/hooks", attempt: "echo evil >h/pre-push", tree: true, notes: []string{"hook h/pre-push was changed"}},
	{name: "hook is a link", setup: hookLink, attempt: "echo evil >s/a", tree: true, notes: []string{"hook s/a was changed during the attempt and put back; its text is kept in .git/descartes-changed/a-"}},
	{name: "hook is a link through links", setup: hookLink + "ln -s s t; ln -s a s/b; ln -sf ../../t/b .git/hooks/pre-push", attempt: "echo evil >s/c; ln -sf c s/b; mkdir u; echo evil >u/b; rm t; ln -s u t", tree: true,
		notes: []string{"hook s/b was changed", "hook t was changed"}},
	{name: "folder of a linked hook replaced", setup: hookLink, attempt: "mkdir u; echo evil >u/a; mv s v; ln -s u s", tree: true, notes: []string{"hook s/a was changed"}},
	{name: "hook is a link to nothing", setup: "mkdir -p .git/hooks; ln -s ../../no .git/hooks/pre-push", attempt: "echo evil >no", tree: true, notes: []string{"hook no was changed during the attempt and put back"}},
	{name: "hook linked to a file by the attempt", attempt: "mkdir -p .git/hooks; ln -s ../../f .git/hooks/pre-push", notes: []string{"hook pre-push was added during the attempt and removed"}},
	{name: "hook is a link to itself", setup: "mkdir -p .git/hooks; ln -s pre-push .git/hooks/pre-push; ln -s $PWD/../l ../l; ln -s ../../../l .git/hooks/pre-commit", attempt: "echo 2 >>f"},
	{name: "hooks of a submodule", setup: linkedLib, attempt: "git -C sm config core.fsmonitor evil; mkdir -p .git/modules/sm/hooks; echo evil >.git/modules/sm/hooks/pre-commit; echo '* filter=x' >.git/modules/sm/info/attributes",
		notes: []string{".git/modules/sm/config was changed", ".git/modules/sm/info/attributes was changed", "hook .git/modules/sm/hooks/pre-commit was added"}},
	{name: "hooks linked away", setup: hook("pre-push", "exit 0"), attempt: "mkdir h; rm -r .git/hooks; ln -s ../h .git/hooks", notes: []string{".git/hooks was changed", "hook pre-push was changed"}},
	{name: "hooks link replaced", setup: "mkdir h; rm -r .git/hooks; ln -s ../h .git/hooks", attempt: "rm .git/hooks; " + hook("pre-commit", "exit 1"), notes: []string{".git/hooks was changed"}},
	{name: "hooks deleted", setup: hook("pre-push", "exit 0"), attempt: "rm -r .git/hooks", notes: []string{"hook pre-push was changed"}},
	{name: "info", setup: "mkdir -p .git/info; echo '*.x' >.git/info/exclude", attempt: "echo '*' >.git/info/exclude; echo '* text' >.git/info/attributes; git rev-parse HEAD >.git/info/grafts", notes: []string{"info/attributes", "info/exclude", "info/grafts"}},
	{name: "locks left", attempt: ": >.git/index.lock; : >.git/HEAD.lock; : >.git/refs/heads/main.lock; : >.git/config.lock; echo 2 >>f", notes: []string{".git/HEAD.lock .git/config.lock .git/index.lock .git/refs/heads/main.lock"}},
	{name: "housekeeping killed", attempt: "echo 2 >>f; git commit -qam own; : >.git/objects/maintenance.lock; : >.git/objects/pack/multi-pack-index.lock", commits: true, notes: []string{".git/objects/maintenance.lock .git/objects/pack/multi-pack-index.lock", "branch main went", "own commits"}},
	{name: "lock of before", setup: ": >.git/index.lock", attempt: "echo 2 >>f"},
	{name: "linked working tree", setup: "git worktree add -q -b side work", attempt: "echo 2 >>f; git commit -qam own; git checkout -q --detach", notes: []string{"HEAD was", "branch side went", "own commits"}, commits: true},
	{name: "remote refs and notes", setup: "git update-ref refs/remotes/origin/x HEAD; git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/x; git notes add -m n",
		attempt: "git update-ref -d refs/remotes/origin/x; git symbolic-ref -d refs/remotes/origin/HEAD; git update-ref -d refs/notes/commits",
		notes:   []string{"refs/notes/commits was deleted", "refs/remotes/origin/HEAD was deleted", "refs/remotes/origin/x was deleted"}},
	{name: "FIFOs", attempt: "for f in MERGE_HEAD index config; do rm -f .git/$f; mkfifo .git/$f; done", notes: []string{"unfinished: .git/MERGE_HEAD", ".git/config was changed", "index was"}},
	{name: "sparse file", attempt: "truncate -s 8G .git/MERGE_HEAD", notes: []string{"left unfinished: .git/MERGE_HEAD"}},
	{name: "hooks in subfolders", setup: "mkdir -p .git/hooks/pre-commit.d; echo 1 >.git/hooks/pre-commit.d/1", attempt: "echo evil >.git/hooks/pre-commit.d/1; mkdir -p .git/hooks/new.d/sub; echo 2 >.git/hooks/new.d/sub/2",
		notes: []string{"hook pre-commit.d/1 was changed during the attempt and put back; its text is kept in .git/descartes-changed/1-", "hook new.d/sub/2 was added"}},
	{name: "hooksPath that is not there", setup: "printf '[core] hooksPath = .hk\\n' >>.git/config", attempt: "mkdir -p .hk/sub; echo evil >.hk/pre-commit; echo x >.hk/sub/y", tree: true, notes: []string{"hook .hk/pre-commit was added during the attempt and removed", "hook .hk/sub/y was added"}},
	{name: "hooksPath below the home", setup: "git config --global core.hooksPath '~/hk'", attempt: "mkdir ~/hk; echo evil >~/hk/pre-commit", notes: []string{"hk/pre-commit was added during the attempt and removed"}},
	{name: "hooksPath outside", setup: "mkdir ../hk; echo old >../hk/pre-push; git config core.hooksPath $PWD/../hk", attempt: "echo evil >../hk/pre-push; chmod +x ../hk/pre-push", notes: []string{"hk/pre-push was changed"}},
	{name: "included settings", setup: "git config --add include.path ../team.inc; git config --add includeIf.onbranch:none.path $PWD/../other.inc; echo '[include] path = deep.inc' >team.inc; git config --global include.path $PWD/mine.inc; git config --global --add include.path '~/theirs.inc'",
		attempt: "for f in team.inc deep.inc mine.inc ../other.inc ~/theirs.inc; do echo '[core] hooksPath = evil' >$f; done", tree: true, notes: []string{"/other.inc was changed", "deep.inc was changed", "mine.inc was changed", "team.inc was changed during the attempt and put back; its text is kept in .git/descartes-changed/team.inc-"}},
	{name: "kept attempts deleted", setup: "git update-ref refs/descartes/l/1/1 HEAD; git update-ref refs/descartes/l/1/2 HEAD; git update-ref refs/descartes/l/2/1 HEAD", attempt: "git update-ref -d refs/descartes/l/1/1; rm -r .git/refs/descartes/l/2",
		notes: []string{"2 of the kept attempts under refs/descartes/ were deleted during the attempt and put back"}},
	{name: "kept attempt deleted beside another", setup: "git update-ref refs/descartes/l/1/1 HEAD; git update-ref refs/descartes/l/1/2 HEAD", attempt: "git update-ref -d refs/descartes/l/1/1", notes: []string{"1 of the kept attempts"}},
	{name: "kept attempt deleted from packed-refs", setup: "git update-ref refs/descartes/l/1/1 HEAD; git pack-refs --all", attempt: "sed -i /descartes/d .git/packed-refs", notes: []string{"1 of the kept attempts"}},
	{name: "everything at once", attempt: "git checkout -qb b; echo 2 >>f; git add f; git commit -qm own; git config x.y z; " + hook("pre-commit", "exit 1") + ": >.git/index.lock",
		notes: []string{"index.lock", "config", "hook pre-commit was added", "branch b was checked out", "own commits", "branch b was made"}, commits: true, keeps: "refs/heads/b"},
}

// hookLink makes a hook a link to a tracked file, linkedLib has a submodule sm.
const (
	hookLink  = "mkdir -p .git/hooks s; echo 1 >s/a; git add s; git commit -qm2; ln -s ../../s/a .git/hooks/pre-push\n"
	linkedLib = "git init -q ../lib; git -C ../lib commit -qm1 --allow-empty; git submodule --quiet add ../lib sm; git commit -qm2\n"
)

func TestRepair(t *testing.T) {
	t.Parallel()
	for _, tt := range guardRows {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newTwin(t, &scenario{setup: tt.setup})
			r, err := s.open("", gitProgram(t))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			g, err := r.Guard(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before, refs := gitState(s), refNames(s)
			s.sh(tt.attempt)
			tree := files(t, s.dir)
			tip := ""
			if tt.commits {
				tip = s.git("rev-parse", "-q", "--verify", "HEAD")
			}
			repaired, err := g.Repair(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := diffFiles(before, gitState(s)); diff != "" {
				t.Errorf("differs in .git: %s", diff)
			}
			if diff := diffFiles(tree, files(t, s.dir)); diff != "" && !tt.tree {
				t.Errorf("the working tree changed: %s", diff)
			}
			if !matchNotes(repaired.Notes, tt.notes) {
				t.Errorf("got notes %q, want %q", repaired.Notes, tt.notes)
			}
			if got := repaired.Commits; tt.commits && got != strings.TrimSpace(tip) || !tt.commits && got != "" {
				t.Errorf("got commits %q, HEAD was %q", got, tip)
			}
			now := refNames(s)
			if more, fewer := strings.Join(without(now, refs), " "), strings.Join(without(refs, now), " "); more != tt.keeps || fewer != tt.loses {
				t.Errorf("refs more %q, fewer %q, want %q, %q", more, fewer, tt.keeps, tt.loses)
			}
			if again, err := g.Repair(t.Context()); err != nil || again.Commits != "" || len(again.Notes) > 0 {
				t.Errorf("repaired again: %+v, %v", again, err)
			}
		})
	}
}

func matchNotes(got, want []string) bool {
	return slices.EqualFunc(got, want, strings.Contains)
}

func without(list, drop []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(drop, s) })
}

func refNames(s *sandbox) []string {
	return strings.Fields(s.git("for-each-ref", "--format=%(refname)"))
}

// gitState reads what Repair answers for: small files, hooks, in-progress state, HEAD, and what the index says.
func gitState(s *sandbox) map[string]string {
	s.t.Helper()
	l := s.layout()
	out := map[string]string{}
	for _, dir := range []string{l.gitDir, l.commonDir} {
		names, _ := filepath.Glob(dir + "/*")
		for _, sub := range []string{"hooks", "info"} {
			if fi, err := os.Lstat(filepath.Join(dir, sub)); err != nil || !fi.IsDir() {
				continue // a link: what it leads to is the working tree's
			}
			more, _ := filepath.Glob(filepath.Join(dir, sub, "*"))
			names = append(names, more...)
		}
		for _, p := range names {
			if slices.Contains([]string{"index", "COMMIT_EDITMSG", "ORIG_HEAD", "FETCH_HEAD", "packed-refs", "gc.log", "refs"}, filepath.Base(p)) || strings.HasPrefix(filepath.Base(p), "sharedindex.") {
				continue
			}
			if fi, err := os.Lstat(p); err == nil && fi.Mode().IsRegular() {
				b, err := os.ReadFile(p)
				if err != nil {
					s.t.Fatal(err)
				}
				out[p] = fi.Mode().String() + string(b)
			} else if err == nil && slices.Contains(unfinished, filepath.Base(p)) {
				out[p] = "state"
			}
		}
	}
	out["refs"], _ = s.tryGit("rev-parse", "-q", "--verify", "HEAD")
	out["index"] = s.git("ls-files", "-s", "-v")
	return out
}

// What other people's git commands hold is left: in another working tree, and here while one of them lives.
func TestRepairLeavesOthersLocks(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{setup: "git worktree add -q -b side work"})
	r, err := s.open("", gitProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g, err := r.Guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	alive := s.path("../alive")
	s.put(alive, "")
	editor := exec.Command("git", "commit", "-q", "--allow-empty", "-a")
	editor.Dir, editor.Env = s.dir, append(slices.Clip(s.env), "GIT_EDITOR=while test -e '"+alive+"'; do sleep 0.02; done; :")
	if err := editor.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(os.Remove(alive), editor.Wait()) }()
	lock := filepath.Join(s.layout().gitDir, "index.lock")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(lock); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("git holds no lock")
		}
	}
	s.sh(": >../.git/index.lock; : >../.git/BISECT_LOG; : >../.git/refs/heads/main.lock; : >../.git/config.lock")
	repaired, err := g.Repair(t.Context())
	if err != nil || !matchNotes(repaired.Notes, []string{"left .git/index.lock: git commit -q (process "}) {
		t.Errorf("got %q, %v", repaired.Notes, err)
	}
	s.sh("ls ../.git/index.lock ../.git/BISECT_LOG ../.git/refs/heads/main.lock ../.git/config.lock " + lock)
}

// A verification follows the agent and is repaired after by the same guard.
func TestRepairTwice(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "echo mine >staged; git add staged")
			base := mustSnapshot(t, r)
			g, err := r.Guard(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			after := func(script string, want ...string) {
				t.Helper()
				s.sh(script)
				tree := files(t, s.dir)
				repaired, err := g.Repair(t.Context())
				if err != nil || !matchNotes(repaired.Notes, want) {
					t.Errorf("%s: %v, notes %q", script, err, repaired.Notes)
				}
				if diff := diffFiles(tree, files(t, s.dir)); diff != "" {
					t.Errorf("%s: the working tree changed: %s", script, diff)
				}
				if got := s.git("diff", "--cached", "--name-only"); got != "staged\n" {
					t.Errorf("%s: staged is\n%s", script, got)
				}
			}
			after("echo 1 >one.log; echo 2 >>f; git add -f one.log f; git branch side; : >.git/index.lock", "index.lock", "branch side was made")
			after("true")
			after("git status >/dev/null; touch f; git status >/dev/null")
			mustSnapshot(t, r)
			after("echo 2 >two.log; git add -f two.log; git commit -qm own; git branch -f side", "branch main went", "own commits", "branch side was moved")
			after("rm f; git checkout -q f; echo 3 >>f")
			if got, want := s.git("diff", "--name-only", string(base), string(mustSnapshot(t, r))), "f\none.log\ntwo.log\n"; got != want {
				t.Errorf("the snapshot changes\n%swant\n%s", got, want)
			}
			if again, err := r.Guard(t.Context()); err != nil {
				t.Error(err)
			} else if repaired, err := again.Repair(t.Context()); err != nil || len(repaired.Notes) > 0 {
				t.Errorf("a new guard: %q, %v", repaired.Notes, err)
			}
		})
	}
}

// A branch whose objects went with it cannot be put back, and no ref to nothing is made.
func TestRepairLostObjects(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{setup: "git checkout -qb feature; git commit -q --allow-empty -m 2; git checkout -q main"})
	r, err := s.open("", gitProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g, err := r.Guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.sh("git branch -qD feature; git reflog expire --expire=now --all; git gc -q --prune=now; git config user.name Agent")
	var refused *RefusedError
	repaired, err := g.Repair(t.Context())
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "refs whose objects are not in the repository: branch feature (") {
		t.Errorf("got %+v, %v", repaired, err)
	}
	s.git("fsck", "--strict")
	if name := s.git("config", "user.name"); name == "Agent\n" {
		t.Error("the rest was not put back")
	}
}

// A stash whose objects are gone is refused once; the entries that are left are put back.
func TestRepairLostStash(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{setup: "echo 2 >>f; git stash -q -m one; echo 3 >>f; git stash -q -m two; git tag keep stash@{1}"})
	r, err := s.open("", gitProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g, err := r.Guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lost := strings.TrimSpace(s.git("rev-parse", "stash"))
	s.sh("git stash clear; git gc -q --prune=now")
	repaired, err := g.Repair(t.Context())
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "stash entries whose objects are not in the repository: "+lost) {
		t.Errorf("got %+v, %v", repaired, err)
	}
	if !matchNotes(repaired.Notes, []string{"; it was put back"}) {
		t.Errorf("got notes %q", repaired.Notes)
	}
	if got := s.git("stash", "list"); got != "stash@{0}: On main: one\n" {
		t.Errorf("the stash is\n%s", got)
	}
	if again, err := g.Repair(t.Context()); err != nil || len(again.Notes) > 0 {
		t.Errorf("repaired again: %+v, %v", again, err)
	}
}

// Deepening a shallow clone is a fetch's right.
func TestRepairLeavesDeepened(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{setup: "git commit -qm2 --allow-empty; git commit -qm3 --allow-empty; git clone -q --depth 1 file://$PWD work"})
	r, err := s.open("", gitProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, fetch := range []string{"git fetch -q --depth 2", "git fetch -q --unshallow"} {
		g, err := r.Guard(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.sh(fetch)
		if repaired, err := g.Repair(t.Context()); err != nil || len(repaired.Notes) > 0 {
			t.Errorf("%s: %q, %v", fetch, repaired.Notes, err)
		}
		s.git("fsck", "--strict")
	}
}

// What an agent forces into the index although it is ignored counts from then on.
func TestRepairTracksForcedFiles(t *testing.T) {
	t.Parallel()
	for _, setup := range []string{"", "git config core.sharedRepository group"} {
		s := newTwin(t, &scenario{setup: setup})
		r, err := s.open("", gitProgram(t))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := r.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		g, err := r.Guard(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.sh("echo 1 >forced.log; mkdir build; echo 2 >build/out; echo 3 >other.log; git add -f forced.log build/out")
		if _, err := g.Repair(t.Context()); err != nil {
			t.Fatal(err)
		}
		result, done, err := snapshotAndCommit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"build/out", "forced.log"}; !slices.Equal(done.Paths, want) {
			t.Errorf("%q: committed %q, want %q (snapshot %s)", setup, done.Paths, want, result)
		}
		if out := s.git("status", "--porcelain"); out != "" {
			t.Errorf("%q: git status: %s", setup, out)
		}
	}
}

func TestRepairWithoutRepository(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{})
	r, err := s.open("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g, err := r.Guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.sh("rm -rf .git")
	if _, err := g.Repair(t.Context()); err == nil || !strings.Contains(err.Error(), "the repository is gone") {
		t.Errorf("got %v", err)
	}
}

func TestRepairReplacedRepository(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{})
	r, err := s.open("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g, err := r.Guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.sh("rm -rf .git; git init -q .; git add .; git commit -qm other")
	_, err = g.Repair(t.Context())
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "it was replaced") {
		t.Errorf("got %v", err)
	}
	s.git("fsck", "--strict")
}

func TestFindCommit(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{})
	commit := func(message string) string {
		s.git("commit", "-q", "--allow-empty", "-m", message)
		return strings.TrimSpace(s.git("rev-parse", "HEAD"))
	}
	one := commit("wave\n\nDescartes-Loop: a\nDescartes-Wave: 1\nDescartes-Task: 1\nDescartes-Task: 2")
	commit("not a trailer\n\nDescartes-Loop: a\nDescartes-Wave: 2\n\nlast paragraph")
	s.git("checkout", "-qb", "side", "HEAD~1")
	two := commit("wave\n\nDescartes-Loop: a\nDescartes-Wave: 3\nDescartes-Task: 4\nSigned-off-by: x")
	four := commit("wave\n\nDescartes-Loop: a\nDescartes-Wave: 4\n\nSigned-off-by: hook")
	s.git("checkout", "-q", "main")
	s.git("merge", "-q", "--no-ff", "-m", "merged", "side")
	r, err := s.open("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	loop, wave, task := "Descartes-Loop: ", "Descartes-Wave: ", "Descartes-Task: "
	for _, tt := range []struct {
		from  string
		lines []string
		want  string
	}{{"", []string{loop + "a", wave + "1", task + "2"}, one}, {"", []string{loop + "a", wave + "1"}, one}, {"", []string{loop + "a", wave + "3", task + "4"}, two},
		{"", []string{loop + "a", wave + "3", task + "5"}, ""}, {"", []string{loop + "a", wave + "4"}, four}, {"", []string{loop + "a", wave + "2"}, ""},
		{"", []string{loop + "b", wave + "1"}, ""}, {"", []string{loop + "a", wave + "11"}, ""}, {one, []string{loop + "a"}, one}, {one, []string{wave + "3"}, ""}} {
		got, ok, err := r.FindCommit(t.Context(), tt.from, tt.lines...)
		if err != nil || got != tt.want || ok != (tt.want != "") {
			t.Errorf("%q %q: got %q %v %v, want %q", tt.from, tt.lines, got, ok, err, tt.want)
		}
	}
}
