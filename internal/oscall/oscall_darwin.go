package oscall

import "golang.org/x/sys/unix"

// ProgramName is the name of the program that a process runs, at most its first 16 bytes; "" if unknown.
func ProgramName(pid int) string {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(p.Proc.P_comm[:])
}

// Immutable reports whether a file is marked as one that nobody changes or removes (chflags uchg, and the like). Links
// are not followed.
func Immutable(path string) bool {
	const marks = 0x2 | 0x4 | 0x20000 | 0x40000 // UF_IMMUTABLE, UF_APPEND, SF_IMMUTABLE, SF_APPEND
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Flags&marks != 0
}
