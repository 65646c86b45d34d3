package proc

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"descartes/agent/process"
)

// shapes are the ways in which what a command starts gets away from whoever
// started it. Each is up once so many processes carry its cookie.
var shapes = []struct {
	name, script string
	up           int
}{
	{"plain", `sleep 997 & sleep 997 & wait`, 3},
	{"notrap", `trap '' TERM INT HUP; sleep 997 & while :; do sleep 1; done`, 3},
	{"setsid", `setsid sleep 997 & setsid sh -c 'sleep 997 & sleep 997' & sleep 997`, 5},
	{"daemon", `(setsid sh -c 'setsid sleep 997 >/dev/null 2>&1 </dev/null &' &) ; sleep 0.05; sleep 997`, 3},
	{"exited", `setsid sleep 997 & setsid sleep 997 >/dev/null 2>&1 & exit 0`, 0},
	{"forkloop", `setsid sh -c 'while :; do sleep 997 & sleep 0.02; done' & sleep 997`, 5},
}

// carriers lists the processes of a cookie, its shim aside.
func carriers(cookie string) (list []int) {
	mark := append([]byte(CookieVar+"="+cookie), 0)
	for _, p := range processes() {
		if p != os.Getpid() && carries(p, mark) && !isShim(p) {
			list = append(list, p)
		}
	}
	return list
}

func shims(cookie string) (list []int) {
	mark := append([]byte(CookieVar+"="+cookie), 0)
	for _, p := range processes() {
		if isShim(p) && carries(p, mark) {
			list = append(list, p)
		}
	}
	return list
}

// Nothing of any shape outlives any end, from the moment Run returns.
func TestNoSurvivors(t *testing.T) {
	t.Parallel()
	for _, shape := range shapes {
		for _, end := range []string{"exit", "cancel", "timeout", "shim killed"} {
			t.Run(shape.name+"/"+end, func(t *testing.T) {
				t.Parallel()
				for range 2 {
					trial(t, shape.script, shape.up, end)
				}
			})
		}
	}
}

