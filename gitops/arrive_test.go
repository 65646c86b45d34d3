package gitops

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
)

// TestArrivalMerges: what the user changed meanwhile is merged with what arrives, or nothing arrives.
func TestArrivalMerges(t *testing.T) {
	t.Parallel()
	const like = "login() {\n  limit = 5\n}\n"
	for name, c := range map[string]struct{ user, why string }{
		"nothing":                    {"true", ""},
		"the same lines":             {"echo his >a", "a (it was changed here in the same place)"},
		"code that looks the same":   {"sed 's/login/mine/' code >code.new; cat code >>code.new; mv code.new code", ""},
		"a file renamed":             {"mv code moved", ""},
		"a file in a folder's place": {"rm -r d; echo his >d", "d"},
		"a link in a folder's place": {"rm -r d; ln -s ../elsewhere d", "d"},
		"what is removed":            {"echo his >>gone", "gone (it was changed on one side and removed on the other)"},
		"all of it is there":         {"printf 'one\\nmine\\nagent\\n' >a; printf 'two\\nagent\\n' >d/b; rm -r gone e; echo new >n; sed -i s/5/9/ code", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh("git init -q .; mkdir d e; echo one >a; echo two >d/b; echo x >gone; echo x >e/gone; printf '" + like + "' >code; git add .; git commit -qm base; echo mine >>a; echo note >notes")
			r := s.reopen()
			from := mustSnapshot(t, r)
			s.sh("cp -a . ../was; echo agent >>a; echo agent >>d/b; rm -r gone e; echo new >n; sed -i s/5/9/ code")
			to := mustSnapshot(t, r)
			s.sh("rm n; cp -a ../was/. .; " + c.user)
			was := files(t, s.dir)
			why, err := r.Arrive(t.Context(), from, to)
			if err != nil || c.why == "" && why != "" || !strings.Contains(why, c.why) {
				t.Fatalf("got %q, %v, want %q", why, err, c.why)
			}
			if c.why != "" {
				if now := files(t, s.dir); !maps.Equal(now, was) {
					t.Errorf("it touched files: %s", diffFiles(was, now))
				}
				return
			}
			if got := s.sh("cat a d/b n notes; ls -d gone e 2>&1 | wc -l; grep -A1 login code moved 2>/dev/null | grep -o limit.*"); got !=
				"one\nmine\nagent\ntwo\nagent\nnew\nnote\n2\nlimit = 9\n" {
				t.Errorf("got %q", got)
			}
			if strings.Contains(s.sh("cat code moved 2>/dev/null || true"), "mine() {\n  limit = 9") {
				t.Error("it landed in his code")
			}
		})
	}
}

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
			m, why, err := r.meet(t.Context(), from, to)
			if err == nil && why == "" {
				_, _, err = r.noteArrival(t.Context(), m)
			}
			if err != nil || why != "" {
				t.Fatal(err, why)
			}
			s.sh(cut)
			if _, err := r.FinishArrival(t.Context(), false); err != nil {
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

// What a killed run had only announced is not brought by another one that begins later.
func TestArrivalIsDropped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cut, want string
		came      bool
	}{
		"nothing was moved":       {"true", "one\ntwo\n", false},
		"he changed another file": {"echo his >c", "one\ntwo\n", false},
		"one was":                 {"echo agent >a", "agent\nagent\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh("git init -q .; echo one >a; echo two >b; echo three >c; git add .; git commit -qm base")
			r := s.reopen()
			from := mustSnapshot(t, r)
			s.sh("echo agent >a; echo agent >b")
			to := mustSnapshot(t, r)
			s.sh("echo one >a; echo two >b")
			m, why, err := r.meet(t.Context(), from, to)
			if err == nil && why == "" {
				_, _, err = r.noteArrival(t.Context(), m)
			}
			if err != nil || why != "" {
				t.Fatal(err, why)
			}
			s.sh(c.cut)
			came, err := r.FinishArrival(t.Context(), true)
			if got := s.sh("cat a b"); err != nil || came != c.came || got != c.want {
				t.Errorf("%t, %v, %q", came, err, got)
			}
			if refs := s.git("for-each-ref", "refs/worktree/descartes/arriving"); refs != "" {
				t.Error(refs)
			}
		})
	}
}
