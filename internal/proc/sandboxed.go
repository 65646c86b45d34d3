//go:build unix

package proc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"descartes/agent/process"
)

// sandboxed is what a command that runs inside bubblewrap needs besides. Its
// output comes through pipes: a descriptor of the log itself would let whoever
// runs inside cut or rewrite what the log holds, whatever the mounts say.
type sandboxed struct {
	in     int // a copy of standard input that nobody can change, -1 for none
	relays []*relay
	status int    // bubblewrap writes here what became of the program, -1 for none
	report []byte // what it wrote
}

// relay copies what a command prints to where it belongs.
type relay struct {
	from, to int // from is -1 at its end
	write    int // the command's end of the pipe, until it is started
	last     []byte
}

// relayChunk bounds what is copied at once; relayLast what is kept of it for
// an error's text.
const (
	relayChunk = 64 << 10
	relayLast  = 512
	// relayChunks is how many are copied before the shim looks at anything else.
	relayChunks = 32
	// maxStatus bounds what bubblewrap may tell of itself.
	maxStatus = 4 << 10
)

// statusFD is where bubblewrap finds its end of the status pipe: the first
// descriptor after the standard ones.
const statusFD = "3"

// wrap makes the pipes of a wrapped command and returns the descriptors that
// it is started with.
func (j *job) wrap(f streams) (files []uintptr, err error) {
	w := &sandboxed{status: -1, in: -1}
	j.sandboxed = w
	files = []uintptr{uintptr(f.in), uintptr(f.out), uintptr(f.err)}
	if f.in != f.null {
		if w.in, err = sealed(f.in); err != nil { // never the file itself, which could be written to through it
			return nil, fmt.Errorf("copy the input of %s: %w", j.cmd.Argv[0], err)
		}
		files[0] = uintptr(w.in)
	}
	for n, fd := range []int{f.out, f.err} {
		switch {
		case fd == f.null:
		case n == 1 && fd == f.out:
			files[2] = files[1]
		default:
			r, err := newRelay(fd)
			if err != nil {
				return nil, err
			}
			w.relays = append(w.relays, r)
			files[n+1] = uintptr(r.write)
		}
	}
	read, write, err := readyPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", j.cmd.Argv[0], err)
	}
	w.status = read
	return append(files, uintptr(write)), nil
}

func newRelay(to int) (*relay, error) {
	read, write, err := readyPipe()
	if err != nil {
		return nil, err
	}
	widen(read)
	return &relay{from: read, to: to, write: write}, nil
}

// readyPipe is a pipe whose reading end does not wait. A shim forks nowhere
// else, so that nobody gets its ends in between.
func readyPipe() (read, write int, err error) {
	var p [2]int
	if err := syscall.Pipe(p[:]); err != nil {
		return -1, -1, fmt.Errorf("make a pipe: %w", err)
	}
	syscall.CloseOnExec(p[0])
	syscall.CloseOnExec(p[1])
	return p[0], p[1], syscall.SetNonblock(p[0], true)
}

// started closes our copies of what the command holds now.
func (w *sandboxed) started(files []uintptr) {
	for _, r := range w.relays {
		syscall.Close(r.write)
	}
	if w.status >= 0 {
		syscall.Close(int(files[len(files)-1]))
	}
}

func (w *sandboxed) close() {
	if w.in >= 0 {
		syscall.Close(w.in)
	}
	for _, r := range w.relays {
		if r.from >= 0 {
			syscall.Close(r.from)
		}
	}
	if w.status >= 0 {
		syscall.Close(w.status)
	}
}

// polls adds the relays to what the shim waits for.
func (w *sandboxed) polls(fds []unix.PollFd) []unix.PollFd {
	if w == nil {
		return fds
	}
	for _, r := range w.relays {
		if r.from >= 0 {
			fds = append(fds, unix.PollFd{Fd: int32(r.from), Events: unix.POLLIN})
		}
	}
	return fds
}

