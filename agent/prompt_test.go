//go:build unix

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestPromptModes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, tt := range []struct {
		mode PromptMode
		text string
	}{
		{ByStdin, `cat > got`},
		{ByArg, `printf '%s' "$1" > got; if read x; then echo stdin is open; fi`},
		{ByEnv, `printf '%s' "$DESCARTES_PROMPT" > got; if read x; then echo stdin is open; fi`},
		{ByFile, `cat "$1" > got; if test "$1" != "$DESCARTES_PROMPT_FILE"; then echo another file; fi`},
	} {
		q := s.request(string(tt.mode))
		q.Prompt = "# é\n\n\"quoted\" $HOME `x` \xff\n\n"
		res := s.run(script(tt.mode, tt.text), q)
		got, err := os.ReadFile(filepath.Join(s.dir, "got"))
		if err != nil || string(got) != q.Prompt || res.End != Finished || res.Final != "" {
			t.Errorf("%s: prompt %q, %v, %+v", tt.mode, got, err, res)
		}
		info, err := os.Stat(q.PromptFile)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: prompt file: %v %v", tt.mode, info, err)
		}
	}
}

func TestPromptTooLong(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	q := s.request("long")
	q.Prompt = strings.Repeat("x", 128<<10)
	var tooLong *PromptTooLongError
	_, err := NewRunner(s.shim, script(ByArg, "touch ran")).Run(t.Context(), q)
	if !errors.As(err, &tooLong) || tooLong.Limit != 128<<10-1 || !strings.Contains(err.Error(), "stdin") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "ran")); err == nil {
		t.Error("the agent ran")
	}
	q.Prompt = q.Prompt[1:]
	if res := s.run(script(ByArg, `test ${#1} = 131071`), q); res.End != Finished {
		t.Errorf("the longest prompt: %+v", res)
	}
	q.Prompt = strings.Repeat("y\n", 1<<20)
	if res := s.run(script(ByStdin, `test $(wc -c) = 2097152`), q); res.End != Finished {
		t.Errorf("2 MiB by stdin: %+v", res)
	}
	q.Prompt = "a\x00b"
	if _, err := NewRunner(s.shim, script(ByArg, "true")).Run(t.Context(), q); err == nil {
		t.Error("a NUL byte in an argument: no error")
	}
}

// Whatever lies where the prompt belongs, the prompt is there afterwards, and
// nothing else was changed.
func TestPromptFileInTheWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "prompt.md"), filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func() error{
		"nothing":   func() error { return nil },
		"longer":    func() error { return os.WriteFile(path, []byte(strings.Repeat("x", 100)), 0o600) },
		"link":      func() error { return os.Symlink(victim, path) },
		"dangling":  func() error { return os.Symlink(victim+"2", path) },
		"fifo":      func() error { return syscall.Mkfifo(path, 0o600) },
		"directory": func() error { return os.Mkdir(path, 0o700) },
		"open mode": func() error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666)) },
		"read only": func() error { return os.WriteFile(path, nil, 0o400) },
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		if err := writePrompt(path, "short"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := os.ReadFile(path)
		info, _ := os.Lstat(path)
		if err != nil || string(got) != "short" || info.Mode() != 0o600 {
			t.Errorf("%s: %q %v %v", name, got, info.Mode(), err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(victim); string(got) != "precious" {
		t.Errorf("the link's target: %q %v", got, err)
	}
	if err := writePrompt(filepath.Join(victim, "prompt.md"), "x"); err == nil {
		t.Error("below a file: no error")
	}
}
