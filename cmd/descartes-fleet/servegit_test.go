package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeGitRefuses: what would let strangers in is refused before anything listens or is written.
func TestServeGitRefuses(t *testing.T) {
	short, long := filepath.Join(t.TempDir(), "short"), filepath.Join(t.TempDir(), "long")
	for path, text := range map[string]string{short: "secret\n", long: "0123456789abcdef\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "git")
	for _, c := range []struct{ args, want string }{
		{"--addr 0.0.0.0:0", "without a token"},
		{"--addr :0", "without a token"},
		{"--addr example.org:0", "without a token"},
		{"--addr [::]:0", "without a token"},
		{"--addr 0.0.0.0:0 --token-file " + short, "at least 16 characters"},
		{"--addr 127.0.0.1:0 --token-file " + short, "at least 16 characters"},
		{"--addr nonsense", "--addr"},
		{"--cert x", "belong together"},
		{"--key x --token-file " + long, "belong together"},
	} {
		cmd := newRootCmd()
		cmd.SetArgs(append([]string{"serve-git", dir}, strings.Fields(c.args)...))
		cmd.SetOut(t.Output())
		err := cmd.ExecuteContext(t.Context())
		if usage, ok := errors.AsType[*usageError](err); !ok || !strings.Contains(err.Error(), c.want) || usage.hint == "" {
			t.Errorf("%s: %v", c.args, err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder was made")
	}
}
