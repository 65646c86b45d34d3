package gitops

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// once makes a script of what somebody does in a shell of their own while the file ../armed is there, which it removes.
func (s *sandbox) once(script string) {
	s.put("../user.sh", "test -e ../armed || exit 0\nrm ../armed\nunset GIT_INDEX_FILE GIT_DIR GIT_PREFIX\n"+script+"\n")
}

// openBeside opens a repository whose git program runs ../user.sh before the given command, and ../after.sh after it.
func openBeside(t *testing.T, s *sandbox, command string) *Repo {
	t.Helper()
	s.put("../after.sh", "")
	s.gitScript("for a; do if [ \"$a\" = " + command + " ] && [ -e ../armed ]; then sh ../user.sh; " + gitProgram(t) + " \"$@\"; code=$?; sh ../after.sh; exit $code; fi; done\nexec " + gitProgram(t) + " \"$@\"\n")
	r, err := s.open("", s.path("../git"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// A commit that somebody makes while ours is made stays, and ours follows it.
func TestWaveBesideACommit(t *testing.T) {
	t.Parallel()
	const user = "echo u >user; git add user; git commit -qm user user"
	for name, tt := range map[string]struct{ setup, command, script string }{
		"while the index is read": {"printf '*.bin filter=s\n' >.gitattributes; git config filter.s.clean 'sh ../user.sh; cat'; git add .; git commit -qm filter", "none", user},
		"right before git begins": {hook("pre-commit", "true"), "commit", user},
		"in a hook":               {hook("pre-commit", "sh ../user.sh"), "none", user},
		"natively":                {"", "update-ref", user},
		"on a detached HEAD":      {hook("pre-commit", "true") + "git checkout -q --detach", "commit", user},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTwin(t, &scenario{setup: tt.setup})
			s.once(tt.script)
			r := openBeside(t, s, tt.command)
			base := mustSnapshot(t, r)
			s.sh("echo 1 >n.bin; echo 1 >>f; rm run.sh")
			result := mustSnapshot(t, r)
			s.sh("echo s >staged; git add staged; : >../armed")
			done, err := r.CommitWave(t.Context(), Wave{Message: waveMessage, Results: []Pair{{Base: base, Result: result}}})
			if want := []string{"f", "n.bin", "run.sh"}; err != nil || !slices.Equal(done.Paths, want) || len(done.Notes) > 0 {
				t.Fatalf("got %+v, %v, want %q", done, err, want)
			}
			if got := s.git("log", "--format=%s", "-2"); !strings.HasSuffix(got, "\nuser\n") {
				t.Errorf("the commits are\n%s", got)
			}
			if got := s.git("show", "HEAD:user"); got != "u\n" {
				t.Errorf("the user's file is committed as %q", got)
			}
			if got := s.git("status", "--porcelain"); got != "A  staged\n" {
				t.Errorf("git status\n%s", got)
			}
			s.check()
		})
	}
}

// One that holds the wave's files too, because they were staged already, leaves nothing to commit.
func TestWaveInAnothersCommit(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{setup: hook("pre-commit", "sh ../user.sh")})
	s.once("echo u >user; git add user; git commit -qm user")
	r := openBeside(t, s, "none")
	base := mustSnapshot(t, r)
	s.sh("echo 1 >n; echo 1 >>f; rm run.sh")
	result := mustSnapshot(t, r)
	s.sh(": >../armed")
	done, err := r.CommitWave(t.Context(), Wave{Message: waveMessage, Results: []Pair{{Base: base, Result: result}}})
	if err != nil || !done.Empty || len(done.Notes) != 1 || !strings.HasPrefix(done.Notes[0], "somebody else committed what this wave changed meanwhile: HEAD is ") {
		t.Errorf("got %+v, %v", done, err)
	}
	s.clean()
}

// A commit that would undo somebody else's, and has others on top of it, is named.
func TestWaveUnderAnothersCommit(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{setup: hook("pre-commit", "true")})
	s.once("echo u >user; git add user; git commit -qm user user")
	r := openBeside(t, s, "commit")
	s.put("../after.sh", "git commit -q --allow-empty -m later --only\n")
	base := mustSnapshot(t, r)
	s.sh("echo 1 >n")
	result := mustSnapshot(t, r)
	s.sh(": >../armed")
	_, err := r.CommitWave(t.Context(), Wave{Message: waveMessage, Results: []Pair{{Base: base, Result: result}}})
	if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Hint != "git revert "+strings.TrimSpace(s.git("rev-parse", "--short=12", "HEAD~")) {
		t.Errorf("got %v", err)
	}
}

// What somebody stages while a hook runs that then refuses the commit stays staged; our entries go.
func TestRefusedWaveLeavesTheIndex(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ script, status string }{
		"nothing staged":         {"", ""},
		"a file staged":          {"echo v1 >mine; git add mine; echo v2 >mine", " M docs/d.md\nMM f\nAM mine\n D run.sh\n?? n\n"},
		"one of ours staged":     {"echo v1 >n; git add n; echo v2 >n", " M docs/d.md\nMM f\nAM n\n D run.sh\n"},
		"a deleted one unstaged": {"git reset -q run.sh; git status >/dev/null", " M docs/d.md\nMM f\n D run.sh\n?? n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTwin(t, &scenario{setup: hook("pre-commit", "sh ../user.sh; exit 1")})
			s.once(tt.script)
			s.sh("echo mine >>f; git add f; git update-index --skip-worktree src/x.go; echo hidden >src/x.go")
			r := openBeside(t, s, "none")
			base := mustSnapshot(t, r)
			s.sh("echo 1 >n; echo 1 >>f; rm run.sh; echo 1 >>docs/d.md")
			result := mustSnapshot(t, r)
			before := s.git("ls-files", "-s", "-t")
			s.sh(": >../armed")
			if _, err := r.CommitWave(t.Context(), Wave{Message: waveMessage, Results: []Pair{{Base: base, Result: result}}}); err == nil {
				t.Fatal("committed")
			}
			if name == "nothing staged" {
				if now := s.git("ls-files", "-s", "-t"); now != before {
					t.Errorf("the index was\n%sand is\n%s", before, now)
				}
				return
			}
			if got := s.git("status", "--porcelain"); got != tt.status {
				t.Errorf("git status\n%swant\n%s", got, tt.status)
			}
			if got := s.git("ls-files", "-t", "src/x.go"); got != "S src/x.go\n" {
				t.Errorf("the flag of src/x.go: %s", got)
			}
		})
	}
}

// A staged file that made room for the wave's comes back.
func TestRefusedWaveGivesWayBack(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{setup: hook("pre-commit", "sh ../user.sh; exit 1")})
	s.once("echo v1 >mine; git add mine")
	r := openBeside(t, s, "none")
	base := mustSnapshot(t, r)
	s.sh("mkdir a; echo 1 >a/n; echo 1 >b")
	result := mustSnapshot(t, r)
	s.sh("rm -r a b; echo s >a; mkdir b; echo s >b/s; git add a b; : >../armed")
	if _, err := r.CommitWave(t.Context(), Wave{Message: waveMessage, Results: []Pair{{Base: base, Result: result}}}); err == nil {
		t.Fatal("committed")
	}
	if got := s.git("status", "--porcelain"); got != "A  a\nA  b/s\nA  mine\n" {
		t.Errorf("git status\n%s", got)
	}
}
