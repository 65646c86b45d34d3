//go:build unix

package proc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"descartes/agent/process"
)

// sandboxed is what a command that runs inside a sandbox needs besides. Its
// output comes through pipes: a descriptor of the log itself would let whoever
// runs inside cut or rewrite what the log holds, whatever the mounts say. Its
// input is a copy for the same reason.
type sandboxed struct {
	theirs []*os.File // the command's ends, until it is started
	relays []*relay
	copied sync.WaitGroup
	status *os.File // bubblewrap writes here which processes it made; nil where nobody does
	end    *os.File // and the program's supervisor how it ended
}

// relay copies what a command prints to where it belongs.
type relay struct {
	from, to *os.File
	last     []byte // the end of it, for an error's text
}

const (
	// relayLast is how much a relay keeps.
	relayLast = 512
	// maxStatus bounds what bubblewrap and a supervisor may tell of themselves.
	maxStatus = 4 << 10
	// The first descriptors after the standard ones: where bubblewrap says what it made, where the supervisor says how
	// the program ended, our own program, which need not be seen at any path inside, and bubblewrap's arguments.
	statusFD = "3"
	endFD    = "4"
	selfFD   = "5"
	argsFD   = "6"
)

// supervisorCommand is the command line of a supervisor up to its program's own. apart is as in process.Limits.
func supervisorCommand(apart bool) []string {
	how := together
	if apart {
		how = keptApart
	}
	return []string{"/proc/self/fd/" + selfFD, ShimCommand, superviseWord, endFD, how}
}

