package loop

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// DiskFull reports whether an error means a full disk; git only says so in words.
func DiskFull(err error) bool {
	return err != nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(strings.ToLower(err.Error()), syscall.ENOSPC.Error()))
}

// Room says which folder's file system has too little room, or returns "". One that does not report its free space is
// ignored.
func Room(free func(dir string) (int64, error), least int64, dirs ...string) string {
	for _, dir := range dirs {
		if n, err := free(dir); dir != "" && err == nil && n < least {
			return fmt.Sprintf("%s free on the disk of %s, and an attempt needs at least %s", mebibytes(n), dir,
				mebibytes(least))
		}
	}
	return ""
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
