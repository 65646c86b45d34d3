package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRunOutlivesItsTerminal closes the terminal of a run in the middle of an attempt: the run ends well all the same.
func TestRunOutlivesItsTerminal(t *testing.T) {
	t.Parallel()
	ours, theirs, ok := pseudoTerminal(t)
	if !ok {
		t.Log("this machine has no pseudo terminals")
		return
	}
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	script := "1: write ../started x\n1: await ../go\n*: say <promise>COMPLETE</promise>\n"
	if err := os.WriteFile(filepath.Join(dir, "agent"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("descartes", "loop", "start", "--command", "fakeagent", "--prompt", "Fix it", "--sandbox", "off", "--env-pass", "AGENT", "--name", "night")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = work, theirs, theirs, theirs
	cmd.Env = append(os.Environ(), "AGENT="+filepath.Join(dir, "agent"), "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if err := await(filepath.Join(dir, "started")); err != nil {
		t.Fatal(err)
	}
	ours.Close() // SIGHUP for the run, and an error for each of its writes
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the run: %v", err)
	}
	state, err := os.ReadFile(filepath.Join(work, ".descartes", "loops", "night.json"))
	if err != nil || !strings.Contains(string(state), `"completion_promise_detected"`) {
		t.Errorf("%v\n%s", err, state)
	}
}

// stalled is a terminal that takes nothing until it is let go.
type stalled struct {
	free chan struct{}
	got  bytes.Buffer
}

func (s *stalled) Write(p []byte) (int, error) {
	<-s.free
	return s.got.Write(p)
}

func TestScreenNeverHoldsUp(t *testing.T) {
	t.Parallel()
	w := &stalled{free: make(chan struct{})}
	s := &screen{w: w}
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range 3 * screenHolds / len(line) {
		if n, err := s.Write(line); n != len(line) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	close(w.free)
	s.wait()
	if n := w.got.Len(); n < screenHolds-len(line) || n > 2*screenHolds || n%len(line) != 0 {
		t.Errorf("%d bytes were shown", n)
	}
}
