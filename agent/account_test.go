package agent

import (
	"strings"
	"testing"
)

// An account is the same in every project, and another with another key, home or program.
func TestAccount(t *testing.T) {
	t.Parallel()
	b, _ := Lookup("claude")
	of := func(b Backend, home string, environ ...string) string { return b.Account(home, environ) }
	usual := of(b, "/home/a")
	if got := of(b, "/home/a", "ANTHROPIC_API_KEY=", "CLAUDE_CODE_SESSION_ID=7", "PWD=/x",
		"EDITOR_KEY=1"); got != usual {
		t.Errorf("what chooses no account makes another: %s, %s", got, usual)
	}
	codex, _ := Lookup("codex")
	for what, got := range map[string]string{
		"key":     of(b, "/home/a", "ANTHROPIC_API_KEY=sk-secret"),
		"home":    of(b, "/home/b"),
		"service": of(b, "/home/a", "ANTHROPIC_BASE_URL=http://localhost"),
		"row":     of(b.WithEnv(map[string]string{"CLAUDE_CONFIG_DIR": "/other"}), "/home/a"),
		"program": of(codex, "/home/a"),
	} {
		if got == usual || strings.Contains(got, "secret") {
			t.Errorf("another %s: %s", what, got)
		}
	}
	for _, name := range []string{"gemini", "opencode"} {
		one, _ := Lookup(name)
		other, ok := Lookup(name + "-acp")
		if a, b := of(one, "/home/a", "GEMINI_API_KEY=k"), of(other, "/home/a", "GEMINI_API_KEY=k"); !ok || a != b {
			t.Errorf("%s run in two ways has two accounts: %s, %s", name, a, b)
		}
	}
}
