//go:build unix

package proc

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"descartes/agent/process"
)

// Descriptors that a shim is started with.
const (
	requestFD = 3 // also the lifeline: its end of file means that nobody waits any more
	replyFD   = 4
)

// tick is the longest that the shim sleeps while a command runs.
const tick = time.Second

// server is the inside of a shim. It runs one command at a time.
type server struct {
	null     *os.File
	base     []string // environment of every command
	requests chan request
	children chan os.Signal // one of them changed its state
	reaped   int            // children collected so far
	stuck    map[int]bool   // processes that no signal ends; not waited for again
	limited  int            // commands with limits so far
}

// Serve is the main function of the hidden command, as a shim or as the supervisor of one program in a sandbox. It
// returns the exit code for the process: a shim's when the lifeline closes, a supervisor's when its program is over.
func Serve() int {
	if len(os.Args) > 2 && os.Args[2] == superviseWord {
		return supervise(os.Args[3:])
	}
	if len(os.Args) > 4 && os.Args[2] == layersWord {
		return becomeLayered(os.Args[3:])
	}
	runtime.LockOSThread() // children get the signal mask of the thread that starts them
	becomeShim()
	s, err := newServer()
	if err != nil {
		return 1
	}
	answers := gob.NewEncoder(os.NewFile(replyFD, "replies"))
	for r := range s.requests {
		if r.Command == nil { // a cancel that came after the end of its command
			continue
		}
		exit, fault := s.run(*r.Command)
		answer := reply{Exit: exit}
		if fault != nil {
			answer = reply{Fault: fault.Error()}
		}
		if answers.Encode(answer) != nil || exit.Why == process.Orphaned {
			break
		}
	}
	return 0
}

func newServer() (*server, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s := &server{null: null, base: os.Environ(), requests: make(chan request), children: make(chan os.Signal, 1),
		stuck: map[int]bool{}}
	signal.Notify(s.children, syscall.SIGCHLD)
	go func() {
		defer close(s.requests)
		for in := gob.NewDecoder(os.NewFile(requestFD, "requests")); ; {
			var r request
			if in.Decode(&r) != nil {
				return
			}
			s.requests <- r
		}
	}()
	return s, nil
}

// job is the running command.
type job struct {
	cmd         process.Command
	exit        process.Exit
	pid         int
	in, out, to *os.File // standard input, output and error
	sandboxed   *sandboxed
	limiter     *limiter // nil for one without limits
	ended       bool
	status      syscall.WaitStatus
}

// run runs one command to its end. A fault is what is wrong with the machine, not with the command.
func (s *server) run(c process.Command) (_ process.Exit, fault error) {
	j := &job{cmd: c, in: s.null, out: s.null, to: s.null, exit: process.Exit{Label: c.Label, Start: time.Now()}}
	defer s.release(j)
	if err := j.open(); err != nil {
		return process.Exit{}, err
	}
	if err := s.spawn(j); err != nil {
		return process.Exit{}, err
	}
	if j.exit.Why != process.NotStarted {
		s.finish(j, s.watch(j))
		if err := j.unwrap(); err != nil {
			return process.Exit{}, err
		}
	}
	j.exit.End = time.Now()
	j.exit.Took = j.exit.End.Sub(j.exit.Start)
	return j.exit, nil
}

// watch waits until the command ends by itself, then returns "", or until
// there is a reason to end it.
func (s *server) watch(j *job) process.Why {
	c, start := j.cmd, time.Now() // monotonic: neither clock changes nor suspend count
	grown, size := start, j.size()
	for {
		wait := tick
		if c.Timeout > 0 {
			wait = min(wait, c.Timeout-time.Since(start))
		}
		if c.Idle > 0 {
			wait = min(wait, c.Idle-time.Since(grown), max(c.Idle/8, 5*time.Millisecond))
		}
		var why process.Why
		select {
		case <-s.children:
		case <-time.After(wait):
		case _, alive := <-s.requests: // while a command runs there is none but its cancel
			if why = process.Orphaned; alive {
				why = process.Cancelled
			}
		}
		s.reap(j)
		if j.ended {
			return j.orphaned()
		}
		if why != "" {
			return why
		}
		now := time.Now()
		if why := j.limiter.exceeded(now); why != "" {
			return why
		}
		if c.Timeout > 0 && now.Sub(start) >= c.Timeout {
			return process.TimedOut
		}
		if c.Idle > 0 {
			if n := j.size(); n != size {
				grown, size = now, n
			} else if now.Sub(grown) >= c.Idle {
				return process.Idled
			}
		}
	}
}

