//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminalRun is a program that a person runs at a terminal.
type terminalRun struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File // the person's end
	seen shownText
	from int           // what was waited for ends here
	done chan struct{} // closed when nothing more will be shown
}

// haveTerminals says so where the machine has no pseudo terminals.
func haveTerminals(t *testing.T) bool {
	t.Helper()
	_, theirs, ok := pseudoTerminal(t)
	if !ok {
		t.Log("this machine has no pseudo terminals")
		return false
	}
	theirs.Close()
	return true
}

// startAtTerminal starts a program at a terminal of that size, as the leader of its session; 0 by 0 is a terminal that
// has none.
func startAtTerminal(t *testing.T, cmd *exec.Cmd, columns, rows uint16) *terminalRun {
	t.Helper()
	ours, theirs, ok := pseudoTerminal(t)
	if !ok {
		t.Fatal("this machine has no pseudo terminal left")
	}
	defer theirs.Close()
	if err := unix.IoctlSetWinsize(int(theirs.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a := &terminalRun{t: t, cmd: cmd, tty: ours, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		_, _ = io.Copy(&a.seen, ours) // ends with an error when the program has ended
	}()
	return a
}

// shows waits until each text is shown, one after the other.
func (a *terminalRun) shows(texts ...string) {
	a.t.Helper()
	for _, text := range texts {
		found := func() bool {
			shown := a.seen.text()[a.from:]
			at := strings.Index(shown, text)
			if at >= 0 {
				a.from += at + len(text)
			}
			return at >= 0
		}
		for deadline := time.Now().Add(time.Minute); !found(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				a.t.Fatalf("it does not show %q; it shows:\n%s", text, a.seen.text())
			}
		}
	}
}

func (a *terminalRun) press(keys string) {
	a.t.Helper()
	if _, err := io.WriteString(a.tty, keys); err != nil {
		a.t.Fatal(err)
	}
}

// ended waits for the program and returns its exit status and all that it showed.
func (a *terminalRun) ended() (code int, text string) {
	a.t.Helper()
	err := a.cmd.Wait()
	<-a.done
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.t.Fatal(err)
	}
	return a.cmd.ProcessState.ExitCode(), a.seen.text()
}

// shownText is what a terminal shows so far.
type shownText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shownText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shownText) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestInitTrusts: the agent's command that a person types into init needs no second word; one that stood in the file
// before does.
func TestInitTrusts(t *testing.T) {
	if !haveTerminals(t) {
		return
	}
	elsewhere := t.TempDir() + "/agent.sh"
	if err := os.WriteFile(elsewhere, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before, agent, want string
	}{{"", "sh ./agent.sh", "  command: sh ./agent.sh\ntrusted\n"},
		{"", "sh " + elsewhere, "  sandbox_read: " + elsewhere + "\ntrusted\n"},
		{"command: sh ./evil.sh\n", "sh ./agent.sh",
			"  command: sh ./evil.sh\nnot trusted; descartes trust does\n"}} {
		dir := t.TempDir()
		env := append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir+"/state", "TERM=dumb")
		if c.before != "" {
			if err := os.WriteFile(dir+"/descartes.yaml", []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("descartes", "init")
		cmd.Dir, cmd.Env = dir, env
		a := startAtTerminal(t, cmd, 0, 0)
		a.shows("What should be done?")
		a.press("\n")
		a.shows("Which agent?")
		a.press(c.agent + "\n")
		a.shows("Which command decides")
		a.press("\n")
		if code, text := a.ended(); code != exitDone {
			t.Fatalf("exit status %d: %s", code, text)
		}
		show := exec.Command("descartes", "trust", "--show")
		show.Dir, show.Env = dir, env
		if out, err := show.Output(); err != nil || !strings.HasSuffix(string(out), c.want) {
			t.Errorf("%v, %q, want %q", err, out, c.want)
		}
	}
}
