package agent

import (
	"bytes"
	"io"
	"os"
	"regexp"
)

// errorWatch looks through what a running client prints on standard error for
// lines that say that its quota is used up. Some then sleep until it is
// renewed, for hours, and say it nowhere else.
type errorWatch struct {
	path   string
	offset int64
	any    []*regexp.Regexp
	file   *os.File
	buf    []byte // read, and not looked at: the beginning of a line
}

const (
	errorPiece = 64 << 10
	errorTurn  = 16       // pieces read at a time
	errorLine  = 16 << 10 // of a longer line the end is looked at
)

// errorWatch is nil where there is nothing to look for.
func (b Backend) errorWatch(q Request) *errorWatch {
	any := b.limitPatterns()
	if len(any) == 0 || q.ErrLog == "" || q.ErrLog == q.Log {
		return nil
	}
	return &errorWatch{path: q.ErrLog, offset: q.ErrOffset, any: any}
}

// limitPatterns are the expressions of StderrLimit, which NewTable has checked.
func (b Backend) limitPatterns() (list []*regexp.Regexp) {
	for _, text := range b.StderrLimit {
		if re, err := regexp.Compile(text); err == nil {
			list = append(list, re)
		}
	}
	return list
}

// look reads on, and says whether the run has to be ended.
func (w *errorWatch) look() *halt {
	if w == nil || w.file == nil && !w.open() {
		return nil
	}
	for range errorTurn {
		had := len(w.buf)
		w.buf = append(w.buf, make([]byte, errorPiece)...)
		n, err := w.file.Read(w.buf[had:])
		w.buf = w.buf[:had+n]
		end := bytes.LastIndexByte(w.buf[had:], '\n') + 1
		if end > 0 {
			if line, found := limitLine(w.any, w.buf[:had+end]); found {
				return &halt{clock: haltErrors, words: line}
			}
			w.buf = append(w.buf[:0], w.buf[had+end:]...)
		}
		w.buf = lastBytes(w.buf, errorLine)
		if n == 0 || err != nil {
			break
		}
	}
	return nil
}

func (w *errorWatch) open() bool {
	f, size, err := openLog(w.path)
	if err != nil {
		return false
	}
	if w.file = f; size >= w.offset {
		_, err = f.Seek(w.offset, io.SeekStart)
	}
	return err == nil
}

func (w *errorWatch) close() {
	if w != nil && w.file != nil {
		w.file.Close()
	}
}

// limitLine is the last line that fits one of the expressions, from where it
// does: what stands before is the log's, its time for one.
func limitLine(any []*regexp.Regexp, text []byte) (line string, found bool) {
	for _, re := range any {
		at := re.FindAllIndex(text, -1)
		if len(at) == 0 {
			continue
		}
		from, to := at[len(at)-1][0], at[len(at)-1][1]
		if end := bytes.IndexByte(text[to:], '\n'); end >= 0 {
			to += end
		} else {
			to = len(text)
		}
		return string(text[from:to]), true
	}
	return "", false
}
