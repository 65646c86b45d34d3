package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"descartes/internal/redact"
)

// What a file runs is compared with what the last run found; who changed it is asked only where something has changed.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &Watch{Root: dir, File: filepath.Join(dir, "descartes.yaml"), Name: "descartes.yaml", Seen: filepath.Join(dir, "settings.json"), Redact: redact.Of(nil)}
	asked := 0
	look := func(text string) []string {
		t.Helper()
		if err := os.WriteFile(w.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		notes := w.Changed(func() string { asked++; return " (by Ann)" })
		if err := w.Remember(); err != nil {
			t.Fatal(err)
		}
		return notes
	}
	for _, c := range []struct {
		text string
		want []string
	}{
		{"command: claude\n", nil}, // the first run of the project
		{"command: claude\nmax_iterations: 3\n", nil},
		{"command: claude && x\nscud:\n  verification_command: make\n", []string{
			`descartes.yaml changed since the last run: command: "claude" -> "claude && x" (by Ann)`,
			`descartes.yaml changed since the last run: scud.verification_command: none -> "make" (by Ann)`}},
		{"command: claude && x\nscud: {verification_command: make}\n", nil},
	} {
		if got := look(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
	if asked != 1 {
		t.Errorf("it was asked %d times who changed the file", asked)
	}
}
