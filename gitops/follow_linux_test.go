package gitops

import (
	"maps"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// ordinary runs the test as somebody who is bound by modes: as another user where this is root, who is not.
func ordinary(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	dir, err := os.MkdirTemp("", "ordinary")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v") // its folder is ours alone
	c.Dir, c.Env = "/", append(os.Environ(), "TMPDIR="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as another user: %v\n%s", err, out)
	}
	return false
}

// TestFollowAllOrNothing: where a folder is closed, or git gives up in the midst of the files, nothing has moved.
func TestFollowAllOrNothing(t *testing.T) {
	if !ordinary(t) {
		return
	}
	for _, tt := range []struct{ name, setup, want string }{
		{"a changed file", "chmod 555 src/a", "src/a is read-only"},
		{"a removed file", "chmod 555 docs", "docs is read-only"},
		{"a new folder", "chmod 555 .", "read-only"},
		{"a folder that cannot be searched", "chmod 444 src", "src"},
		{"a filter that fails", "git config filter.bad.required true; git config filter.bad.smudge false; git config filter.bad.clean cat; echo 'swap/y filter=bad' >.git/info/attributes", "swap/y"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newBase(t, ahead)
			base, next := strings.TrimSpace(s.git("rev-parse", "base")), strings.TrimSpace(s.git("rev-parse", "next"))
			t.Cleanup(func() { s.sh("chmod -R u+rwX .") })
			s.sh("echo mine >way; " + tt.setup)
			r := s.reopen()
			left, err := forward(t, r, base, next, false)
			if err == nil || left != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v %v, want %s", left, err, tt.want)
			}
			s.sh("chmod -R u+rwX .; rm -f .git/info/attributes")
			if got := s.git("status", "--porcelain", "--branch"); got != "## main\n M way\n" ||
				strings.TrimSpace(s.git("rev-parse", "HEAD")) != base {
				t.Errorf("status afterwards:\n%s", got)
			}
			if left, err := forward(t, r, base, next, true); err != nil || left != nil {
				t.Errorf("when the way is free again: %v %v", left, err)
			}
			if got := s.git("status", "--porcelain", "--branch"); got != "## main\n M way\n" ||
				strings.TrimSpace(s.git("rev-parse", "HEAD")) != next {
				t.Errorf("status at the end:\n%s", got)
			}
		})
	}
}

// TestFollowImmutable: a file that not even root may change or remove keeps all of a commit back, also where it became
// so at the last moment: git only warns that it could not remove it.
func TestFollowImmutable(t *testing.T) {
	t.Parallel()
	canFreeze(t)
	const sameTime = "git config core.trustctime false" // else git finds the file changed, and does not begin
	for _, tt := range []struct{ name, now, meanwhile, want string }{
		{"a removed file", "chattr +i gone", "", "gone is immutable, and the commit changes it"},
		{"one that only grows", "chattr +a gone", "", "gone is immutable"},
		{"a changed file", "chattr +i f", "", "f is immutable"},
		{"a file in a folder's place", "chattr +i docs/d.md", "", "docs/d.md is immutable"},
		{"a folder", "chattr +i src/a", "", "src/a is read-only"},
		{"a removed file, meanwhile", sameTime, "chattr +i gone", "gone cannot be removed (operation not permitted)"},
		{"a changed file, meanwhile", sameTime, "chattr +i f", "unable to unlink old 'f'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newBase(t, ahead)
			base, next := strings.TrimSpace(s.git("rev-parse", "base")), strings.TrimSpace(s.git("rev-parse", "next"))
			t.Cleanup(func() { s.sh(thaw) })
			s.sh("echo mine >way; " + tt.now)
			r := s.reopen()
			if tt.meanwhile != "" {
				s.meanwhile(r, "read-tree", tt.meanwhile)
			}
			left, err := forward(t, r, base, next, false)
			if err == nil || left != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v %v, want %s", left, err, tt.want)
			}
			s.sh(thaw)
			if got := s.git("status", "--porcelain", "--branch"); got != "## main\n M way\n" ||
				strings.TrimSpace(s.git("rev-parse", "HEAD")) != base {
				t.Errorf("status afterwards:\n%s", got)
			}
			if left, err := forward(t, r, base, next, true); err != nil || left != nil {
				t.Errorf("when the way is free again: %v %v", left, err)
			}
			if got := s.git("status", "--porcelain", "--branch"); got != "## main\n M way\n" {
				t.Errorf("status at the end:\n%s", got)
			}
		})
	}
}

// canFreeze skips a test where no file can be made immutable.
func canFreeze(t *testing.T) {
	t.Helper()
	probe := t.TempDir() + "/probe"
	if err := os.WriteFile(probe, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", "chattr +i "+probe+" && chattr -i "+probe).CombinedOutput(); err != nil {
		t.Skipf("files cannot be made immutable here: %s", out)
	}
}

