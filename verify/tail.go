package verify

import (
	"bytes"
	"io"
	"os"
	"strings"
)

const (
	tailBytes = 8 << 10
	tailLines = 200
)

// Tail reads the end of a log, starting at from: whole lines of valid UTF-8, at most 8 KiB and 200 lines, or the end of a single longer line. If the
// log is now shorter than from it is read from its beginning.
func Tail(path string, from int64) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	if size < from {
		from = 0
	}
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

// clean makes text fit for people and for JSON. It never exceeds the limit: a replacement takes the room of what it replaces.
func clean(b []byte) string {
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\x00", "")
	if extra := len(s) - tailBytes; extra > 0 {
		s = strings.ToValidUTF8(s[extra:], "")
	}
	return s
}
