// Package journal owns the record of a run: its events, their lines on disk, appending and following them, and State,
// the one account of a run that results from folding them. It decides nothing.
//
// Of our packages it imports those that replace, read and break files in tests: a damaged journal is replaced, only a
// regular file of bounded size is read, and every append is a crash point.
package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/crash"
	"descartes/internal/plainfile"
)

// Journal is the append-only record of a loop, and the truth about everything that the task file does not contain. A
// transition is one line, appended in one write; a durable one is on disk before Append returns. After a failed write
// the journal accepts nothing more: a line after a torn one would make the whole unreadable. It is not safe for
// concurrent use.
type Journal struct {
	fs      atomicfile.FS
	path    string
	loop    string
	file    atomicfile.File
	seq     int64
	now     func() time.Time
	buf     []byte
	broken  error
	copy    *os.File    // the same bytes in an unnamed file; nil if it could not be made
	stamp   os.FileInfo // of the file, after our last write
	pending bool        // written since the last sync
}

// maxSize limits what is read of a journal.
const maxSize = 4 << 30

// Recover reads a journal's bytes. good is the length of the part that can be trusted.
//
// A durable event was synced, with all before it, before the next event was written. So a bad line before such an
// event was damaged later: that is an error. If no such event follows the first bad line, nothing from there on was
// announced, and it is dropped.
func Recover(name string, data []byte) (events []Event, good int, err error) {
	bad, badLine, badErr, durable := -1, 0, error(nil), false
	line := 0
	for at := 0; at < len(data); {
		line++
		nl := bytes.IndexByte(data[at:], '\n')
		end := at + nl
		if nl < 0 {
			end = len(data)
		}
		e, perr := parse(data[at:end])
		if perr == nil && nl < 0 {
			perr = errors.New("cut short")
		}
		if perr == nil && bad < 0 && e.Seq != int64(len(events))+1 {
			perr = fmt.Errorf("sequence number %d, want %d", e.Seq, len(events)+1)
		}
		switch {
		case perr != nil && bad < 0:
			bad, badLine, badErr = at, line, perr
		case perr == nil && bad >= 0 && durable:
			return nil, 0, &DamageError{Path: name, Line: badLine, Err: badErr}
		case perr == nil && bad >= 0:
			durable = e.Type.Durable()
		case perr == nil && bad < 0:
			events = append(events, e)
			good = end + 1
		}
		at = end + 1
	}
	return events, good, nil
}

