//go:build unix && !linux

package proc

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"descartes/agent/process"
)

// Without a subreaper and without /proc a command is its process group: what
// leaves the group is not found.

const shimName = "descartes-shim"

// Untraceable does nothing: no sandbox here has a supervisor.
func Untraceable() error { return nil }

// keepApart does nothing: no sandbox here has a supervisor.
func keepApart() error { return nil }

func becomeShim() { standAside() }

func standAside() {
	for fd := requestFD; fd < 256; fd++ {
		syscall.CloseOnExec(fd)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGTSTP)
}

func groupLeft(pgid int) bool { return syscall.Kill(-pgid, 0) == nil }

func living(pgid int) []int {
	if groupLeft(pgid) {
		return []int{pgid}
	}
	return nil
}

func signalGroups(pgid int, sig syscall.Signal, _ map[int]bool) { _ = syscall.Kill(-pgid, sig) }

func killTree(pgid int, _ map[int]bool) []int {
	if syscall.Kill(-pgid, syscall.SIGKILL) != nil {
		return nil
	}
	return []int{pgid}
}

// stopped is unknown here.
func stopped(int) bool { return false }

func pids(set map[int]bool) (text string) {
	for p := range set {
		text += " " + strconv.Itoa(p)
	}
	return text
}

// Sweep finds nothing here: other processes' environments cannot be read.
func Sweep(string) (killed int, err error) { return 0, nil }

func sweepOrphans() (killed int, err error) { return 0, nil }

func adopt() {}

// Within finds nothing here: where other processes work cannot be read.
func Within(...string) map[int][]string { return nil }

// limiter would enforce limits; here there are none.
type limiter struct{}

func (s *server) limit(j *job) (*limiter, error) {
	if c := j.cmd.Limits; c.Memory > 0 || c.Procs > 0 || c.Disk > 0 {
		return nil, errors.New("limits of memory, processes and disk are kept on Linux only")
	}
	return nil, nil
}

func (*limiter) within(*syscall.SysProcAttr)       {}
func (*limiter) without(*syscall.SysProcAttr) bool { return false }
func (*limiter) remove()                           {}
func (*limiter) exceeded(time.Time) process.Why    { return "" }
func (*limiter) verdict() process.Why              { return "" }

// inMemory is a copy of a file that has no name.
func inMemory(r io.Reader) (*os.File, error) {
	copied, err := os.CreateTemp("", "descartes")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(copied.Name()); err == nil {
		_, err = io.Copy(copied, r)
	}
	if err == nil {
		_, err = copied.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, copied.Close())
	}
	return copied, nil
}

func widen(*os.File) {}

// Ceilings says by what means limits are kept here: none.
func Ceilings() string { return "not kept on this system" }
