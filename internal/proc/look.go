package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/agent/process"
)

// ErrNoProgram is what Look returns, wrapped, for a program that is nowhere.
// One that is there but cannot be executed is an fs.ErrPermission.
var ErrNoProgram = errors.New("no such program")

// Look finds the file that a command run in dir with env would execute. A
// program with a slash is taken relative to dir, any other is searched on the
// PATH of env, whose relative entries are taken relative to dir too. On Windows
// a program's name may lack its extension.
func Look(program, dir string, env []string) (string, error) {
	if isPath(program) {
		path, err := firstExecutable(under(dir, program), env)
		if err != nil {
			return "", fmt.Errorf("%s: %w", program, err)
		}
		return path, nil
	}
	var found error
	for _, entry := range filepath.SplitList(lookup(env, "PATH")) {
		if entry == "" {
			entry = "."
		}
		path, err := firstExecutable(under(dir, filepath.Join(entry, program)), env)
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

// lookInside is Look for a command that sees another tree at its directory.
func lookInside(c *process.Command, env []string) (string, error) {
	path := under(c.Dir, c.Argv[0])
	below, err := filepath.Rel(c.Limits.Place, path)
	if c.Limits.Tree == "" || err != nil || !filepath.IsLocal(below) || !isPath(c.Argv[0]) ||
		filepath.IsAbs(c.Argv[0]) {
		return Look(c.Argv[0], c.Dir, env)
	}
	if _, err := firstExecutable(under(c.Limits.Tree, below), env); err != nil {
		return "", fmt.Errorf("%s: %w", c.Argv[0], err)
	}
	return path, nil
}

// isPath reports whether a program is named by its place.
func isPath(program string) bool {
	return strings.ContainsFunc(program, func(r rune) bool { return r < 0x80 && os.IsPathSeparator(uint8(r)) })
}

// firstExecutable is the path, or the first of it with an extension, that can be executed; else the path, and why not.
func firstExecutable(path string, env []string) (string, error) {
	err := executable(path)
	for _, ext := range extensions(env) {
		if executable(path+ext) == nil {
			return path + ext, nil
		}
	}
	return path, err
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
	case !mayExecute(path):
		return fmt.Errorf("%s is not executable: %w", path, fs.ErrPermission)
	}
	return nil
}

// lookup finds the last value of a variable, which is the one that counts.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(env[i], "="); ok && sameVariable(k, name) {
			return v
		}
	}
	return ""
}

// searched are variables with search paths.
var searched = []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH",
	"DYLD_FALLBACK_LIBRARY_PATH", "DYLD_FALLBACK_FRAMEWORK_PATH",
	"PYTHONPATH", "PERL5LIB", "RUBYLIB", "NODE_PATH"}

// preloaded are variables with names of libraries, which are searched, or their paths.
var preloaded = []string{"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"}

// Anchored is an environment whose search paths hold absolute paths only. An empty or a relative one means the folder
// that a program happens to work in, where an agent may have left a library or a program of its own. Libraries below
// project ("" for none) are left out too.
func Anchored(env []string, project string) (out []string) {
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		bare := slices.Contains(preloaded, name)
		if !bare && !slices.Contains(searched, name) {
			out = append(out, kv)
			continue
		}
		list := filepath.SplitList(value)
		if bare {
			list = strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == os.PathListSeparator })
		}
		list = slices.DeleteFunc(list, func(path string) bool {
			if !filepath.IsAbs(path) {
				return !bare || isPath(path)
			}
			below, err := filepath.Rel(project, path)
			return project != "" && process.Loads(name) && err == nil && filepath.IsLocal(below)
		})
		if len(list) > 0 {
			out = append(out, name+"="+strings.Join(list, string(os.PathListSeparator)))
		}
	}
	return out
}

// Outside is an environment whose PATH has no folder of the project that dir lies in: an activated virtual environment
// or node_modules/.bin is an agent's to write, and what we run ourselves is held in by nothing. PATH is the last
// variable of it.
func Outside(env []string, dir string) []string {
	project, err := filepath.Abs(dir) // "" is where we work
	if err != nil {
		return append(slices.Clip(env), "PATH=")
	}
	for at := project; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			project = at
			break
		} else if at == filepath.Dir(at) {
			break
		}
	}
	if real, err := filepath.EvalSymlinks(project); err == nil {
		project = real
	}
	list := slices.DeleteFunc(filepath.SplitList(lookup(env, "PATH")), func(path string) bool {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		below, err := filepath.Rel(project, path)
		return err == nil && filepath.IsLocal(below)
	})
	return append(slices.Clip(env), "PATH="+strings.Join(list, string(os.PathListSeparator)))
}

// Anchor makes our own environment, and so that of all that we start, an Anchored one.
func Anchor() {
	kept := Anchored(os.Environ(), "")
	for _, name := range slices.Concat(searched, preloaded) {
		at := slices.IndexFunc(kept, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		if was, ok := os.LookupEnv(name); !ok || at >= 0 && kept[at] == name+"="+was {
			continue
		} else if at < 0 {
			_ = os.Unsetenv(name)
		} else {
			_ = os.Setenv(name, strings.TrimPrefix(kept[at], name+"="))
		}
	}
}

// LookBeside finds a program beside our own, else on the PATH.
func LookBeside(program, dir string, env []string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside, err := firstExecutable(filepath.Join(filepath.Dir(self), program), env); err == nil {
			return beside, nil
		}
	}
	return Look(program, dir, env)
}
