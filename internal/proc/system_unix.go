//go:build unix

package proc

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup starts a program in a process group of its own, ownSession in a session, without a terminal.
func ownGroup() *syscall.SysProcAttr   { return &syscall.SysProcAttr{Setpgid: true} }
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// killGroup ends a program that was started with ownGroup, and who is in its group.
func killGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }

// printTo has all that this process prints go into a file.
func printTo(f *os.File) error {
	for _, fd := range []int{1, 2} {
		if err := unix.Dup2(int(f.Fd()), fd); err != nil {
			return os.NewSyscallError("dup2", err)
		}
	}
	return nil
}

func mayExecute(path string) bool { return syscall.Access(path, 1) == nil }

// extensions are those that a program's name may lack.
func extensions([]string) []string { return nil }

func sameVariable(a, b string) bool { return a == b }
