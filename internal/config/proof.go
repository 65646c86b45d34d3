package config

import (
	"os"
	"path/filepath"
	"strings"

	"descartes/tasks"
)

// ProofConfig says what is asked of an attempt that its verify command has passed.
type ProofConfig struct {
	Holdout HoldoutConfig `json:"holdout,omitzero"`
	Prove   string        `json:"prove,omitempty" flag:"prove" words:"off|red-without" open:"off" in:"mode resume" help:"red-without: tests that an attempt adds or changes must fail without the rest of its work, on a copy of the project; a task's own prove says otherwise (default: off)"`

	Mutants int `json:"mutants,omitempty" flag:"mutants" least:"0" in:"mode resume" help:"have a mutation tool of the language put this many small faults into what an attempt changed; its tests must notice each (default: none)"`

	Strength        int    `json:"strength,omitempty" flag:"strength" least:"0" in:"mode resume" help:"have an agent write this many wrong solutions, which the tests of an attempt must refuse, and one that the task permits (default: none)"`
	StrengthBackend string `json:"strength_backend,omitempty" power:"yes" help:"backend of that agent (default: that of the run)"`

	ProvesSome bool `json:"proves_some,omitempty" yaml:"-"` // tasks that ask for it themselves
}

// HoldoutConfig is a command with checks that no agent sees.
type HoldoutConfig struct {
	Run     string `json:"run,omitempty" power:"yes" help:"command that checks a verified attempt with tests that no agent sees; $DESCARTES_HOLDOUT is their folder"`
	Dir     string `json:"dir,omitempty" type:"path" power:"yes" help:"folder of those tests, outside the project"`
	Timeout int    `json:"timeout_secs,omitempty" yaml:"timeout" type:"duration" help:"longest run of that command (default: that of the verify command)"`
}

// NeedsLab reports whether commands run on trees besides those that attempts work in.
func (c *Config) NeedsLab() bool {
	return c.Holdout.Run != "" || c.ProtectsBase() || c.proves() || c.ProvesSome || c.Mutants > 0 || c.Strength > 0
}

const redWithout = "red-without"

func (c *ProofConfig) proves() bool { return c.Prove == redWithout }

// ProveOf reports whether the tests of an attempt at a task, or with nil of an iteration, have to fail without the rest of its work.
func (c *Config) ProveOf(t *tasks.Task) bool {
	if t != nil && t.Prove != "" {
		return t.Prove == redWithout
	}
	return c.proves()
}

// Folder is that of the tests, links followed where it is there.
func (h HoldoutConfig) Folder(root string) string {
	dir := h.Dir
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		dir = filepath.Join(os.Getenv("HOME"), rest)
	} else if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// StrengthChoices lists what the agent may be run with that writes wrong solutions for the tests of a task, best first.
func (c *Config) StrengthChoices(t *tasks.Task) []Choice {
	out := c.Choices(t)
	if name := c.StrengthBackend; name != "" && name != out[0].Backend {
		out = append([]Choice{{name, c.model(name, "")}}, out...)
	}
	return out
}
