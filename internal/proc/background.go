package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Background is a program in a session of its own, which the end of no terminal reaches. Until it says that it is
// ready its output comes to us.
type Background struct {
	PID int

	cmd     *exec.Cmd
	ready   *os.File
	copying sync.WaitGroup
}

// readyFD is the descriptor on which a background program says that it is ready.
const readyFD = 3

// StartBackground starts a program in our directory. What it prints is copied to stdout and stderr.
func StartBackground(argv, env []string, stdin *os.File, stdout, stderr io.Writer) (_ *Background, err error) {
	b := &Background{cmd: &exec.Cmd{Path: argv[0], Args: argv, Env: env, SysProcAttr: ownSession()}}
	if stdin != nil {
		b.cmd.Stdin = stdin
	}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	pipe := func() (ours, their *os.File, err error) {
		if ours, their, err = os.Pipe(); err == nil {
			theirs = append(theirs, their)
		}
		return ours, their, err
	}
	copyTo := func(w io.Writer) (*os.File, error) {
		ours, their, err := pipe()
		if err != nil {
			return nil, err
		}
		b.copying.Go(func() {
			defer ours.Close()
			_, _ = io.Copy(w, ours) // if nobody hears it, nothing else is lost
		})
		return their, nil
	}
	out, err := copyTo(stdout)
	if err != nil {
		return nil, fmt.Errorf("start in the background: %w", err)
	}
	errs, err := copyTo(stderr)
	if err != nil {
		return nil, fmt.Errorf("start in the background: %w", err)
	}
	ours, their, err := pipe()
	if err != nil {
		return nil, fmt.Errorf("start in the background: %w", err)
	}
	b.ready, b.cmd.Stdout, b.cmd.Stderr, b.cmd.ExtraFiles = ours, out, errs, []*os.File{their}
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start in the background: %w", err)
	}
	b.PID = b.cmd.Process.Pid
	return b, nil
}

// Signal sends the program a signal.
func (b *Background) Signal(s os.Signal) error { return b.cmd.Process.Signal(s) }

// Await returns the word with which the program says that it is ready, or, where it ends before that, its exit code.
func (b *Background) Await() (word string, code int, err error) {
	line, _ := bufio.NewReader(b.ready).ReadString('\n') // nothing where it has ended
	b.ready.Close()
	copied := make(chan struct{})
	go func() { b.copying.Wait(); close(copied) }()
	if word = strings.TrimSuffix(line, "\n"); word != "" {
		select {
		case <-copied:
		case <-time.After(2 * time.Second): // something else holds its output open
		}
		return word, 0, nil
	}
	err = b.cmd.Wait()
	<-copied
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return "", ended.ExitCode(), nil
	}
	return "", 0, err
}

// Ready is the other side: it sends a word to whoever started us in the background, to say that we are ready, and
// redirects all later output to a file.
type Ready struct{ f *os.File }

// NewReady takes the descriptor over, so that no child of ours gets it.
func NewReady() *Ready {
	closeOnExec(readyFD)
	return &Ready{os.NewFile(readyFD, "ready")}
}

// Say says it.
func (r *Ready) Say(word, output string) error {
	defer r.f.Close()
	f, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("write what a terminal would show: %w", err)
	}
	defer f.Close()
	if err := printTo(f); err != nil {
		return fmt.Errorf("write what a terminal would show: %w", err)
	}
	_, err = fmt.Fprintln(r.f, word)
	return err
}
