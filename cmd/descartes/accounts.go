package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/internal/atomicfile"
	"descartes/loop"
)

// accounts is what is known of the quotas of a run's backends, under the user's state directory; root is its project.
func accounts(backends []agent.Backend, root string, env func(string) string) *loop.Accounts {
	dir := env("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		if !filepath.IsAbs(env("HOME")) {
			return nil
		}
		dir = filepath.Join(env("HOME"), ".local", "state")
	}
	ids := map[string]string{}
	for _, b := range backends {
		if b.Format != agent.FormatText { // whose limits nobody can tell
			ids[b.Name] = accountOf(b, env, os.Environ())
		}
	}
	return &loop.Accounts{FS: atomicfile.OS(), Dir: filepath.Join(dir, "descartes", "limits"), For: root, ID: func(backend string) string { return ids[backend] }}
}

// accountOf names the account that a backend works with by its program and a hash of what may choose the account: the
// home directory, and the provider's variables for keys, addresses and folders. The same key in another project is the
// same account, and so is the same client run in another way.
func accountOf(b agent.Backend, env func(string) string, environ []string) string {
	program := filepath.Base(b.Command[0])
	values := map[string]string{"HOME": env("HOME")}
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); choosesAccount(name) {
			values[name] = value
		}
	}
	for name, value := range b.Env {
		if name == "HOME" || choosesAccount(name) {
			values[name] = value
		}
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00", program)
	maps.DeleteFunc(values, func(_, value string) bool { return value == "" })
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(h, "%s=%s\x00", name, values[name])
	}
	return program + "-" + hex.EncodeToString(h.Sum(nil)[:8])
}

// choosesAccount reports whether a variable says who pays: which key, which service, which login.
func choosesAccount(name string) bool {
	vendor := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	part := func(suffix string) bool { return strings.HasSuffix(name, suffix) }
	return slices.ContainsFunc([]string{"ANTHROPIC_", "CLAUDE_", "OPENAI_", "CODEX_", "GEMINI_", "GOOGLE_", "COPILOT_", "GH_", "GITHUB_", "QWEN_",
		"DASHSCOPE_", "OPENCODE_", "OPENROUTER_", "CLINE_", "AMP_", "CURSOR_"}, vendor) &&
		slices.ContainsFunc([]string{"_KEY", "_TOKEN", "_URL", "_HOME", "_DIR", "_PROJECT", "_PROFILE"}, part)
}
