//go:build unix && !linux

package proc

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// Without a subreaper and without /proc a command is its process group: what
// leaves the group is not found.

const shimName = "descartes-shim"

// rssUnit: ru_maxrss counts bytes on macOS.
const rssUnit = 1

func settle() {
	for fd := requestFD; fd < 256; fd++ {
		syscall.CloseOnExec(fd)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP)
}

func groupAttr(*int) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

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

// stopped cannot be told here.
func stopped(int) bool { return false }

func pids(set map[int]bool) (text string) {
	for p := range set {
		text += " " + strconv.Itoa(p)
	}
	return text
}

// Sweep finds nothing here: other processes' environments cannot be read.
func Sweep(string) (killed int, err error) { return 0, nil }

func sweep(string, fallen) (killed int, err error) { return 0, nil }

func adopt() {}

func born(int) int { return 0 }

// Within finds nothing here: where other processes work cannot be read.
func Within(...string) map[int][]string { return nil }
