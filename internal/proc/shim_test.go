//go:build linux

package proc

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"descartes/agent/process"
)

func self(tb testing.TB) string {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return exe
}

// startShim starts this test binary as a shim with a cookie of its own.
func startShim(tb testing.TB, c ShimConfig) *Shim {
	tb.Helper()
	c.Argv = []string{self(tb), ShimCommand}
	if c.Cookie == "" {
		c.Cookie = rand.Text()
	}
	s, err := Start(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func sh(label, script string) process.Command {
	return process.Command{Label: label, Argv: []string{"sh", "-c", script}}
}

func run(tb testing.TB, s *Shim, c process.Command) process.Exit {
	tb.Helper()
	e, err := s.Run(tb.Context(), c)
	if err != nil {
		tb.Fatalf("run %s: %v", c.Label, err)
	}
	return e
}

// eventually waits for a condition, at most a minute, then fails the test and goes on.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for start := time.Now(); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			tb.Errorf("waited a minute for: %s", what) // from any goroutine
			return
		}
	}
}

// later runs a command with a deadline of d. Where a busy machine reaches that before the command was ready, which is
// known when it ended, the command has twice the time, at most a minute.
func later(d time.Duration, run func(time.Duration) process.Exit, ready func(process.Exit) bool) process.Exit {
	for ; ; d *= 2 {
		if e := run(d); ready(e) || d > time.Minute {
			return e
		}
	}
}

func read(tb testing.TB, path string) string {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func TestRunEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(dir, "odd")
	if err := os.WriteFile(odd, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("no program at all"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := startShim(t, ShimConfig{})
	for _, tt := range []struct {
		name string
		argv []string
		why  process.Why
		code int
		sig  int
		err  string
	}{
		{"zero", []string{"true"}, process.Exited, 0, 0, ""},
		{"three", []string{"sh", "-c", "exit 3"}, process.Exited, 3, 0, ""},
		{"signal", []string{"sh", "-c", "kill -KILL $$"}, process.Signaled, 0, 9, ""},
		{"segv", []string{"sh", "-c", "kill -SEGV $$"}, process.Signaled, 0, 11, ""},
		{"missing", []string{"descartes-no-such-program"}, process.NotStarted, 127, 0,
			"descartes-no-such-program: no such program on PATH"},
		{"missing path", []string{"/no/such/program"}, process.NotStarted, 127, 0, "no such program"},
		{"not executable", []string{plain}, process.NotStarted, 126, 0, "not executable"},
		{"directory", []string{dir}, process.NotStarted, 126, 0, "is a directory"},
		{"no interpreter", []string{odd}, process.NotStarted, 126, 0, "interpreter"},
		{"no format", []string{garbage}, process.NotStarted, 126, 0, "exec format error"},
		{"through a file", []string{plain + "/x"}, process.NotStarted, 127, 0, "no such program"},
	} {
		e := run(t, s, process.Command{Label: tt.name, Argv: tt.argv})
		if e.Label != tt.name || e.Why != tt.why || e.Code != tt.code || e.Signal != tt.sig ||
			!strings.Contains(e.Err, tt.err) {
			t.Errorf("%s: got %+v", tt.name, e)
		}
		if e.Start.IsZero() || e.End.Before(e.Start) {
			t.Errorf("%s: times %v %v", tt.name, e.Start, e.End)
		}
	}
}

func TestRunStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	both, out, errs := filepath.Join(dir, "both"), filepath.Join(dir, "new/dir/out"), filepath.Join(dir, "err")
	s := startShim(t, ShimConfig{})
	c := sh("streams", "cat; echo out; echo err >&2; echo out2")
	c.Stdin, c.Stdout, c.Stderr = in, both, both
	run(t, s, c)
	run(t, s, c)
	if got, want := read(t, both), strings.Repeat("helloout\nerr\nout2\n", 2); got != want {
		t.Errorf("one file for both: got %q, want %q", got, want)
	}
	c.Stdin, c.Stdout, c.Stderr = "", out, errs
	run(t, s, c)
	if read(t, out) != "out\nout2\n" || read(t, errs) != "err\n" {
		t.Errorf("two files: got %q and %q", read(t, out), read(t, errs))
	}
	info, err := os.Stat(out)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of output: %v %v", info.Mode(), err)
	}
	c.Stdin = filepath.Join(dir, "none")
	if _, err := s.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("missing input: %v", err)
	}
	c.Stdin, c.Stdout = "", dir
	if _, err := s.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("output to a directory: %v", err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Stdout = fifo
	if _, err := s.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "fifo") {
		t.Errorf("output to a FIFO: %v", err)
	}
	c.Stdout, c.Dir = "", filepath.Join(dir, "none")
	if _, err := s.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "working directory") {
		t.Errorf("missing directory: %v", err)
	}
	if e := run(t, s, sh("after", "exit 4")); e.Code != 4 {
		t.Errorf("after faults: %+v", e)
	}
}

// A program that somebody still writes to is tried again.
func TestRunBusyProgram(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "busy")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("#!/bin/sh\nexit 9\n"); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(30*time.Millisecond, func() { f.Close() })
	s := startShim(t, ShimConfig{})
	if e := run(t, s, process.Command{Label: "busy", Argv: []string{path}}); e.Code != 9 {
		t.Errorf("got %+v", e)
	}
}

