package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"descartes/agent/process"
)

// DefaultLimit bounds the standard output that Output keeps when Call.Limit
// is zero.
const DefaultLimit = 256 << 20

// TooMuchError means that a program printed more than Call.Limit.
type TooMuchError struct {
	Name  string
	Limit int
}

func (e *TooMuchError) Error() string {
	return fmt.Sprintf("run %s: it printed more than %d bytes", e.Name, e.Limit)
}

const stderrLimit = 64 << 10

// waitDelay is how long Output waits, once the program has ended or was
// killed, for a stray grandchild that still holds the pipes.
const waitDelay = 2 * time.Second

// Call is one short program whose output is wanted as bytes.
type Call struct {
	Argv  []string
	Dir   string
	Env   []string // complete; nil is ours
	Stdin []byte
	Limit int // most bytes of standard output; more is an error. 0 is DefaultLimit
}

// Reply is the outcome of such a program. Code is its exit status, whatever that is; Stderr has at most its first 64
// KiB.
type Reply struct {
	Stdout, Stderr []byte
	Code           int
}

// Output runs a program under the shim: it and all that it starts end with
// ctx, after the grace, and when we die. What it leaves in the background when
// it ends by itself is left alone. Env is added to the shim's, and its streams
// go through files whose names begin with scratch. A non-zero exit status is
// no error.
func (s *Shim) Output(ctx context.Context, call Call, scratch string, grace time.Duration) (r Reply, err error) {
	name := strings.Join(call.Argv[:min(2, len(call.Argv))], " ")
	c := process.Command{Label: name, Argv: call.Argv, Dir: call.Dir, Env: call.Env, Stdout: scratch + ".out",
		Stderr: scratch + ".err", Leave: true, Grace: grace}
	defer func() {
		for _, file := range []string{c.Stdin, c.Stdout, c.Stderr} {
			_ = os.Remove(file)
		}
	}()
	if len(call.Stdin) > 0 {
		c.Stdin = scratch + ".in"
		if err := os.WriteFile(c.Stdin, call.Stdin, 0o600); err != nil {
			return r, fmt.Errorf("run %s: %w", name, err)
		}
	}
	e, err := s.Run(ctx, c)
	if err != nil {
		return r, err
	}
	if e.Why == process.NotStarted {
		return r, errors.New(e.Err)
	}
	limit := call.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	out, errs := &capped{limit: limit}, &capped{limit: stderrLimit}
	if err := errors.Join(out.read(c.Stdout), errs.read(c.Stderr)); err != nil && e.Why == process.Exited {
		return r, fmt.Errorf("run %s: %w", name, err)
	}
	r = Reply{Stdout: out.buf.Bytes(), Stderr: errs.buf.Bytes(), Code: e.Code}
	switch {
	case e.Why == process.Cancelled:
		return r, fmt.Errorf("run %s: %w", name, context.Cause(ctx))
	case e.Why != process.Exited:
		return r, fmt.Errorf("run %s: %s", name, e)
	case out.full:
		return r, &TooMuchError{name, limit}
	}
	return r, nil
}

// Output runs a program in a process group of its own. A non-zero exit status
// is no error. The end of ctx kills the group.
func Output(ctx context.Context, call Call) (Reply, error) {
	if err := (process.Command{Argv: call.Argv, Dir: call.Dir}).Check(); err != nil {
		return Reply{}, err
	}
	name := strings.Join(call.Argv[:min(2, len(call.Argv))], " ")
	c := exec.CommandContext(ctx, call.Argv[0], call.Argv[1:]...)
	c.Dir, c.Env = call.Dir, call.Env
	if !isPath(call.Argv[0]) {
		path, err := Look(call.Argv[0], call.Dir, Outside(Outside(c.Environ(), ""), call.Dir))
		if err != nil {
			return Reply{}, err
		}
		c.Path, c.Err = path, nil
	}
	c.SysProcAttr = ownGroup()
	c.Cancel = func() error { return killGroup(c.Process) }
	c.WaitDelay = waitDelay
	if len(call.Stdin) > 0 {
		c.Stdin = bytes.NewReader(call.Stdin)
	}
	out, errs := &capped{limit: call.Limit}, &capped{limit: stderrLimit}
	if out.limit <= 0 {
		out.limit = DefaultLimit
	}
	out.over = func() { _ = c.Cancel() }
	c.Stdout, c.Stderr = out, errs
	err := c.Run()
	r := Reply{Stdout: out.buf.Bytes(), Stderr: errs.buf.Bytes()}
	if c.ProcessState != nil {
		r.Code = c.ProcessState.ExitCode()
	}
	switch exited := (*exec.ExitError)(nil); {
	case ctx.Err() != nil && r.Code != 0:
		return r, fmt.Errorf("run %s: %w", name, context.Cause(ctx))
	case out.full:
		return r, &TooMuchError{name, out.limit}
	case errors.Is(err, exec.ErrWaitDelay):
		// It has ended; somebody it started still holds a pipe. That is not
		// ours to wait for, but its group is ours to end.
		_ = c.Cancel()
		return r, nil
	case errors.As(err, &exited) && exited.Exited():
		return r, nil
	case err != nil:
		return r, fmt.Errorf("run %s: %w", name, err)
	}
	return r, nil
}

// capped keeps at most limit bytes. One more calls over, once.
type capped struct {
	buf   bytes.Buffer
	limit int
	full  bool
	over  func()
}

func (w *capped) read(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, io.LimitReader(f, int64(w.limit)+1))
	return err
}

func (w *capped) Write(p []byte) (int, error) {
	room := max(w.limit-w.buf.Len(), 0)
	if len(p) <= room {
		return w.buf.Write(p)
	}
	w.buf.Write(p[:room])
	if !w.full {
		w.full = true
		if w.over != nil {
			w.over()
		}
	}
	return len(p), nil
}
