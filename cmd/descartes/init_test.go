package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestInitSettings reads the settings that init writes with every comment that holds a setting taken
// for one: an example that is no setting any more would mislead.
func TestInitSettings(t *testing.T) {
	t.Parallel()
	text, err := initFiles.ReadFile("init/project/descartes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^#([^ ]|  )`).ReplaceAll(text, []byte("$1"))
	path := filepath.Join(t.TempDir(), "descartes.yaml")
	if err := os.WriteFile(path, all, 0o600); err != nil {
		t.Fatal(err)
	}
	c := defaults()
	if err := readFile(path, true, &c); err != nil {
		t.Fatalf("%v in\n%s", err, all)
	}
	if c.Scud.Tag != "feature-x" || c.Backend.Model != "opus" || len(c.Backends) != 1 {
		t.Errorf("not all settings were read: %+v", c)
	}
}