// drain copies what has been printed, as much of it as a pipe holds. With all, until nothing is left.
func (w *sandboxed) drain(all bool) {
	if w == nil {
		return
	}
	var chunk [relayChunk]byte
	for _, r := range w.relays {
		for n := 1; r.from >= 0 && r.copy(chunk[:]) && (all || n < relayChunks); n++ {
		}
	}
}

// copy moves one chunk and is false when none was there. A log that cannot be
// written to loses text, as it would if the command wrote to it itself.
func (r *relay) copy(chunk []byte) bool {
	n, err := syscall.Read(r.from, chunk)
	switch {
	case err == syscall.EINTR:
		return true
	case err == syscall.EAGAIN:
		return false
	case err != nil || n == 0:
		syscall.Close(r.from)
		r.from = -1
		return false
	}
	r.last = append(r.last, chunk[max(0, n-relayLast):n]...)
	r.last = r.last[max(0, len(r.last)-relayLast):]
	for rest := chunk[:n]; len(rest) > 0; {
		n, err := syscall.Write(r.to, rest)
		if err != nil && err != syscall.EINTR {
			break
		}
		rest = rest[max(n, 0):]
	}
	return true
}

// unwrap reads what bubblewrap told once the command is over: how the program
// inside ended, or that it never ran, which is a fault and no result. A
// program killed by a signal shows as 128 and its number; there is no telling
// it from one that exits so, and it is said as what it nearly always is.
func (j *job) unwrap() (fault error) {
	w := j.sandboxed
	if w == nil {
		return nil
	}
	w.drain(true)
	w.readStatus()
	if j.exit.Why != process.Exited {
		return nil
	}
	if !bytes.Contains(w.report, []byte(`"exit-code"`)) && j.exit.Code != 0 {
		words := w.complaint()
		fault = fmt.Errorf("start %s in the sandbox: %s", j.cmd.Argv[0], words)
		if !strings.HasPrefix(words, "execvp ") {
			return fault
		}
		j.exit.Why, j.exit.Code, j.exit.Err = process.NotStarted, 126, fault.Error() // the program's own fault
		return nil
	}
	if sig := syscall.Signal(j.exit.Code - 128); deadly(sig) {
		j.exit.Why, j.exit.Code, j.exit.Signal = process.Signaled, 0, int(sig)
	}
	return nil
}

// readStatus reads what bubblewrap has told so far.
func (w *sandboxed) readStatus() {
	buf := make([]byte, maxStatus)
	if n, err := syscall.Read(w.status, buf); err == nil {
		w.report = append(w.report, buf[:n]...)
	}
}

// first is the first process of the sandbox, bubblewrap's own, 0 if unknown.
// It outlives the program by a moment.
func (w *sandboxed) first() (pid int) {
	if w == nil {
		return 0
	}
	w.readStatus()
	var told struct {
		PID int `json:"child-pid"`
	}
	_ = json.NewDecoder(bytes.NewReader(w.report)).Decode(&told)
	return told.PID
}

// complaint is bubblewrap's own last words.
func (w *sandboxed) complaint() string {
	for _, r := range w.relays {
		lines := strings.Split(strings.TrimSpace(string(r.last)), "\n")
		for n := len(lines) - 1; n >= 0; n-- {
			if text, ok := strings.CutPrefix(lines[n], "bwrap: "); ok {
				return text
			}
		}
	}
	return "bubblewrap ended without starting it"
}

// deadly reports whether a signal's default action is to end a process, and
// it is one that ends processes in practice.
func deadly(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS,
		syscall.SIGFPE, syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGSEGV, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM,
		syscall.SIGTERM, syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGSYS:
		return true
	}
	return false
}

// spared is skip and the wrapper itself: bubblewrap's own process would die of
// a SIGTERM at once and take the program inside along before its grace is over.
func (j *job) spared(skip map[int]bool) map[int]bool {
	if j.sandboxed == nil {
		return skip
	}
	out := map[int]bool{j.pid: true}
	for p := range skip {
		out[p] = true
	}
	return out
}
