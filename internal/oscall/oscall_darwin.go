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
