package config

import (
	"os"
	"path/filepath"
	"strings"
)

// ProofConfig says what is asked of an attempt that its verify command has passed.
type ProofConfig struct {
	Holdout HoldoutConfig `json:"holdout,omitzero"`
}

// HoldoutConfig is a command with checks that no agent sees.
type HoldoutConfig struct {
	Run     string `json:"run,omitempty" power:"yes" help:"command that checks a verified attempt with tests that no agent sees; $DESCARTES_HOLDOUT is their folder"`
	Dir     string `json:"dir,omitempty" type:"path" power:"yes" help:"folder of those tests, outside the project"`
	Timeout int    `json:"timeout_secs,omitempty" yaml:"timeout" type:"duration" help:"longest run of that command (default: that of the verify command)"`
}

// NeedsLab reports whether commands run on trees besides those that attempts work in.
func (c *Config) NeedsLab() bool { return c.Holdout.Run != "" }

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
