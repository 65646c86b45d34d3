package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Interactive runs a program on our own terminal, such as a person's editor, and waits for it. A
// non-zero exit status is no error.
func Interactive(ctx context.Context, argv []string, dir string) (code int, err error) {
	if err := (Command{Argv: argv, Dir: dir}).check(); err != nil {
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
