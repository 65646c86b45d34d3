package gitops

import (
	"testing"
	"time"
)

// A pipe in the place of a file that git reads makes nobody wait, and the file comes back.
func TestPipesMakeNobodyWait(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "echo '*.md text' >.gitattributes; git add .; git commit -qm 2; echo secret >k.log")
			base, began := mustSnapshot(t, r), time.Now()
			r.cli.patience = 50 * time.Millisecond
			s.sh("rm .gitignore .gitattributes; mkfifo .gitignore .gitattributes docs/.gitignore docs/pipe; echo 2 >f")
			mustSnapshot(t, r)
			if again, err := Open(t.Context(), r.opt); err != nil {
				t.Error(err)
			} else if err := again.Close(); err != nil {
				t.Error(err)
			}
			if done, err := r.Restore(t.Context(), base, began); err != nil || len(done.Left) > 0 {
				t.Errorf("restored %+v, %v", done, err)
			}
			s.sh("test -f .gitignore; test -f .gitattributes; test \"$(cat k.log)\" = secret; test \"$(cat f)\" = one")
			if now := mustSnapshot(t, r); now != base {
				t.Errorf("the next snapshot is %s, not %s", now, base)
			}
		})
	}
}
