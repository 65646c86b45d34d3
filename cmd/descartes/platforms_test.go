package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"
)

// On Windows every command that would start something is refused, with one sentence and exit code 4; the others run. Elsewhere
// all do.
func TestRunsOnWindows(t *testing.T) {
	t.Parallel()
	var refused []string
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if err := runsOn("linux", cmd); err != nil {
			t.Errorf("%s on Linux: %v", cmd.CommandPath(), err)
		}
		var f *failure
		if err := runsOn("windows", cmd); errors.As(err, &f) {
			if f.code != exitAgent || f.hint == "" || len("error: "+err.Error()) > helpWidth || len("hint: "+f.hint) > helpWidth {
				t.Errorf("%s: %d %q, %q", cmd.CommandPath(), f.code, err, f.hint)
			}
			refused = append(refused, strings.TrimPrefix(cmd.CommandPath(), "descartes "))
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRootCmd())
	for _, c := range []string{"run", "start", "loop start", "step", "loop step", "resume", "loop resume", "plan", "build", "prompt", "demo"} {
		if !slices.Contains(refused, c) {
			t.Errorf("%s is not refused", c)
		}
	}
	for _, c := range []string{"waves", "spec", "tasks", "tasks list", "tasks set", "tasks import", "report", "config show", "init", "doctor", "version", "status", "why"} {
		if slices.Contains(refused, c) {
			t.Errorf("%s is refused", c)
		}
	}
}

// The flags of the release's configuration give the program its version, its commit and the commit's day.
func TestReleaseVersion(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Builds []struct {
			ID, Main string
			Flags    []string
			Ldflags  []string
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	for _, b := range config.Builds {
		if b.ID != "descartes" {
			continue
		}
		flags := strings.NewReplacer("{{ .Version }}", "1.2.3", "{{ .FullCommit }}", "0123456789abcdef0123456789abcdef01234567", "{{ .CommitDate }}", "2026-11-22T10:00:00Z").
			Replace(strings.Join(b.Ldflags, " "))
		program := filepath.Join(t.TempDir(), "descartes")
		build := exec.Command("go", slices.Concat([]string{"build", "-buildvcs=false", "-o", program, "-ldflags", flags}, b.Flags, []string{b.Main})...)
		build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		out, err := exec.Command(program, "version").Output()
		want := "descartes v1.2.3 (0123456789ab, 2026-11-22) " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
		if err != nil || string(out) != want {
			t.Errorf("%v, %q, want %q", err, out, want)
		}
		return
	}
	t.Error("no build of descartes in .goreleaser.yaml")
}
