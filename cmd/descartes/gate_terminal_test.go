package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

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

// TestGateAsksAtATerminal answers every question of a colleague's loop where a person would type.
func TestGateAsksAtATerminal(t *testing.T) {
	ours, theirs, ok := pseudoTerminal(t)
	if !ok {
		t.Log("this machine has no pseudo terminals")
		return
	}
	dir := t.TempDir()
	agent := "*: say ---LOOP_STATUS---\n1: say CRITERIA: {\"a\": true, \"b\": false}\n1: say EXIT_SIGNAL: false\n2: say CRITERIA: {\"a\": true, \"b\": true}\n" +
		"2: say EXIT_SIGNAL: true\n3: say CRITERIA: {\"a\": true, \"b\": true}\n3: say EXIT_SIGNAL: true\n3: prompt ../p3.txt\n*: say ---END_STATUS---\n"
	work := filepath.Join(dir, "work")
	if err := os.WriteFile(filepath.Join(dir, "agent"), []byte(agent), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("descartes", "loop", "start", "--command", "fakeagent", "--prompt", "Fix it", "--criterion", "a", "--criterion", "b", "--shape", "colleague", "--sandbox", "off", "--env-pass", "AGENT")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = work, theirs, theirs, theirs
	cmd.Env = append(os.Environ(), "AGENT="+filepath.Join(dir, "agent"), "HOME="+dir, "TERM=dumb")
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
		_, _ = io.Copy(&seen, ours) // ends with an error when the program has ended
	}()
	from := 0
	for _, step := range []struct{ question, answer string }{
		{"Delete after session? [Y/n] ", "n"},
		{"Here are 2 steps. Proceed? [Y/n] ", "what?"},
		{"Here are 2 steps. Proceed? [Y/n] ", ""},
		{`Step "a" complete. Continue? [Y/n] `, "yes"},
		{"All criteria met. Confirm done? [Y/n] ", "n"},
		{"All criteria met. Confirm done? [Y/n] ", "Y"},
	} {
		waitFor(t, &seen, &from, step.question)
		if _, err := io.WriteString(ours, step.answer+"\n"); err != nil {
			t.Fatal(err)
		}
		waitFor(t, &seen, &from, "\n") // the echo of the answer
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v; it showed:\n%s", err, seen.text())
	}
	<-done
	if text := seen.text(); !strings.Contains(text, "completed: every criterion is met and a person confirmed it") || !strings.Contains(text, "G1: Decomposed into 2 steps:") {
		t.Errorf("it showed:\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(work, ".loop", "state.json")); err != nil {
		t.Errorf("a person had it kept: %v", err)
	}
	prompt, err := os.ReadFile(filepath.Join(dir, "p3.txt"))
	if err != nil || !strings.Contains(string(prompt), "A person looked at the result and says that it is not done yet") {
		t.Errorf("the third prompt is\n%s\n%v", prompt, err)
	}
}

// TestGateAsksUntilItIsCancelled cancels a loop that waits for an answer at a terminal.
func TestGateAsksUntilItIsCancelled(t *testing.T) {
	ours, theirs, ok := pseudoTerminal(t)
	if !ok {
		t.Log("this machine has no pseudo terminals")
		return
	}
	work := t.TempDir()
	cmd := exec.Command("descartes", "loop", "start", "--command", "fakeagent", "--prompt", "Fix it", "--criterion", "a", "--shape", "colleague", "--sandbox", "off",
		"--loop-state", "delete", "--name", "asks")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = work, theirs, theirs, theirs
	cmd.Env = append(os.Environ(), "HOME="+work, "TERM=dumb")
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
	waitFor(t, &seen, &from, "Here is 1 step. Proceed? [Y/n] ")
	cancel := exec.Command("descartes", "loop", "cancel", "asks")
	cancel.Dir = work
	if out, err := cancel.CombinedOutput(); err != nil {
		t.Errorf("cancel: %v\n%s", err, out)
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != exitInterrupted {
		t.Errorf("%v, want exit status %d", err, exitInterrupted)
	}
	<-done
	if !strings.Contains(seen.text(), "stopped: cancelled by request") {
		t.Errorf("it showed:\n%s", seen.text())
	}
	if _, err := os.Stat(filepath.Join(work, ".loop")); err == nil {
		t.Error(".loop is still there")
	}
}

// waitFor waits until a text is shown after from, and moves from behind it.
func waitFor(t *testing.T, seen *shownText, from *int, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if at := strings.Index(seen.text()[min(*from, len(seen.text())):], text); at >= 0 {
			*from += at + len(text)
			return
		}
	}
	t.Fatalf("it does not show %q; it shows:\n%s", text, seen.text())
}

// TestStartAsksAboutAListThatCannotFinish starts a list with a cycle where a person would, who first wants to correct it.
func TestStartAsksAboutAListThatCannotFinish(t *testing.T) {
	work := t.TempDir()
	list := `{"tag":"x","tasks":[{"id":1,"title":"A","status":"pending"},{"id":2,"title":"B","dependencies":[3]},{"id":3,"title":"C","dependencies":[2]}]}`
	for name, text := range map[string]string{".scud/tasks/x.json": list, "../agent": "*: write a.txt a\n*: say TASK_COMPLETE\n"} {
		path := filepath.Join(work, "repo", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	repo := filepath.Join(work, "repo")
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "start"}} {
		git := exec.Command("git", args...)
		if git.Dir = repo; git.Run() != nil {
			t.Fatal(args)
		}
	}
	for _, c := range []struct {
		answer string
		code   int
		shows  string
	}{{"n", exitInput, "nothing was started"}, {"", exitBlocked, "done 1/3, held 2"}} {
		ours, theirs, ok := pseudoTerminal(t)
		if !ok {
			t.Log("this machine has no pseudo terminals")
			return
		}
		cmd := exec.Command("descartes", "start", "--tag", "x", "--command", "fakeagent", "--verify", "true", "--sandbox", "off", "--env-pass", "AGENT")
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = repo, theirs, theirs, theirs
		cmd.Env = append(os.Environ(), "AGENT="+filepath.Join(work, "agent"), "HOME="+work, "TERM=dumb", "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.org")
		if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
			t.Fatal(err)
		}
		var seen shownText
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(&seen, ours)
		}()
		from := 0
		waitFor(t, &seen, &from, "2 tasks cannot run. Start the others? [Y/n] ")
		if _, err := io.WriteString(ours, c.answer+"\n"); err != nil {
			t.Fatal(err)
		}
		var ended *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != c.code {
			t.Errorf("%q: %v, want exit status %d", c.answer, err, c.code)
		}
		<-done
		if !strings.Contains(seen.text(), c.shows) {
			t.Errorf("%q: it showed:\n%s", c.answer, seen.text())
		}
	}
}
