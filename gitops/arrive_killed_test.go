package gitops

import (
	"fmt"
	"os"
	"testing"
)

// Changes that a kill cut short on their way into the working tree arrive whole, and what the user wrote stays.
func TestArrivalIsFinished(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]string{
		"nothing was moved":      "true",
		"the old files are gone": "rm a gone d/b",
		"half of the new":        "rm a gone; head -c 3 want-a >a; cp want-n n",
		"all of it":              "rm gone; cp want-a a; cp want-b d/b; cp want-n n",
		"a file of his since":    "rm a gone; echo his >d/b",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh("git init -q .; mkdir d; echo one >a; echo two >d/b; echo x >gone; echo want- >.gitignore; echo 'want-*' >>.gitignore; git add .; git commit -qm base; echo mine >>a; echo note >notes")
			r := s.reopen()
			from := mustSnapshot(t, r)
			s.sh("cp -r . ../copy; cd ../copy; echo agent >>a; echo agent >>d/b; rm gone; echo new >n; cp a ../repo/want-a; cp d/b ../repo/want-b; cp n ../repo/want-n")
			s.sh("cp want-a a; cp want-b d/b; cp want-n n; rm gone")
			to := mustSnapshot(t, r)
			s.sh("printf 'one\\nmine\\n' >a; echo two >d/b; rm n; echo x >gone")
			patch := []byte(s.git("diff-tree", "-r", "-p", "--binary", "--full-index", string(from), string(to)))
			if err := r.noteArrival(t.Context(), patch, []string{"a", "d/b", "gone", "n"}); err != nil {
				t.Fatal(err)
			}
			s.sh(cut)
			if err := r.FinishArrival(t.Context()); err != nil {
				t.Fatal(err)
			}
			b := "two\nagent\n"
			if name == "a file of his since" {
				b = "his\n"
			}
			for path, want := range map[string]string{"a": "one\nmine\nagent\n", "d/b": b, "n": "new\n",
				"notes": "note\n"} {
				if got, err := os.ReadFile(fmt.Sprint(s.dir, "/", path)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v, want %q", path, got, err, want)
				}
			}
			if _, err := os.Lstat(s.dir + "/gone"); err == nil {
				t.Error("gone is there")
			}
			if refs := s.git("for-each-ref", "refs/worktree/descartes/arriving"); refs != "" {
				t.Error(refs)
			}
		})
	}
}
