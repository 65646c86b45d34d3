package proc

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"descartes/agent/process"
)

func TestSweepFindsNothing(t *testing.T) {
	t.Parallel()
	if n, err := Sweep(rand.Text()); n != 0 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	for _, cookie := range []string{"", "a\x00b"} {
		if _, err := Sweep(cookie); err == nil {
			t.Errorf("cookie %q: no error", cookie)
		}
	}
}

// stray starts a process that nobody supervises.
func stray(t *testing.T, env []string, script string) *os.Process {
	t.Helper()
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script},
		&os.ProcAttr{Env: env, Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
		_, _ = p.Wait()
	})
	return p
}

func TestSweepSparesOthers(t *testing.T) {
	t.Parallel()
	cookie := rand.Text()
	path := "PATH=" + os.Getenv("PATH")
	others := []*os.Process{
		stray(t, []string{path, CookieVar + "=" + cookie + "x"}, "sleep 997"),
		stray(t, []string{path, "X" + CookieVar + "=" + cookie}, "sleep 997"),
		stray(t, []string{path, "NOTE=" + CookieVar + "=" + cookie}, "sleep 997"),
		stray(t, []string{path}, "sleep 997 # "+CookieVar+"="+cookie),
	}
	s := startShim(t, ShimConfig{Cookie: cookie})
	dir := t.TempDir()
	go func() {
		eventually(t, "the command of the living shim", func() bool {
			_, err := os.Stat(filepath.Join(dir, "up"))
			return err == nil
		})
		stray(t, []string{path, CookieVar + "=" + cookie}, "env -i setsid sleep 997 & sleep 997")
		eventually(t, "the stray", func() bool { return len(carriers(cookie)) >= 4 })
		n, err := Sweep(cookie)
		if n < 2 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "swept"), nil, 0o600); err != nil {
			t.Error(err)
		}
	}()
	c := sh("kept", "touch up; while ! test -e swept; do sleep 0.01; done; exit 7")
	c.Dir = dir
	if e := run(t, s, c); e.Why != process.Exited || e.Code != 7 {
		t.Errorf("the command of a living shim: %+v", e)
	}
	for k, p := range others {
		if i, ok := stat(p.Pid); !ok || i.state == 'Z' {
			t.Errorf("stray %d was killed", k)
		}
	}
}

func BenchmarkSweepNothing(b *testing.B) {
	for b.Loop() {
		if n, err := Sweep("no-such-cookie"); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}
