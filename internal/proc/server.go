//go:build unix

package proc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// tick is the longest that the shim sleeps while a command runs: orphans are
// reaped this often.
const tick = time.Second

// blindTick replaces it where the end of a child cannot be waited for by poll.
const blindTick = 5 * time.Millisecond

// server is the inside of a shim: one thread, no goroutines, no timers. It
// sleeps in poll on the request pipe and the running command's pidfd.
type server struct {
	null    int
	base    []string     // environment of every command
	exit    string       // file where the end of each command is recorded
	input   []byte       // read from the pipe and not yet used
	reaped  int          // children collected so far
	stuck   map[int]bool // processes that no signal ends; not waited for again
	limited int          // commands with limits so far
}

// Serve is the main function of the hidden command. It returns when the
// lifeline closes, with the exit code for the process.
func Serve() int {
	runtime.LockOSThread()
	becomeShim()
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 1
	}
	s := &server{null: null, base: os.Environ(), stuck: map[int]bool{}}
	for {
		r, ok := s.next(true)
		switch {
		case !ok:
			return 0
		case r.Command == nil: // a cancel that came after the end of its command
		default:
			s.exit = fromText(r.ExitFile)
			if !s.run(r.Seq, mapped(*r.Command, fromText)) {
				return 0
			}
		}
	}
}

// next is the next request that is there as a whole, or, with wait, that comes; false is none: with wait, the end of the
// lifeline, or a peer that talks nonsense.
func (s *server) next(wait bool) (r request, ok bool) {
	for {
		if line, rest, whole := bytes.Cut(s.input, []byte{'\n'}); whole {
			s.input = rest
			err := json.Unmarshal(line, &r)
			return r, err == nil && (r.Cancel || r.Command != nil && len(r.Command.Argv) > 0)
		}
		if !wait || !s.fill() {
			return r, false
		}
	}
}

// fill reads what is there, waiting for at least one byte.
func (s *server) fill() bool {
	var chunk [16 << 10]byte
	for {
		n, err := syscall.Read(requestFD, chunk[:])
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			_, _ = unix.Poll([]unix.PollFd{{Fd: requestFD, Events: unix.POLLIN}}, -1)
		case n <= 0:
			return false
		default:
			s.input = append(s.input, chunk[:n]...)
			return true
		}
	}
}

// answer replies to the running request. It is false when nobody reads any more.
func answer(r reply) bool {
	b, err := json.Marshal(r)
	if err != nil {
		return false
	}
	for b = append(b, '\n'); len(b) > 0; {
		n, err := syscall.Write(replyFD, b)
		if err != nil && err != syscall.EINTR && err != syscall.EAGAIN {
			return false
		}
		b = b[max(n, 0):]
	}
	return true
}

// job is the running command.
type job struct {
	cmd    process.Command
	seq    uint64
	exit   process.Exit
	pid    int
	pidfd  int   // -1 where the system has none
	output []int // descriptors whose growth counts against Idle

	sandboxed *sandboxed // nil for a command that runs as it is
	limiter   *limiter   // nil for one without limits

	ended  bool
	status syscall.WaitStatus
}

