package proc

import "golang.org/x/sys/unix"

// signalName is the usual name, such as SIGKILL.
func signalName(n int) string {
	if name := unix.SignalName(unix.Signal(n)); name != "" {
		return name
	}
	return "unknown"
}
