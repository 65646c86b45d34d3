package gitops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a killed run's attempt did to the git directory is undone by the next run, and what others do
// there afterwards is not.
func TestGuardSinceOfAKilledRun(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"in the attempt": false, "after it": true, "in the attempt, by git": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.git("init", "-q")
			if strings.HasSuffix(name, "by git") {
				s.sh(bothWays[1].setup)
			}
			s.put("a", "a\n")
			s.git("add", "a")
			s.git("commit", "-q", "-m", "start")
			s.put("staged", "the user's\n")
			s.git("add", "staged")
			dead, err := Open(t.Context(), Options{Dir: s.dir, Git: gitProgram(t), Env: s.env})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			g, err := dead.Guard(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.put("work", "the agent's\n")
			mustSnapshot(t, dead)
			s.git("add", "work")
			s.put(".git/index.lock", "")
			ended := time.Now()
			if late {
				ended = began.Add(-time.Hour)
			}
			next, err := Open(t.Context(), Options{Dir: s.dir, Git: gitProgram(t), Env: s.env})
			if err != nil {
				t.Fatal(err)
			}
			if g, err = next.GuardSince(t.Context(), g.Head(), nil, began.Add(-2*time.Hour), ended); err != nil {
				t.Fatal(err)
			}
			if _, err := g.Repair(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, lerr := os.Lstat(s.path(".git/index.lock"))
			if (lerr == nil) != late {
				t.Errorf("the lock: %v", lerr)
			}
			want := map[bool]string{false: "A  staged\n?? work\n", true: "A  staged\nA  work\n"}[late]
			if got := s.git("--no-optional-locks", "status", "--porcelain"); got != want {
				t.Errorf("git status says:\n%swant:\n%s", got, want)
			}
			if err := next.DropGuard(); err != nil {
				t.Error(err)
			}
			if err := dead.Close(); err != nil {
				t.Error(err)
			}
			if err := next.Close(); err != nil {
				t.Error(err)
			}
			if left, err := filepath.Glob(s.path(".git/descartes-*")); err != nil || len(left) > 0 {
				t.Errorf("left: %q %v", left, err)
			}
		})
	}
}

// Settings that a killed attempt changed are put back; those that changed after its end stay, and what they were is kept.
func TestSettingsOfAKilledRun(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"in the attempt": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.git("init", "-q")
			s.put(".git/hooks/pre-push", "mine\n")
			dead, err := Open(t.Context(), Options{Dir: s.dir, Git: gitProgram(t), Env: s.env})
			if err != nil {
				t.Fatal(err)
			}
			began := Now()
			g, err := dead.Guard(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			settings := g.Settings()
			s.sh("git config core.autocrlf true; echo evil >.git/hooks/pre-push; echo evil >.git/hooks/post-commit")
			ended := Now()
			if late {
				began, ended = began.Add(-2*time.Hour), began.Add(-time.Hour)
			}
			next, err := Open(t.Context(), Options{Dir: s.dir, Git: gitProgram(t), Env: s.env})
			if err != nil {
				t.Fatal(err)
			}
			if g, err = next.GuardSince(t.Context(), g.Head(), settings, began, ended); err != nil {
				t.Fatal(err)
			}
			did, err := g.Repair(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			read := func(name string) string {
				b, err := os.ReadFile(s.path(name))
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			hook, added := read(".git/hooks/pre-push"), false
			if _, err := os.Lstat(s.path(".git/hooks/post-commit")); err == nil {
				added = true
			}
			if late && (hook != "evil\n" || !added || len(did.Notes) != 2 || !strings.Contains(did.Notes[0], ".git/config was changed since the attempt began, the last time after its end, and stays; its previous text is kept in ")) {
				t.Errorf("hook %q, added %v, notes %q", hook, added, did.Notes)
			}
			if !late && (hook != "mine\n" || added || len(did.Notes) != 3 || strings.Contains(read(".git/config"), "autocrlf")) {
				t.Errorf("hook %q, added %v, notes %q", hook, added, did.Notes)
			}
			if again, err := g.Repair(t.Context()); err != nil || len(again.Notes) > 0 {
				t.Errorf("told again: %q, %v", again.Notes, err)
			}
		})
	}
}
