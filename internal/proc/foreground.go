package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"descartes/agent/process"
)

// Become replaces our process by a program with these arguments, and our environment. It returns only if that fails.
func Become(program string, args []string) error {
	return fmt.Errorf("run %s: %w", program, syscall.Exec(program, append([]string{program}, args...), os.Environ()))
}

// Attend runs a program with our own standard streams, such as a person's editor, to its end and returns its exit
// status, 128 and the signal's number where a signal ended it, as a shell would. Signals that ask us to end are left
// to the program, which gets its own. An env of nil is ours.
func Attend(ctx context.Context, argv []string, dir string, env []string) (int, error) {
	if err := (process.Command{Argv: argv, Dir: dir}).Check(); err != nil {
		return 127, err
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(asked)
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Env, c.WaitDelay = dir, env, waitDelay
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