// orphaned doubts an end that is no success while nobody waits any more: it
// is more likely that somebody ends us all than that the command failed just now.
func (j *job) orphaned() process.Why {
	if !j.status.Signaled() && j.status.ExitStatus() == 0 {
		return ""
	}
	fds := []unix.PollFd{{Fd: requestFD, Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); err == nil && n > 0 && fds[0].Revents&unix.POLLHUP != 0 {
		return process.Orphaned
	}
	return ""
}

// reap collects every child that has ended and reports whether any is left.
// With a subreaper, none left means that nothing of the command is left.
func (s *server) reap(j *job) bool {
	for {
		var ws syscall.WaitStatus
		var use syscall.Rusage
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, &use)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // no child at all
			if !j.ended {
				j.ended, j.status = true, 1<<8
				j.exit.Err = joinText(j.exit.Err, "the exit status was lost")
			}
			return false
		case pid == 0:
			return true
		case pid == j.pid && !j.ended:
			j.ended, j.status = true, ws
		}
		s.reaped++
		delete(s.stuck, pid)
		j.exit.User += time.Duration(use.Utime.Nano())
		j.exit.System += time.Duration(use.Stime.Nano())
	}
}

// size is what the command has printed, and anybody else written to the same
// files.
func (j *job) size() (n int64) {
	if j.cmd.Idle <= 0 {
		return 0
	}
	for _, f := range []*os.File{j.out, j.to} {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
	}
	return n
}

// open opens the command's files, each /dev/null until then.
func (j *job) open() error {
	c, null := j.cmd, j.in
	if c.Stdin != "" {
		f, err := os.Open(c.Stdin)
		if err != nil {
			return fmt.Errorf("input: %w", err)
		}
		j.in = f
	}
	for _, o := range []struct {
		to   **os.File
		path string
	}{{&j.out, c.Stdout}, {&j.to, c.Stderr}} {
		if o.path == "" {
			continue
		}
		if o.path == c.Stdout && j.out != null {
			*o.to = j.out
			continue
		}
		// O_NONBLOCK: a FIFO in its place must not hang us; a file does not mind.
		f, err := openMaking(o.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK)
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
		*o.to = f
	}
	return nil
}

// release closes what a command that is over held.
func (s *server) release(j *job) {
	for _, f := range []*os.File{j.in, j.out, j.to} {
		if f != s.null {
			f.Close() // twice for one file under two names
		}
	}
	j.sandboxed.close()
	j.limiter.remove()
}

// busyTries: a program that was just written may still be open for writing in
// some child of its writer between fork and exec.
const busyTries = 8

// spawn starts the command. What is wrong with the command itself ends up in
// j.exit as NotStarted; a fault is what is wrong with the machine.
func (s *server) spawn(j *job) (fault error) {
	c := j.cmd
	env := s.environ(c.Env)
	if c.Dir != "" {
		info, err := os.Stat(c.Dir)
		if err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return fmt.Errorf("working directory: %w", err)
		}
	}
	path, err := lookInside(&c, env)
	if err != nil {
		j.notStarted(err)
		return nil
	}
	argv, files, inside := c.Argv, []*os.File{j.in, j.out, j.to}, c.Limits.Inside
	if wrap := c.Limits.Wrap; len(wrap) > 0 {
		if files, err = j.wrap(files); err != nil {
			return fmt.Errorf("start %s in the sandbox: %w", c.Argv[0], err)
		}
		defer j.sandboxed.started()
		if !c.Limits.Bare {
			if files, wrap, err = j.closed(files, wrap, env); err != nil {
				return fmt.Errorf("start %s in the sandbox: %w", c.Argv[0], err)
			}
			inside = slices.Concat(supervisorCommand(c.Limits.Apart), inside)
		}
		env = slices.DeleteFunc(env, func(kv string) bool {
			return !c.Limits.Bare && !strings.HasPrefix(kv, CookieVar+"=") || process.Loads(kv)
		})
		argv = slices.Concat(wrap, []string{"--"}, inside, []string{path}, c.Argv[1:])
		path = wrap[0]
	}
	if j.limiter, err = s.limit(j); err != nil {
		return err
	}
	attr := &syscall.ProcAttr{Dir: c.Dir, Env: env, Sys: &syscall.SysProcAttr{Setpgid: true}}
	if len(c.Limits.Wrap) > 0 && len(c.Limits.Layers) > 0 {
		path = "/proc/self/exe"
		if argv, err = layered(c.Limits.Layers, []string{shimName, ShimCommand}, argv, attr.Sys); err != nil {
			return fmt.Errorf("start %s in the sandbox: %w", c.Argv[0], err)
		}
	}
	j.limiter.within(attr.Sys)
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
tries:
	for try := range busyTries {
		j.pid, err = syscall.ForkExec(path, argv, attr)
		switch {
		case err != nil && j.limiter.without(attr.Sys): // it cannot be entered
			continue
		case err != syscall.ETXTBSY:
			break tries
		}
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
	}
	switch {
	case err == nil:
		return nil
	case err == syscall.EAGAIN || err == syscall.ENOMEM || err == syscall.EMFILE || err == syscall.ENFILE:
		return fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	j.notStarted(fmt.Errorf("%s: %w", c.Argv[0], unstarted(err)))
	return nil
}

