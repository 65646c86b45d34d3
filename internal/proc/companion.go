package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Companion is a program of ours that talks with us over its standard input and output, one line after the other. It has a process group of
// its own, so that Ctrl-C is ours to pass on, and it ends when its input does: nothing of it survives us.
type Companion struct {
	In  io.WriteCloser
	Out io.Reader

	cmd *exec.Cmd
}

// StartCompanion starts a program in our directory; what it prints on standard error goes to stderr.
func StartCompanion(argv, env []string, stderr io.Writer) (*Companion, error) {
	c := &Companion{cmd: &exec.Cmd{Path: argv[0], Args: argv, Env: env, Stderr: stderr, SysProcAttr: ownGroup()}}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", argv[0], err), in.Close())
	}
	c.In, c.Out = in, out
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return c, nil
}

// Wait waits for the program's end, after its output was read to the end. A non-zero exit status is no error.
func (c *Companion) Wait() (code int, err error) {
	err = c.cmd.Wait()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
		return exited.ExitCode(), nil
	}
	return 0, err
}

// End closes the program's input, which asks it to end, and kills it where it has not ended after the time.
func (c *Companion) End(after time.Duration) (code int, err error) {
	_ = c.In.Close() // it may have ended
	kill := time.AfterFunc(after, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	_, _ = io.Copy(io.Discard, c.Out)
	return c.Wait()
}

// Kill kills the program at once; Wait is still to be called. What it had started ends by its own lifeline.
func (c *Companion) Kill() error { return c.cmd.Process.Kill() }

// LookBeside finds a program beside our own, else on the PATH.
func LookBeside(program, dir string, env []string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside, err := firstExecutable(filepath.Join(filepath.Dir(self), program), env); err == nil {
			return beside, nil
		}
	}
	return Look(program, dir, env)
}
