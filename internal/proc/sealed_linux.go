package proc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// sealed is a copy of a file in memory that cannot be changed: whoever holds a
// descriptor of the file itself could open it anew for writing.
func sealed(fd int) (copied int, err error) {
	if copied, err = unix.MemfdCreate("stdin", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			syscall.Close(copied)
			copied = -1
		}
	}()
	var chunk [relayChunk]byte
	for at := int64(0); ; {
		n, err := syscall.Pread(fd, chunk[:], at)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return copied, err
		case n == 0:
			_, err = unix.FcntlInt(uintptr(copied), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
			return copied, err
		}
		for rest := chunk[:n]; len(rest) > 0; {
			m, err := syscall.Pwrite(copied, rest, at)
			if err != nil {
				return copied, err
			}
			rest, at = rest[m:], at+int64(m)
		}
	}
}

// pipeSize is what a command can print while nobody reads: clients that do not
// wait for it lose the rest at their exit. More than that needs a privilege.
const pipeSize = 1 << 20

// widen gives a pipe room, as much as there is to be had: the kernel bounds
// what one user's pipes may hold.
func widen(pipe int) {
	for size := pipeSize; size > 64<<10; size /= 2 {
		if _, err := unix.FcntlInt(uintptr(pipe), unix.F_SETPIPE_SZ, size); err == nil {
			return
		}
	}
}
