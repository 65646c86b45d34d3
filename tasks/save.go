package tasks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/atomicfile"
	"descartes/internal/crash"
)

// Save writes the given statuses into the file and keeps every other byte. If the file changed on disk since it was read, they are
// written into what is there now: other tasks and other fields keep what others wrote, and a task that is gone is a finding, no
// error. If it cannot be parsed any more, the error is a *FormatError and the file is left alone; if it was deleted, it is made again
// from the bytes known. Where nothing changes, nothing is written. After Save, f is what the file holds. An error leaves f unchanged.
func (f *File) Save(fsys atomicfile.FS, set map[string]Status) error {
	set, err := f.check(set)
	if err != nil || len(set) == 0 {
		return err
	}
	now, deleted, err := f.current()
	if err != nil {
		return err
	}
	edits, gone := now.edits(set)
	for _, id := range gone {
		now.find("gone", fmt.Sprintf("task %s is no longer in %s, its status %s is not written", id, f.path, set[id]))
	}
	if len(edits) == 0 && !deleted {
		*f = *now
		return nil
	}
	if deleted {
		err = os.MkdirAll(filepath.Dir(f.path), 0o755)
	} else {
		err = writable(f.path)
	}
	if err != nil {
		return err
	}
	out := now.splice(edits)
	crash.Point("tasks: save")
	if err := atomicfile.Write(fsys, f.path, out, 0o644); err != nil {
		return fmt.Errorf("save %s: %w", f.path, err)
	}
	now.apply(edits, out)
	*f = *now
	return nil
}

// check refuses what must not be written, and names every task without the prefix of the tag.
func (f *File) check(set map[string]Status) (map[string]Status, error) {
	clean := make(map[string]Status, len(set))
	for id, status := range set {
		if _, ok := f.index[ownID(f.tag, id)]; !ok {
			return nil, fmt.Errorf("save %s: no task %q", f.path, id)
		}
		if !status.Known() {
			return nil, fmt.Errorf("save %s: task %s: unknown status %q", f.path, id, string(status))
		}
		clean[ownID(f.tag, id)] = status
	}
	return clean, nil
}

// current returns f, or a new File if the one on disk has other bytes by now. gone: there is none any more.
func (f *File) current() (now *File, gone bool, err error) {
	same, err := sameBytes(f.path, f.src)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, true, nil
	case err != nil:
		return nil, false, err
	case same:
		return f, false, nil
	}
	src, err := read(f.path)
	if err != nil {
		return nil, false, err
	}
	if now, err = decode(f.path, f.tag, src); err != nil {
		return nil, false, err
	}
	for _, x := range f.findings {
		if x.Kind == "source" {
			now.findings = append(now.findings, x)
		}
	}
	return now, false, nil
}

// sameBytes compares a file with a text, in constant memory.
func sameBytes(path, text string) (bool, error) {
	file, err := openRegular(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() != int64(len(text)) {
		return false, err
	}
	chunk := make([]byte, 64<<10)
	for {
		n, err := file.Read(chunk)
		if n > len(text) || string(chunk[:n]) != text[:n] {
			return false, nil
		}
		text = text[n:]
		if errors.Is(err, io.EOF) {
			return text == "", nil
		}
		if err != nil {
			return false, fmt.Errorf("read %s: %w", path, err)
		}
	}
}

// writable refuses a file that its owner marked as not to be written: a rename would go through all the same.
func writable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o200 == 0 {
		return fmt.Errorf("save %s: the file is read-only: %w", path, fs.ErrPermission)
	}
	return nil
}

// Writable says why the file could not be saved, as far as that can be known before: it is read-only, or its directory is.
func (f *File) Writable() error {
	path, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return err
	}
	if err := writable(path); err != nil {
		return err
	}
	probe, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".probe-")
	if err != nil {
		return fmt.Errorf("save %s: %w", f.path, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// edit is one status to be written.
type edit struct {
	task   int
	status Status
}

// edits returns what has to change for the given statuses, in file order, and which tasks are not there.
func (f *File) edits(set map[string]Status) (edits []edit, gone []string) {
	for id, status := range set {
		i, ok := f.index[id]
		switch {
		case !ok:
			gone = append(gone, id)
		case f.tasks[i].Status != status:
			edits = append(edits, edit{i, status})
		}
	}
	slices.SortFunc(gone, CompareIDs)
	slices.SortFunc(edits, func(a, b edit) int { return a.task - b.task })
	return edits, gone
}

// splice returns the bytes with all edits in them, in one pass.
func (f *File) splice(edits []edit) []byte {
	out := make([]byte, 0, len(f.src)+64*len(edits))
	from := 0
	for _, e := range edits {
		s := f.sites[e.task]
		out = append(out, f.src[from:s.start]...)
		out = append(out, f.inserts[e.task]...)
		out = append(append(append(out, '"'), e.status...), '"')
		from = int(s.end)
	}
	return append(out, f.src[from:]...)
}

// apply makes f the file that holds out, its splice of the edits: statuses change, and what lies behind them moves.
func (f *File) apply(edits []edit, out []byte) {
	f.src = string(out)
	f.tasks = slices.Clone(f.tasks) // others may be reading the list that they were given
	mended := map[string]bool{}     // tasks whose word was unknown
	lines := map[int]int{}          // of findings, where lines were inserted
	shift, moved := int32(0), 0
	for i := range f.tasks {
		t, s := &f.tasks[i], &f.sites[i]
		if moved > 0 {
			lines[t.Line] = t.Line + moved
			t.Line += moved
		}
		s.start += shift
		if len(edits) > 0 && edits[0].task == i {
			s.start += int32(len(f.inserts[i]))
			moved += strings.Count(f.inserts[i], "\n")
			delete(f.inserts, i)
			mended[t.ID] = !t.Status.Known()
			t.Status, t.RawStatus = edits[0].status, string(edits[0].status)
			shift = s.start + int32(len(t.RawStatus)+2) - s.end
			edits = edits[1:]
		}
		s.end += shift
	}
	if len(f.inserts) == 0 {
		f.inserts = nil
	}
	f.reviseFindings(mended, lines)
}

// reviseFindings drops complaints about status words that were replaced and moves the others to where their tasks are now.
func (f *File) reviseFindings(mended map[string]bool, lines map[int]int) {
	var kept []Finding
	for _, x := range f.findings {
		if x.Kind == "unknown-status" && mended[x.ID] {
			mended[x.ID] = false // a later task of the same id keeps its own
			continue
		}
		if line, ok := lines[x.Line]; ok {
			x.Line = line
		}
		kept = append(kept, x)
	}
	f.findings = kept
}
