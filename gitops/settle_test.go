package gitops

import "testing"

// A verification follows the agent and is repaired on the same ground.
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
			settle := func(script string, want ...string) {
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
			settle("echo 1 >one.log; echo 2 >>f; git add -f one.log f; git branch side; : >.git/index.lock", "index.lock", "branch side was made", "index was changed")
			settle("true")
			settle("git status >/dev/null; touch f; git status >/dev/null")
			mustSnapshot(t, r)
			settle("echo 2 >two.log; git add -f two.log; git commit -qm own; git branch -f side", "branch main went", "own commits", "branch side was made", "index was changed")
			settle("rm f; git checkout -q f; echo 3 >>f")
			if got, want := s.git("diff", "--name-only", string(base), string(mustSnapshot(t, r))), "f\none.log\ntwo.log\n"; got != want {
				t.Errorf("the snapshot changes\n%swant\n%s", got, want)
			}
			if again, err := r.Guard(t.Context()); err != nil {
				t.Error(err)
			} else if repaired, err := again.Repair(t.Context()); err != nil || len(repaired.Notes) > 0 {
				t.Errorf("a new ground: %q, %v", repaired.Notes, err)
			}
		})
	}
}
