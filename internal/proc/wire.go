package proc

import (
	"encoding/binary"
	"errors"
	"time"
)

// What goes to the shim: frames of a 4-byte length and a body whose first
// byte is its kind. Not JSON, which cannot carry arguments and paths that are
// not UTF-8.
const (
	frameHello  byte = iota + 1 // exit file
	frameRun                    // sequence number, Command
	frameCancel                 // sequence number of the command to end
)

const maxFrame = 256 << 20

// What comes back: one line per command, its first byte says what it is.
const (
	replyExit  byte = 'E' // Exit as JSON
	replyFault byte = 'F' // text: the command was not run, and that is not its fault
)

// frame wraps body-building so that the length is known afterwards.
func frame(kind byte, body func([]byte) []byte) []byte {
	b := body([]byte{0, 0, 0, 0, kind})
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func helloFrame(exitFile string) []byte {
	return frame(frameHello, func(b []byte) []byte { return appendString(b, exitFile) })
}

func cancelFrame(seq uint64) []byte {
	return frame(frameCancel, func(b []byte) []byte { return binary.AppendUvarint(b, seq) })
}

func runFrame(seq uint64, c Command) []byte {
	return frame(frameRun, func(b []byte) []byte {
		b = binary.AppendUvarint(b, seq)
		b = appendString(b, c.Label)
		b = appendStrings(b, c.Argv)
		b = appendString(b, c.Dir)
		b = appendStrings(b, c.Env)
		b = appendStrings(b, c.Limits.Wrap)
		b = appendStrings(b, c.Limits.Inside)
		b = binary.AppendUvarint(b, uint64(max(c.Limits.Memory, 0)))
		b = binary.AppendUvarint(b, uint64(max(c.Limits.Procs, 0)))
		leave := uint64(0)
		if c.Leave {
			leave = 1
		}
		b = binary.AppendUvarint(b, leave)
		for _, s := range []string{c.Stdin, c.Stdout, c.Stderr} {
			b = appendString(b, s)
		}
		for _, d := range []time.Duration{c.Timeout, c.Idle, c.Grace} {
			b = binary.AppendVarint(b, int64(d))
		}
		return b
	})
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

var errFrame = errors.New("malformed request")

// cutFrame splits the first whole frame off b; ok is false while more bytes
// are needed.
func cutFrame(b []byte) (body, rest []byte, ok bool, err error) {
	if len(b) < 4 {
		return nil, b, false, nil
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n < 1 || n > maxFrame {
		return nil, b, false, errFrame
	}
	if len(b)-4 < n {
		return nil, b, false, nil
	}
	return b[4 : 4+n], b[4+n:], true, nil
}

// reader takes a frame's body apart; the first mistake sticks.
type reader struct {
	b   []byte
	err error
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errFrame
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) duration() time.Duration {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errFrame
		return 0
	}
	r.b = r.b[n:]
	return time.Duration(v)
}

func (r *reader) string() string {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errFrame
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) strings() []string {
	n := r.uvarint()
	if n > uint64(len(r.b)) { // each string takes a byte at least
		r.b, r.err = nil, errFrame
		return nil
	}
	if n == 0 {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, r.string())
	}
	return list
}

func readRun(body []byte) (seq uint64, c Command, err error) {
	r := &reader{b: body}
	seq = r.uvarint()
	c.Label = r.string()
	c.Argv = r.strings()
	c.Dir = r.string()
	c.Env = r.strings()
	c.Limits = Limits{Wrap: r.strings(), Inside: r.strings(), Memory: int64(r.uvarint()), Procs: int(r.uvarint())}
	c.Leave = r.uvarint() == 1
	c.Stdin, c.Stdout, c.Stderr = r.string(), r.string(), r.string()
	c.Timeout, c.Idle, c.Grace = r.duration(), r.duration(), r.duration()
	if r.err == nil && (len(r.b) != 0 || len(c.Argv) == 0) {
		r.err = errFrame
	}
	return seq, c, r.err
}