func trial(t *testing.T, script string, up int, end string) {
	cookie, dir := rand.Text(), t.TempDir()
	s := startShim(t, ShimConfig{Cookie: cookie})
	c := sh("tree", script)
	c.Dir, c.Grace = dir, 50*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready := func() bool { return len(carriers(cookie)) >= up }
	want := process.Cancelled
	done := make(chan struct{})
	switch end {
	case "exit":
		c.Argv[2] = "(" + script + ") & while ! test -e go; do sleep 0.01; done"
		up++
		want = process.Exited
	case "timeout":
		c.Timeout = 300 * time.Millisecond
		want = process.TimedOut
	}
	go func() {
		defer close(done)
		if up == 0 || end == "timeout" {
			return
		}
		eventually(t, "the tree to be up", ready)
		switch end {
		case "exit":
			if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
				t.Error(err)
			}
		case "cancel":
			cancel()
		case "shim killed":
			for _, p := range shims(cookie) {
				if err := syscall.Kill(p, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	e, err := s.Run(ctx, c)
	left := carriers(cookie)
	<-done
	if len(left) > 0 {
		t.Errorf("survivors: %v", left)
	}
	if up == 0 {
		want = process.Exited
	} else if end == "shim killed" {
		want = process.Stopped
	}
	if err != nil || e.Why != want {
		t.Errorf("got %+v, %v; want %s", e, err, want)
	}
	if e.Err != "" && want != process.Stopped {
		t.Error(e.Err)
	}
	if end == "exit" && e.Left == 0 {
		t.Error("nothing was left to end")
	}
	if e := run(t, s, sh("next", "exit 5")); e.Code != 5 || e.Left != 0 {
		t.Errorf("the next command: %+v", e)
	}
}

// orchestrate is what a killed descartes was: arguments are directory, cookie
// and script.
func orchestrate(args []string) int {
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	s, err := Start(ShimConfig{Argv: []string{exe, ShimCommand}, Cookie: args[1]})
	if err != nil {
		return 1
	}
	c := sh("orchestrated", args[2])
	c.Dir, c.Grace = args[0], 50*time.Millisecond
	if _, err := s.Run(context.Background(), c); err != nil {
		return 1
	}
	// Stay, as a loop with more to do would, until killed.
	if err := os.WriteFile(filepath.Join(args[0], "ended"), nil, 0o600); err != nil {
		return 1
	}
	for {
		time.Sleep(time.Hour)
	}
}

func TestNoSurvivorsOfAKilledOrchestrator(t *testing.T) {
	t.Parallel()
	for _, shape := range shapes {
		for _, shimToo := range []bool{false, true} {
			t.Run(fmt.Sprint(shape.name, "/shim too ", shimToo), func(t *testing.T) {
				t.Parallel()
				cookie, dir := rand.Text(), t.TempDir()
				orch, err := os.StartProcess(self(t), []string{"orchestrator", "__orchestrate", dir, cookie,
					shape.script},
					&os.ProcAttr{Env: os.Environ()})
				if err != nil {
					t.Fatal(err)
				}
				eventually(t, "the tree to be up", func() bool {
					if shape.up == 0 {
						_, err := os.Stat(filepath.Join(dir, "ended"))
						return err == nil
					}
					return len(carriers(cookie)) >= shape.up
				})
				if shimToo {
					for _, p := range shims(cookie) { // stopped first: it must not see the end
						if err := syscall.Kill(p, syscall.SIGSTOP); err != nil {
							t.Error(err)
						}
					}
				}
				if err := orch.Kill(); err != nil {
					t.Fatal(err)
				}
				if _, err := orch.Wait(); err != nil {
					t.Fatal(err)
				}
				if shimToo {
					if _, err := Sweep(cookie); err != nil {
						t.Error(err)
					}
					if left := append(carriers(cookie), shims(cookie)...); len(left) > 0 {
						t.Errorf("survivors: %v", left)
					}
					return
				}
				eventually(t, "everything to end", func() bool {
					return len(carriers(cookie))+len(shims(cookie)) == 0
				})
			})
		}
	}
}

// One descartes under another: when the outer one ends the inner one, nothing
// of the inner one's commands is left either.
func TestNested(t *testing.T) {
	t.Parallel()
	for _, script := range []string{shapes[1].script, shapes[2].script} {
		outer, inner, dir := rand.Text(), rand.Text(), t.TempDir()
		s := startShim(t, ShimConfig{Cookie: outer})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			eventually(t, "the inner tree to be up", func() bool { return len(carriers(inner)) >= 3 })
			cancel()
		}()
		e, err := s.Run(ctx, process.Command{Label: "outer",
			Argv: []string{self(t), "__orchestrate", dir, inner, script}, Grace: time.Second})
		if err != nil || e.Why != process.Cancelled {
			t.Errorf("got %+v, %v", e, err)
		}
		if left := append(carriers(inner), carriers(outer)...); len(left) > 0 {
			t.Errorf("survivors: %v", left)
		}
		cancel()
	}
}

// A command that multiplies as fast as it can ends all the same.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	cookie := rand.Text()
	s := startShim(t, ShimConfig{Cookie: cookie})
	c := sh("bomb", `ulimit -u 4000; b() { i=0; while [ $i -lt 400 ]; do (sleep 997 & exec setsid sh -c 'sleep 0.01; sleep 997') & i=$((i+1)); done; }; b & b & wait; sleep 997`)
	c.Timeout, c.Grace = 300*time.Millisecond, -1
	e := run(t, s, c)
	if left := carriers(cookie); len(left) > 0 || e.Why != process.TimedOut || e.Err != "" {
		t.Errorf("%d survivors; %+v", len(left), e)
	}
}

// A chain of processes each of which starts the next and exits.
func TestForkChain(t *testing.T) {
	t.Parallel()
	cookie, dir := rand.Text(), t.TempDir()
	hop := filepath.Join(dir, "hop")
	if err := os.WriteFile(hop, []byte("#!/bin/sh\nsetsid \"$0\" &\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := startShim(t, ShimConfig{Cookie: cookie})
	for range 3 {
		c := sh("chain", hop+"; sleep 997")
		c.Timeout, c.Grace = 100*time.Millisecond, -1
		e := run(t, s, c)
		if left := carriers(cookie); len(left) > 0 || e.Why != process.TimedOut || e.Err != "" {
			t.Errorf("survivors %v; %+v", left, e)
		}
	}
}

// Between SIGTERM and SIGKILL there is the grace, for every group of the tree
// and not only for the one that the command itself is in.
func TestGraceIsForTheWholeTree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startShim(t, ShimConfig{})
	c := sh("launcher", `setsid sh -c 'trap "sleep 0.05; touch saved; exit" TERM; touch up; while :; do sleep 0.01; done' & sleep 997`)
	c.Dir, c.Grace = dir, time.Minute
	e := later(50*time.Millisecond, func(d time.Duration) process.Exit {
		c.Timeout = d
		return run(t, s, c)
	}, func(process.Exit) bool {
		_, err := os.Stat(filepath.Join(dir, "up"))
		return err == nil
	})
	if e.Why != process.TimedOut || e.Signal != int(syscall.SIGTERM) || e.Left != 0 {
		t.Errorf("got %+v", e)
	}
	if _, err := os.Stat(filepath.Join(dir, "saved")); err != nil {
		t.Errorf("a process in another session had no time to save: %v", err)
	}
	if e.End.Sub(e.Start) > time.Minute {
		t.Errorf("the grace was waited out for nothing: %v", e.End.Sub(e.Start))
	}
}

// The signals of a terminal do not reach the shim or its commands, and what
// they are sent themselves finds the usual dispositions and no blocked signal.
func TestSignals(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	s := startShim(t, ShimConfig{})
	run(t, s, sh("first", "true"))
	pid := s.PID()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGTSTP, syscall.SIGPIPE, syscall.SIGUSR1} {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	c := process.Command{Label: "status", Argv: []string{"grep", "-E", "^(SigBlk|SigIgn)", "/proc/self/status"},
		Stdout: out}
	if e := run(t, s, c); e.Why != process.Exited || s.PID() != pid {
		t.Errorf("after signals: %+v", e)
	}
	for line := range strings.Lines(read(t, out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		set, err := strconv.ParseUint(value, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		// 32 and 33 are the C library's own: make ignores them for what it starts, and nobody can change that.
		if set&^(1<<31|1<<32) != 0 {
			t.Errorf("%s is %x, want none", name, set)
		}
	}
	// Field 6 of stat is the session, field 7 the terminal.
	fields := strings.Fields(read(t, fmt.Sprintf("/proc/%d/stat", pid)))
	if fields[5] != strconv.Itoa(pid) || fields[6] != "0" {
		t.Errorf("session %s, terminal %s of shim %d", fields[5], fields[6], pid)
	}
}

// A command gets its three descriptors and no other.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	leak, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, leak.Fd(), syscall.F_SETFD, 0); errno != 0 {
		t.Fatal(errno)
	}
	s := startShim(t, ShimConfig{})
	c := sh("ls", "ls /proc/$$/fd; readlink /proc/$$/fd/0")
	c.Stdout = out
	run(t, s, c)
	if got, want := read(t, out), "0\n1\n2\n/dev/null\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
