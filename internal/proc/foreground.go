package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"descartes/agent/process"
)

// Attend runs a program with our own standard streams to its end and returns
// its exit status, 128 and the signal's number where a signal ended it, as a
// shell would. Signals that ask us to end are left to the program, which gets
// its own.
func Attend(argv, env []string) (int, error) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = env
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	if c.ProcessState == nil {
		return 127, fmt.Errorf("run %s: %w", argv[0], err)
	}
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return c.ProcessState.ExitCode(), nil
}

// Interactive runs a program on our own terminal, such as a person's editor, and waits for it. A
// non-zero exit status is no error.
func Interactive(ctx context.Context, argv []string, dir string) (code int, err error) {
	if err := (process.Command{Argv: argv, Dir: dir}).Check(); err != nil {
		return 0, err
	}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, os.Stdin, os.Stdout, os.Stderr
	c.WaitDelay = waitDelay
	err = c.Run()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) && exited.Exited() {
		return exited.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", strings.Join(argv[:min(2, len(argv))], " "), err)
	}
	return 0, nil
}
