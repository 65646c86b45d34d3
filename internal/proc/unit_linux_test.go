package proc

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"descartes/agent/process"
)

func TestExitString(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		e    process.Exit
		want string
	}{
		{process.Exit{Why: process.Exited, Code: 3}, "exit status 3"},
		{process.Exit{Why: process.Signaled, Signal: 9}, "ended by signal 9 (SIGKILL)"},
		{process.Exit{Why: process.Signaled, Signal: 99}, "ended by signal 99 (unknown)"},
		{process.Exit{Why: process.NotStarted, Code: 127, Err: "x: no such program on PATH"},
			"x: no such program on PATH"},
		{process.Exit{Why: process.TimedOut, Code: 1}, "timeout"},
	} {
		if got := tt.e.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	long := &process.TooLongError{What: "argument 1 of sh", Len: 200000}
	if got, want := long.Error(),
		"argument 1 of sh is 200000 bytes long, and the system allows at most 131071"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Both ways of finding children find the same.
func TestChildren(t *testing.T) {
	t.Parallel()
	p := stray(t, os.Environ(), "sleep 997 & sleep 997 & wait")
	eventually(t, "two children", func() bool { return len(children(p.Pid)) == 2 })
	a, b := children(p.Pid), childrenByScan(p.Pid)
	slices.Sort(a)
	slices.Sort(b)
	if !slices.Equal(a, b) {
		t.Errorf("by file %v, by scan %v", a, b)
	}
	if got := pids(map[int]bool{30: true, 4: true}); got != "4, 30" {
		t.Errorf("got %q", got)
	}
	if _, ok := stat(-1); ok {
		t.Error("process -1")
	}
	if self, ok := stat(os.Getpid()); !ok || self.parent != os.Getppid() || self.group != syscall.Getpgrp() ||
		self.start == 0 {
		t.Errorf("ourselves: %+v", self)
	}
	wrong := info{pid: p.Pid, start: 1}
	if err := wrong.signal(syscall.SIGKILL); err != syscall.ESRCH {
		t.Errorf("a number that was reused: %v", err)
	}
}

// besideStuck is a shim's inside next to a child that no signal has ended: it
// must neither wait for it nor touch it.
func besideStuck() int {
	becomeShim()
	s, err := newServer()
	if err != nil {
		return 1
	}
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exec sleep 997"},
		&syscall.ProcAttr{Env: s.base, Files: []uintptr{s.null.Fd(), s.null.Fd(), s.null.Fd()}})
	if err != nil {
		return 2
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	s.stuck[pid] = true
	for n, script := range []string{"exit 3", "setsid sleep 997 & exit 3", "sleep 997"} {
		c := sh(strconv.Itoa(n), script)
		c.Timeout, c.Grace = 200*time.Millisecond, 50*time.Millisecond
		start := time.Now()
		e, err := s.run(c)
		if err != nil {
			return 9
		}
		if e.Err != "" || e.Why == process.Exited && e.Code != 3 || time.Since(start) > time.Minute ||
			len(tree()) != 1 {
			return 10 + n
		}
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	if _, err := s.run(sh("last", "sleep 0.05")); err != nil || len(s.stuck) != 0 {
		return 20
	}
	return 0
}

func TestStuckProcess(t *testing.T) {
	t.Parallel()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	lifeline, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer lifeline.Close()
	defer hold.Close()
	p, err := os.StartProcess(self(t), []string{"stuck", "__stuck"},
		&os.ProcAttr{Env: os.Environ(), Files: []*os.File{null, null, os.Stderr, lifeline, null}})
	if err != nil {
		t.Fatal(err)
	}
	if state, err := p.Wait(); err != nil || state.ExitCode() != 0 {
		t.Errorf("%v %v", state, err)
	}
}
