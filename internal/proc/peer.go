package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"descartes/agent/process"
)

// Peer is a program that is talked with over its standard input and output.
type Peer struct {
	In  io.WriteCloser // its standard input
	Out io.ReadCloser  // its standard output; to be read to its end

	cmd   *exec.Cmd
	once  sync.Once // starts what collects it: nobody waits while it is merely there
	ended chan struct{}
	exit  process.Exit
}

// StartPeer starts a program in our directory, with our environment and our standard error if env is nil: it is in our
// group, and ends with us where a Shim runs us. With an env it is one of ours that ends when its input does, in a
// group of its own, so that Ctrl-C is ours to pass on, and what it complains of is lost. A program that cannot be
// found is an ErrNoProgram.
func StartPeer(argv, env []string) (*Peer, error) {
	if err := (process.Command{Argv: argv}).Check(); err != nil {
		return nil, err
	}
	path, err := Look(argv[0], "", os.Environ())
	if err != nil {
		return nil, err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	defer theirs.Close()
	p := &Peer{Out: out, cmd: &exec.Cmd{Path: path, Args: argv, Env: env, Stdout: theirs, Stderr: os.Stderr},
		ended: make(chan struct{})}
	if env != nil {
		p.cmd.Stderr, p.cmd.SysProcAttr = nil, ownGroup()
	}
	if p.In, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		out.Close()
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	p.exit.Start = time.Now()
	return p, nil
}

// wait collects the program. Out stays open: what it wrote last may be unread.
func (p *Peer) wait() {
	defer close(p.ended)
	err := p.cmd.Wait()
	p.exit.End = time.Now()
	p.exit.Took = p.exit.End.Sub(p.exit.Start)
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		p.exit.Err = err.Error()
	}
	p.exit.Why = process.Exited
	if s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		p.exit.Why, p.exit.Signal = process.Signaled, int(s.Signal())
		return
	}
	p.exit.Code = p.cmd.ProcessState.ExitCode()
}

// Ended waits at most the time given for the program's own end; false if it
// still runs.
func (p *Peer) Ended(within time.Duration) (process.Exit, bool) {
	p.once.Do(func() { go p.wait() })
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
		return p.exit, true
	case <-timer.C:
		return process.Exit{}, false
	}
}

// End closes the program's input and waits, then sends SIGTERM and waits, then
// SIGKILL, each time for the time given. What it started is for the shim to end.
func (p *Peer) End(within time.Duration) process.Exit {
	p.In.Close()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if exit, ok := p.Ended(within); ok {
			return exit
		}
		_ = p.cmd.Process.Signal(sig) // it may be gone by now
	}
	<-p.ended
	return p.exit
}
