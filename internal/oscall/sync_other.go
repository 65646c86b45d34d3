//go:build !linux

package oscall

import "os"

// Sync waits until a file is on the disk. On macOS os.File.Sync is F_FULLFSYNC, the only call there that reaches it.
func Sync(f *os.File) error { return f.Sync() }
