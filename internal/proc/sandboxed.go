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
	status *os.File // bubblewrap writes here what became of the program; nil where nobody does
	report []byte   // what it wrote
}

// relay copies what a command prints to where it belongs.
type relay struct {
	from, to *os.File
	last     []byte // the end of it, for an error's text
}

const (
	// relayLast is how much a relay keeps.
	relayLast = 512
	// maxStatus bounds what bubblewrap may tell of itself.
	maxStatus = 4 << 10
	// Where bubblewrap finds its end of the status pipe and its own arguments: the first descriptors after the
	// standard ones.
	statusFD = "3"
	argsFD   = "4"
)

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
	var status *os.File
	if w.status, status, err = w.pipe(); err != nil {
		return nil, err
	}
	return append(theirs, status), nil
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
	if w.status != nil {
		w.status.Close()
	}
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

// unwrap reads bubblewrap's report once the command is over: how the program inside ended, or that it never ran,
// which is a fault and no result. A program killed by a signal shows as 128 and its number; a program that exits with
// that status looks the same, but that is rare.
func (j *job) unwrap() (fault error) {
	w := j.sandboxed
	if w == nil {
		return nil
	}
	w.drain()
	if j.exit.Why != process.Exited || w.status == nil {
		return nil
	}
	w.first()
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

// first is the first process of a sandbox that has ended, bubblewrap's own, 0 if unknown.
// It outlives the program by a moment.
func (w *sandboxed) first() int {
	if w == nil || w.status == nil {
		return 0
	}
	if w.report == nil {
		_ = w.status.SetReadDeadline(time.Now().Add(killBound))
		w.report, _ = io.ReadAll(io.LimitReader(w.status, maxStatus))
	}
	var told struct {
		PID int `json:"child-pid"`
	}
	_ = json.NewDecoder(bytes.NewReader(w.report)).Decode(&told)
	return told.PID
}

// complaint is bubblewrap's own last words.
func (w *sandboxed) complaint() string {
	for _, r := range w.relays {
		if at := bytes.LastIndex(r.last, []byte("bwrap: ")); at >= 0 && (at == 0 || r.last[at-1] == '\n') {
			line, _, _ := strings.Cut(string(r.last[at+len("bwrap: "):]), "\n")
			return line
		}
	}
	return "bubblewrap ended without starting it"
}

// deadly reports whether a signal is one that ends processes.
func deadly(sig syscall.Signal) bool {
	return 0 < sig && sig <= syscall.SIGTERM || sig == syscall.SIGXCPU || sig == syscall.SIGXFSZ ||
		sig == syscall.SIGSYS
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
