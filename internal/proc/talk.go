//go:build unix

package proc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// fill reads what is there, waiting for at least one byte.
func (s *server) fill() bool {
	var chunk [16 << 10]byte
	for {
		n, err := syscall.Read(requestFD, chunk[:])
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			_, _ = unix.Poll([]unix.PollFd{{Fd: requestFD, Events: unix.POLLIN}}, -1)
		case n <= 0:
			return false
		default:
			s.input = append(s.input, chunk[:n]...)
			return true
		}
	}
}

// reply answers the running request in one line. It is false when nobody
// reads any more.
func reply(kind byte, text []byte) bool {
	b := make([]byte, 0, len(text)+2)
	b = append(b, kind)
	for _, c := range text {
		if c == '\n' {
			c = ' '
		}
		b = append(b, c)
	}
	b = append(b, '\n')
	for len(b) > 0 {
		n, err := syscall.Write(replyFD, b)
		if err != nil && err != syscall.EINTR && err != syscall.EAGAIN {
			return false
		}
		b = b[max(n, 0):]
	}
	return true
}
