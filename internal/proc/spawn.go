//go:build unix

package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// streams are a command's three descriptors.
type streams struct {
	in, out, err int
	null         int
}

func (s *server) open(c Command) (f streams, err error) {
	f = streams{in: s.null, out: s.null, err: s.null, null: s.null}
	if c.Stdin != "" {
		if f.in, err = syscall.Open(c.Stdin, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
			f.in = s.null
			return f, fmt.Errorf("open input %s: %w", c.Stdin, err)
		}
	}
	if f.out, err = openOutput(c.Stdout, s.null); err != nil {
		f.close()
		return f, err
	}
	if c.Stderr == c.Stdout {
		f.err = f.out
		return f, nil
	}
	if f.err, err = openOutput(c.Stderr, s.null); err != nil {
		f.close()
	}
	return f, err
}

// look is Look that remembers: the same shell is started twice for every task, and a PATH is long.
func (s *server) look(program, dir string, env []string) (string, error) {
	search := lookup(env, "PATH")
	if at, ok := s.found[program]; ok && at.search == search && executable(at.path) == nil {
		return at.path, nil
	}
	path, err := Look(program, dir, env)
	if err == nil && !strings.ContainsRune(program, '/') && search != "" && absolute(search) {
		if s.found == nil {
			s.found = map[string]foundProgram{}
		}
		s.found[program] = foundProgram{search: search, path: path}
	}
	return path, err
}

// foundProgram is where a name without a slash led, searched on a PATH whose entries do not depend on a directory.
type foundProgram struct{ search, path string }

func absolute(search string) bool {
	for _, entry := range filepath.SplitList(search) {
		if !filepath.IsAbs(entry) {
			return false
		}
	}
	return true
}

func openOutput(path string, null int) (int, error) {
	if path == "" {
		return null, nil
	}
	// O_NONBLOCK: a FIFO in its place must not hang us; a file does not mind.
	fd, err := openMaking(path, syscall.O_WRONLY|syscall.O_APPEND|syscall.O_CREAT|syscall.O_NONBLOCK)
	if err != nil {
		return null, fmt.Errorf("open output: %w", err)
	}
	return fd, nil
}

// openMaking opens a file, making the directories it lies in where they are
// missing: an agent may have removed them.
func openMaking(path string, flags int) (int, error) {
	for try := 0; ; try++ {
		fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC, 0o600)
		if err == syscall.ENOENT && try == 0 && os.MkdirAll(filepath.Dir(path), 0o700) == nil {
			continue
		}
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return fd, nil
	}
}

func (f streams) output() []int {
	var list []int
	if f.out != f.null {
		list = append(list, f.out)
	}
	if f.err != f.null && f.err != f.out {
		list = append(list, f.err)
	}
	return list
}

func (f streams) close() {
	if f.in != f.null {
		syscall.Close(f.in)
	}
	for _, fd := range f.output() {
		syscall.Close(fd)
	}
}

// busyTries: a program that was just written may still be open for writing in
// some child of its writer between fork and exec.
const busyTries = 8

// spawn starts the command. What is wrong with the command itself ends up in
// j.exit as NotStarted; a fault is what is wrong with the machine.
func (s *server) spawn(j *job, f streams) (fault error) {
	c := j.cmd
	env := s.environ(c.Env)
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
			if err == nil {
				err = syscall.ENOTDIR
			}
			return fmt.Errorf("working directory %s: %w", c.Dir, errors.Unwrap(wrapped(err)))
		}
	}
	path, err := s.look(c.Argv[0], c.Dir, env)
	if err != nil {
		j.notStarted(err)
		return nil
	}
	argv := c.Argv
	attr := &syscall.ProcAttr{
		Dir:   c.Dir,
		Env:   env,
		Files: []uintptr{uintptr(f.in), uintptr(f.out), uintptr(f.err)},
		Sys:   groupAttr(&j.pidfd),
	}
	if wrap := c.Limits.Wrap; len(wrap) > 0 {
		if attr.Files, err = j.wrap(f); err != nil {
			return err
		}
		defer func() { j.inner.started(attr.Files) }()
		argv = slices.Concat(wrap, []string{"--json-status-fd", statusFD, "--"}, c.Limits.Inside, []string{path}, c.Argv[1:])
		path = wrap[0]
	}
	if j.cage, err = s.cage(c.Limits); err != nil {
		return err
	}
	defer j.cage.leave()
	for try := range busyTries {
		j.pid, err = syscall.ForkExec(path, argv, attr)
		if err != syscall.ETXTBSY {
			break
		}
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
	}
	switch {
	case err == nil:
		return nil
	case err == syscall.EAGAIN || err == syscall.ENOMEM || err == syscall.EMFILE || err == syscall.ENFILE:
		return fmt.Errorf("start %s: %w", c.Argv[0], err)
	case err == syscall.E2BIG:
		err = errors.New("arguments and environment are longer than the system takes")
	case err == syscall.ENOENT:
		// It was there a moment ago: the interpreter of its first line is not.
		err = errors.New("its interpreter (the first line of the script) does not exist")
	}
	j.notStarted(fmt.Errorf("%s: %w", c.Argv[0], err))
	return nil
}

// wrapped makes sure that there is one layer to take off: a PathError repeats
// the path.
func wrapped(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path
	}
	return fmt.Errorf("%w", err)
}

func (j *job) notStarted(err error) {
	j.exit.Why, j.exit.Code, j.exit.Err = NotStarted, 126, err.Error()
	if errors.Is(err, ErrNoProgram) {
		j.exit.Code = 127
	}
}

// environ is the base environment with extra applied to it. The cookie stays.
func (s *server) environ(extra []string) []string {
	if len(extra) == 0 {
		return s.base
	}
	env := make([]string, len(s.base), len(s.base)+len(extra))
	copy(env, s.base)
next:
	for _, kv := range extra {
		name := kv[:strings.IndexByte(kv, '=')+1]
		if name == CookieVar+"=" {
			continue
		}
		for i, old := range env {
			if strings.HasPrefix(old, name) {
				env[i] = kv
				continue next
			}
		}
		env = append(env, kv)
	}
	return env
}