func TestRunEnvironment(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	base := []string{"PATH=" + os.Getenv("PATH"), "KEPT=1", "CHANGED=base", CookieVar + "=stale"}
	s := startShim(t, ShimConfig{Env: base, Cookie: "cookie-" + rand.Text()})
	c := process.Command{Label: "env", Argv: []string{"env"}, Stdout: out,
		Env: []string{"CHANGED=one", "NEW=\xff\xfe", "CHANGED=two", CookieVar + "=forged"}}
	run(t, s, c)
	got := "\n" + read(t, out)
	for _, want := range []string{"\nKEPT=1\n", "\nCHANGED=two\n", "\nNEW=\xff\xfe\n", "\n" + CookieVar + "=cookie-"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("environment %q: %q not there once", got, want)
		}
	}
	if n := strings.Count(got, "\n"); n < 5 || strings.Contains(got, "HOME=") {
		t.Errorf("environment: %q", got)
	}
}

func TestRunRefusesWhatNoSystemTakes(t *testing.T) {
	t.Parallel()
	s := startShim(t, ShimConfig{})
	long := strings.Repeat("x", process.MaxString+1)
	for name, c := range map[string]process.Command{
		"argument": {Argv: []string{"true", long}},
		"variable": {Argv: []string{"true"}, Env: []string{"A=" + long}},
	} {
		var tooLong *process.TooLongError
		if _, err := s.Run(t.Context(), c); !errors.As(err, &tooLong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]process.Command{
		"nothing":  {},
		"zero":     {Argv: []string{"echo", "a\x00b"}},
		"variable": {Argv: []string{"true"}, Env: []string{"novalue"}},
		"path":     {Argv: []string{"true"}, Dir: "a\x00b"},
	} {
		if _, err := s.Run(t.Context(), c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	fits := strings.Repeat("x", process.MaxString)
	if e := run(t, s, process.Command{Argv: []string{"true", fits, fits}}); e.Code != 0 || e.Why != process.Exited {
		t.Errorf("longest argument: %+v", e)
	}
	many := []string{"true"}
	for range 64 {
		many = append(many, fits)
	}
	if e := run(t, s, process.Command{Argv: many}); e.Why != process.NotStarted || e.Code != 126 {
		t.Errorf("8 MiB of arguments: %+v", e)
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	s := startShim(t, ShimConfig{})

	c := sh("timeout", "echo started; exec sleep 600")
	c.Timeout, c.Stdout = 100*time.Millisecond, out
	if e := run(t, s, c); e.Why != process.TimedOut || e.Signal != int(syscall.SIGTERM) ||
		e.End.Sub(e.Start) < c.Timeout {
		t.Errorf("timeout: %+v", e)
	}
	trapped := func(c process.Command, script string) process.Exit {
		c.Argv, c.Stdout = []string{"sh", "-c", script}, filepath.Join(t.TempDir(), c.Label)
		return later(50*time.Millisecond, func(d time.Duration) process.Exit {
			c.Timeout = d
			return run(t, s, c)
		}, func(process.Exit) bool { return strings.Contains(read(t, c.Stdout), "trapped\n") })
	}
	if e := trapped(process.Command{Label: "stubborn", Grace: 100 * time.Millisecond},
		"trap '' TERM; echo trapped; while :; do sleep 0.01; done"); e.Why != process.TimedOut ||
		e.Signal != int(syscall.SIGKILL) || e.End.Sub(e.Start) < 150*time.Millisecond {
		t.Errorf("ignores TERM: %+v", e)
	}
	if e := trapped(process.Command{Label: "polite", Grace: time.Minute},
		"trap 'exit 5' TERM; echo trapped; while :; do sleep 0.01; done"); e.Why != process.TimedOut || e.Code != 5 {
		t.Errorf("obeys TERM: %+v", e)
	}
	c = sh("no grace", "trap 'exit 5' TERM; while :; do sleep 0.01; done")
	c.Timeout, c.Grace = 100*time.Millisecond, -1
	if e := run(t, s, c); e.Why != process.TimedOut || e.Signal != int(syscall.SIGKILL) {
		t.Errorf("no grace: %+v", e)
	}
	c = sh("idle", "echo one; exec >&- 2>&-; sleep 600")
	c.Idle, c.Stdout = 80*time.Millisecond, out
	if e := run(t, s, c); e.Why != process.Idled {
		t.Errorf("closes its output and hangs: %+v", e)
	}
	c = sh("busy", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo $i; sleep 0.02; done")
	c.Idle, c.Stdout = 3*time.Second, out
	if e := run(t, s, c); e.Why != process.Exited || e.Code != 0 {
		t.Errorf("prints all the time: %+v", e)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	s := startShim(t, ShimConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	c := sh("cancelled", "echo started; sleep 600")
	c.Stdout = out
	go func() {
		eventually(t, "the command's first line", func() bool { b, _ := os.ReadFile(out); return len(b) > 0 })
		cancel()
	}()
	e, err := s.Run(ctx, c)
	if err != nil || e.Why != process.Cancelled || e.Signal != int(syscall.SIGTERM) {
		t.Errorf("cancelled: %+v %v", e, err)
	}
	e, err = s.Run(ctx, sh("never", "touch "+out+".never"))
	if err != nil || e.Why != process.Cancelled || e.Label != "never" {
		t.Errorf("cancelled before: %+v %v", e, err)
	}
	if _, err := os.Stat(out + ".never"); err == nil {
		t.Error("a cancelled command was started")
	}
	// A cancel that comes too late must not hit the next command.
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Microsecond, cancel)
		if _, err := s.Run(ctx, sh("short", "true")); err != nil {
			t.Fatal(err)
		}
		cancel()
		if e := run(t, s, sh("next", "true")); e.Why != process.Exited {
			t.Fatalf("after a late cancel: %+v", e)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	s := startShim(t, ShimConfig{})
	e := run(t, s, sh("work", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"))
	if e.User+e.System <= 0 || e.Left != 0 {
		t.Errorf("got %+v", e)
	}
	if e := run(t, s, sh("next", "true")); e.User > 0 && e.User >= e.End.Sub(e.Start)*4 {
		t.Errorf("usage of the command before: %+v", e)
	}
}
