//go:build linux

package proc

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := "PATH=" + os.Getenv("PATH")
	for _, tt := range []struct {
		name string
		call Call
		want Reply
		err  string
	}{
		{"both streams", Call{Argv: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}},
			Reply{[]byte("out\n"), []byte("err\n"), 3}, ""},
		{"stdin", Call{Argv: []string{"cat"}, Stdin: []byte("a\x00b")}, Reply{Stdout: []byte("a\x00b")}, ""},
		{"no stdin", Call{Argv: []string{"cat"}}, Reply{}, ""},
		{"unread stdin", Call{Argv: []string{"true"}, Stdin: make([]byte, 1<<20)}, Reply{}, ""},
		{"directory", Call{Argv: []string{"pwd"}, Dir: dir}, Reply{Stdout: []byte(dir + "\n")}, ""},
		{"environment", Call{Argv: []string{"env"}, Env: []string{path, "A=1"}},
			Reply{Stdout: []byte(path + "\nA=1\n")}, ""},
		{"path of the environment", Call{Argv: []string{"env"}, Env: []string{"PATH=/none"}}, Reply{},
			"env: no such program on PATH"},
		{"missing", Call{Argv: []string{"descartes-no-such-program"}}, Reply{}, "descartes-no-such-program"},
		{"nothing", Call{}, Reply{}, "no program"},
		{"signal", Call{Argv: []string{"sh", "-c", "kill -KILL $$"}}, Reply{Code: -1}, "signal: killed"},
		{"too much", Call{Argv: []string{"sh", "-c", "echo 12345; sleep 997"}, Limit: 5},
			Reply{Stdout: []byte("12345"), Code: -1}, "more than 5 bytes"},
		{"just enough", Call{Argv: []string{"echo", "1234"}, Limit: 5}, Reply{Stdout: []byte("1234\n")}, ""},
		{"loud stderr", Call{Argv: []string{"sh", "-c", "yes | head -c 1000000 >&2"}},
			Reply{Stderr: []byte(strings.Repeat("y\n", stderrLimit/2))}, ""},
	} {
		got, err := Output(t.Context(), tt.call)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
		if !bytes.Equal(got.Stdout, tt.want.Stdout) || !bytes.Equal(got.Stderr, tt.want.Stderr) ||
			got.Code != tt.want.Code {
			t.Errorf("%s: got %d, %q, %.80q", tt.name, got.Code, got.Stdout, got.Stderr)
		}
	}
}

func TestOutputCancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var asked time.Time
	go func() {
		eventually(t, "the program", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
		asked = time.Now()
		cancel()
	}()
	_, err := Output(ctx, Call{Argv: []string{"sh", "-c", "sleep 997 & touch up; wait"}, Dir: dir})
	if took := time.Since(asked); !errors.Is(err, context.Canceled) || took > waitDelay {
		t.Errorf("after %v: %v", took, err)
	}
}

// A grandchild that keeps the pipe does not keep us.
func TestOutputDoesNotWaitForGrandchildren(t *testing.T) {
	t.Parallel()
	got, err := Output(t.Context(), Call{Argv: []string{"sh", "-c", "sleep 997 & echo done"}})
	if err != nil || string(got.Stdout) != "done\n" || got.Code != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o700, "bin/plain": 0o600, "other/tool": 0o700,
		"other/plain": 0o700} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		program, path, want string
		err                 error
	}{
		{"tool", "bin:other", "bin/tool", nil},
		{"plain", "bin:other", "other/plain", nil},
		{"plain", "bin", "", os.ErrPermission},
		{"none", "bin", "", ErrNoProgram},
		{"tool", "", "", ErrNoProgram},
		{"tool", "none::bin", "bin/tool", nil},
		{"./bin/tool", "", "bin/tool", nil},
		{"bin/tool", "", "bin/tool", nil},
		{"bin/plain", "", "", os.ErrPermission},
		{"./bin", "", "", os.ErrPermission},
		{"./none", "", "", ErrNoProgram},
	} {
		got, err := Look(tt.program, dir, []string{"PATH=wrong", "PATH=" + tt.path})
		want := tt.want
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got != want || !errors.Is(err, tt.err) {
			t.Errorf("%s on %q: got %q, %v; want %q, %v", tt.program, tt.path, got, err, want, tt.err)
		}
	}
}

// Under a shim a program ends with all that it started when it is cancelled; what one that ended left in the
// background lives on.
func TestShimOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startShim(t, ShimConfig{})
	scratch := filepath.Join(dir, "scratch")
	got, err := s.Output(t.Context(), Call{Argv: []string{"sh", "-c",
		"cat; echo $A; echo err >&2; sleep 997 & echo $! >left; exit 3"}, Dir: dir, Env: []string{"A=1"},
		Stdin: []byte("in\n")}, scratch, -1)
	if err != nil || string(got.Stdout) != "in\n1\n" || string(got.Stderr) != "err\n" || got.Code != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
	left, err := strconv.Atoi(strings.TrimSpace(read(t, filepath.Join(dir, "left"))))
	if err != nil || syscall.Kill(left, 0) != nil {
		t.Errorf("the background process %d is gone: %v", left, err)
	}
	if _, err := s.Output(t.Context(), Call{Argv: []string{"echo", "12345"}, Limit: 5}, scratch, -1); err == nil ||
		!strings.Contains(err.Error(), "more than 5") {
		t.Errorf("too much: %v", err)
	}
	if _, err := s.Output(t.Context(), Call{Argv: []string{"descartes-no-such-program"}}, scratch, -1); err == nil {
		t.Error("no error of a missing program")
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "the program", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
		cancel()
	}()
	if _, err := s.Output(ctx, Call{Argv: []string{"sh", "-c", "setsid sleep 997 & touch up; wait"}, Dir: dir},
		scratch, -1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := carriers(s.cfg.Cookie); len(n) != 0 {
		t.Errorf("survivors: %v", n)
	}
	if names, _ := filepath.Glob(scratch + "*"); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}
