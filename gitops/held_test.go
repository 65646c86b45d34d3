package gitops

import (
	"strings"
	"testing"
	"time"
)

// What git was told not to look at is in no snapshot and in no commit: the user's text comes back byte for byte.
func TestRepairFilesThatGitOverlooks(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays[:2] {
		for _, mark := range []string{"--skip-worktree", "--assume-unchanged"} {
			for name, attempt := range map[string]string{
				"overwritten":     "echo agent >src/local.cfg",
				"deleted":         "rm src/local.cfg",
				"folder deleted":  "rm -r src",
				"a link":          "ln -sf /etc/passwd src/local.cfg",
				"a folder":        "rm src/local.cfg; mkdir -p src/local.cfg/deep",
				"moved by git":    "git update-index --no-skip-worktree src/local.cfg; git update-index --no-assume-unchanged src/local.cfg; git checkout -q src/local.cfg",
				"objects pruned":  "echo agent >src/local.cfg; git reflog expire --expire=now --all; git gc -q --prune=now",
				"of a killed run": "echo agent >src/local.cfg",
			} {
				t.Run(way.name+" "+mark+" "+name, func(t *testing.T) {
					t.Parallel()
					s := newSandbox(t)
					s.sh(base + "echo team >src/local.cfg; git add .; git commit -qm 2\n" + way.setup)
					s.sh("git update-index " + mark + " src/local.cfg; printf 'mine\\r\\nand mine' >src/local.cfg; chmod 600 src/local.cfg")
					r := s.reopen()
					began := time.Now()
					g, err := r.Guard(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					s.sh(attempt)
					if strings.HasSuffix(name, "killed run") {
						next := s.reopen()
						if g, err = next.GuardSince(t.Context(), g.Head(), nil, began, time.Now()); err != nil {
							t.Fatal(err)
						}
						r = next
					}
					repaired, err := g.Repair(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if told := strings.Join(repaired.Notes, "\n"); !strings.Contains(told, "src/local.cfg was changed during the attempt and restored") {
						t.Errorf("told %q", told)
					}
					s.sh("printf 'mine\\r\\nand mine' | cmp - src/local.cfg")
					if again, err := g.Repair(t.Context()); err != nil || len(again.Notes) > 0 {
						t.Errorf("repaired again: %+v, %v", again, err)
					}
					if err := r.DropGuard(); err != nil {
						t.Fatal(err)
					}
					if left := s.git("for-each-ref", "refs/worktree"); left != "" {
						t.Errorf("left %s", left)
					}
				})
			}
		}
	}
}

// What somebody changed after a killed run's attempt is his.
func TestHeldFileChangedSince(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.sh("git update-index --skip-worktree f; echo mine >f")
	g, err := r.Guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.sh("echo later >f")
	next := s.reopen()
	if g, err = next.GuardSince(t.Context(), g.Head(), nil, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.sh("test \"$(cat f)\" = later")
}
