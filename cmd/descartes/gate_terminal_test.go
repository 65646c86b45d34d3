//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGateAsksAtATerminal answers every question of a colleague's loop where a person would type.
func TestGateAsksAtATerminal(t *testing.T) {
	if !haveTerminals(t) {
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
	cmd := exec.Command("descartes", "loop", "start", "--command", "fakeagent", "--prompt", "Fix it", "--criterion",
		"a", "--criterion", "b", "--set", "shape=colleague", "--sandbox", "off", "--env-pass", "AGENT")
	cmd.Dir, cmd.Env = work, append(os.Environ(), "AGENT="+filepath.Join(dir, "agent"), "HOME="+dir, "TERM=dumb")
	a := startAtTerminal(t, cmd, 0, 0)
	for _, step := range []struct{ question, answer string }{
		{"Delete after session? [Y/n] ", "n"},
		{"Here are 2 steps. Proceed? [Y/n] ", "what?"},
		{"Here are 2 steps. Proceed? [Y/n] ", ""},
		{`Step "a" complete. Continue? [Y/n] `, "yes"},
		{"All criteria met. Confirm done? [Y/n] ", "n"},
		{"All criteria met. Confirm done? [Y/n] ", "Y"},
	} {
		a.shows(step.question)
		a.press(step.answer + "\n")
		a.shows("\n") // the echo of the answer
	}
	code, text := a.ended()
	if code != exitDone || !strings.Contains(text, "completed: every criterion is met and a person confirmed it") ||
		!strings.Contains(text, "G1: Decomposed into 2 steps:") {
		t.Errorf("exit status %d; it showed:\n%s", code, text)
	}
	if _, err := os.Stat(filepath.Join(work, ".loop", "state.json")); err != nil {
		t.Errorf("a person had it kept: %v", err)
	}
	prompt, err := os.ReadFile(filepath.Join(dir, "p3.txt"))
	if err != nil || !strings.Contains(string(prompt),
		"A person looked at the result and says that it is not done yet") {
		t.Errorf("the third prompt is\n%s\n%v", prompt, err)
	}
}

// TestGateAsksUntilItIsCancelled cancels a loop that waits for an answer at a terminal.
func TestGateAsksUntilItIsCancelled(t *testing.T) {
	if !haveTerminals(t) {
		return
	}
	work := t.TempDir()
	cmd := exec.Command("descartes", "loop", "start", "--command", "fakeagent", "--prompt", "Fix it", "--criterion",
		"a", "--set", "shape=colleague", "--sandbox", "off",
		"--set", "loop_state=delete", "--name", "asks")
	cmd.Dir, cmd.Env = work, append(os.Environ(), "HOME="+work, "TERM=dumb")
	a := startAtTerminal(t, cmd, 0, 0)
	a.shows("Here is 1 step. Proceed? [Y/n] ")
	cancel := exec.Command("descartes", "loop", "cancel", "asks")
	cancel.Dir = work
	if out, err := cancel.CombinedOutput(); err != nil {
		t.Errorf("cancel: %v\n%s", err, out)
	}
	if code, text := a.ended(); code != exitInterrupted || !strings.Contains(text, "stopped: cancelled by request") {
		t.Errorf("exit status %d, want %d; it showed:\n%s", code, exitInterrupted, text)
	}
	if _, err := os.Stat(filepath.Join(work, ".loop")); err == nil {
		t.Error(".loop is still there")
	}
}
