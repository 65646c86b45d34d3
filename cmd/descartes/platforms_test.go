package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
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
