package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"descartes/agent/process"
	"descartes/agent/stream"
	"descartes/internal/redact"
)

// A prompt with a secret in it that comes back is an echo still, and what is said is masked before it is cut.
func TestMaskedRun(t *testing.T) {
	t.Parallel()
	const key = "sk-0123456789-abcdefghijklmnop"
	prompt := "# Task 1: Use the key\n\nThe key is " + key + ".\nEnd with <promise>COMPLETE</promise>.\n"
	dir := t.TempDir()
	q := Request{Prompt: prompt, PromptFile: filepath.Join(dir, "prompt"), Log: filepath.Join(dir, "log"),
		ErrLog: filepath.Join(dir, "err"), Redact: redact.New([]string{key})}
	words := "I used " + key + strings.Repeat(".", finalLimit-len("ghijklmnop")) // the end begins inside of the key
	for path, text := range map[string]string{q.PromptFile: prompt, q.Log: prompt + words,
		q.ErrLog: "warning: " + key + " is old\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &Runner{backend: Backend{Name: "generic", Format: stream.FormatText}}
	res, err := r.result(q, process.Exit{Why: process.Exited, Code: 1, End: time.Now()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Complete || strings.Contains(res.Final, "ghijklmnop") || !strings.HasPrefix(res.Final, "*") ||
		!strings.HasSuffix(res.Reason, ": warning: "+strings.Repeat("*", len(key))+" is old") {
		t.Errorf("complete %v, reason %q, final %.60q", res.Complete, res.Reason, res.Final)
	}
	for _, path := range []string{q.PromptFile, q.Log, q.ErrLog} {
		if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), key) {
			t.Errorf("%s has the key, %v", path, err)
		}
	}
}
