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

// slack is how much longer than asked for Log leaves a log, rather than to cut it for less than the line that says so.
const slack = 4 << 10

// Log masks a file in place from an offset on, in constant memory, and of what is longer than most keeps the head and
// the tail, with a line between them that says how much is missing. most 0 cuts nothing, and then nothing in the file
// moves; one without a secret is only read. left is by how much the file is shorter now. What is left out is not read,
// however long it is. To mask a file twice is to mask it once. A file that is gone, or that is no regular file any
// more, is left alone: whoever reads it finds that out.
func (m *Redactor) Log(path string, from, most int64) (left int64, err error) {
	f, from, size, err := m.open(path, from, most)
	if f == nil || err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, head := size, from+most/2
	if most > 0 && size > from+most+slack {
		around := int64(slack) // what is masked besides what stays: a secret may lie across the cut
		if m != nil {
			around += max(4*int64(m.longest), maxPainted)
		}
		if cut := head + around; cut < size-most/2-around {
			if end, err = splice(f, cut, size-most/2-around, size, ""); err != nil {
				return 0, fmt.Errorf("shorten %s: %w", path, err)
			}
		}
	}
	if m != nil {
		if err := m.overwrite(f, from, end); err != nil {
			return size - end, fmt.Errorf("mask %s: %w", path, err)
		}
	}
	if most > 0 && size > from+most+slack {
		gap := fmt.Sprintf("\n--- %d bytes of output are left out here: the log is limited (max_log) ---\n",
			size-from-2*(most/2))
		if end, err = splice(f, head, end-most/2, end, gap); err != nil {
			return size - end, fmt.Errorf("shorten %s: %w", path, err)
		}
	}
	return size - end, nil
}

// splice puts a text, which is not longer, in the place of a file's bytes from..to, and returns its new size.
func splice(f *os.File, from, to, size int64, text string) (int64, error) {
	if _, err := f.WriteAt([]byte(text), from); err != nil {
		return size, err
	}
	from += int64(len(text))
	if _, err := io.Copy(io.NewOffsetWriter(f, from), io.NewSectionReader(f, to, size-to)); err != nil {
		return size, err
	}
	size -= to - from
	return size, f.Truncate(size)
}

// open opens a file to mask and to shorten it; nil where there is nothing to do. from is 0 for a file that is shorter
// now.
func (m *Redactor) open(path string, from, most int64) (f *os.File, begin, size int64, err error) {
	if path == "" || m == nil && most <= 0 {
		return nil, 0, 0, nil
	}
	seen, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !seen.Mode().IsRegular() {
		return nil, 0, 0, nil
	}
	if err != nil {
		return nil, 0, 0, fmt.Errorf("mask %s: %w", path, err)
	}
	if size = seen.Size(); size < from { // it was cut short
		from = 0
	}
	if (m == nil || size-from < int64(m.window)) && (most <= 0 || size-from <= most+slack) {
		return nil, 0, 0, nil
	}
	if f, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, 0, 0, fmt.Errorf("mask: %w", err)
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(seen, now) {
		return nil, 0, 0, errors.Join(fmt.Errorf("mask %s: the file was replaced meanwhile", path), f.Close())
	}
	return f, from, size, nil
}

// overwrite masks a file from an offset on. Chunks overlap by what a needle may have in the one before, colours
// included. The buffer keeps what the file held, so that a needle is found that shares bytes with a masked one.
func (m *Redactor) overwrite(f *os.File, from, size int64) error {
	buf := make([]byte, min(max(chunk, 4*int64(m.longest)), max(size-from, 512)))
	stars := bytes.Repeat([]byte{'*'}, min(len(buf), 4<<10))
	var spans []span
	kept := 0
	for at := from; ; {
		n, err := f.ReadAt(buf[kept:], at+int64(kept))
		if err != nil && err != io.EOF {
			return err
		}
		have := buf[:kept+n]
		u := unpaint(have)
		spans = m.find(have, u, spans[:0])
		for _, s := range spans {
			crash.Point("mask")
			for s.from < s.to {
				k := min(s.to-s.from, len(stars))
				if _, err := f.WriteAt(stars[:k], at+int64(s.from)); err != nil {
					return err
				}
				s.from += k
			}
		}
		if n == 0 || err == io.EOF {
			return nil
		}
		kept = len(have) - m.reread(have, u)
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
	u := unpaint(all)
	found := w.mask.find(all, u, nil)
	for _, s := range found {
		spans = add(spans, s)
	}
	hold := w.mask.unended(all, u)
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

// unended is where the first needle may begin that b, which is u unpainted, does not hold the end of; len(b) if none.
func (m *Redactor) unended(b []byte, u unpainted) int {
	most := len(b)
	if m.folded != nil {
		most = min(m.folded.openFolded(b, m.longest), m.openPainted(b, u))
	}
	return min(most, m.begun(b))
}

// begun is where the first needle may begin that goes on after b; len(b) if none.
func (m *Redactor) begun(b []byte) int {
	for at := max(0, len(b)-len(m.needles[0])+1); at < len(b); at++ {
		if !m.begins[b[at]] {
			continue
		}
		for _, n := range m.needles {
			if len(n) > len(b)-at && bytes.HasPrefix(n, b[at:]) {
				return at
			}
		}
	}
	return len(b)
}
