//go:build linux

package proc

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"descartes/agent/process"
)

func TestShimDies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, cookie := filepath.Join(dir, "out"), rand.Text()
	s := startShim(t, ShimConfig{Cookie: cookie})
	c := sh("victim", "setsid sleep 997 & env -i sleep 997 & echo started; sleep 997")
	c.Stdout = out
	pid := s.PID()
	go func() {
		eventually(t, "the command's first line", func() bool { b, _ := os.ReadFile(out); return len(b) > 0 })
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}()
	e, err := s.Run(t.Context(), c)
	if err != nil || e.Label != "victim" || e.Why != process.Stopped || !strings.Contains(e.Err, "killed") {
		t.Fatalf("got %+v, %v", e, err)
	}
	if n := carriers(cookie); len(n) != 0 {
		t.Errorf("survivors: %v", n)
	}
	for _, p := range processes() { // the one without a cookie shares the shim's session
		if i, ok := stat(p); ok && i.session == pid && !i.dead() {
			t.Errorf("survivor in the session: %+v", i)
		}
	}
	if e := run(t, s, sh("next", "exit 6")); e.Code != 6 || s.PID() == pid {
		t.Errorf("next run: %+v", e)
	}
	// Killed between two commands: the second runs under another, if it does not meet the dying one; the third does.
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Run(t.Context(), sh("second", "true")); err != nil || e.Why != process.Exited &&
		e.Why != process.Stopped {
		t.Errorf("second: %+v, %v", e, err)
	}
	if e := run(t, s, sh("third", "exit 3")); e.Code != 3 {
		t.Errorf("third: %+v", e)
	}
}

// What hides in a session of its own with an empty environment is found where the dead shim's orphans become ours. Not
// parallel: they become this process's, whoever's they are.
func TestShimDiesOverHidden(t *testing.T) {
	dir := t.TempDir()
	s := startShim(t, ShimConfig{})
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	c := sh("killer", `
		for n in 1 2 3; do
			(env -i setsid /bin/sh -c "echo \$\$ >>$0/pids; exec /bin/sleep 997" &)
		done
		while test "$(wc -l <$0/pids)" != 3; do /bin/sleep 0.01; done 2>/dev/null
		kill -KILL $PPID; sleep 997`)
	c.Argv = append(c.Argv, dir)
	if e, err := s.Run(t.Context(), c); err != nil || e.Why != process.Stopped {
		t.Fatalf("got %+v, %v", e, err)
	}
	hidden, err := os.ReadFile(filepath.Join(dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(hidden)) {
		pid, _ := strconv.Atoi(word)
		if i, ok := stat(pid); ok {
			t.Errorf("left: %+v", i)
		}
	}
	if e := run(t, s, sh("next", "exit 6")); e.Code != 6 {
		t.Errorf("next run: %+v", e)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	s := startShim(t, ShimConfig{})
	run(t, s, sh("one", "true"))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Run(t.Context(), sh("two", "true")); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	if _, err := Start(ShimConfig{Argv: []string{"/no/such/binary"}}); err == nil {
		t.Error("no error")
	}
	if _, err := Start(ShimConfig{}); err == nil {
		t.Error("no error without a program")
	}
	// A binary that is no shim is found out by the first command.
	s, err := Start(ShimConfig{Argv: []string{"/bin/false"}})
	if err != nil {
		return // it may be gone before the first frame is written
	}
	if e, err := s.Run(t.Context(), sh("x", "true")); err == nil && e.Why != process.Stopped {
		t.Errorf("got %+v", e)
	}
}

// What runs under a shim can stop it, and does so again when it is continued:
// the deadlines act all the same, and the next command runs under another shim.
func TestStoppedShim(t *testing.T) {
	t.Parallel()
	const script = "(while :; do kill -STOP $PPID; sleep 0.01; done) & echo started; wait"
	for _, tt := range []struct {
		why process.Why
		set func(*process.Command, time.Duration)
	}{
		{process.TimedOut, func(c *process.Command, d time.Duration) { c.Timeout = d }},
		{process.Cancelled, func(*process.Command, time.Duration) {}},
		{process.Stopped, func(*process.Command, time.Duration) {}}, // without any deadline
		{process.Stopped, func(c *process.Command, d time.Duration) { c.Idle = d }},
	} {
		t.Run(string(tt.why), func(t *testing.T) {
			t.Parallel()
			dir, cookie := t.TempDir(), rand.Text()
			out := filepath.Join(dir, "out")
			s := startShim(t, ShimConfig{Cookie: cookie})
			s.live.look = 40 * time.Millisecond
			pid := s.PID()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := sh("stopper", script)
			c.Stdout, c.Grace = out, -1
			go func() {
				eventually(t, "the shim to be stopped", func() bool { return stopped(pid) })
				if tt.why == process.Cancelled {
					cancel()
				}
			}()
			var err error
			var begun time.Time
			e := later(50*time.Millisecond, func(d time.Duration) (e process.Exit) {
				tt.set(&c, d)
				begun = time.Now()
				e, err = s.Run(ctx, c)
				return e
			}, func(e process.Exit) bool { return err != nil || e.Err != "" }) // the shim was stopped first
			// a parallel test may sweep up what was left
			if err != nil || e.Why != tt.why || e.Label != "stopper" || e.Signal != int(syscall.SIGKILL) ||
				e.Took <= 0 || e.Err == "" {
				t.Errorf("got %+v, %v", e, err)
			}
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("it took %v", took)
			}
			if left := append(carriers(cookie), shims(cookie)...); len(left) > 0 {
				t.Errorf("survivors: %v", left)
			}
			if e := run(t, s, sh("next", "exit 6")); e.Code != 6 || s.PID() == pid {
				t.Errorf("next: %+v", e)
			}
		})
	}
}

// A shim that is at work may take longer than a stopped one is waited for.
func TestSlowShimIsNoStoppedOne(t *testing.T) {
	t.Parallel()
	s := startShim(t, ShimConfig{})
	s.live.look = 5 * time.Millisecond
	pid := s.PID()
	c := sh("slow", "while :; do sleep 997 & sleep 0.01; done")
	c.Timeout, c.Grace = 50*time.Millisecond, -1
	if e := run(t, s, c); e.Why != process.TimedOut || e.Err != "" || s.PID() != pid {
		t.Errorf("got %+v", e)
	}
}

// unlinked starts a shim after its own file was removed.
func unlinked() int {
	exe, err := os.Executable()
	if err != nil || os.Remove(exe) != nil {
		return 1
	}
	s, err := Start(ShimConfig{Argv: []string{exe, ShimCommand}})
	if err != nil {
		return 2
	}
	e, err := s.Run(context.Background(), sh("x", "exit 7"))
	if err != nil || s.Close() != nil {
		return 3
	}
	return e.Code
}

// A build under us may replace or remove our own binary.
func TestOwnBinaryRemoved(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copied")
	if err := os.WriteFile(copied, data, 0o700); err != nil {
		t.Fatal(err)
	}
	// By a shell: a file just written may still be open in a child that another
	// test is about to start.
	reply, err := Output(t.Context(), Call{Argv: []string{"sh", "-c",
		`for i in 1 2 3 4 5 6 7 8 9; do "$0" __unlinked; c=$?; test $c = 126 || break; sleep 0.05; done; exit $c`,
		copied}})
	if err != nil || reply.Code != 7 {
		t.Errorf("%d %s %v", reply.Code, reply.Stderr, err)
	}
}
