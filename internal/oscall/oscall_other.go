//go:build !linux

package oscall

import (
	"errors"
	"os"
	"time"
)

// Clock is a time that no later change of a file can be stamped before: files are stamped by the clock that programs
// read.
func Clock() (time.Time, error) { return time.Now(), nil }

// Sync waits until a file is on the disk. On macOS os.File.Sync is F_FULLFSYNC, the only call there that reaches it.
func Sync(f *os.File) error { return f.Sync() }

// Mkfifoat is not possible: macOS has no such call.
func Mkfifoat(int, string, uint32) error { return errors.ErrUnsupported }

// Opaque is false: there are no overlays.
func Opaque(string) bool { return false }

// SeeThrough does nothing: there are no overlays.
func SeeThrough(string) error { return nil }

// MakeWhiteout fails: there are no overlays.
func MakeWhiteout(string) error { return errors.ErrUnsupported }

// Touched is now: it is not known.
func Touched(os.FileInfo) time.Time { return time.Now() }

// Whiteout is false: there are no overlays.
func Whiteout(os.FileInfo) bool { return false }
