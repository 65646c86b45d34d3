package redact

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"descartes/internal/crash"
)

// chunk is how much of a file is looked at at a time, at least.
const chunk = 256 << 10

// File masks a file in place from an offset on, in constant memory: nothing in it moves, and a file without a
// secret is only read. masked says whether there was one. To mask it twice is to mask it once. A file that is gone, or that is no regular file any
// more, is left alone: whoever reads it finds that out.
func (m *Redactor) File(path string, from int64) (masked bool, err error) {
	if m == nil || path == "" {
		return false, nil
	}
	seen, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !seen.Mode().IsRegular() {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("mask %s: %w", path, err)
	}
	if seen.Size() < from { // it was cut short
		from = 0
	}
	if seen.Size()-from < int64(m.window) {
		return false, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, fmt.Errorf("mask: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if now, err := f.Stat(); err != nil || !os.SameFile(seen, now) {
		return false, fmt.Errorf("mask %s: the file was replaced meanwhile", path)
	}
	if masked, err = m.overwrite(f, from, seen.Size()); err != nil {
		return masked, fmt.Errorf("mask %s: %w", path, err)
	}
	return masked, nil
}

// overwrite masks a file from an offset on. Chunks overlap by what a needle may have in the one before. The buffer
// keeps what the file held, so that a needle is found that shares bytes with a masked one.
func (m *Redactor) overwrite(f *os.File, from, size int64) (masked bool, err error) {
	buf := make([]byte, min(max(chunk, 4*int64(m.longest)), max(size-from, 512)))
	stars := bytes.Repeat([]byte{'*'}, min(len(buf), 4<<10))
	var spans []span
	kept := 0
	for at := from; ; {
		n, err := f.ReadAt(buf[kept:], at+int64(kept))
		if err != nil && err != io.EOF {
			return masked, err
		}
		have := buf[:kept+n]
		spans = m.find(have, spans[:0])
		for _, s := range spans {
			crash.Point("mask")
			for s.from < s.to {
				k := min(s.to-s.from, len(stars))
				if _, err := f.WriteAt(stars[:k], at+int64(s.from)); err != nil {
					return masked, err
				}
				masked = true
				s.from += k
			}
		}
		if n == 0 || err == io.EOF {
			return masked, nil
		}
		kept = min(len(have), m.longest-1)
		copy(buf, have[len(have)-kept:])
		at += int64(len(have) - kept)
	}
}

// Writer masks what is written to it. What may be the beginning of a secret waits for what follows.
type Writer struct {
	mask *Redactor
	to   io.Writer
	held []byte // the end of what was written
	lead int    // bytes of it that belong to a secret
}

// Writer masks what goes to w. Flush brings out what waits.
func (m *Redactor) Writer(w io.Writer) *Writer { return &Writer{mask: m, to: w} }

// Write is w's Write, of the masked text. Its count is that of p.
func (w *Writer) Write(p []byte) (int, error) {
	if w.mask == nil {
		return w.to.Write(p)
	}
	all := append(w.held, p...)
	var spans []span
	if w.lead > 0 {
		spans = append(spans, span{0, w.lead})
	}
	found := w.mask.find(all, nil)
	for _, s := range found {
		spans = add(spans, s)
	}
	hold := w.mask.open(all)
	tail := bytes.Clone(all[hold:])
	lead := 0
	for _, s := range spans {
		if s.to > hold {
			lead = max(lead, s.to-hold)
		}
		fill(all[s.from:s.to])
	}
	_, err := w.to.Write(all[:hold])
	w.held, w.lead = tail, lead
	return len(p), err
}

// Flush writes what waits.
func (w *Writer) Flush() error {
	if len(w.held) == 0 {
		return nil
	}
	fill(w.held[:w.lead])
	_, err := w.to.Write(w.held)
	w.held, w.lead = nil, 0
	return err
}

// open is where the first needle may begin that b does not hold the end of; len(b) if none.
func (m *Redactor) open(b []byte) int {
	most := len(b)
	if m.folded != nil {
		most = m.folded.openFolded(b, m.longest)
	}
	for at := max(0, len(b)-len(m.needles[0])+1); at < most; at++ {
		if !m.begins[b[at]] {
			continue
		}
		for _, n := range m.needles {
			if len(n) > len(b)-at && bytes.HasPrefix(n, b[at:]) {
				return at
			}
		}
	}
	return most
}
