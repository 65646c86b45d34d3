package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInstallDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, part := range []string{"project", "agent"} {
		if err := installDemo(part, filepath.Join(dir, part)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"project/go.mod", "project/plan.md", "project/.scud/tasks/tally.json", "agent/agent.sh", "agent/work/9/cmd/tally/main.go"} {
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
		if got := quote(word); got != want {
			t.Errorf("quote(%q) = %s, want %s", word, got, want)
		}
	}
}
