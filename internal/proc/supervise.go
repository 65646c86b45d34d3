//go:build unix

package proc

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// superviseWord after ShimCommand makes this process the supervisor of one program inside a sandbox.
const superviseWord = "supervise"

// together and keptApart say whether a filter of system calls keeps the processes out of one another's memory.
const (
	together  = "together"
	keptApart = "apart"
)

// supervised is how a program inside a sandbox ended, as its supervisor says. The first thing that a supervisor says
// is the zero value: it is there, and its program is about to start.
type supervised struct {
	Over   bool
	Code   int
	Signal int
	Err    string // it could not be started
}

// supervise starts a program, waits for its end and says how it came. args are the number of the descriptor to say it
// on, together or keptApart, and the program's command line. Bubblewrap's own word for that goes through a process that everything inside may
// trace and take descriptors from (pidfd_getfd): what runs there could say in its place that all is well. A supervisor
// cannot be traced and hands its descriptor to nobody. It can be killed; then it says nothing, which is no success.
func supervise(args []string) int {
	runtime.LockOSThread() // the program gets the signal mask of the thread that starts it
	if len(args) < 3 || Untraceable() != nil {
		return 1
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil || fd <= 2 {
		return 1
	}
	standAside()
	say := json.NewEncoder(os.NewFile(uintptr(fd), "status"))
	if say.Encode(supervised{}) != nil {
		return 1
	}
	end := supervised{Over: true}
	if args[1] == keptApart {
		if err := keepApart(); err != nil {
			end.Err = "keep its processes apart: " + err.Error()
			_ = say.Encode(end)
			return 126
		}
	}
	pid, err := syscall.ForkExec(args[2], args[2:], &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		end.Err = unstarted(err).Error()
		_ = say.Encode(end)
		return 126
	}
	var ws syscall.WaitStatus
	for {
		if _, err = syscall.Wait4(pid, &ws, 0, nil); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return 1
	}
	code := ws.ExitStatus()
	if end.Code = code; ws.Signaled() {
		end.Code, end.Signal = 0, int(ws.Signal())
		code = 128 + end.Signal
	}
	_ = say.Encode(end)
	return code
}

// unstarted is why a program that is there could not be executed.
func unstarted(err error) error {
	switch err {
	case syscall.E2BIG:
		return errors.New("arguments and environment are longer than the system allows")
	case syscall.ENOENT:
		// It was there a moment ago: the interpreter of its first line is not.
		return errors.New("its interpreter (the first line of the script) does not exist")
	}
	return err
}
