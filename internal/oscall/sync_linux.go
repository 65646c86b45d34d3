package oscall

import (
	"os"

	"golang.org/x/sys/unix"
)

// Sync waits until a file's bytes and size are on the disk, not its times: about half of an fsync on ext4.
func Sync(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if syncErr = unix.Fdatasync(int(fd)); syncErr != unix.EINTR {
				return
			}
		}
	})
	if err == nil && syncErr != nil {
		err = &os.PathError{Op: "fdatasync", Path: f.Name(), Err: syncErr}
	}
	return err
}
