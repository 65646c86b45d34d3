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
	// sweepBound is how long Sweep tries without getting anywhere.
	sweepBound = 5 * time.Second
	// shimBound is how long it lets a dead loop's shim end its own tree and
	// record how that went, before it kills the shim too.
	shimBound = 500 * time.Millisecond
)

// Sweep kills every process that carries the cookie in its environment, what
// those started and who shares a session with them, until none is left; it
// returns how many there were. It leaves alone this process, its ancestors,
// its living shims and all below them, and what belongs to other users.
// Nothing found costs one read of /proc.
func Sweep(cookie string) (killed int, err error) {
	if cookie == "" || strings.IndexByte(cookie, 0) >= 0 {
		return 0, fmt.Errorf("sweep: cookie %q is not usable", cookie)
	}
	h := sweeper{mark: append([]byte(CookieVar+"="+cookie), 0), killed: map[info]bool{}}
	return h.sweep()
}

// sweepOrphans is Sweep for what a dead shim left: our children now, in sessions of their own.
func sweepOrphans() (killed int, err error) {
	h := sweeper{killed: map[info]bool{}}
	return h.sweep()
}

func (h *sweeper) sweep() (killed int, err error) {
	start := time.Now()
	progress, before := start, 0
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		now := time.Now()
		left, err := h.sweepOnce(h.mark != nil && now.Sub(start) < shimBound)
		if err != nil {
			return len(h.killed), err
		}
		if left == 0 {
			h.reap()
			return len(h.killed), nil
		}
		if left != before {
			progress, before = now, left
		}
		if now.Sub(progress) > sweepBound || now.Sub(start) > 12*sweepBound {
			return len(h.killed), fmt.Errorf("sweep: %d processes cannot be ended", left)
		}
		time.Sleep(max(pause, time.Since(now)))
	}
}

// sweeper is one Sweep at work.
type sweeper struct {
	mark   []byte // nil: orphans are looked for
	killed map[info]bool
}

// sweepOnce ends what there is, but for shims where it is patient, and returns how many it found.
func (h *sweeper) sweepOnce(patient bool) (left int, err error) {
	spared := 0
	killed, err := endAll(func() ([]info, error) {
		found, err := h.find()
		all := len(found)
		if patient {
			found = slices.DeleteFunc(found, func(i info) bool { return isShim(i.pid) })
		}
		spared = all - len(found)
		return found, err
	})
	for _, i := range killed {
		h.killed[i.key()] = true
	}
	return len(killed) + spared, err
}

// find lists what is to be swept up.
func (h *sweeper) find() ([]info, error) {
	syscall.ForkLock.RLock() // a shim of ours that is being started is not known as one yet
	defer syscall.ForkLock.RUnlock()
	list, err := listProcesses()
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	marked := map[int]bool{}
	for _, pid := range list {
		if h.mark != nil && carries(pid, h.mark) {
			marked[pid] = true
		}
	}
	if len(marked) == 0 && h.mark != nil {
		return nil, nil
	}
	var all []info
	sessions := map[int]bool{}
	spared, shims := spare(), newShield()
	own := spared[os.Getpid()]
	for _, pid := range list {
		i, ok := stat(pid)
		if _, no := spared[pid]; !ok || no || i.dead() {
			continue
		}
		all = append(all, i)
		if h.mark == nil && i.parent == own.pid && i.session != own.session {
			marked[pid] = true
		}
		if marked[pid] && !shims.covers(pid) {
			sessions[i.session] = true
		}
	}
	for _, i := range spared {
		delete(sessions, i.session)
	}
	delete(sessions, 0)
	return pick(all, marked, sessions, shims), nil
}

// reap collects those of the dead that are our children.
func (h *sweeper) reap() {
	for i := range h.killed {
		_, _ = syscall.Wait4(i.pid, nil, syscall.WNOHANG, nil)
	}
}

// pick takes the marked, the members of the sessions, and their descendants.
func pick(all []info, marked, sessions map[int]bool, shims shield) (found []info) {
	taken := map[int]bool{}
	for grown := true; grown; {
		grown = false
		for _, i := range all {
			if taken[i.pid] || !marked[i.pid] && !sessions[i.session] && !taken[i.parent] || shims.covers(i.pid) {
				continue
			}
			taken[i.pid], grown = true, true
			found = append(found, i)
		}
	}
	return found
}

// spare lists this process and those above it.
func spare() map[int]info {
	spared := map[int]info{}
	for p := os.Getpid(); p > 0; {
		i, ok := stat(p)
		if _, again := spared[p]; !ok || again {
			break
		}
		spared[p] = i
		p = i.parent
	}
	return spared
}

// shield knows the living shims of this process: those whose lifeline it holds.
type shield map[string]bool

func newShield() shield {
	ours := shield{}
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, "pipe:") {
			ours[to] = true
		}
	}
	return ours
}

// covers reports whether a process is one of them, or descends from one.
func (s shield) covers(pid int) bool {
	for range 1000 { // the tree changes under our feet: no walk may last
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, requestFD)); err == nil && s[to] {
			return true
		}
		i, ok := stat(pid)
		if !ok || i.parent <= 1 || i.parent == os.Getpid() {
			return false
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
func (i info) signal(sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(i.pid, 0)
	if err != nil && err != unix.ENOSYS {
		return err
	}
	if err == nil {
		defer unix.Close(fd)
	}
	now, ok := stat(i.pid)
	switch {
	case !ok || now.start != i.start:
		return syscall.ESRCH
	case err == unix.ENOSYS:
		return syscall.Kill(i.pid, sig)
	default:
		return unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}
