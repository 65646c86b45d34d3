// Package process describes how to run a command as one unit with everything it starts, and how it ended. It is shared
// by callers and by what runs the commands.
package process

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"descartes/internal/oscall"
)

// DefaultGrace is the time between SIGTERM and SIGKILL for a command whose Grace is zero.
const DefaultGrace = 5 * time.Second

// Command is one program to run.
type Command struct {
	Label string   // names the run in errors
	Argv  []string // Argv[0] without a slash is searched on PATH of the command's environment
	Dir   string   // "" is the shim's directory
	Env   []string // added to the shim's environment, or overriding it
	Stdin string   // path; "" is /dev/null

	// Paths, opened for appending and created with mode 0600, missing
	// directories included. Equal paths share one descriptor; "" is /dev/null.
	Stdout, Stderr string

	Limits Limits
	Leave  bool // after its own end, what it started lives on until the shim is closed

	Timeout time.Duration // of the whole run; 0 is none
	Idle    time.Duration // without growth of Stdout or Stderr, of which one must be a file; 0 is none
	Grace   time.Duration // between SIGTERM and SIGKILL; 0 is DefaultGrace, negative is none
}

// Limits confine a command. The zero value does not.
type Limits struct {
	// Wrap is the command line of bubblewrap (with --new-session), or of another sandbox, up to the program; nil is
	// none. The program is looked up and reported as without it, its exit is passed on, and its output goes through
	// pipes.
	Wrap   []string
	Inside []string // of Wrap: arguments put before the program
	Bare   bool     // of Wrap: it becomes the program and reports nothing itself, like macOS's sandbox-exec
	Apart  bool     // of Wrap: no system call lets one of its processes write into another's memory; not with Bare

	// Layers are mounted before Wrap starts, in a mount namespace of the command's own: Wrap finds them at their places.
	// They need Linux, and the right to make namespaces.
	Layers []Layer

	// Tree is what the program sees at Place, "" where that is what everybody sees there. A program named by its place
	// in it is searched in it.
	Tree, Place string

	Memory int64 // bytes of all processes together; 0 is no limit
	Procs  int   // processes, each thread counted, at the same time; 0 is no limit

	Disk int64  // bytes by which the working tree, its logs and Temp together may grow; 0 is no limit
	Free int64  // bytes that have to stay free on the disk of these; 0: none
	Temp string // folder of its temporary files; "" is none

	// Log is the most that may stay of all that is printed to one file, in bytes; 0 is no limit. Who reads the file
	// when the command is over shortens it; until then no more than that is kept on the disk, if the file system can:
	// the middle reads as zeros.
	Log int64
}

// Layer is a folder that is seen at a place: the lower ones, the topmost first, and above them Upper, which takes what
// is written. All exist; Work is empty, on the disk of Upper, and of no use to anybody else.
type Layer struct {
	At          string
	Lower       []string
	Upper, Work string
}

// Overran says which limit a command went beyond, after its name: "used more than 4 GiB of memory". "" if it was none
// of them.
func (l Limits) Overran(why Why) string {
	switch why {
	case Memory:
		return "used more than " + Size(l.Memory) + " of memory"
	case Procs:
		return fmt.Sprintf("had more than %d processes and threads at a time", l.Procs)
	case Disk:
		return "wrote more than " + Size(l.Disk) + " to the disk"
	case Full:
		return "left less than " + Size(l.Free) + " of the disk free"
	default:
		return ""
	}
}

// Share is how much a command may add to a log that holds so many bytes already: half of what is left, but never next
// to nothing. 0 is no limit.
func (l Limits) Share(size int64) int64 { return max((l.Log-size)/2, l.Log/16) }

// Why says what ended a command.
type Why string

