package proc

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sweepBound is how long Sweep tries.
	sweepBound = 5 * time.Second
	// shimBound is how long it lets a dead loop's shim end its own tree and
	// record how that went, before it kills the shim too.
	shimBound = 500 * time.Millisecond
)

// Sweep kills every process that carries the cookie in its environment, and
// what those started, until none is left; it returns how many there were. It
// leaves alone this process, its ancestors, its living shims and all below
// them, and what belongs to other users. Nothing found costs one read of
// /proc.
func Sweep(cookie string) (killed int, err error) {
	if cookie == "" || strings.IndexByte(cookie, 0) >= 0 {
		return 0, fmt.Errorf("sweep: cookie %q is not usable", cookie)
	}
	mark := append([]byte(CookieVar+"="+cookie), 0)
	start, all := time.Now(), map[int]bool{}
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		found := marked(mark)
		if len(found) == 0 {
			return len(all), nil
		}
		patient := time.Since(start) < shimBound
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, p := range found {
				if patient && isShim(p.pid) {
					continue
				}
				if p.signal(mark, sig) {
					all[p.pid] = true
				}
			}
		}
		if time.Since(start) > sweepBound {
			left := map[int]bool{}
			for _, p := range found {
				left[p.pid] = true
			}
			return len(all), fmt.Errorf("sweep: some processes cannot be ended: %s", pids(left))
		}
		time.Sleep(pause)
	}
}

// prey is a process to sweep up: it carries the mark, or has no mark of its
// own (a cleared environment) and a parent to be swept up.
type prey struct {
	pid    int
	parent int // 0: it carries the mark
}

// marked lists what is to be swept up.
func marked(mark []byte) (found []prey) {
	list := processes()
	for _, pid := range list {
		if carries(pid, mark) {
			found = append(found, prey{pid: pid})
		}
	}
	if len(found) == 0 {
		return nil
	}
	self, spared := os.Getpid(), map[int]bool{}
	for p := self; p > 1 && !spared[p]; { // ourselves and above
		spared[p] = true
		i, ok := stat(p)
		if !ok {
			break
		}
		p = i.parent
	}
	found = slices.DeleteFunc(found, func(p prey) bool { return spared[p.pid] || underLiveShim(p.pid, self) })
	return append(found, below(found, list, spared)...)
}

// below lists the unmarked descendants of what was found.
func below(found []prey, list []int, spared map[int]bool) (more []prey) {
	offspring, taken := map[int][]int{}, map[int]bool{}
	for _, pid := range list {
		if i, ok := stat(pid); ok && i.state != 'Z' {
			offspring[i.parent] = append(offspring[i.parent], pid)
		}
	}
	var queue []int
	for _, p := range found {
		taken[p.pid] = true
		queue = append(queue, p.pid)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, pid := range offspring[queue[0]] {
			if !taken[pid] && !spared[pid] {
				taken[pid] = true
				more = append(more, prey{pid: pid, parent: queue[0]})
				queue = append(queue, pid)
			}
		}
	}
	return more
}

// underLiveShim reports whether a process is a shim that is our child, or
// descends from one.
func underLiveShim(pid, self int) bool {
	for range 1000 { // the tree changes under our feet: no loop may last
		i, ok := stat(pid)
		if !ok || i.parent <= 1 {
			return ok && i.parent == self && self == 1 && isShim(pid)
		}
		if i.parent == self {
			return isShim(pid)
		}
		pid = i.parent
	}
	return false
}

func isShim(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return err == nil && strings.TrimSuffix(string(b), "\n") == shimName
}

// carries reports whether a process has the mark in its environment. That of
// other users' processes, kernel threads and zombies cannot be read.
func carries(pid int, mark []byte) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || len(env) < len(mark)-1 {
		return false
	}
	env = append(env, 0)
	for at := 0; ; {
		k := bytes.Index(env[at:], mark)
		if k < 0 {
			return false
		}
		if at += k; at == 0 || env[at-1] == 0 {
			return true
		}
		at++
	}
}

// signal signals only if the process that has the number now is the one meant.
func (p prey) signal(mark []byte, sig syscall.Signal) bool {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == unix.ENOSYS {
		return p.still(mark) && syscall.Kill(p.pid, sig) == nil
	}
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return p.still(mark) && unix.PidfdSendSignal(fd, sig, nil, 0) == nil
}

func (p prey) still(mark []byte) bool {
	if p.parent == 0 {
		return carries(p.pid, mark)
	}
	i, ok := stat(p.pid)
	return ok && i.parent == p.parent
}
