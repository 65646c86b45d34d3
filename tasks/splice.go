package tasks

import (
	"slices"
	"sort"
	"strings"
	"time"
	"unsafe"
)

// site is where a task and its status stand in the source. Where start is end, there is no status yet: File.inserts has what goes
// before it. A file is at most 64 MiB, so 32 bits do.
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

// edits returns what has to change for the given statuses, in file order, and which tasks are not there.
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

// drift says how far a place in the source moves, and by how many lines, when the splices before it are made.
type drift struct{ start, bytes, lines int32 }

func drifts(src string, list []splice) []drift {
	sums := make([]drift, 1, len(list)+1)
	sums[0].start = -1
	for _, s := range list {
		last := sums[len(sums)-1]
		sums = append(sums, drift{
			start: s.start,
			bytes: last.bytes + int32(len(s.text)) - (s.end - s.start),
			lines: last.lines + int32(strings.Count(s.text, "\n")-strings.Count(src[s.start:s.end], "\n")),
		})
	}
	return sums
}

// before returns the sum of the splices that begin before pos.
func before(sums []drift, pos int32) drift {
	if len(sums) == 2 { // by far the most frequent
		if sums[1].start < pos {
			return sums[1]
		}
		return sums[0]
	}
	return sums[sort.Search(len(sums), func(k int) bool { return sums[k].start >= pos })-1]
}

// apply makes f the file that holds out, its splices of the edits: statuses change, and what lies behind them moves. f keeps out.
func (f *File) apply(edits []edit, list []splice, out []byte) {
	sums := drifts(f.src, list)
	f.src = unsafe.String(unsafe.SliceData(out), len(out)) // nobody changes it: a copy of 3 MB is a tenth of a save
	if f.shared {
		f.tasks, f.shared = slices.Clone(f.tasks), false
	}
	mended := map[int]bool{} // tasks whose word was unknown
	for i := range f.tasks {
		t, s := &f.tasks[i], &f.sites[i]
		d := before(sums, s.at)
		s.at += d.bytes
		t.Line += int(d.lines)
		moved := before(sums, s.start).bytes
		s.start, s.end = s.start+moved, s.end+moved
		if len(edits) == 0 || edits[0].task != i {
			continue
		}
		mended[i] = true
		t.Status, t.RawStatus = edits[0].status, string(edits[0].status)
		s.start += int32(len(f.inserts[i]))
		s.end = s.start + int32(len(t.RawStatus)+2)
		if f.letters {
			s.end = s.start + 1
		}
		if f.binary != notBinary {
			s.end = s.start + int32(len(f.binary.word(t.Status)))
		}
		delete(f.inserts, i)
		edits = edits[1:]
	}
	if len(f.inserts) == 0 {
		f.inserts = nil
	}
	if u := &f.updated; u.end > u.start {
		moved, size := before(sums, u.start).bytes, before(sums, u.end).bytes
		u.start, u.end = u.start+moved, u.end+size
	}
	f.reviseFindings(mended)
}

// reviseFindings drops complaints about status words that were replaced and moves the others to where their tasks are now.
func (f *File) reviseFindings(mended map[int]bool) {
	var kept []Finding
	for _, x := range f.findings {
		if x.place > 0 {
			if x.Kind == "unknown-status" && mended[x.place-1] {
				continue
			}
			x.Line = f.tasks[x.place-1].Line
		}
		kept = append(kept, x)
	}
	f.findings = kept
}

// withContainers adds what Task Master does by itself: a task is done when the last of the tasks nested in it is. A container that
// is done in any format is so no longer when a task in it is taken up again.
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

// became is the status of a container after one of its tasks was changed.
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