// run runs one command and answers. It is false when nobody is left to answer.
func (s *server) run(seq uint64, c process.Command) bool {
	j := &job{cmd: c, seq: seq, pidfd: -1}
	j.exit = process.Exit{Label: c.Label, Start: time.Now()}
	files, err := s.open(c)
	if err != nil {
		return answer(reply{Fault: err.Error()})
	}
	defer files.close()
	defer j.release()
	j.output = files.output()
	fault := s.spawn(j, files)
	if fault != nil {
		return answer(reply{Fault: fault.Error()})
	}
	if j.exit.Why != process.NotStarted {
		why := s.watch(j)
		s.finish(j, why)
		if fault = j.unwrap(); fault != nil {
			return answer(reply{Fault: fault.Error()})
		}
	}
	j.exit.End = time.Now()
	j.exit.Took = j.exit.End.Sub(j.exit.Start)
	if err := writeExit(s.exit, j.exit); err != nil {
		// The result stands; only a successor would not hear of it.
		j.exit.Err = joinText(j.exit.Err, "the end was not recorded: "+err.Error())
	}
	return answer(reply{Exit: j.exit}) && j.exit.Why != process.Orphaned
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
		request := s.sleep(j, wait, true)
		j.sandboxed.drain(false)
		s.reap(j)
		if j.ended {
			return s.orphaned(j)
		}
		if request {
			if why := s.cancelled(j); why != "" {
				return why
			}
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

// sleep waits for the end of the command, for a request if asked to, or for
// the time given. It reports whether a request (or the lifeline's end) is there.
func (s *server) sleep(j *job, d time.Duration, requests bool) bool {
	if j.pidfd < 0 {
		d = min(d, blindTick)
	}
	fds := []unix.PollFd{{Fd: -1}, {Fd: -1}}
	if requests {
		fds[0] = unix.PollFd{Fd: requestFD, Events: unix.POLLIN}
	}
	if !j.ended {
		fds[1] = unix.PollFd{Fd: int32(j.pidfd), Events: unix.POLLIN}
	}
	fds = j.sandboxed.polls(fds)
	ms := (max(d, 0) + time.Millisecond - 1) / time.Millisecond
	n, err := unix.Poll(fds, int(ms))
	return err == nil && n > 0 && fds[0].Revents != 0
}

// orphaned doubts an end that is no success while nobody waits any more: it
// is more likely that somebody ends us all than that the command failed just now.
func (s *server) orphaned(j *job) process.Why {
	if !j.status.Signaled() && j.status.ExitStatus() == 0 {
		return ""
	}
	fds := []unix.PollFd{{Fd: requestFD, Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); err == nil && n > 0 && fds[0].Revents&unix.POLLHUP != 0 {
		return process.Orphaned
	}
	return ""
}

// cancelled reads what came while a command runs: its cancellation, or the end of
// the lifeline.
func (s *server) cancelled(j *job) process.Why {
	if !s.fill() {
		return process.Orphaned
	}
	for {
		if r, ok := s.next(false); !ok {
			return ""
		} else if r.Cancel && r.Seq == j.seq {
			return process.Cancelled
		}
	}
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
		j.exit.MaxRSS = max(j.exit.MaxRSS, use.Maxrss*rssUnit)
	}
}

// release closes what a command that is over held.
func (j *job) release() {
	if j.pidfd >= 0 {
		syscall.Close(j.pidfd)
	}
	if j.sandboxed != nil {
		j.sandboxed.close()
	}
	j.limiter.remove()
}

// size is what the command has printed, and anybody else written to the same
// files.
func (j *job) size() (n int64) {
	if j.cmd.Idle <= 0 {
		return 0
	}
	for _, fd := range j.output {
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) == nil {
			n += st.Size
		}
	}
	return n
}

// streams are a command's three descriptors.
type streams struct {
	in, out, err int
	null         int
}

func (s *server) open(c process.Command) (f streams, err error) {
	f = streams{in: s.null, out: s.null, err: s.null, null: s.null}
	if c.Stdin != "" {
		if f.in, err = syscall.Open(c.Stdin, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
			f.in = s.null
			return f, fmt.Errorf("open input %s: %w", c.Stdin, err)
		}
	}
	if f.out, err = openOutput(c.Stdout, s.null); err != nil {
		f.close()
		return f, err
	}
	if c.Stderr == c.Stdout {
		f.err = f.out
		return f, nil
	}
	if f.err, err = openOutput(c.Stderr, s.null); err != nil {
		f.close()
	}
	return f, err
}

func openOutput(path string, null int) (int, error) {
	if path == "" {
		return null, nil
	}
	// O_NONBLOCK: a FIFO in its place must not hang us; a file does not mind.
	fd, err := openMaking(path, syscall.O_WRONLY|syscall.O_APPEND|syscall.O_CREAT|syscall.O_NONBLOCK)
	if err != nil {
		return null, fmt.Errorf("open output: %w", err)
	}
	return fd, nil
}

// openMaking opens a file, making the directories it lies in where they are
// missing: an agent may have removed them.
func openMaking(path string, flags int) (int, error) {
	for try := 0; ; try++ {
		fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC, 0o600)
		if err == syscall.ENOENT && try == 0 && os.MkdirAll(filepath.Dir(path), 0o700) == nil {
			continue
		}
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return fd, nil
	}
}

