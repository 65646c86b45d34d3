//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunChooses lets a person choose one of several lists: by number, by name, as offered, or none.
func TestRunChooses(t *testing.T) {
	if !haveTerminals(t) {
		return
	}
	for name, c := range map[string]struct {
		types []string
		code  int
		shows string
	}{
		"a number":   {[]string{"2"}, 0, "tag beta: 1 task"},
		"a name":     {[]string{"beta"}, 0, "tag beta: 1 task"},
		"as offered": {[]string{""}, 0, "tag alpha: 1 task"},
		"corrected":  {[]string{"7", "betaa", "2"}, 0, "did you mean beta?"},
		"none":       {[]string{"q"}, exitInterrupted, "error: nothing was started"},
		"the end":    {[]string{"\x04"}, exitInput, "error: no tag was chosen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, home := t.TempDir(), t.TempDir()
			for _, tag := range []string{"alpha", "beta"} {
				path := filepath.Join(dir, ".scud", "tasks", tag+".json")
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(`{"tag":"`+tag+`","tasks":[{"id":1,"title":"One","status":"pending"}]}`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[user]\n\tname = Test\n\temail = test@example.org\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			cmd := exec.Command("descartes", "run", "--command", "fakeagent", "--verify", "true", "--dry-run", "--sandbox", "off")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+home, "TERM=dumb", "DESCARTES_TIMES=false")
			a := startAtTerminal(t, cmd, 0, 0)
			for _, text := range c.types {
				a.shows("q leaves [1] ")
				if text != "\x04" {
					text += "\n"
				}
				a.press(text)
			}
			if code, text := a.ended(); code != c.code || !strings.Contains(text, c.shows) {
				t.Errorf("exit code %d, want %d, and %q in\n%s", code, c.code, c.shows, text)
			}
		})
	}
}
