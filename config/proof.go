package config

import (
	"os"
	"path/filepath"
	"strings"

	"descartes/tasks"
	"descartes/verify/judge"
)

// ProofConfig asks for more proof than a passing verify command.
type ProofConfig struct {
	Holdout HoldoutConfig `json:"holdout,omitzero"`
	Review  ReviewConfig  `json:"review,omitzero"`
	Care    string        `json:"care,omitempty" words:"normal|careful|paranoid" open:"normal" in:"mode resume" trust:"no" help:"careful: held-out checks or a review have to be set, an attempt has to turn a test from red to green or add one, its tests have to fail without the rest of its work, and a person says whether a task is done for which nothing had to be done; paranoid: and the review is by another backend than the work (default: normal)"`
	Prove   string        `json:"prove,omitempty" words:"off|red-without" open:"off" in:"mode resume" trust:"no" help:"red-without: tests that an attempt adds or changes must fail without the rest of its work, on a copy of the project; a task's own prove overrides this (default: off)"`

	ProvesSome bool `json:"proves_some,omitempty" yaml:"-"` // tasks that ask for it themselves
}

// HoldoutConfig is a command with checks that no agent sees.
type HoldoutConfig struct {
	Run     string `json:"run,omitempty" trust:"confined" help:"command that checks a verified attempt with tests that no agent sees; $DESCARTES_HOLDOUT is their folder"`
	Dir     string `json:"dir,omitempty" type:"path" trust:"outside" help:"folder of those tests, outside the project"`
	Timeout int    `json:"timeout_secs,omitempty" yaml:"timeout" type:"time" trust:"no" help:"time limit for that command (default: that of the verify command)"`
}

// ReviewConfig has a second agent review work that has passed everything else.
type ReviewConfig struct {
	Backend string   `json:"backend,omitempty" flag:"review" arg:"backend" in:"mode resume" trust:"no" help:"backend that reviews verified work; off: no review"`
	Model   string   `json:"model,omitempty" trust:"no" help:"model that the reviewer uses"`
	Prompt  string   `json:"prompt,omitempty" trust:"no" help:"what the reviewer looks at besides the task and its criteria"`
	Team    []string `json:"team,omitempty" type:"lines" trust:"no" help:"what each of several reviewers looks at alone, such as security; one rejection rejects"`
}

// Reviews reports whether a second agent reviews verified work.
func (c *Config) Reviews() bool {
	r := c.Review
	if r.Backend == "off" || r.Backend == "" && r.Model == "" && r.Prompt == "" && len(r.Team) == 0 {
		return false
	}
	return true
}

// Reviewers lists what the reviewer may run with, best first: its own settings, then the fallbacks.
func (c *Config) Reviewers() []Choice { return c.chain(c.Review.Backend, c.Review.Model, "") }

// NeedsLab reports whether commands may run on trees other than those that attempts work in.
func (c *Config) NeedsLab() bool {
	return c.NeedsGit() || len(c.Protect) > 0 || len(c.Guard) != 1 || c.Guard[judge.All] != judge.Off
}

// NeedsGit reports whether commands have to run on such trees: nothing stands for them.
func (c *Config) NeedsGit() bool { return c.Holdout.Run != "" || c.proves() || c.ProvesSome }

const redWithout = "red-without"

func (c *ProofConfig) proves() bool { return c.Prove == redWithout || c.Prove == "" && c.Careful() }

// Careful reports whether work has to be shown by more than checks that it may have written itself.
func (c *ProofConfig) Careful() bool { return c.Care == "careful" || c.Paranoid() }

// Paranoid reports whether another backend than that of the work reviews it.
func (c *ProofConfig) Paranoid() bool { return c.Care == "paranoid" }

// Verified reports whether an attempt has to turn a test from red to green or to add one.
func (c *Config) Verified() bool { return c.Require == "verified" || c.Require == "" && c.Careful() }

// ProveOf reports whether the tests of an attempt at a task must fail without the rest of its work; nil stands for an
// iteration.
func (c *Config) ProveOf(t *tasks.Task) bool {
	if t != nil && t.Prove != "" {
		return t.Prove == redWithout
	}
	return c.proves()
}

// Folder is the tests' folder, with links followed if it exists.
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
