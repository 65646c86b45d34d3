package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrNoProgram is what Look returns, wrapped, for a program that is nowhere.
// One that is there but cannot be executed is an fs.ErrPermission.
var ErrNoProgram = errors.New("no such program")

// Look finds the file that a command run in dir with env would execute. A
// program with a slash is taken relative to dir, any other is searched on the
// PATH of env, whose relative entries are taken relative to dir too.
func Look(program, dir string, env []string) (string, error) {
	if strings.ContainsRune(program, '/') {
		path := under(dir, program)
		if err := executable(path); err != nil {
			return "", fmt.Errorf("%s: %w", program, err)
		}
		return path, nil
	}
	var found error
	for _, entry := range filepath.SplitList(lookup(env, "PATH")) {
		if entry == "" {
			entry = "."
		}
		path := under(dir, filepath.Join(entry, program))
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if info, statErr := os.Stat(path); statErr == nil && info.Mode().IsRegular() {
			found = err // there, and not to be executed
		}
	}
	if found != nil {
		return "", fmt.Errorf("%s: %w", program, found)
	}
	return "", fmt.Errorf("%s: %w on PATH", program, ErrNoProgram)
}

func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	if abs, err := filepath.Abs(filepath.Join(dir, path)); err == nil {
		return abs
	}
	return filepath.Join(dir, path)
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: %w", path, fs.ErrPermission)
	case err != nil:
		return ErrNoProgram
	case info.IsDir():
		return fmt.Errorf("%s is a directory: %w", path, fs.ErrPermission)
	case syscall.Access(path, 1) != nil:
		return fmt.Errorf("%s is not executable: %w", path, fs.ErrPermission)
	}
	return nil
}

// lookup finds the last value of a variable, which is the one that counts.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(env[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}
