package gitops

import (
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
	probe := t.TempDir() + "/probe"
	if err := os.WriteFile(probe, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", "chattr +i "+probe+" && chattr -i "+probe).CombinedOutput(); err != nil {
		t.Skipf("files cannot be made immutable here: %s", out)
	}
	for _, tt := range []struct{ name, now, meanwhile, want string }{
		{"a removed file", "chattr +i gone", "", "gone is immutable, and the commit changes it"},
		{"one that only grows", "chattr +a gone", "", "gone is immutable"},
		{"a changed file", "chattr +i f", "", "f is immutable"},
		{"a file in a folder's place", "chattr +i docs/d.md", "", "docs/d.md is immutable"},
		{"a folder", "chattr +i src/a", "", "src/a is read-only"},
		{"a removed file, meanwhile", "", "chattr +i gone", "gone cannot be removed (operation not permitted)"},
		{"a changed file, meanwhile", "", "chattr +i f", "unable to unlink old 'f'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newBase(t, ahead)
			base, next := strings.TrimSpace(s.git("rev-parse", "base")), strings.TrimSpace(s.git("rev-parse", "next"))
			t.Cleanup(func() { s.sh("chattr -R -ia . 2>/dev/null || true") })
			s.sh("echo mine >way; " + tt.now)
			r := s.reopen()
			if tt.meanwhile != "" {
				s.meanwhile(r, "read-tree", tt.meanwhile)
			}
			left, err := forward(t, r, base, next, false)
			if err == nil || left != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v %v, want %s", left, err, tt.want)
			}
			s.sh("chattr -R -ia . 2>/dev/null || true")
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
