// Package proc runs a command and everything it starts as one unit.
//
// A Shim is our own binary, started once more, that runs many commands one
// after the other. It is a child subreaper, so nothing a command starts can
// leave its tree; it ends the tree when the command exits, at a deadline, on
// request, and when the process that holds the other end of its request pipe
// dies, however that happens. Output runs a short program such as git and
// returns what it printed. Sweep catches what a killed shim left behind.
//
// No other package starts processes.
package proc

// ShimCommand is the hidden command that a main program maps to Serve.
const ShimCommand = "__shim"

// Listener is a process that listens on a TCP port.
type Listener struct {
	PID  int
	Name string
	Port int
}

// CookieVar is the environment variable that marks every process of a shim.
const CookieVar = "DESCARTES_COOKIE"
