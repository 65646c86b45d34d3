package launch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/config"
	"descartes/internal/sandbox"
)

// What looks like a credential is kept from agents, and what only agents need from the verify command, unless it
// inherits all.
func TestWithheld(t *testing.T) {
	t.Parallel()
	usual, _ := agent.Lookup("claude")
	other, _ := agent.Lookup("codex")
	claude := []agent.Backend{usual}
	env := []string{"PATH=/bin", "LANG=C", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI", "ANTHROPIC_API_KEY=sk-ant-1"}
	var cfg config.Config
	agents, verify := Withheld(cfg, claude, env)
	if !slices.Equal(agents, []string{"AWS_SECRET_ACCESS_KEY"}) {
		t.Errorf("withheld from agents: %q", agents)
	}
	if !slices.Contains(verify, "ANTHROPIC_API_KEY") || slices.Contains(verify, "PATH") {
		t.Errorf("withheld from the verify command: %q", verify)
	}
	if text := EnvironmentText(cfg, claude, env); !strings.Contains(text, "withheld: AWS_SECRET_ACCESS_KEY") {
		t.Errorf("said: %s", text)
	}
	for _, backends := range [][]agent.Backend{{other}, {other, usual}} {
		agents, _ := Withheld(cfg, backends, env)
		if slices.Contains(agents, "ANTHROPIC_API_KEY") != (len(backends) == 1) ||
			!slices.Contains(agents, "AWS_SECRET_ACCESS_KEY") {
			t.Errorf("%d backends: withheld from agents: %q", len(backends), agents)
		}
	}
	cfg.VerifyEnv = "inherit"
	if _, verify := Withheld(cfg, claude, env); verify != nil {
		t.Errorf("withheld from a verify command that inherits all: %q", verify)
	}
}

// Where no sandbox can be had, auto runs without one and says so, and strict is refused.
func TestNoSandbox(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	at := Place{Root: dir, Dir: dir, Top: dir}
	var cfg config.Config
	box, err := FindSandbox(t.Context(), at, cfg, agent.Backend{Name: "generic"})
	if err != nil || box.Mode != sandbox.Off || !strings.Contains(box.Warning(), "without a sandbox") ||
		!strings.HasPrefix(box.Note, "none (") {
		t.Errorf("auto: %v, %q, %q, %v", box.Mode, box.Warning(), box.Note, err)
	}
	cfg.Sandbox = string(sandbox.Strict)
	var strict *StrictError
	if _, err := FindSandbox(t.Context(), at, cfg, agent.Backend{Name: "generic"}); !errors.As(err, &strict) ||
		strict.Fix == "" {
		t.Errorf("strict: %v", err)
	}
	cfg.Sandbox = string(sandbox.Off)
	if box, err := FindSandbox(t.Context(), at, cfg, agent.Backend{Name: "generic"}); err != nil ||
		box.Warning() != "" {
		t.Errorf("off: %q, %v", box.Warning(), err)
	}
}
