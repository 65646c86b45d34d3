package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A person at a terminal sees the tasks, and decides whether they are written.
func TestTasksPlanAsks(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		code         int
		want         string
		written      bool
	}{
		{"yes", "\n", exitDone, "wrote .scud/tasks/PRD.json: 1 task", true},
		{"no", "what?\nn\n", exitWaits, "nothing is written. The answer is kept in", false},
		{"Ctrl-C", "\x03", exitInterrupted, "interrupted: nothing is written", false},
	} {
		t.Run(c.name, func(t *testing.T) {
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
			for path, text := range map[string]string{filepath.Join(work, "PRD.md"): "Build it.\n",
				filepath.Join(dir, "agent"): `*: say {"tasks": [{"id": 1, "title": "Build it", "description": "All of it."}]}` + "\n"} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := exec.Command("git", "init", "-q", work).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			cmd := exec.Command("descartes", "tasks", "plan", "PRD.md", "--command", "fakeagent", "--sandbox", "off", "--env-pass", "AGENT")
			cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = work, theirs, theirs, theirs
			cmd.Env = append(os.Environ(), "AGENT="+filepath.Join(dir, "agent"), "HOME="+dir, "TERM=dumb")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := theirs.Close(); err != nil {
				t.Fatal(err)
			}
			var seen shownText
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.Copy(&seen, ours)
			}()
			from := 0
			waitFor(t, &seen, &from, "+ 1  Build it")
			waitFor(t, &seen, &from, "Write it? [Y/n] ")
			if _, err := io.WriteString(ours, c.answer); err != nil {
				t.Fatal(err)
			}
			code := 0
			var ended *exec.ExitError
			if err := cmd.Wait(); errors.As(err, &ended) {
				code = ended.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			<-done
			if text := seen.text(); code != c.code || !strings.Contains(strings.Join(strings.Fields(text), " "), c.want) {
				t.Errorf("exit status %d, want %d; it showed:\n%s", code, c.code, text)
			}
			if _, err := os.Stat(filepath.Join(work, ".scud", "tasks", "PRD.json")); (err == nil) != c.written {
				t.Errorf("the list: %v, want it written: %v", err, c.written)
			}
		})
	}
}
