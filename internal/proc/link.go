package proc

import (
	"bufio"
	"os"
	"sync"
	"syscall"
	"time"
)

// link is one running shim process and the two pipes to it.
type link struct {
	proc     *os.Process
	born     int           // when the process started, as the system counts
	slack    time.Duration // beyond the grace, for a command's end from a shim that is stopped
	patience time.Duration // the same from a shim that is at work
	stall    time.Duration // between two looks at whether it is stopped
	replies  *os.File
	lines    *bufio.Reader

	mu       sync.Mutex // a cancel and the next request never mix
	requests *os.File
}

// blockingPipe is a pipe that the runtime's poller knows nothing of: waiting
// in read itself is the shorter way to be woken.
func blockingPipe() (r, w *os.File, err error) {
	var fds [2]int
	syscall.ForkLock.RLock()
	err = syscall.Pipe(fds[:])
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

func (l *link) send(frame []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.requests.Write(frame)
	return err
}

// bury makes sure that the process is dead, reaps it and says how it ended.
func (l *link) bury() string {
	l.close()
	dead := time.AfterFunc(2*clearBound, func() { _ = l.proc.Kill() })
	defer dead.Stop()
	state, err := l.proc.Wait()
	if err != nil {
		return err.Error()
	}
	return state.String()
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests.Close()
	l.replies.Close()
}
