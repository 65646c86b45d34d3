package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Background is a program in a session of its own, which the end of no terminal reaches.
type Background struct {
	cmd   *exec.Cmd
	ready *os.File
}

// readyFD is the descriptor on which a background program says that it is ready.
const readyFD = 3

// StartBackground starts a program in our directory. Until it says that it is ready it prints to stdout and stderr.
func StartBackground(argv, env []string, stdin *os.File, stdout, stderr io.Writer) (*Background, error) {
	ready, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start in the background: %w", err)
	}
	defer theirs.Close()
	b := &Background{ready: ready, cmd: &exec.Cmd{Path: argv[0], Args: argv, Env: env, Stdout: stdout, Stderr: stderr,
		ExtraFiles: []*os.File{theirs}, WaitDelay: waitDelay, SysProcAttr: ownSession()}}
	if stdin != nil {
		b.cmd.Stdin = stdin
	}
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start in the background: %w", errors.Join(err, ready.Close()))
	}
	return b, nil
}

// PID is its number.
func (b *Background) PID() int { return b.cmd.Process.Pid }

// Signal sends the program a signal.
func (b *Background) Signal(s os.Signal) error { return b.cmd.Process.Signal(s) }

// Await returns the word with which the program says that it is ready, or, where it ends before that, its exit code.
func (b *Background) Await() (word string, code int, err error) {
	line, _ := bufio.NewReader(b.ready).ReadString('\n') // nothing where it has ended
	b.ready.Close()
	if word = strings.TrimSuffix(line, "\n"); word != "" {
		return word, 0, nil
	}
	err = b.cmd.Wait()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
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
