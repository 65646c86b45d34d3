package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeGitSaysWhereTheTokenIs: what to type next names the file with the token, and never the token.
func TestServeGitSaysWhereTheTokenIs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("git token", []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var said strings.Builder
	cmd := newRootCmd()
	cmd.SetArgs([]string{"serve-git", "git", "--addr", "127.0.0.1:0", "--token-file", "git token"})
	cmd.SetOut(writer(func(b []byte) {
		if said.Write(b); strings.Contains(said.String(), "Ctrl-C") {
			stop()
		}
	}))
	if err := cmd.ExecuteContext(ctx); err != nil && !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
	if text := said.String(); !strings.Contains(text, "next: export DESCARTES_FLEET_GIT_TOKEN_FILE='"+filepath.Join(dir, "git token")+"'\n") || strings.Contains(text, "0123456789abcdef") {
		t.Errorf("it says:\n%s", text)
	}
}

type writer func(b []byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

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
		{"", "agents on this machine"},
		{"--addr 127.0.0.1:0", "agents on this machine"},
		{"--addr 0.0.0.0:0", "agents on this machine"},
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
