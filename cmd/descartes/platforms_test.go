package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"
)

// On Windows every command that would start something is refused, with one sentence and exit code 4; the others run.
// Elsewhere all do.
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
			if f.code != exitAgent || f.hint == "" || len("error: "+err.Error()) > helpWidth ||
				len("hint: "+f.hint) > helpWidth {
				t.Errorf("%s: %d %q, %q", cmd.CommandPath(), f.code, err, f.hint)
			}
			refused = append(refused, strings.TrimPrefix(cmd.CommandPath(), "descartes "))
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRootCmd())
	for _, c := range []string{"run", "start", "loop start", "step", "loop step", "resume", "loop resume", "plan",
		"build", "prompt", "demo"} {
		if !slices.Contains(refused, c) {
			t.Errorf("%s is not refused", c)
		}
	}
	for _, c := range []string{"waves", "spec", "tasks", "tasks list", "tasks set", "tasks import", "report",
		"config show", "init", "doctor", "version", "status", "why"} {
		if slices.Contains(refused, c) {
			t.Errorf("%s is refused", c)
		}
	}
}

// The flags of the release's configuration give the program its version, its commit and the commit's day: the linker
// passes over a name that it does not know.
func TestReleaseVersion(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Builds []struct {
			ID, Main string
			Ldflags  []string
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	b := config.Builds[0]
	if b.ID != "descartes" || b.Main != "./cmd/descartes" {
		t.Fatalf("the first build is %+v", b)
	}
	flags := strings.NewReplacer("{{ .Version }}", "1.2.3", "{{ .FullCommit }}",
		"0123456789abcdef0123456789abcdef01234567", "{{ .CommitDate }}", "2026-11-22T10:00:00Z").
		Replace(strings.Join(b.Ldflags, " "))
	for name, variable := range map[string]*string{"release": &release, "commit": &commit, "date": &date} {
		_, value, ok := strings.Cut(flags, "-X main."+name+"=")
		if !ok {
			t.Errorf("%q does not set %s", flags, name)
		}
		defer func(was string) { *variable = was }(*variable)
		*variable, _, _ = strings.Cut(value, " ")
	}
	if got, want := versionLine(), "v1.2.3 (0123456789ab, 2026-11-22) "+runtime.Version()+" "+runtime.GOOS+"/"+
		runtime.GOARCH; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := strings.Count(flags, "-X "); n != 3 {
		t.Errorf("%q sets %d variables", flags, n)
	}
}
