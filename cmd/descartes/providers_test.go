package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/launch"
)

func TestProviderSettings(t *testing.T) {
	for _, c := range []struct {
		yaml     string
		args     []string
		onLimit  string
		maxWait  int
		fallback string
	}{
		{"", nil, "wait", 21600, ""},
		{"", []string{"--ci"}, "stop", 21600, ""},
		{"", []string{"--ci", "--on-limit", "wait"}, "wait", 21600, ""},
		{"", []string{"--fallback", "codex"}, "fallback", 21600, "codex"},
		{"", []string{"--fallback", "codex,gemini", "--fallback", "qwen"}, "fallback", 21600, "codex gemini qwen"},
		{"", []string{"--fallback", "codex", "--on-limit", "stop"}, "stop", 21600, "codex"},
		{"", []string{"--ci", "--fallback", "codex"}, "fallback", 1, "codex"},
		{"", []string{"--ci", "--fallback", "codex", "--set", "max_wait=1h"}, "fallback", 3600, "codex"},
		{"fallback: codex, gemini\nmax_wait: 90m\n", nil, "fallback", 5400, "codex gemini"},
		{"fallback: [codex]\nmax_wait: 60\non_limit: wait\n", nil, "wait", 60, "codex"},
		{"fallback: [codex]\non_limit: wait\n", []string{"--fallback", "gemini"}, "fallback", 21600, "gemini"},
		{"fallback: [codex]\n", []string{"--fallback", ""}, "wait", 21600, ""},
		{"", []string{"--set", "max_wait=0"}, "wait", 0, ""},
		{"fallback: [codex]\non_limit: fallback\n", []string{"--fallback", ""}, "wait", 21600, ""},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "descartes.yaml"), []byte(c.yaml), 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := parsed(t, dir, c.args...)
		if err != nil || s.OnLimit != c.onLimit || s.MaxWaitSecs != c.maxWait ||
			strings.Join(s.Fallback, " ") != c.fallback {
			t.Errorf("%q %q: got %s, %d, %q, %v", c.yaml, c.args, s.OnLimit, s.MaxWaitSecs, s.Fallback, err)
		}
		if s.asksAnew() != slices.Contains(c.args, "--on-limit") {
			t.Errorf("%q: anew is %v", c.args, s.asksAnew())
		}
	}
	t.Setenv("DESCARTES_ON_LIMIT", "stop")
	if s, err := parsed(t, t.TempDir()); err != nil || s.OnLimit != "stop" || s.asksAnew() {
		t.Errorf("by the environment: %s, anew %v, %v", s.OnLimit, s.asksAnew(), err)
	}
}

// What is known of quotas lies in the state directory of the user, of clients that tell their limits.
func TestAccounts(t *testing.T) {
	b, _ := agent.Lookup("claude")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	if a := launch.Accounts(nil, ""); a != nil {
		t.Errorf("without a home: %+v", a)
	}
	t.Setenv("HOME", "/h")
	if a := launch.Accounts(nil, ""); a.Dir != "/h/.local/state/descartes/limits" {
		t.Errorf("home: %s", a.Dir)
	}
	t.Setenv("XDG_STATE_HOME", "/s")
	generic, _ := agent.Lookup("generic")
	a := launch.Accounts([]agent.Backend{b, generic}, "/p")
	if a.Dir != "/s/descartes/limits" || a.IDs["claude"] == "" || a.IDs["generic"] != "" {
		t.Errorf("state home: %s, %q, %q", a.Dir, a.IDs["claude"], a.IDs["generic"])
	}
}
