package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Account identifies the account that a backend uses: its program, and a hash of what may choose the account, which is
// the home directory and the provider's variables for keys, addresses and folders. The same key in another project is
// the same account, and so is the same client run in another way.
func (b Backend) Account(home string, environ []string) string {
	program := filepath.Base(b.Command[0])
	values := map[string]string{"HOME": home}
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
	return slices.ContainsFunc([]string{"ANTHROPIC_", "CLAUDE_", "OPENAI_", "CODEX_", "GEMINI_", "GOOGLE_", "COPILOT_",
		"GH_", "GITHUB_", "QWEN_",
		"DASHSCOPE_", "OPENCODE_", "OPENROUTER_", "CLINE_", "AMP_", "CURSOR_"}, vendor) &&
		slices.ContainsFunc([]string{"_KEY", "_TOKEN", "_URL", "_HOME", "_DIR", "_PROJECT", "_PROFILE"}, part)
}