// wrap returns the files that a wrapped command is started with instead.
func (j *job) wrap(files []*os.File) (theirs []*os.File, err error) {
	w := &sandboxed{}
	j.sandboxed = w
	theirs = files[:1:1]
	if j.cmd.Stdin != "" {
		in, err := inMemory(files[0])
		if err != nil {
			return nil, fmt.Errorf("copy its input: %w", err)
		}
		theirs[0], w.theirs = in, append(w.theirs, in)
	}
	for n, f := range files[1:] {
		switch {
		case n == 1 && f == files[1]:
			theirs = append(theirs, theirs[1])
		case n == 0 && j.cmd.Stdout == "", n == 1 && j.cmd.Stderr == "":
			theirs = append(theirs, f)
		default:
			from, their, err := w.pipe()
			if err != nil {
				return nil, err
			}
			widen(their)
			r := &relay{from: from, to: f}
			w.relays, theirs = append(w.relays, r), append(theirs, their)
			w.copied.Go(func() { _, _ = io.Copy(r, from) })
		}
	}
	if j.cmd.Limits.Bare {
		return theirs, nil
	}
	var status, end *os.File
	if w.status, status, err = w.pipe(); err != nil {
		return nil, err
	}
	if w.end, end, err = w.pipe(); err != nil {
		return nil, err
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	w.theirs = append(w.theirs, self)
	return append(theirs, status, end, self), nil
}

// closed gives bubblewrap its arguments by a file, the variables of the command among them: it starts without any,
// since a library that one of them names would run outside, and nobody reads them in a list of processes.
func (j *job) closed(files []*os.File, wrap, env []string) ([]*os.File, []string, error) {
	var args []string
	for _, kv := range env {
		if name, value, _ := strings.Cut(kv, "="); name != "" {
			args = append(args, "--setenv", name, value)
		}
	}
	args = append(append(args, wrap[1:]...), "--json-status-fd", statusFD)
	f, err := inMemory(strings.NewReader(strings.Join(args, "\x00") + "\x00"))
	if err != nil {
		return nil, nil, err
	}
	j.sandboxed.theirs = append(j.sandboxed.theirs, f)
	return append(files, f), []string{wrap[0], "--args", argsFD}, nil
}

func (w *sandboxed) pipe() (ours, their *os.File, err error) {
	if ours, their, err = os.Pipe(); err == nil {
		w.theirs = append(w.theirs, their)
	}
	return ours, their, err
}

// started closes our copies of what the command has now.
func (w *sandboxed) started() {
	for _, f := range w.theirs {
		f.Close()
	}
}

func (w *sandboxed) close() {
	if w == nil {
		return
	}
	w.started() // where it never came to that
	w.drain()
	for _, r := range w.relays {
		r.from.Close()
	}
	w.status.Close() // nil does not mind
	w.end.Close()
}

// Write never fails: a log that cannot be written to loses text, as it would if the
// command wrote to it itself.
func (r *relay) Write(p []byte) (int, error) {
	r.last = append(r.last, p[max(0, len(p)-relayLast):]...)
	r.last = r.last[max(0, len(r.last)-relayLast):]
	_, _ = r.to.Write(p)
	return len(p), nil
}

// drain waits until all is copied that a command printed which is over. What cannot be ended may keep a pipe open.
func (w *sandboxed) drain() {
	for _, r := range w.relays {
		_ = r.from.SetReadDeadline(time.Now().Add(killBound))
	}
	w.copied.Wait()
}

// unwrap reads the supervisor's word once the command is over: how the program inside ended, or that it never ran. Only
// that word counts. A sandbox that never came up is a fault and no result; a supervisor that says nothing more was
// killed by what it supervised.
func (j *job) unwrap() (fault error) {
	w := j.sandboxed
	if w == nil {
		return nil
	}
	w.drain()
	if w.end == nil {
		return nil
	}
	there, end := w.said()
	switch {
	case j.exit.Why != process.Exited && j.exit.Why != process.Signaled: // we ended it
	case !there:
		return fmt.Errorf("start %s in the sandbox: %s", j.cmd.Argv[0], w.complaint())
	case !end.Over:
		j.exit.Why, j.exit.Code, j.exit.Signal = process.Signaled, 0, int(syscall.SIGKILL)
		j.exit.Err = joinText(j.exit.Err, "its supervisor in the sandbox was killed")
	case end.Err != "":
		j.notStarted(fmt.Errorf("start %s in the sandbox: %s", j.cmd.Argv[0], end.Err))
	case end.Signal != 0:
		j.exit.Why, j.exit.Code, j.exit.Signal = process.Signaled, 0, end.Signal
	default:
		j.exit.Why, j.exit.Code, j.exit.Signal = process.Exited, end.Code, 0
		// What stands between the two says it as a shell does.
		if sig := syscall.Signal(end.Code - 128); len(j.cmd.Limits.Inside) > 0 && deadly(sig) {
			j.exit.Why, j.exit.Code, j.exit.Signal = process.Signaled, 0, int(sig)
		}
	}
	return nil
}

// deadly reports whether a signal is one that ends processes.
func deadly(sig syscall.Signal) bool {
	return 0 < sig && sig <= syscall.SIGTERM || sig == syscall.SIGXCPU || sig == syscall.SIGXFSZ ||
		sig == syscall.SIGSYS
}

// said is what the supervisor has said: that it is there, and how its program ended.
func (w *sandboxed) said() (there bool, end supervised) {
	_ = w.end.SetReadDeadline(time.Now().Add(killBound))
	for in := json.NewDecoder(io.LimitReader(w.end, maxStatus)); ; there = true {
		var next supervised
		if in.Decode(&next) != nil {
			return there, end
		}
		end = next
	}
}

// first is the first process of a sandbox that has ended, bubblewrap's own, 0 if unknown.
// It outlives the program by a moment.
func (w *sandboxed) first() int {
	if w == nil || w.status == nil {
		return 0
	}
	_ = w.status.SetReadDeadline(time.Now().Add(killBound))
	var told struct {
		PID int `json:"child-pid"`
	}
	_ = json.NewDecoder(io.LimitReader(w.status, maxStatus)).Decode(&told)
	return told.PID
}

// complains is how bubblewrap begins to say what is wrong.
const complains = "bwrap: "

// complaint is bubblewrap's own last words.
func (w *sandboxed) complaint() string {
	for _, r := range w.relays {
		if at := bytes.LastIndex(r.last, []byte(complains)); at >= 0 && (at == 0 || r.last[at-1] == '\n') {
			line, _, _ := strings.Cut(string(r.last[at+len(complains):]), "\n")
			return line
		}
	}
	return "bubblewrap ended without starting it"
}

// spared is skip and the wrapper itself: bubblewrap's own process would die of
// a SIGTERM at once and take the program inside along before its grace is over.
func (j *job) spared(skip map[int]bool) map[int]bool {
	if j.sandboxed == nil || j.sandboxed.status == nil {
		return skip
	}
	out := maps.Clone(skip)
	out[j.pid] = true
	return out
}
