package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/internal/terminal"
)

func TestInstallDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, part := range []string{"project", "agent"} {
		if err := installDemo(part, filepath.Join(dir, part)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"project/go.mod", "project/plan.md", "project/.scud/tasks/tally.json",
		"agent/agent.sh", "agent/steps/9/cmd/tally/main.go"} {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Error(err)
		}
	}
}

func TestEmptyFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made, err := emptyFolder(filepath.Join(dir, "new", "one"))
	if err != nil || !filepath.IsAbs(made) {
		t.Errorf("of a new folder: got %q, %v", made, err)
	}
	if _, err := emptyFolder(dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("of a folder with something in it: got error %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := emptyFolder(file); err == nil {
		t.Error("of a file: got no error")
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"":             `""`,
		"plan.md":      `plan.md`,
		"sh /tmp/a.sh": `"sh /tmp/a.sh"`,
		"a$b":          `'a$b'`,
		`it's "x"`:     `'it'\''s "x"'`,
	} {
		if got := terminal.Quote(word); got != want {
			t.Errorf("quote(%q) = %s, want %s", word, got, want)
		}
	}
}

// TestDemo runs the demo as a person does, in a folder of its own. It checks itself; this checks that it tells all.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a demo")
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "descartes", "demo", "--dir", dir)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Fatalf("descartes demo: %v\n%s%s", err, out.String(), errs.String())
	}
	rest := out.String()
	for _, want := range []string{
		"$ descartes waves --tag tally\n", "Wave 4\n",
		"$ descartes run tally ", "attempt 1 failed", "blocked after 3 attempts", "held: task 6 is blocked",
		"$ descartes spec 4 --attempt 2\n", "counts 24 characters, want 20",
		"$ descartes logs 4\n", "TASK_COMPLETE",
		"$ go run ./cmd/tally plan.md\n", "characters      2,015\n",
		"$ git log --graph --oneline\n", "feat(tally): wave 4, 1 of 2 tasks\n", "feat(tally): complete wave 1\n",
		"plan tally\n",
		"$ descartes status\n", "7/10",
		"cd " + terminal.Quote(filepath.Join(dir, "tally")) + "\n",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is missing, or not in its place, in\n%s", want, out.String())
		}
		rest = after
	}
	checkTutorial(t, out.String())
}

// checkTutorial makes sure that the session that the tutorial shows is the one that a new user sees: each line of its
// blocks is one of the demo's, in the same order, but for what differs from run to run.
func checkTutorial(t *testing.T, demo string) {
	t.Helper()
	tutorial, err := os.ReadFile(filepath.Join("..", "..", "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, session, found := strings.Cut(string(tutorial), "<!-- session of the demo -->\n")
	session, _, ends := strings.Cut(session, "<!-- end of the session -->\n")
	if !found || !ends {
		t.Fatal("docs/tutorial.md has no session any more")
	}
	rest, fence := strings.Split(varies.ReplaceAllString(demo, "~"), "\n"), ""
	for line := range strings.SplitSeq(varies.ReplaceAllString(session, "~"), "\n") {
		switch {
		case fence == "" && strings.HasPrefix(line, "```"):
			fence = line[:len(line)-len(strings.TrimLeft(line, "`"))]
		case line == fence:
			fence = ""
		case fence != "":
			at := slices.Index(rest, line)
			if at < 0 {
				t.Fatalf("the tutorial's session shows a line that the demo does not print there:\n%s", line)
			}
			rest = rest[at+1:]
		}
	}
}