// DamageError says that a journal was changed or damaged after it was written.
type DamageError struct {
	Path string
	Line int
	Err  error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s: line %d is damaged: %v", e.Path, e.Line, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// ReadEvents reads the journal at path without changing it. A missing file is an empty journal.
func ReadEvents(path string) ([]Event, error) {
	data, err := plainfile.Read("", path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	events, _, err := Recover(path, data)
	return events, err
}

// maxTail is where the last begin or end of a run is looked for, in bytes from a journal's end: after an end next to
// nothing follows.
const maxTail = 256 << 10

// Last is the last event that began or ended a run; nil if none is near the journal's end: then a run is at work, or
// was killed.
func Last(path string) (*Event, error) {
	f, err := plainfile.Open("", path)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	tail, err := io.ReadAll(io.NewSectionReader(f, max(0, fi.Size()-maxTail), maxTail))
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	lines := bytes.Split(tail, []byte("\n"))
	for _, line := range slices.Backward(lines[:len(lines)-1]) { // what has no newline is torn
		if e, err := parse(line); err == nil && (e.End() != nil || e.Type == LoopStarted || e.Type == LoopResumed) {
			return &e, nil
		}
	}
	return nil, nil
}

// Load folds the journal at path. A missing file gives the state of an unknown loop.
func Load(path string) (*State, error) {
	events, err := ReadEvents(path)
	if err != nil {
		return nil, err
	}
	return Fold(events), nil
}

// Open opens or creates the journal of a loop and cuts off a torn tail. The caller holds the loop's lock.
func Open(fsys atomicfile.FS, path, loop string, now func() time.Time) (*Journal, []Event, error) {
	data, err := plainfile.Read("", path, maxSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("read events: %w", err)
	}
	fresh := err != nil
	events, good, err := Recover(path, data)
	if err != nil {
		return nil, nil, err
	}
	if good < len(data) {
		if err := os.Truncate(path, int64(good)); err != nil {
			return nil, nil, fmt.Errorf("cut the torn end of %s: %w", path, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, nil, fmt.Errorf("make the run's folder: %w", err)
	}
	f, err := fsys.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open events: %w", err)
	}
	if fresh {
		if err := syncParents(fsys, path, 3); err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
	}
	j := &Journal{fs: fsys, path: path, loop: loop, file: f, seq: int64(len(events)), now: now}
	j.shadow(data[:good])
	j.written(nil)
	return j, events, nil
}

// syncParents makes the names of the folders above path durable, n levels up.
func syncParents(fsys atomicfile.FS, path string, n int) error {
	for dir := filepath.Dir(path); n > 0; dir, n = filepath.Dir(dir), n-1 {
		if err := fsys.SyncDir(dir); err != nil {
			return fmt.Errorf("sync folder %s: %w", dir, err)
		}
	}
	return nil
}

// Append numbers the events, writes them in one write, and syncs if one of them is durable. It completes the events in
// place.
func (j *Journal) Append(events ...*Event) error {
	if j.broken != nil {
		return j.broken
	}
	j.buf = j.buf[:0]
	sync := false
	seq := j.seq
	for _, e := range events {
		seq++
		if e.Seq, e.Loop = seq, j.loop; e.TS.IsZero() {
			e.TS = j.now()
		}
		var err error
		if j.buf, err = e.appendLine(j.buf); err != nil {
			return err
		}
		sync = sync || e.Type.Durable()
	}
	crash.Point("before-event-" + string(events[0].Type))
	if _, err := j.file.Write(j.buf); err != nil {
		return j.fail("write", err)
	}
	j.pending = true
	j.written(j.buf)
	crash.Point("event-written-" + string(events[0].Type))
	if sync {
		if err := j.Sync(); err != nil {
			return err
		}
		crash.Point("event-synced-" + string(events[len(events)-1].Type))
	}
	j.seq = seq
	return nil
}

// Seq is the number of the last event; Path is the file.
func (j *Journal) Seq() int64   { return j.seq }
func (j *Journal) Path() string { return j.path }

// Sync writes what is pending to disk.
func (j *Journal) Sync() error {
	if !j.pending {
		return nil
	}
	if err := j.file.Sync(); err != nil {
		return j.fail("sync", err)
	}
	j.pending = false
	return nil
}

// shadow starts the copy that Heal restores the journal from. It needs neither durability nor a name.
func (j *Journal) shadow(data []byte) {
	f, err := os.CreateTemp(filepath.Dir(j.path), ".events-*")
	if err != nil {
		return
	}
	if _, err = f.Write(data); err == nil {
		err = os.Remove(f.Name())
	}
	if err != nil {
		_ = f.Close() // without a copy a deleted journal stops the run; nothing else is lost
		return
	}
	j.copy = f
}

// written remembers the file's identity after our own write.
func (j *Journal) written(line []byte) {
	if j.copy != nil {
		if _, err := j.copy.Write(line); err != nil {
			_ = j.copy.Close()
			j.copy = nil
		}
	}
	if f, ok := j.file.(interface{ Stat() (os.FileInfo, error) }); ok {
		j.stamp, _ = f.Stat()
	}
}

// intact reports whether nobody else has touched the file.
func (j *Journal) intact() bool {
	fi, err := os.Lstat(j.path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return j.stamp == nil || os.SameFile(fi, j.stamp) && fi.Size() == j.stamp.Size() &&
		fi.ModTime().Equal(j.stamp.ModTime())
}

// Heal restores the journal if somebody changed or deleted it while it was open.
func (j *Journal) Heal() (bool, error) {
	if j.intact() {
		return false, nil
	}
	if j.copy == nil {
		return false, fmt.Errorf("%s was changed during the run", j.path)
	}
	data, err := io.ReadAll(io.NewSectionReader(j.copy, 0, 1<<40))
	if err != nil {
		return false, fmt.Errorf("read the copy of %s: %w", j.path, err)
	}
	if err := os.MkdirAll(filepath.Join(filepath.Dir(j.path), "logs"), 0o755); err != nil {
		return false, fmt.Errorf("make the run's folder: %w", err)
	}
	if fi, err := os.Lstat(j.path); err == nil && !fi.Mode().IsRegular() {
		if err := os.RemoveAll(j.path); err != nil {
			return false, fmt.Errorf("put %s back: %w", j.path, err)
		}
	}
	if err := atomicfile.Write(j.fs, j.path, data, 0o600); err != nil {
		return false, err
	}
	f, err := j.fs.OpenFile(j.path, os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return false, fmt.Errorf("open events: %w", err)
	}
	err = j.file.Close()
	j.file = f
	j.written(nil)
	return true, err
}

func (j *Journal) fail(what string, err error) error {
	j.broken = fmt.Errorf("%s %s: %w", what, j.path, err)
	return j.broken
}

// Close syncs and closes the file.
func (j *Journal) Close() error {
	err := j.Sync()
	if j.copy != nil {
		_ = j.copy.Close()
	}
	if cerr := j.file.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close %s: %w", j.path, cerr)
	}
	return err
}
