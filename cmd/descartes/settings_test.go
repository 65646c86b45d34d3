package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestParseDeadline(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 28, 22, 30, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-04-01T06:00:00Z": time.Date(2026, 4, 1, 6, 0, 0, 0, time.UTC),
		"23:15":                time.Date(2026, 3, 28, 23, 15, 0, 0, time.UTC),
		"06:00":                time.Date(2026, 3, 29, 6, 0, 0, 0, time.UTC),
		"22:30":                time.Date(2026, 3, 29, 22, 30, 0, 0, time.UTC),
		"90m":                  now.Add(90 * time.Minute),
	} {
		got, err := parseDeadline(text, now)
		if err != nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "25:00", "-1h", "0s"} {
		if got, err := parseDeadline(text, now); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestSecs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "300": 300, "20m": 1200, "1500ms": 2} {
		var s secs
		if err := s.Set(text); err != nil || int(s) != want {
			t.Errorf("%q: got %d, %v, want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"-1", "x", "-5m", "99999999999"} {
		var s secs
		if err := s.Set(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, s)
		}
	}
}

// parsed gives what a command line makes of the settings in a project.
func parsed(t *testing.T, dir string, args ...string) (*settings, error) {
	t.Helper()
	s := &settings{}
	cmd := &cobra.Command{Use: "x"}
	s.register(cmd)
	if err := cmd.ParseFlags(append([]string{"--working-dir", dir}, args...)); err != nil {
		return s, err
	}
	_, err := s.load(cmd.Flags())
	return s, err
}

func TestPrecedence(t *testing.T) {
	dir := t.TempDir()
	yaml := `command: from file
iteration_timeout_secs: 60
on_limit: stop
backend:
  model: file-model
  environment: {A: b}
scud:
  max_iterations_per_task: 7
  verification_command: make file
  spec:
    additional_specs: [A.md]
    max_spec_tokens: 9000
`
	if err := os.WriteFile(filepath.Join(dir, "descartes.yaml"), []byte(yaml), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DESCARTES_MODEL", "env-model")
	t.Setenv("DESCARTES_VERIFY", "make env")
	s, err := parsed(t, dir, "--verify", "make flag", "--spec-file", "B.md", "--spec-file", "C.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, got, want string }{
		{"command", s.Command, "from file"},
		{"model", s.Backend.Model, "env-model"},
		{"verify", s.Scud.VerificationCommand, "make flag"},
		{"on-limit", s.OnLimit, "stop"},
		{"hooks", s.Git.Hooks, "run"},
		{"environment", s.Backend.Environment["A"], "b"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, c.got, c.want)
		}
	}
	if s.TimeoutSecs != 60 || s.Scud.MaxIterationsPerTask != 7 || s.Scud.Spec.MaxSpecTokens != 9000 || !s.Scud.AutoCommitWaves {
		t.Errorf("got %+v", s.Config)
	}
	if got := s.Scud.Spec.AdditionalSpecs; !slices.Equal(got, []string{"B.md", "C.md"}) {
		t.Errorf("spec files: got %q", got)
	}
}

func TestSettingsFileErrors(t *testing.T) {
	for yaml, want := range map[string]string{
		"comand: x\n":                         "line 1: unknown setting comand",
		"scud:\n  tag: x\n  verify: make\n":   "line 3: unknown setting verify",
		"iteration_timeout_secs: soon\n":      "line 1: there is `soon`, where a whole number is wanted",
		"command: [a\n":                       "line 1",
		"on_limit: never\n":                   "on_limit: \"never\" is none of wait, stop",
		"verify_timeout_secs: -1\n":           "verify_timeout_secs: -1 is negative",
		"git:\n  hooks: maybe\n":              "git.hooks",
		"scud:\n  max_iterations_per_task: 0": "--max-attempts 0",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "descartes.yaml"), []byte(yaml), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := parsed(t, dir)
		if err == nil || !strings.Contains(err.Error(), want) || codeOf(err) != exitInput {
			t.Errorf("%q: got %v, want %q and exit code 2", yaml, err, want)
		}
	}
	if _, err := parsed(t, t.TempDir(), "--config", "none.yaml"); err == nil || codeOf(err) != exitInput {
		t.Errorf("a missing --config: got %v", err)
	}
	if _, err := parsed(t, t.TempDir()); err != nil {
		t.Errorf("no settings file: got %v", err)
	}
}

func TestNoCommit(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{{nil, true}, {[]string{"--auto-commit"}, true}, {[]string{"--no-commit"}, false}, {[]string{"--auto-commit=false"}, false}} {
		s, err := parsed(t, t.TempDir(), c.args...)
		if err != nil || s.Scud.AutoCommitWaves != c.want || s.Git.AutoCommit != c.want {
			t.Errorf("%q: got %v, %v, want %v", c.args, s.Scud.AutoCommitWaves, err, c.want)
		}
	}
}