func (f streams) output() []int {
	var list []int
	if f.out != f.null {
		list = append(list, f.out)
	}
	if f.err != f.null && f.err != f.out {
		list = append(list, f.err)
	}
	return list
}

func (f streams) close() {
	if f.in != f.null {
		syscall.Close(f.in)
	}
	for _, fd := range f.output() {
		syscall.Close(fd)
	}
}

// busyTries: a program that was just written may still be open for writing in
// some child of its writer between fork and exec.
const busyTries = 8

// spawn starts the command. What is wrong with the command itself ends up in
// j.exit as NotStarted; a fault is what is wrong with the machine.
func (s *server) spawn(j *job, f streams) (fault error) {
	c := j.cmd
	env := s.environ(c.Env)
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
			if err == nil {
				err = syscall.ENOTDIR
			}
			return fmt.Errorf("working directory %s: %w", c.Dir, errors.Unwrap(wrapped(err)))
		}
	}
	path, err := Look(c.Argv[0], c.Dir, env)
	if err != nil {
		j.notStarted(err)
		return nil
	}
	argv := c.Argv
	attr := &syscall.ProcAttr{
		Dir:   c.Dir,
		Env:   env,
		Files: []uintptr{uintptr(f.in), uintptr(f.out), uintptr(f.err)},
		Sys:   groupAttr(&j.pidfd),
	}
	if wrap := c.Limits.Wrap; len(wrap) > 0 {
		if attr.Files, err = j.wrap(f); err != nil {
			return err
		}
		defer func() { j.sandboxed.started(attr.Files) }()
		argv = slices.Concat(wrap, []string{"--json-status-fd", statusFD, "--"}, c.Limits.Inside, []string{path}, c.Argv[1:])
		path = wrap[0]
	}
	if j.limiter, err = s.limit(c.Limits); err != nil {
		return err
	}
	defer j.limiter.leave()
	for try := range busyTries {
		j.pid, err = syscall.ForkExec(path, argv, attr)
		if err != syscall.ETXTBSY {
			break
		}
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
	}
	switch {
	case err == nil:
		return nil
	case err == syscall.EAGAIN || err == syscall.ENOMEM || err == syscall.EMFILE || err == syscall.ENFILE:
		return fmt.Errorf("start %s: %w", c.Argv[0], err)
	case err == syscall.E2BIG:
		err = errors.New("arguments and environment are longer than the system takes")
	case err == syscall.ENOENT:
		// It was there a moment ago: the interpreter of its first line is not.
		err = errors.New("its interpreter (the first line of the script) does not exist")
	}
	j.notStarted(fmt.Errorf("%s: %w", c.Argv[0], err))
	return nil
}

// wrapped makes sure that there is one layer to take off: a PathError repeats
// the path.
func wrapped(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path
	}
	return fmt.Errorf("%w", err)
}

func (j *job) notStarted(err error) {
	j.exit.Why, j.exit.Code, j.exit.Err = process.NotStarted, 126, err.Error()
	if errors.Is(err, ErrNoProgram) {
		j.exit.Code = 127
	}
}

// environ is the base environment with extra applied to it. The cookie stays.
func (s *server) environ(extra []string) []string {
	if len(extra) == 0 {
		return s.base
	}
	env := make([]string, len(s.base), len(s.base)+len(extra))
	copy(env, s.base)
next:
	for _, kv := range extra {
		name := kv[:strings.IndexByte(kv, '=')+1]
		if name == CookieVar+"=" {
			continue
		}
		for i, old := range env {
			if strings.HasPrefix(old, name) {
				env[i] = kv
				continue next
			}
		}
		env = append(env, kv)
	}
	return env
}

// killBound is how long processes that do not die of SIGKILL are waited for:
// those of another user, or in the middle of a broken device's work. As long
// as others die, it starts anew.
const killBound = 5 * time.Second

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
	start := time.Now()
	for pause := time.Millisecond; s.left(j) && time.Since(start) < patience; pause = min(2*pause, 20*time.Millisecond) {
		s.sleep(j, min(pause, patience-time.Since(start)), false)
		j.sandboxed.drain(false)
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

func joinText(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
