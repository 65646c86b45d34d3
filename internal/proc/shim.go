package proc

import (
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"descartes/agent/process"
)

// ShimConfig says how to start a shim.
type ShimConfig struct {
	Argv   []string // own binary and its hidden command
	Env    []string // base environment of every command; nil is ours
	Cookie string   // random; marks every process, for Sweep
	Dir    string   // directory of the shim; "" is ours
}

// Shim runs commands, one at a time. Its methods may be called concurrently;
// commands then queue.
type Shim struct {
	cfg ShimConfig

	pid    atomic.Int64
	mu     sync.Mutex // held for the whole of a Run
	live   *link      // nil when the shim died and no Run has followed
	dirty  bool       // a shim died and its sweep failed
	closed bool
}

// ErrClosed is what Run returns after Close.
var ErrClosed = errors.New("shim is closed")

// Start starts a shim. It does not wait for it to be ready: the first command
// does.
func Start(c ShimConfig) (*Shim, error) {
	if len(c.Argv) == 0 {
		return nil, errors.New("start shim: no program given")
	}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	adopt()
	s := &Shim{cfg: c}
	var err error
	s.live, err = s.connect()
	if err != nil {
		return nil, err
	}
	s.pid.Store(int64(s.live.proc.Pid))
	return s, nil
}

func (s *Shim) connect() (*link, error) {
	theirIn, requests, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start shim: %w", err)
	}
	defer theirIn.Close()
	replies, theirOut, err := os.Pipe()
	if err != nil {
		requests.Close()
		return nil, fmt.Errorf("start shim: %w", err)
	}
	defer theirOut.Close()
	l := &link{look: time.Second, patience: 4 * killBound, replies: replies, requests: requests,
		hear: gob.NewDecoder(replies), tell: gob.NewEncoder(requests)}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		l.close()
		return nil, fmt.Errorf("start shim: %w", err)
	}
	defer null.Close()
	env := s.cfg.Env
	if s.cfg.Cookie != "" {
		env = without(env, CookieVar)
		env = append(env, CookieVar+"="+s.cfg.Cookie)
	}
	// A session of its own: no terminal, so that Ctrl-C reaches only us and
	// nothing below can ask for a password there.
	l.proc, err = os.StartProcess(program(s.cfg.Argv[0]), s.cfg.Argv, &os.ProcAttr{
		Dir:   s.cfg.Dir,
		Env:   env,
		Files: []*os.File{null, null, null, theirIn, theirOut},
		Sys:   ownSession(),
	})
	if err != nil {
		l.close()
		return nil, fmt.Errorf("start shim: %w", err)
	}
	return l, nil
}

// program is our own binary even where its file has been replaced or removed
// since we were started, as a build does that runs under us.
func program(path string) string {
	const running = "/proc/self/exe"
	if own, err := os.Executable(); err == nil && own == path {
		if _, err := os.Stat(running); err == nil {
			return running
		}
	}
	return path
}

func without(env []string, name string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, name+"=") {
			out = append(out, kv)
		}
	}
	return out
}

// PID of the shim's process, 0 when it is dead or closed.
func (s *Shim) PID() int { return int(s.pid.Load()) }

// Run runs one command to its end and the end of all that it started. That
// the command fails, cannot be executed or is cancelled through ctx is a
// result, and so is that the shim does not answer after its end is due, or
// dies, whose leavings are swept up; an error means that there is none. The
// next Run starts another shim, and so does one that finds its shim dead.
func (s *Shim) Run(ctx context.Context, c process.Command) (process.Exit, error) {
	if err := c.Check(); err != nil {
		return process.Exit{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		now := time.Now()
		return process.Exit{Label: c.Label, Why: process.Cancelled, Start: now, End: now}, nil
	}
	if err := s.hand(&c); err != nil {
		return process.Exit{}, fmt.Errorf("run %s: %w", c.Label, err)
	}
	l, start := s.live, time.Now()
	done := l.watch(ctx, c)
	var r reply
	err := l.hear.Decode(&r)
	why := done()
	switch {
	case err != nil:
		return s.ended(c, cmp.Or(why, process.Stopped), start), nil
	case why != "": // killed as it answered
		_, _, _ = s.clean()
	}
	if r.Fault != "" {
		return process.Exit{}, fmt.Errorf("run %s: %s", c.Label, r.Fault)
	}
	return r.Exit, nil
}

func grace(c process.Command) time.Duration {
	if c.Grace == 0 {
		return process.DefaultGrace
	}
	return max(c.Grace, 0)
}

// revive makes sure that there is a shim.
func (s *Shim) revive() error {
	if s.closed {
		return ErrClosed
	}
	if s.live != nil {
		return nil
	}
	if s.dirty {
		if _, err := sweepOrphans(); err != nil {
			return fmt.Errorf("start shim: %w", err)
		}
		s.dirty = false
	}
	l, err := s.connect()
	if err != nil {
		return err
	}
	s.live = l
	s.pid.Store(int64(l.proc.Pid))
	return nil
}

// hand gives a command to the shim, or to another one where that was killed since the last.
func (s *Shim) hand(c *process.Command) error {
	for again := true; ; again = false {
		if err := s.revive(); err != nil {
			return err
		}
		err := s.live.tell.Encode(request{Command: c})
		if err == nil {
			return nil
		}
		if how, _, cerr := s.clean(); cerr != nil || !again {
			return errors.Join(fmt.Errorf("the supervising process (%s) died: %s", shimName, how), cerr)
		}
	}
}

// ended is the end of a command whose shim died, or did not answer any more
// and was killed for it.
func (s *Shim) ended(c process.Command, why process.Why, start time.Time) process.Exit {
	how, killed, err := s.clean()
	e := process.Exit{Label: c.Label, Why: why, Signal: int(syscall.SIGKILL), Start: start, End: time.Now(),
		Left: killed,
		Err:  "the supervising process (" + shimName + ") did not answer any more: " + how}
	e.Took = e.End.Sub(e.Start)
	if err != nil {
		e.Err = joinText(e.Err, err.Error())
	}
	return e
}

// clean buries a shim that died and ends what it left at once, so that no
// stray process goes on changing files.
func (s *Shim) clean() (how string, killed int, err error) {
	l := s.live
	s.live = nil
	s.pid.Store(0)
	how = l.bury()
	killed, err = sweepOrphans()
	s.dirty = err != nil
	return how, killed, err
}

// Close ends the shim and waits for it. It waits for a running command first.
func (s *Shim) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.live == nil {
		return nil
	}
	l := s.live
	s.live = nil
	s.pid.Store(0)
	// killed it did nothing wrong
	if how := l.bury(); strings.HasPrefix(how, "exit status ") && how != "exit status 0" {
		return fmt.Errorf("close shim: %s", how)
	}
	return nil
}

