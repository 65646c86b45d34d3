package gitops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const submodule = base + `git init -q ../lib; echo 1 >../lib/f; git -C ../lib add f; git -C ../lib commit -qm1
git submodule --quiet add ../lib lib; git commit -qm2; `

// An agent may replace a submodule's repository by one whose configuration runs programs. Nothing of it may run
// when the working tree is looked at.
func TestSubmodulesRunNothing(t *testing.T) {
	t.Parallel()
	for _, way := range []struct{ name, plant string }{
		{"its own", "rm lib/.git; mv ../planted lib/.git; "},
		{"behind a link", "mv lib ../elsewhere; rm ../elsewhere/.git; mv ../planted ../elsewhere/.git; ln -s ../elsewhere lib; "},
	} {
		t.Run(way.name, func(t *testing.T) {
			s := newSandbox(t)
			s.sh(submodule)
			mark := filepath.Join(s.home, "ran")
			r, err := Open(t.Context(), Options{Dir: s.dir, Env: s.env})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close() })
			first := snap(t, r)
			s.sh("cp -r .git/modules/lib ../planted; git config -f ../planted/config --unset core.worktree; " +
				way.plant)
			s.sh("printf '[filter \"x\"]\\n\\tclean = \"touch " + mark + "; cat\"\\n[core]\\n\\tfsmonitor = \"touch " +
				mark + "; false\"\\n' >>lib/.git/config; " +
				"echo '* filter=x' >lib/.gitattributes; echo 2 >lib/f; echo new >g")
			wave := ""
			for range 2 {
				second := snap(t, r)
				if _, err := r.Changed(t.Context(), first, second); err != nil {
					t.Fatal(err)
				}
				wave = commitWave(t, r, Wave{Message: "a wave", Tree: second,
					On: strings.TrimSpace(s.git("rev-parse", "HEAD"))}).Hash
				first = second
				s.sh("echo 3 >lib/f; echo newer >g")
			}
			if _, err := r.Dirty(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(mark); err == nil {
				t.Error("a program ran that the submodule's configuration names")
			}
			if got := s.git("show", wave+":g"); !strings.Contains(got, "new") {
				t.Errorf("the wave holds %q", got)
			}
		})
	}
}

// A pipe in the place of a submodule's HEAD is not waited for.
func TestSubmoduleWithPipes(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(submodule)
	r, err := Open(t.Context(), Options{Dir: s.dir, Env: s.env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	first := snap(t, r)
	r.cli.patience = 20 * time.Millisecond
	s.sh("rm .git/modules/lib/HEAD; mkfifo .git/modules/lib/HEAD")
	if now := snap(t, r); now != first {
		t.Errorf("the snapshot is %s, not %s", now, first)
	}
}
