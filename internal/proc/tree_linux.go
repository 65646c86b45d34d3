package proc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// shimName is how a shim shows in ps, and how Sweep knows one.
const shimName = "descartes-shim"

// adopt makes the orphans of our children our own children.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// becomeShim makes this process a shim: subreaper, named, aside.
func becomeShim() {
	adopt()
	_ = os.WriteFile("/proc/self/comm", []byte(shimName), 0)
	standAside()
}

// Untraceable keeps every process without CAP_SYS_PTRACE from looking into this one, from its descriptors too.
func Untraceable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// standAside makes this process deaf to the signals of a terminal and to SIGTERM; its children hear them, and get none
// of its descriptors by accident.
func standAside() {
	if unix.CloseRange(requestFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) != nil {
		entries, _ := os.ReadDir("/proc/self/fd")
		for _, e := range entries {
			if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= requestFD {
				syscall.CloseOnExec(fd)
			}
		}
	}
	// Caught rather than ignored: what is ignored stays so in every child,
	// what is caught goes back to its default. The channel is never read.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP,
		syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGUSR1, syscall.SIGUSR2)
	// Children get the mask of this thread.
	var none unix.Sigset_t
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil)
}

// inMemory is a copy of a file that is nowhere on the disk.
func inMemory(r io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate("descartes", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	copied := os.NewFile(uintptr(fd), "descartes")
	if _, err = io.Copy(copied, r); err == nil {
		_, err = copied.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, copied.Close())
	}
	return copied, nil
}

// widen makes a pipe as large as possible: clients that do not wait for their reader lose the rest at their exit.
func widen(pipe *os.File) {
	for size := 1 << 20; size > 64<<10; size /= 2 {
		if _, err := unix.FcntlInt(pipe.Fd(), unix.F_SETPIPE_SZ, size); err == nil {
			return
		}
	}
}

// groupLeft: a subreaper without children has nothing left.
func groupLeft(int) bool { return false }

// info is one line of /proc/<pid>/stat, as far as it matters here. A number
// and a start time together name a process for good.
type info struct {
	pid, parent, group, session int
	state                       byte
	start                       int // clock ticks since boot
	threads                     int
}

// stopped reports whether a signal or a tracer has stopped a process.
func stopped(pid int) bool {
	i, ok := stat(pid)
	return ok && (i.state == 'T' || i.state == 't')
}

func stat(pid int) (info, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return info{}, false
	}
	// The name in brackets may hold anything, brackets and spaces included.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return info{}, false
	}
	number := func(k int) int {
		n, bad := strconv.Atoi(string(f[k]))
		if bad != nil {
			err = bad
		}
		return n
	}
	i := info{pid: pid, state: f[0][0], parent: number(1), group: number(2), session: number(3), start: number(19),
		threads: number(17)}
	if err != nil {
		return info{}, false
	}
	return i, true
}

// key names a process for good.
func (i info) key() info { return info{pid: i.pid, start: i.start} }

func (i info) dead() bool { return i.state == 'Z' || i.state == 'X' }

// children lists the children of all threads of a process. While processes
// come and go the kernel may leave some out: callers look again.
func children(pid int) (list []int) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, t := range threads {
		b, err := os.ReadFile(dir + "/" + t.Name() + "/children")
		if err != nil {
			continue
		}
		for _, f := range bytes.Fields(b) {
			if p, err := strconv.Atoi(string(f)); err == nil {
				list = append(list, p)
			}
		}
	}
	return list
}

// childrenByScan is children on a kernel without CONFIG_PROC_CHILDREN.
func childrenByScan(pid int) (list []int) {
	for _, p := range processes() {
		if i, ok := stat(p); ok && i.parent == pid {
			list = append(list, p)
		}
	}
	return list
}

func childLister() func(pid int) []int {
	self := strconv.Itoa(os.Getpid())
	if _, err := os.Stat("/proc/" + self + "/task/" + self + "/children"); err != nil {
		return childrenByScan
	}
	return children
}

func processes() []int {
	list, _ := listProcesses()
	return list
}

// listProcesses lists the numbers of all processes, in no order.
func listProcesses() (list []int, err error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list, err
}

// tree lists the living descendants of this process, parents first. What to
// do to them comes afterwards: the children of one that ends meanwhile move.
func tree() (found []info) {
	self, list := os.Getpid(), childLister()
	seen, queue := map[int]bool{self: true}, []int{self}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, pid := range list(queue[0]) {
			if seen[pid] {
				continue
			}
			seen[pid] = true
			i, ok := stat(pid)
			// A number that was reused has another parent. (Ourselves, if the
			// parent died meanwhile.)
			if !ok || i.parent != queue[0] && i.parent != self || i.dead() {
				continue
			}
			found, queue = append(found, i), append(queue, pid)
		}
	}
	return found
}

func living(int) (list []int) {
	for _, i := range tree() {
		list = append(list, i.pid)
	}
	return list
}

// signalGroups signals every process group in the tree once.
func signalGroups(_ int, sig syscall.Signal, skip map[int]bool) {
	own, done := syscall.Getpgrp(), map[int]bool{}
	for _, i := range tree() {
		switch {
		case skip[i.pid]:
		case i.group == own || i.group <= 1: // it joined ours
			_ = i.signal(sig)
		case !done[i.group]:
			done[i.group] = true
			_ = syscall.Kill(-i.group, sig)
		}
	}
}

// killTree ends every descendant, and returns those it killed.
func killTree(_ int, skip map[int]bool) (killed []int) {
	list, _ := endAll(func() ([]info, error) {
		return slices.DeleteFunc(tree(), func(i info) bool { return skip[i.pid] }), nil
	})
	for _, i := range list {
		killed = append(killed, i.pid)
	}
	return killed
}

// endAll stops what find lists, again and again until no new one shows up, and
// then kills it: whoever is stopped starts nothing more, and stays the parent of
// what it has started. It returns those it killed.
func endAll(find func() ([]info, error)) (killed []info, err error) {
	var found []info
	stopped := map[info]bool{}
	for grown, rounds := true, 0; grown && rounds < 64; rounds++ {
		if found, err = find(); err != nil {
			return nil, err
		}
		grown = false
		for _, i := range found {
			if !stopped[i.key()] && i.signal(syscall.SIGSTOP) == nil {
				stopped[i.key()], grown = true, true
			}
		}
	}
	for _, i := range found {
		if i.signal(syscall.SIGKILL) == nil { // else it is gone, or another user's
			killed = append(killed, i)
		}
	}
	return killed, nil
}

func pids(set map[int]bool) string {
	var list []int
	for p := range set {
		list = append(list, p)
	}
	slices.Sort(list)
	var b strings.Builder
	for k, p := range list {
		if k > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(p))
	}
	return b.String()
}

// Within lists the command lines of the living processes that work in one of
// the folders or below, by process id. Those of other users may be missing.
func Within(dirs ...string) map[int][]string {
	out := map[int][]string{}
	list, _ := listProcesses()
	for _, pid := range list {
		at := "/proc/" + strconv.Itoa(pid)
		cwd, err := os.Readlink(at + "/cwd")
		if err != nil || !slices.ContainsFunc(dirs, func(d string) bool {
			return cwd == d || strings.HasPrefix(cwd, d+"/")
		}) {
			continue
		}
		if b, err := os.ReadFile(at + "/cmdline"); err == nil && len(b) > 0 {
			out[pid] = strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		}
	}
	return out
}
