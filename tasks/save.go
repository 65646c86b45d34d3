package tasks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/crash"
)

// Save writes the given statuses into the file and keeps every other byte. If the file changed on disk since it was
// read, they are written into what is there now: other tasks and fields keep what others wrote, and a task that is
// gone is a finding, not an error. If the file no longer parses, the error is a *FormatError and the file stays as it
// is; if it was deleted, it is made again from the known bytes. Without a change nothing is written. Afterwards f is
// what the file holds. An error leaves f unchanged.
//
// It holds an advisory lock on the file meanwhile, so that nobody who also saves through it is overwritten: one file
// may have several tags.
//
// Two changes follow from others: a container becomes done with the last of the tasks that are written in it, and a
// done container reopens with a task in it. The lock of a tasks.scg is scud's own, and it gets a new "updated" time.
// tasks.json beside it follows if its statuses of the tag matched tasks.scg before; if that file is read-only, nothing
// is written.
//
// A tasks.md and a prd.json only say whether a task is done. A status without a word there is no error: it makes a
// done task undone, and otherwise leaves the bytes alone.
func (f *File) Save(set map[string]Status) error {
	set, err := f.check(set)
	if err != nil || len(set) == 0 {
		return err
	}
	if edits, _ := f.edits(set); len(edits) > 0 {
		if err := f.mirrorWritable(); err != nil {
			return err
		}
	}
	var was map[string]Status
	err = f.change(func(now *File) ([]byte, error) {
		edits, gone := now.edits(set)
		for _, id := range gone {
			now.find("gone", fmt.Sprintf("task %s is no longer in %s: its status %s is not written", id, f.path,
				set[id]))
		}
		if len(edits) == 0 {
			return nil, nil
		}
		was = now.statuses()
		return now.spliced(edits), nil
	})
	if err != nil || was == nil {
		return err
	}
	mirror := f.beside()
	if mirror == nil || !mirror.has(was) {
		return nil
	}
	mirror.replace = f.replace
	if err := mirror.Save(f.statuses()); err != nil { // it is not the truth
		f.find("source", fmt.Sprintf("%s no longer matches %s: %v", manyTags, graphText, err))
	}
	return nil
}

// change replaces the bytes of the file, as it is on disk now, by those of edit; nil changes nothing, but for a file
// that was deleted.
func (f *File) change(edit func(now *File) ([]byte, error)) error {
	release, err := lockList(f.path, f.format == (scg{}) && f.src != "", lockWaits())
	if err != nil {
		return err
	}
	defer release()
	now, deleted, err := f.current()
	if err != nil {
		return err
	}
	out, err := edit(now)
	switch {
	case err != nil:
		return err
	case out == nil && !deleted:
		*f = *now
		return nil
	case out == nil:
		out = []byte(now.src)
	}
	if deleted {
		err = os.MkdirAll(filepath.Dir(f.real), 0o755)
	} else {
		err = writable(f.real)
	}
	if err == nil {
		err = f.inPlace(deleted)
	}
	if err != nil {
		return err
	}
	crash.Point("tasks: save")
	if err := f.replaceFile(f.real, out); err != nil {
		return fmt.Errorf("save %s: %w", f.path, err)
	}
	if now, err = now.reread(out); err == nil {
		*f = *now
	}
	return err
}

// Clean removes the temporary files of a Save that was killed. Another process may save meanwhile.
func (f *File) Clean() error {
	release, err := lockList(f.path, false, lockWaits())
	if err == nil {
		err = atomicfile.Clean(atomicfile.OS(), f.real)
		release()
	}
	return err
}

// Refresh takes in what others wrote into the file since it was read. An error leaves f unchanged.
func (f *File) Refresh() error {
	src, err := readShared(f.path)
	if err != nil || src == f.src {
		return err
	}
	now, err := f.reread([]byte(src))
	if err == nil {
		*f = *now
	}
	return err
}

// With returns the bytes of the file as f knows it, with the given statuses. Nothing is written.
func (f *File) With(set map[string]Status) ([]byte, error) {
	set, err := f.check(set)
	if err != nil {
		return nil, err
	}
	edits, _ := f.edits(set)
	return f.spliced(edits), nil
}

// Holds reports whether the file can express a status. A tasks.md and a prd.json know only done and not done.
func (f *File) Holds(s Status) bool {
	now, _ := f.format.SetStatus(&Task{Status: Done}, s)
	return now == s || s == Failed && now == Blocked
}

// SetReplace gives Save another way to replace a whole file; by default it writes, syncs and renames a temporary file.
func (f *File) SetReplace(replace func(path string, data []byte) error) { f.replace = replace }

// SetClock gives the list another time than now, where it has one of its last change; nil takes that back.
func (f *File) SetClock(clock func() time.Time) { f.clock = clock }

func (f *File) replaceFile(path string, data []byte) error {
	if f.replace == nil {
		return atomicfile.Write(atomicfile.OS(), path, data, 0o644)
	}
	return f.replace(path, data)
}

// check rejects what must not be written; ids lose the tag's prefix.
func (f *File) check(set map[string]Status) (map[string]Status, error) {
	clean := make(map[string]Status, len(set))
	for id, status := range set {
		if _, ok := f.Task(id); !ok {
			return nil, fmt.Errorf("save %s: no task %q", f.path, id)
		}
		if !status.Known() {
			return nil, fmt.Errorf("save %s: task %s: unknown status %q", f.path, id, string(status))
		}
		clean[ownID(f.tag, id)] = status
	}
	return clean, nil
}

