//go:build !linux

package oscall

import (
	"errors"
	"os"
	"time"
)

// Clock is a time that no later change of a file can be stamped before: files are stamped by the clock that programs read.
func Clock() (time.Time, error) { return time.Now(), nil }

// StartWrite has nothing to begin: FinishWrite does it all.
func StartWrite(*os.File) error { return nil }

// FinishWrite waits until a file's bytes are on their disk.
func FinishWrite(f *os.File) error { return Sync(f) }

// Sync waits until a file is on the disk. On macOS os.File.Sync is F_FULLFSYNC, the only call there that reaches it.
func Sync(f *os.File) error { return f.Sync() }

// Mkfifoat is not possible: macOS has no such call.
func Mkfifoat(int, string, uint32) error { return errors.ErrUnsupported }
