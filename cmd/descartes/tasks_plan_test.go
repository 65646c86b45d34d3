//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// atQuestion runs the program at a terminal, in a repository with these files beside an agent's script, and gives an
// answer to its question. work is the repository.
func atQuestion(t *testing.T, agent string, files map[string]string, args []string, question, answer string) (code int,
	text, work string) {
	t.Helper()
	dir := t.TempDir()
	work = filepath.Join(dir, "work")
	for name, text := range files {
		path := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "agent"), []byte(agent), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, git := range [][]string{{"init", "-q"}, {"add", "-A"},
		{"-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-qm", "start"}} {
		if out, err := exec.Command("git", append([]string{"-C", work}, git...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	cmd := exec.Command("descartes", append(args, "--command", "fakeagent", "--sandbox", "off", "--env-pass",
		"AGENT")...)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "AGENT="+filepath.Join(dir, "agent"), "HOME="+dir, "TERM=dumb", "GIT_AUTHOR_NAME=T",
		"GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@example.org")
	a := startAtTerminal(t, cmd, 0, 0)
	a.shows(question)
	a.press(answer)
	code, text = a.ended()
	return code, strings.Join(strings.Fields(text), " "), work
}

// A person at a terminal sees the tasks, and decides whether they are written.
func TestTasksPlanAsks(t *testing.T) {
	if !haveTerminals(t) {
		return
	}
	for _, c := range []struct {
		name, answer string
		code         int
		want         string
		written      bool
	}{
		{"yes", "\n", exitDone, "wrote .scud/tasks/PRD.json: 1 task", true},
		{"no", "what?\nn\n", exitWaits, "nothing is written; --yes writes it the answer is kept: ", false},
		{"Ctrl-C", "\x03", exitInterrupted, "interrupted: nothing is written", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, text, work := atQuestion(t,
				`*: say {"tasks": [{"id": 1, "title": "Build it", "description": "All of it."}]}`+"\n",
				map[string]string{"PRD.md": "Build it.\n"},
				[]string{"tasks", "plan", "PRD.md"}, "Write it? [Y/n] ", c.answer)
			if code != c.code || !strings.Contains(text, c.want) ||
				!strings.Contains(text, "+ 1 Build it All of it. Write it?") {
				t.Errorf("exit status %d, want %d; it showed:\n%s", code, c.code, text)
			}
			if _, err := os.Stat(filepath.Join(work, ".scud", "tasks", "PRD.json")); (err == nil) != c.written {
				t.Errorf("the list: %v, want it written: %v", err, c.written)
			}
		})
	}
}