// current returns f, or a new File if the one on disk has other bytes by now; gone says that it was deleted.
func (f *File) current() (now *File, gone bool, err error) {
	src, err := read(f.path) // of a graph: under our lock
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, true, nil
	case err != nil:
		return nil, false, err
	case src == f.src:
		return f, false, nil
	}
	now, err = f.reread([]byte(src))
	return now, false, err
}

// reread returns the file with other bytes. What is known about its place stays.
func (f *File) reread(src []byte) (*File, error) {
	t, err := f.again(string(src))
	if err != nil {
		return nil, err
	}
	now, err := t.open(f.tag)
	if err != nil {
		return nil, err
	}
	now.clock, now.replace, now.mirror, now.real = f.clock, f.replace, f.mirror, f.real
	for _, x := range f.findings {
		if x.Kind == "source" || x.Kind == "gone" {
			now.findings = append(now.findings, x)
		}
	}
	return now, nil
}

// inPlace rejects a path that now leads to another file than the one that was read, through a new link.
func (f *File) inPlace(deleted bool) error {
	path, want := f.path, f.real
	if deleted {
		path, want = filepath.Dir(f.real), filepath.Dir(f.real)
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil && real != want {
		err = &FormatError{Path: f.path, Reason: "now leads to " + real +
			" by a link that did not exist when it was read"}
	}
	return err
}

// writable rejects a file that its owner marked as read-only: a rename would replace it anyway.
func writable(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o200 == 0 {
		err = fmt.Errorf("save %s: the file is read-only: %w", path, fs.ErrPermission)
	}
	return err
}

// Writable says why the file could not be saved, as far as that is known in advance: it, or its directory, is
// read-only.
func (f *File) Writable() error {
	if err := f.inPlace(false); err != nil {
		return err
	}
	if err := writable(f.real); err != nil {
		return err
	}
	if err := atomicfile.Probe(atomicfile.OS(), f.real); err != nil {
		return fmt.Errorf("save %s: %w", f.path, err)
	}
	return f.mirrorWritable()
}

// edit is one status to be written.
type edit struct {
	task   int
	status Status
	text   string
}

// edits returns what has to change for the given statuses, in the order of the file, and which tasks are missing.
func (f *File) edits(set map[string]Status) (edits []edit, gone []string) {
	as := map[int]Status{} // by place: what tasks become
	add := func(i int, s Status) {
		t := &f.tasks[i]
		status, text := f.format.SetStatus(t, s)
		if as[i] = status; status != t.Status || f.format == (scg{}) && !Status(t.RawStatus).Known() {
			edits = append(edits, edit{i, status, text})
		}
	}
	for id, status := range set {
		if i, ok := f.index[id]; ok {
			add(i, status)
		} else {
			gone = append(gone, id)
		}
	}
	slices.Sort(gone)
	type question struct {
		up     int
		status Status
	}
	asked := map[question]bool{} // one container may hold all tasks
	for k := 0; k < len(edits); k++ {
		e := edits[k]
		up, ok := f.index[f.tasks[e.task].Parent]
		if _, known := as[up]; !ok || known || asked[question{up, e.status}] {
			continue
		}
		asked[question{up, e.status}] = true
		if became := f.became(up, e, as); became != f.tasks[up].Status {
			add(up, became)
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return f.sites[a.task].start - f.sites[b.task].start })
	return edits, gone
}

// became returns the status of a container after one of its tasks changed, as Task Master does it: a container is done
// when the last of the tasks that are written in it is. In any format a done container reopens when a task in it does.
func (f *File) became(up int, e edit, as map[int]Status) Status {
	status, nested := f.tasks[up].Status, f.sites[e.task].up > 0
	all, none := true, true
	for _, id := range f.tasks[up].Children {
		i := f.index[id]
		child, ok := as[i]
		if !ok {
			child = f.tasks[i].Status
		}
		all, none = all && child == Done, none && child == Pending
	}
	switch {
	case e.status == Done && nested && all:
		return Done
	case status != Done || e.status == Done || e.status == Cancelled || e.status == Deferred:
		return status
	case !nested && f.format != (taskMaster{}):
		return Expanded
	case none:
		return Pending
	}
	return InProgress
}

// spliced returns the bytes with all changes in them, in one pass.
func (f *File) spliced(edits []edit) []byte {
	out := make([]byte, 0, len(f.src)+64*len(edits))
	from := 0
	put := func(at span, text string) {
		out = append(append(out, f.src[from:at.start]...), text...)
		from = at.end
	}
	time, stamped := f.stamp()
	for _, e := range edits {
		s := f.sites[e.task]
		if stamped && f.updated.start < s.start {
			put(f.updated, time)
			stamped = false
		}
		put(s.span, s.before+e.text)
		for _, at := range s.more {
			put(at, e.text)
		}
	}
	if stamped && len(edits) > 0 {
		put(f.updated, time)
	}
	return append(out, f.src[from:]...)
}

// statuses are those of all tasks.
func (f *File) statuses() map[string]Status {
	out := make(map[string]Status, len(f.index))
	for id, i := range f.index {
		out[id] = f.tasks[i].Status
	}
	return out
}
