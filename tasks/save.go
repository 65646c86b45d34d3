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

// Save writes the given statuses into the file and keeps every other byte. If the file changed on disk since it was read, they are written into what
// is there now: other tasks and fields keep what others wrote, and a task that is gone is a finding, not an error. If the file no longer parses, the
// error is a *FormatError and the file stays as it is; if it was deleted, it is made again from the known bytes. Without a change nothing is written.
// Afterwards f is what the file holds. An error leaves f unchanged.
//
// It holds an advisory lock on the file meanwhile, so that nobody who also saves through it is overwritten: one file may have several tags.
//
// Two changes follow from others: a Task Master container becomes done with the last task nested in it, and a done container reopens with a task in
// it. The lock of a tasks.scg is scud's own, and it gets a new "updated" time. tasks.json beside it follows if its statuses of the tag matched
// tasks.scg before; if that file is read-only, nothing is written.
//
// A tasks.md and a prd.json only say whether a task is done. A status without a word there is no error: it makes a done task undone, and otherwise
// leaves the bytes alone.
func (f *File) Save(set map[string]Status) error {
	set, err := f.check(set)
	if err != nil || len(set) == 0 {
		return err
	}
	if f.letters && f.changes(set) {
		if err := f.mirrorWritable(); err != nil {
			return err
		}
	}
	release, err := lockList(f.path, f.letters && len(f.src) > 0, lockWaits())
	if err != nil {
		return err
	}
	changes, err := f.save(set)
	release()
	if err == nil && f.letters && len(changes) > 0 {
		f.follow(changes)
	}
	return err
}

// Clean removes the temporary files of a Save that was killed. Another process may save meanwhile.
func (f *File) Clean() error {
	release, err := lockList(f.path, false, lockWaits())
	if err == nil {
		_, err = atomicfile.Clean(atomicfile.OS(), f.real)
		release()
	}
	return err
}

// Refresh takes in what others wrote into the file since it was read. An error leaves f unchanged.
func (f *File) Refresh() error {
	reading := read
	if f.letters {
		reading = readGraph
	}
	src, err := reading(f.path)
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
	return f.spliced(f.splices(edits, f.time)), nil
}

// changes reports whether one of the statuses differs from f's.
func (f *File) changes(set map[string]Status) bool {
	for id, status := range set {
		if f.tasks[f.index[id]].Status != status {
			return true
		}
	}
	return false
}

// mirrorWritable rejects a read-only mirror that is in step: it could not follow.
func (f *File) mirrorWritable() error {
	path, ok := f.mirrorPath()
	if !ok {
		return nil
	}
	err := writable(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if m := f.beside(); m == nil || !f.inStep(m, nil) {
		return nil
	}
	return fmt.Errorf("%s would no longer match %s: %w", manyTags, f.path, err)
}

// follow brings the mirror in step again. It is not the truth, so a failure is only a finding.
func (f *File) follow(changes map[string]change) {
	m := f.beside()
	if m == nil || !f.inStep(m, changes) {
		return
	}
	set := make(map[string]Status, len(changes))
	for id, c := range changes {
		set[id] = c.to
	}
	m.replace = f.replace
	if err := m.Save(set); err != nil {
		f.find("source", fmt.Sprintf("%s no longer matches %s: %v", manyTags, graphText, err))
	}
}

// save is Save without locks. It returns the statuses that it changed.
func (f *File) save(set map[string]Status) (map[string]change, error) {
	now, deleted, err := f.current()
	if err != nil {
		return nil, err
	}
	edits, gone := now.edits(set)
	for _, id := range gone {
		now.find("gone", fmt.Sprintf("task %s is no longer in %s: its status %s is not written", id, f.path, set[id]))
	}
	if len(edits) == 0 && !deleted {
		*f = *now
		return nil, nil
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
		return nil, err
	}
	list := now.splices(edits, f.time)
	out := now.spliced(list)
	crash.Point("tasks: save")
	if err := f.replaceFile(f.real, out); err != nil {
		return nil, fmt.Errorf("save %s: %w", f.path, err)
	}
	changes := make(map[string]change, len(edits))
	for _, e := range edits {
		changes[now.tasks[e.task].ID] = change{now.tasks[e.task].Status, e.status}
	}
	if now, err = now.reread(out); err != nil {
		return nil, err
	}
	*f = *now
	return changes, nil
}

// SetReplace gives Save another way to replace a whole file; by default it writes, syncs and renames a temporary file.
func (f *File) SetReplace(replace func(path string, data []byte) error) { f.replace = replace }

func (f *File) replaceFile(path string, data []byte) error {
	if f.replace == nil {
		return atomicfile.Write(atomicfile.OS(), path, data, 0o644)
	}
	return f.replace(path, data)
}

// SetClock gives Save the time for formats that record one; by default it asks the machine. Times are UTC in the file.
func (f *File) SetClock(now func() time.Time) { f.clock = now }

func (f *File) time() time.Time {
	if f.clock == nil {
		return time.Now()
	}
	return f.clock()
}

// check rejects what must not be written; ids lose the tag's prefix.
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
	now, err := Parse(f.path, f.tag, src)
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
		err = &FormatError{Path: f.path, Reason: "now leads to " + real + " by a link that did not exist when it was read"}
	}
	return err
}

