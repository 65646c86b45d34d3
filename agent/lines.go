package agent

import (
	"bytes"
	"io"
)

// lines hands out a file of lines in segments. Nothing is kept of a line but
// what its reader takes from the segments, so that a line may have any length:
// clients print tool results of megabytes.
type lines struct {
	r     io.Reader
	buf   []byte
	seg   []byte // unread part of the current line, without its newline
	rest  []byte // what follows in buf
	ended bool   // the current line's newline, or the end of the file, was seen
	whole bool   // it was the newline
	eof   bool
	err   error
}

// newLines reads in pieces of the given size.
func newLines(r io.Reader, size int) *lines {
	return &lines{r: r, buf: make([]byte, size), ended: true}
}

// next goes to the next line, whatever is unread of this one.
func (l *lines) next() bool {
	for !l.ended {
		l.fill()
	}
	l.seg, l.ended, l.whole = nil, false, false
	if end := bytes.IndexByte(l.rest, '\n'); end > 0 { // all of it is here
		l.seg, l.rest, l.ended, l.whole = l.rest[:end], l.rest[end+1:], true, true
		return true
	}
	if l.fill() {
		return true
	}
	return l.whole // an empty line
}

// fill puts the next part of the current line into seg, and reports whether
// there was one.
func (l *lines) fill() bool {
	l.seg = nil
	for !l.ended {
		if len(l.rest) == 0 && !l.read() {
			l.ended = true
			return false
		}
		if end := bytes.IndexByte(l.rest, '\n'); end >= 0 {
			l.seg, l.rest = l.rest[:end], l.rest[end+1:]
			l.ended, l.whole = true, true
		} else {
			l.seg, l.rest = l.rest, nil
		}
		if len(l.seg) > 0 {
			return true
		}
	}
	return false
}

// peek is the next byte that is not blank, or 0 at the end of the line.
func (l *lines) peek() byte {
	if len(l.seg) > 0 && l.seg[0] > ' ' {
		return l.seg[0]
	}
	return l.peekOn() // apart, so that this is inlined
}

func (l *lines) peekOn() byte {
	for {
		for n, c := range l.seg {
			if c != ' ' && c != '\t' && c != '\r' {
				l.seg = l.seg[n:]
				return c
			}
		}
		if !l.fill() {
			return 0
		}
	}
}

func (l *lines) read() bool {
	for !l.eof {
		n, err := l.r.Read(l.buf)
		l.rest = l.buf[:n]
		if err != nil {
			l.eof = true
			if err != io.EOF {
				l.err = err
			}
		}
		if n > 0 {
			return true
		}
	}
	return false
}