func (j *job) notStarted(err error) {
	j.exit.Why, j.exit.Code, j.exit.Err = process.NotStarted, 126, err.Error()
	if errors.Is(err, ErrNoProgram) {
		j.exit.Code = 127
	}
}

// environ is the base environment with extra applied to it. The cookie stays.
func (s *server) environ(extra []string) []string {
	env := slices.Clone(s.base)
	for _, kv := range extra {
		name := kv[:strings.IndexByte(kv, '=')+1]
		if name == CookieVar+"=" {
			continue
		}
		if at := slices.IndexFunc(env, func(old string) bool { return strings.HasPrefix(old, name) }); at >= 0 {
			env[at] = kv
			continue
		}
		env = append(env, kv)
	}
	return env
}

// finish ends what is left of a command and fills in how it ended. With why
// empty the command ended by itself: what it left gets no grace.
func (s *server) finish(j *job, why process.Why) {
	if why != "" && s.left(j) {
		s.terminate(j)
	}
	if why != "" || !j.cmd.Leave {
		s.kill(j)
	}
	if j.status.Signaled() {
		j.exit.Why, j.exit.Signal = process.Signaled, int(j.status.Signal())
	} else {
		j.exit.Why, j.exit.Code = process.Exited, j.status.ExitStatus()
	}
	if why == "" {
		why = j.limiter.verdict()
	}
	if why != "" {
		j.exit.Why = why
	}
}

// terminate sends SIGTERM to every group of the tree and waits out the grace. Tools
// put their own children in groups of their own, hence every group. A stopped
// process could not obey, hence SIGCONT.
func (s *server) terminate(j *job) {
	patience := grace(j.cmd)
	if patience == 0 {
		return
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		signalGroups(j.pid, sig, j.spared(s.stuck))
	}
	over := time.After(patience)
	for s.left(j) {
		select {
		case <-s.children:
		case <-time.After(20 * time.Millisecond):
		case <-over:
			return
		}
	}
}

// kill stops and kills until nothing is left. Stopping first, parents before
// children, keeps a fork loop from outrunning us, and keeps the process ids
// valid: a stopped parent reaps nobody.
func (s *server) kill(j *job) {
	killed := map[int]bool{}
	progress, reaped, began := time.Now(), s.reaped, time.Now()
	for pause := 100 * time.Microsecond; s.left(j); pause = min(2*pause, 5*time.Millisecond) {
		now := time.Now()
		for _, p := range killTree(j.pid, s.stuck) {
			killed[p] = true
		}
		if s.reaped != reaped {
			progress, reaped = now, s.reaped
		}
		if now.Sub(progress) > killBound || now.Sub(began) > 12*killBound {
			for _, p := range living(j.pid) {
				s.stuck[p] = true
			}
			j.ended = true
			j.exit.Err = joinText(j.exit.Err, "some processes cannot be ended: "+pids(s.stuck))
			break
		}
		time.Sleep(max(pause, time.Since(now))) // a big tree takes its time to die
	}
	delete(killed, j.pid)
	delete(killed, j.sandboxed.first())
	j.exit.Left = len(killed)
}

// left reports whether anything of the command is left that can be ended.
func (s *server) left(j *job) bool {
	if !s.reap(j) {
		return groupLeft(j.pid)
	}
	if len(s.stuck) == 0 || !j.ended {
		return true
	}
	for _, p := range living(j.pid) {
		if !s.stuck[p] {
			return true
		}
	}
	return false
}