// writable rejects a file that its owner marked as read-only: a rename would replace it anyway.
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

// Writable says why the file could not be saved, as far as that is known in advance: it, or its directory, is read-only.
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

// site is the place of a task and its status in the source. If start is end, there is no status yet: File.inserts has what goes before it. A file is
// at most 64 MiB, so 32 bits are enough.
type site struct {
	start, end int32
	at         int32 // where the task begins
	up         int32 // 1 + the place of the task that it is nested in, 0 for none
	depth      uint8 // how many tasks it is nested in
}

// edit is one status to be written.
type edit struct {
	task   int
	status Status
}

// splice replaces a part of the source.
type splice struct {
	start, end int32
	text       string
}

// edits returns what has to change for the given statuses, in file order, and which tasks are missing.
func (f *File) edits(set map[string]Status) (edits []edit, gone []string) {
	for id, status := range set {
		i, ok := f.index[id]
		switch {
		case !ok:
			gone = append(gone, id)
		case (f.letters || f.master) && status == Failed && f.tasks[i].Status != Failed:
			set[id] = Blocked // SCUD reads ! since 1.32 only, and Task Master has no such word
			if f.tasks[i].Status != Blocked {
				edits = append(edits, edit{i, Blocked})
			}
		case f.binary.has(f.tasks[i].Status, status):
		case f.tasks[i].Status != status || f.letters && !Status(f.tasks[i].RawStatus).Known():
			edits = append(edits, edit{i, f.binary.plain(status)})
		}
	}
	slices.SortFunc(gone, CompareIDs)
	edits = f.withContainers(edits, set)
	for k := range edits {
		edits[k].status = f.binary.plain(edits[k].status)
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.task - b.task })
	return edits, gone
}

// splices turns edits into changes of the source, in its order.
func (f *File) splices(edits []edit, now func() time.Time) []splice {
	list := make([]splice, 0, len(edits)+1)
	for _, e := range edits {
		s := f.sites[e.task]
		text := f.inserts[e.task] + `"` + string(e.status) + `"`
		if f.letters {
			text = letterOf(e.status)
		}
		if f.binary != notBinary {
			text = f.inserts[e.task] + f.binary.word(e.status)
		}
		list = append(list, splice{s.start, s.end, text})
	}
	if f.updated.end > f.updated.start && len(edits) > 0 {
		if text, ok := sameStyle(f.src[f.updated.start:f.updated.end], now()); ok {
			list = append(list, splice{f.updated.start, f.updated.end, text})
		}
	}
	slices.SortFunc(list, func(a, b splice) int { return int(a.start - b.start) })
	return list
}

// spliced returns the bytes with all changes in them, in one pass.
func (f *File) spliced(list []splice) []byte {
	out := make([]byte, 0, len(f.src)+64*len(list))
	from := int32(0)
	for _, s := range list {
		out = append(out, f.src[from:s.start]...)
		out = append(out, s.text...)
		from = s.end
	}
	return append(out, f.src[from:]...)
}

// withContainers adds what Task Master does by itself: a container is done when the last of its nested tasks is. In any format a done container
// reopens when a task in it does.
func (f *File) withContainers(edits []edit, set map[string]Status) []edit {
	var new map[int]Status
	type question struct {
		up     int
		status Status
	}
	var asked map[question]bool // one container may hold all tasks
	for k := 0; k < len(edits); k++ {
		e := edits[k]
		parent := f.tasks[e.task].Parent
		if parent == "" {
			continue
		}
		if new == nil {
			new, asked = map[int]Status{}, map[question]bool{}
			for _, x := range edits {
				new[x.task] = x.status
			}
		}
		up := f.index[parent]
		q := question{up, e.status}
		if _, known := new[up]; known || asked[q] {
			continue
		}
		if _, given := set[parent]; given {
			continue
		}
		asked[q] = true
		if became := f.became(up, e, f.sites[e.task].up > 0, new); became != f.tasks[up].Status {
			new[up] = became
			edits = append(edits, edit{up, became})
		}
	}
	return edits
}

// became returns the status of a container after one of its tasks changed.
func (f *File) became(up int, e edit, nested bool, new map[int]Status) Status {
	status := f.tasks[up].Status
	all, none := true, true
	for _, id := range f.tasks[up].Children {
		i := f.index[id]
		child, ok := new[i]
		if !ok {
			child = f.tasks[i].Status
		}
		all, none = all && child == Done, none && child == Pending
	}
	switch e.status {
	case Done:
		if nested && all {
			return Done
		}
	case Pending, InProgress, Review, Blocked, Failed, Expanded:
		switch {
		case status != Done:
		case !nested && !f.master:
			return Expanded
		case none:
			return Pending
		default:
			return InProgress
		}
	}
	return status
}
