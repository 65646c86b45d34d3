package loop

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
)

// roomFor says that too little is free on the disk for another attempt, or is
// empty. An attempt that met a full disk would have failed for nothing.
func roomFor(c *Config, free func(dir string) (int64, error), root string) string {
	if c.MinFreeDisk <= 0 || free == nil {
		return ""
	}
	return Room(free, root, c.MinFreeDisk)
}

// full reports whether an error is that of a disk without room; git says so in words.
func full(err error) bool {
	return err != nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || strings.Contains(err.Error(), "No space left on device"))
}

// Room is what is wrong with the free space of the file systems that a run at
// root writes to, or empty. A file system that does not tell is let be.
func Room(free func(dir string) (int64, error), root string, least int64) string {
	for _, dir := range []string{root, filepath.Join(root, ".descartes")} {
		n, err := free(dir)
		if err == nil && n < least {
			return fmt.Sprintf("%s free on the disk of %s, at least %s are wanted for an attempt", mebibytes(n), dir, mebibytes(least))
		}
	}
	return ""
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
