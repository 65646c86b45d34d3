package verify

import (
	"bytes"
	"io"
	"strings"
)

const (
	tailBytes = 8 << 10
	tailLines = 200
)

// tail reads the end of a log between two offsets: whole lines of valid UTF-8, at most 8 KiB and 200 lines, or the end
// of a single longer line.
func tail(f io.ReaderAt, from, size int64) (string, error) {
	begin := max(from, size-tailBytes-1) // one more, to see whether a line begins there
	buf := make([]byte, size-begin)
	n, err := f.ReadAt(buf, begin)
	if err != nil && err != io.EOF {
		return "", err
	}
	buf = buf[:n]
	if begin > from {
		if end := bytes.IndexByte(buf, '\n') + 1; end > 0 && end < len(buf) {
			buf = buf[end:]
		} else {
			buf = buf[min(1, len(buf)):]
		}
	}
	return clean(lastLines(buf)), nil
}

func lastLines(b []byte) []byte {
	at := len(bytes.TrimSuffix(b, []byte{'\n'}))
	for range tailLines {
		if at = bytes.LastIndexByte(b[:at], '\n'); at < 0 {
			return b
		}
	}
	return b[at+1:]
}

// clean makes text fit for people and for JSON. It never exceeds the limit: a replacement takes the room of what it
// replaces.
func clean(b []byte) string {
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\x00", "")
	if extra := len(s) - tailBytes; extra > 0 {
		s = strings.ToValidUTF8(s[extra:], "")
	}
	return s
}
