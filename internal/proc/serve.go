//go:build unix

package proc

import (
	"encoding/json"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	null   int
	base   []string // environment of every command
	exit   exitFile
	input  []byte // read from the pipe and not yet used
	reaped int    // children collected so far
	found  map[string]foundProgram
	stuck  map[int]bool // processes that no signal ends; not waited for again
	caged  int          // commands with limits so far
}

// Serve is the main function of the hidden command. It returns when the
// lifeline closes, with the exit code for the process.
func Serve() int {
	runtime.LockOSThread()
	settle()
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 1
	}
	s := &server{null: null, base: os.Environ(), stuck: map[int]bool{}}
	for {
		body, ok := s.next()
		if !ok {
			return 0
		}
		switch body[0] {
		case frameHello:
			r := &reader{b: body[1:]}
			s.exit.path = r.string()
		case frameRun:
			seq, c, err := readRun(body[1:])
			if err != nil {
				return 2
			}
			if !s.run(seq, c) {
				return 0
			}
		case frameCancel: // came after the end of its command
		default:
			return 2
		}
	}
}

// next waits for a whole request; false is the end of the lifeline, or a
// peer that talks nonsense.
func (s *server) next() ([]byte, bool) {
	for {
		body, rest, ok, err := cutFrame(s.input)
		if err != nil {
			return nil, false
		}
		if ok {
			s.input = rest
			return body, true
		}
		if !s.fill() {
			return nil, false
		}
	}
}

// job is the running command.
type job struct {
	cmd    Command
	seq    uint64
	exit   Exit
	pid    int
	pidfd  int   // -1 where the system has none
	output []int // descriptors whose growth counts against Idle

	inner *inner // nil for a command that runs as it is
	cage  *cage  // nil for one without limits

	ended  bool
	status syscall.WaitStatus
}

// run runs one command and answers. It is false when nobody is left to answer.
func (s *server) run(seq uint64, c Command) bool {
	j := &job{cmd: c, seq: seq, pidfd: -1}
	j.exit = Exit{Label: c.Label, Start: time.Now()}
	files, err := s.open(c)
	if err != nil {
		return reply(replyFault, []byte(err.Error()))
	}
	defer files.close()
	defer j.release()
	j.output = files.output()
	fault := s.spawn(j, files)
	if fault != nil {
		return reply(replyFault, []byte(fault.Error()))
	}
	if j.exit.Why != NotStarted {
		why := s.watch(j)
		s.finish(j, why)
		if fault = j.unwrap(); fault != nil {
			return reply(replyFault, []byte(fault.Error()))
		}
	}
	j.exit.End = time.Now()
	j.exit.Took = j.exit.End.Sub(j.exit.Start)
	line, err := json.Marshal(j.exit)
	if err != nil {
		return reply(replyFault, []byte(err.Error()))
	}
	if err := s.exit.write(append(line, '\n')); err != nil {
		// The result stands; only a successor would not hear of it.
		j.exit.Err = joinText(j.exit.Err, "the end was not recorded: "+err.Error())
		if line, err = json.Marshal(j.exit); err != nil {
			return reply(replyFault, []byte(err.Error()))
		}
	}
	return reply(replyExit, line) && j.exit.Why != Orphaned
}

// watch waits until the command ends by itself, then returns "", or until
// there is a reason to end it.
func (s *server) watch(j *job) Why {
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
		j.inner.drain(false)
		s.reap(j)
		if j.ended {
			return s.orphaned(j)
		}
		if request {
			if why := s.heed(j); why != "" {
				return why
			}
		}
		now := time.Now()
		if why := j.cage.exceeded(now); why != "" {
			return why
		}
		if c.Timeout > 0 && now.Sub(start) >= c.Timeout {
			return TimedOut
		}
		if c.Idle > 0 {
			if n := j.size(); n != size {
				grown, size = now, n
			} else if now.Sub(grown) >= c.Idle {
				return Idled
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
	fds = j.inner.polls(fds)
	ms := (max(d, 0) + time.Millisecond - 1) / time.Millisecond
	n, err := unix.Poll(fds, int(ms))
	return err == nil && n > 0 && fds[0].Revents != 0
}

// orphaned doubts an end that is no success while nobody waits any more: it
// is more likely that somebody ends us all than that the command failed just now.
func (s *server) orphaned(j *job) Why {
	if !j.status.Signaled() && j.status.ExitStatus() == 0 {
		return ""
	}
	fds := []unix.PollFd{{Fd: requestFD, Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); err == nil && n > 0 && fds[0].Revents&unix.POLLHUP != 0 {
		return Orphaned
	}
	return ""
}

// heed reads what came while a command runs: its cancellation, or the end of
// the lifeline.
func (s *server) heed(j *job) Why {
	if !s.fill() {
		return Orphaned
	}
	for {
		body, rest, ok, err := cutFrame(s.input)
		if err != nil {
			return Orphaned
		}
		if !ok {
			return ""
		}
		s.input = rest
		r := &reader{b: body[1:]}
		if body[0] == frameCancel && r.uvarint() == j.seq {
			return Cancelled
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
	if j.inner != nil {
		j.inner.close()
	}
	j.cage.remove()
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