// request asks a shim to run a command or, without one, to end the running one.
type request struct {
	Command *process.Command
}

// reply answers a request with a command.
type reply struct {
	Exit  process.Exit
	Fault string // the command was not run, and that is not its fault
}

// link is one running shim process and the two pipes to it. What goes through them is gob, because arguments and paths
// may hold bytes that no JSON carries.
type link struct {
	proc              *os.Process
	look              time.Duration // between two looks at whether it is stopped
	patience          time.Duration // for its answer, when its command's time and grace are over
	requests, replies *os.File
	tell              *gob.Encoder
	hear              *gob.Decoder
}

// stoppedLooks is how many times in a row a shim is found stopped before it is killed: it is no shim that somebody
// continues at once.
const stoppedLooks = 3

// watch kills a shim that does not answer long after it should have, or that stays stopped: what runs under a shim can
// stop it with SIGSTOP, as often as it is continued, and then no deadline acts there. It also tells the shim to end
// its command when ctx ends. done ends the watch and says why the shim was killed, "" where it was not. After it
// nobody but the next command writes to the shim.
func (l *link) watch(ctx context.Context, c process.Command) (done func() process.Why) {
	over, killed := make(chan struct{}), make(chan process.Why, 1)
	go func() { killed <- l.watchdog(ctx, c, over) }()
	return func() process.Why {
		close(over)
		return <-killed
	}
}

func (l *link) watchdog(ctx context.Context, c process.Command, over <-chan struct{}) process.Why {
	look := time.NewTicker(l.look)
	defer look.Stop()
	var due time.Time // when the command's end began at the latest; zero for no such time
	why := process.TimedOut
	if c.Timeout > 0 {
		due = time.Now().Add(c.Timeout)
	}
	cancelled := ctx.Done()
	for stops := 0; ; {
		select {
		case <-over:
			return ""
		case <-cancelled:
			_ = l.tell.Encode(request{}) // a dead shim shows in the reply
			cancelled, due, why = nil, time.Now(), process.Cancelled
			continue
		case <-look.C:
		}
		if stops++; !stopped(l.proc.Pid) {
			stops = 0
		}
		switch late := time.Since(due); {
		case !due.IsZero() && late > grace(c)+l.patience:
		case stops < stoppedLooks:
			continue
		case due.IsZero() || late < 0:
			why = process.Stopped
		}
		_ = l.proc.Kill()
		return why
	}
}

// bury makes sure that the process is dead, reaps it and says how it ended.
func (l *link) bury() string {
	l.close()
	dead := time.AfterFunc(2*killBound, func() { _ = l.proc.Kill() })
	defer dead.Stop()
	state, err := l.proc.Wait()
	if err != nil {
		return err.Error()
	}
	return state.String()
}

func (l *link) close() {
	l.requests.Close()
	l.replies.Close()
}

// killBound is how long processes that do not die of SIGKILL are waited for:
// those of another user, or in the middle of a broken device's work. As long
// as others die, it starts anew.
const killBound = 5 * time.Second

func joinText(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// openMaking opens a file, making the directories it lies in where they are
// missing: an agent may have removed them.
func openMaking(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(filepath.Dir(path), 0o700) == nil {
		f, err = os.OpenFile(path, flags, 0o600)
	}
	return f, err
}