// TestArriveAllOrNothing: of uncommitted changes nothing arrives where one file cannot be replaced or removed, or where
// git gives up in the midst of them, and what the user has there stays; when the way is free they arrive.
func TestArriveAllOrNothing(t *testing.T) {
	t.Parallel()
	const giveUp = `rm -f a gone; printf on >z`
	for _, tt := range []struct{ name, now, meanwhile, want, free string }{
		{"a removed file", "chattr +i gone", "", "gone is immutable", thaw},
		{"a changed file", "chattr +i z", "", "z is immutable", thaw},
		{"an immutable folder", "chattr +i d", "", "d is read-only (operation not permitted)", thaw},
		{"a removed file, meanwhile", "", "chattr +i gone", "gone cannot be removed (operation not permitted)", thaw},
		{"a changed file, meanwhile", "", "chattr +i z", "z", thaw},
		{"an immutable folder, meanwhile", "", "chattr +i d", "d/b", thaw},
		{"a folder of his where a file comes", "mkdir new; echo his >new/x", "", "new (it is a file on one side and a folder on the other)", "rm -r new"},
		{"a folder of his, meanwhile", "", "mkdir new; echo his >new/x", "new", "rm -r new"},
		{"a file of his", "echo his >new", "", "new (it was made here, too)", "rm new"},
		{"git gives up without a word", "", giveUp, "git cannot write it", ""},
		{"git gives up, with what is ignored", "echo z >.git/info/exclude; git rm -q --cached z", giveUp, "git cannot write it", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.free == thaw {
				canFreeze(t)
			}
			s := newSandbox(t)
			s.sh("git init -q .; mkdir d; for f in a d/b gone z; do echo one >$f; done; git add .; git commit -qm base; echo mine >>a; echo mine >>z; echo note >notes")
			t.Cleanup(func() { s.sh(thaw) })
			r := s.reopen()
			from := mustSnapshot(t, r)
			s.sh("cp -a . ../was; for f in a d/b z; do echo agent >>$f; done; rm gone; echo n >new")
			to := mustSnapshot(t, r)
			s.sh("rm new; cp -a ../was/. .; " + tt.now)
			was := files(t, s.dir)
			program := r.cli.program
			if tt.meanwhile == giveUp {
				s.gitScript("case \" $* \" in *\" checkout-index \"*) mkdir ../gaveup && { " + giveUp + "; exit 128; };; esac\nexec " + program + " \"$@\"\n")
				r.cli.program = s.path("../git")
			} else if tt.meanwhile != "" { // when git has been asked whether it can
				s.meanwhile(r, "ls-files -z -s -v", tt.meanwhile)
			}
			why, err := r.Arrive(t.Context(), from, to)
			if err != nil || !strings.Contains(why, tt.want) {
				t.Errorf("got %q, %v, want %q", why, err, tt.want)
			}
			s.sh(thaw)
			now := files(t, s.dir)
			if tt.meanwhile != "" && strings.HasPrefix(tt.free, "rm") {
				delete(now, "new/x") // his
			}
			if !maps.Equal(now, was) {
				t.Errorf("it touched files: %s", diffFiles(was, now))
			}
			if refs := s.git("for-each-ref", "refs/worktree/descartes/arriving"); refs != "" {
				t.Error(refs)
			}
			r.cli.program = program
			s.sh(tt.free)
			if why, err := r.Arrive(t.Context(), from, to); err != nil || why != "" {
				t.Errorf("when the way is free again: %q, %v", why, err)
			}
			s.sh("test \"$(cat a z | tr '\\n' ' ')\" = 'one mine agent one mine agent '; test ! -e gone; test -f new; grep -q agent d/b; test -e notes")
		})
	}
}

// thaw lets everything be changed again.
const thaw = "chattr -R -ia . 2>/dev/null || true"

// TestArriveReadOnly is that for somebody who is bound by modes.
func TestArriveReadOnly(t *testing.T) {
	if !ordinary(t) {
		return
	}
	s := newSandbox(t)
	s.sh("git init -q .; mkdir d; for f in a d/b z; do echo one >$f; done; git add .; git commit -qm base; echo mine >>z")
	r := s.reopen()
	from := mustSnapshot(t, r)
	s.sh("for f in a d/b z; do echo agent >>$f; done")
	to := mustSnapshot(t, r)
	s.sh("for f in a d/b z; do sed -i /agent/d $f; done; chmod 555 d")
	t.Cleanup(func() { s.sh("chmod 755 d") })
	was := files(t, s.dir)
	if why, err := r.Arrive(t.Context(), from, to); err != nil || why != "d is read-only (permission denied)" {
		t.Errorf("got %q, %v", why, err)
	}
	if now := files(t, s.dir); !maps.Equal(now, was) {
		t.Errorf("it touched files: %s", diffFiles(was, now))
	}
}