const (
	Exited     Why = "exited"     // by itself, with Exit.Code
	Signaled   Why = "signaled"   // by a signal that we did not send
	TimedOut   Why = "timeout"    // ended by us: Command.Timeout
	Idled      Why = "idle"       // ended by us: Command.Idle
	Cancelled  Why = "cancelled"  // ended by us: the context
	Stopped    Why = "stopped"    // ended by us: what watched over it was stopped or killed
	Memory     Why = "memory"     // ended by us: Limits.Memory
	Procs      Why = "procs"      // ended by us: Limits.Procs
	Disk       Why = "disk"       // ended by us: Limits.Disk
	Full       Why = "full"       // ended by us: Limits.Free
	Orphaned   Why = "orphaned"   // ended by the shim: nobody waited for it any more
	NotStarted Why = "notstarted" // could not be executed: Code is 127 (no such program) or 126, Err says why
)

// Exit says how a command ended. After TimedOut, Idled, Cancelled, Memory, Procs, Disk, Full and Orphaned, Code and
// Signal say how the command reacted.
type Exit struct {
	Label  string        `json:"label"`
	Why    Why           `json:"why"`
	Code   int           `json:"code"`
	Signal int           `json:"signal,omitempty"`
	Start  time.Time     `json:"start"`
	End    time.Time     `json:"end"`
	User   time.Duration `json:"user_ns"`
	System time.Duration `json:"system_ns"`
	Took   time.Duration `json:"took_ns"` // unlike End less Start, changes of the clock do not affect it
	// processes that had to be killed after the command's own end or its grace
	Left int    `json:"left"`
	Err  string `json:"err,omitempty"` // of NotStarted; otherwise what else went wrong
}

// Failed reports whether a command ended by a signal, or with another status than 0.
func (e Exit) Failed() bool { return e.Why == Signaled || e.Code != 0 }

// String is Exit in a few words: "exit status 3", "ended by signal 9 (SIGKILL)".
func (e Exit) String() string {
	switch e.Why {
	case Exited:
		return fmt.Sprintf("exit status %d", e.Code)
	case Signaled:
		return fmt.Sprintf("ended by signal %d (%s)", e.Signal, signalName(e.Signal))
	case NotStarted:
		return e.Err
	case Stopped:
		return "its supervising process (descartes-shim) was stopped or killed, and so it was ended"
	case Memory, Procs, Disk, Full:
		return "it went beyond a limit (" + string(e.Why) + ") and was ended"
	case TimedOut, Idled, Cancelled, Orphaned:
		return string(e.Why)
	default:
		return string(e.Why)
	}
}

// Size formats a number of bytes for people: "4 GiB".
func Size(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(n), 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + " " + units[u]
}

// signalName is the usual name, such as SIGKILL.
func signalName(n int) string {
	return cmp.Or(oscall.SignalName(n), "unknown")
}

// MaxString is the longest single argument or environment string that Linux
// takes (MAX_ARG_STRLEN less the closing zero byte).
const MaxString = 128<<10 - 1

// Check rejects what no system call would accept, before anything is started.
func (c Command) Check() error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return fmt.Errorf("run %q: no program given", c.Label)
	}
	for i, a := range c.Argv {
		if err := checkString(a, fmt.Sprintf("argument %d of %s", i, c.Argv[0])); err != nil {
			return err
		}
	}
	for _, a := range slices.Concat(c.Limits.Wrap, c.Limits.Inside) {
		if err := checkString(a, "argument of the sandbox"); err != nil {
			return err
		}
	}
	for _, kv := range c.Env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return fmt.Errorf("environment entry %q is not NAME=value", kv)
		}
		if err := checkString(kv, "environment variable "+name); err != nil {
			return err
		}
	}
	for _, p := range []string{c.Dir, c.Stdin, c.Stdout, c.Stderr} {
		if strings.IndexByte(p, 0) >= 0 {
			return fmt.Errorf("path %q holds a NUL byte", p)
		}
	}
	return nil
}

func checkString(s, what string) error {
	if len(s) > MaxString {
		return &TooLongError{What: what, Len: len(s)}
	}
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%s holds a NUL byte", what)
	}
	return nil
}

// TooLongError is an argument or environment variable that the system would
// refuse.
type TooLongError struct {
	What string
	Len  int
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("%s is %d bytes long, and the system allows at most %d", e.What, e.Len, MaxString)
}
