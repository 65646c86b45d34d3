//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunOutlivesItsTerminal closes the terminal of a run in the middle of an attempt: the run ends well all the same.
func TestRunOutlivesItsTerminal(t *testing.T) {
	t.Parallel()
	if !haveTerminals(t) {
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
	cmd := exec.Command("descartes", "loop", "start", "--command", "fakeagent", "--prompt", "Fix it", "--sandbox",
		"off", "--env-pass", "AGENT", "--name", "night")
	cmd.Dir, cmd.Env = work, append(os.Environ(), "AGENT="+filepath.Join(dir, "agent"), "HOME="+dir)
	a := startAtTerminal(t, cmd, 0, 0)
	if err := await(filepath.Join(dir, "started")); err != nil {
		t.Fatal(err)
	}
	a.tty.Close() // SIGHUP for the run, and an error for each of its writes
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
