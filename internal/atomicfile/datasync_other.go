//go:build !linux

package atomicfile

import "os"

// datasync flushes f. On macOS os.File.Sync is F_FULLFSYNC, the only call there that reaches the disk.
func datasync(f *os.File) error { return f.Sync() }
