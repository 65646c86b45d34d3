package tagrun

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/crash"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/scheduler"
	"descartes/tasks"
)

// listFile keeps the task list on disk, a snapshot of the journal as the state file is. Rewriting a large one is slow,
// so that happens at most every second or every twenty times its own duration, whichever is longer. Only the goroutine
// that decides uses it.
type listFile struct {
	fs      atomicfile.FS
	file    *tasks.File
	sync    func() error // makes the journal durable: the list must never be ahead of it
	busy    func() bool  // somebody's rebase or merge is open, which a changed list would stop: it waits
	saved   func(pending bool) error
	pending map[string]tasks.Status
	// the tree has another branch than the one whose list this is: what is in the file is not read
	moved func() bool
	// the branch whose commits alone have the statuses, as the tree has another one: all of them stay pending, and the
	// file is the user's; "" where the file has them
	on      func() string
	unsaved bool // the state file does not know what is pending
	last    time.Time
	stamp   time.Time // of the last commit's list: what is written about that is of the same time; zero: now
	took    time.Duration
	seen    slot.Look
	mirror  slot.Look // of the file that follows it; zero if there is none

	unread  error                   // why it cannot be read now: what was last read of it holds
	theirs  map[string]tasks.Status // statuses that others wrote since the run last took them
	edited  bool                    // others changed the file since then
	refused bool                    // it was said that it cannot be used as it is now
}

// note takes in new statuses and rewrites the file if it is time.
func (l *listFile) note(changes map[string]string) error {
	l.unsaved = l.unsaved || len(changes) > 0
	for id, st := range changes {
		if tasks.Status(st) == tasks.InProgress { // what follows is another matter
			l.stamp = time.Time{}
		}
		if l.isLeaf(id) { // otherwise somebody deleted it, or gave it parts
			l.pending[id] = tasks.Status(st)
		}
	}
	return l.late()
}

// late rewrites the file if a change waits and it is time.
func (l *listFile) late() error {
	if len(l.pending) == 0 || !l.unsaved && l.on() != "" || time.Since(l.last) < max(time.Second, 20*l.took) {
		return nil
	}
	return l.write()
}

// write saves the list, and then the state file. A list that cannot be read waits: a later run writes what it lacks.
func (l *listFile) write() error {
	begin := time.Now()
	if err := l.sync(); err != nil {
		return err
	}
	if l.read(); len(l.pending) > 0 && l.unread == nil && l.on() == "" && !l.moved() && !l.busy() {
		crash.Point("before-task-file")
		l.file.SetReplace(atomicfile.Replacer(l.fs))
		l.file.SetClock(l.now)
		before := l.file.Tasks()
		want, err := l.file.With(l.pending)
		if err == nil {
			err = l.file.Save(l.pending)
		}
		if err != nil {
			return fmt.Errorf("save task file: %w", err)
		}
		if !bytes.Equal(want, l.file.Bytes()) { // it was edited just now
			l.compare(before)
		}
		clear(l.pending)
		l.look()
		crash.Point("task-file-saved")
	}
	if err := l.saved(len(l.pending) > 0); err != nil {
		return err
	}
	crash.Point("state-saved")
	l.unsaved, l.last = false, time.Now()
	l.took = l.last.Sub(begin)
	return nil
}

// now is the time of what is written.
func (l *listFile) now() time.Time {
	if l.stamp.IsZero() {
		return time.Now()
	}
	return l.stamp
}

// read takes in what others wrote into the list.
func (l *listFile) read() {
	if l.unread == nil && l.seen.Same() && (l.mirror.Path == "" || l.mirror.Same()) {
		return
	}
	if l.moved() {
		return
	}
	before, was := l.file.Tasks(), *l.file
	if l.unread = l.file.Refresh(); l.unread != nil {
		return
	}
	if l.moved() { // just now
		*l.file = was
		return
	}
	l.compare(before)
	l.look()
}

// compare notes that others changed the list since it was as given, and the statuses that they changed.
func (l *listFile) compare(before []tasks.Task) {
	l.edited = true
	if l.theirs == nil {
		l.theirs = map[string]tasks.Status{}
	}
	known := make(map[string]tasks.Status, len(before))
	for i := range before {
		known[before[i].ID] = before[i].Status
	}
	for _, t := range l.file.Tasks() {
		ours, mine := l.pending[t.ID]
		// what a person decided goes before that it has begun
		if mine && (ours.Open() && !t.Status.Open() || l.on() != "" && known[t.ID] != t.Status) {
			mine = false
			delete(l.pending, t.ID)
		}
		if !mine && known[t.ID] != t.Status {
			l.theirs[t.ID] = t.Status
		}
	}
	for id := range l.pending {
		if !l.isLeaf(id) {
			delete(l.pending, id)
		}
	}
}

// isLeaf reports whether the list has a task that is done by itself: what has parts by now is done when these are.
func (l *listFile) isLeaf(id string) bool {
	t, ok := l.file.Task(id)
	return ok && !t.Container()
}

// look remembers the file's identity as we left it, and that of the one that follows it.
func (l *listFile) look() {
	l.seen, l.mirror = slot.LookAt(l.file.Path()), slot.Look{}
	if m, ok := l.file.Mirror(); ok {
		l.mirror = slot.LookAt(m.Path())
	}
}

// files are the list, and what follows it, as a commit should have them, by their paths from the repository's top on:
// with what is not written yet, and with these tasks done, or pending. Files outside of the repository are not among
// them.
func (l *listFile) files(repo *gitops.Repo, done, idle []string) map[string][]byte {
	set := maps.Clone(l.pending)
	for _, id := range idle {
		if l.isLeaf(id) {
			set[id] = tasks.Pending
		}
	}
	for _, id := range done {
		if l.isLeaf(id) {
			set[id] = tasks.Done
		}
	}
	files := map[string][]byte{}
	add := func(f *tasks.File, content []byte) {
		path, err := filepath.EvalSymlinks(f.Path()) // a link stays a link; its target was saved
		if err != nil {
			path = f.Path()
		}
		rel, err := filepath.Rel(repo.Root(), path)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			files[filepath.ToSlash(rel)] = content
		}
	}
	l.read() // another run may write about another tag
	l.stamp = time.Now()
	l.file.SetClock(l.now)
	with := func(f *tasks.File) []byte {
		content, err := f.With(set)
		if err != nil {
			content = f.Bytes()
		}
		return content
	}
	add(l.file, with(l.file))
	if mirror, ok := l.file.Mirror(); ok {
		add(mirror, with(mirror))
	}
	return files
}

// idle are the tasks that were begun and that nobody works on now: none of them is in progress in a commit.
func (r *Run) idle() (ids []string) {
	for _, open := range r.book.History.OpenTasks() {
		if t := r.machine.Task(open.ID); t != nil && t.Stage == scheduler.Pending {
			ids = append(ids, open.ID)
		}
	}
	return ids
}

// task is one of the list, nil for what it does not have.
func (r *Run) task(id string) *tasks.Task {
	if t, ok := r.job.Graph.Task(id); ok {
		return t
	}
	return nil
}

// taskOf is a task with what its attempts need of it, also one that the run added.
func (r *Run) taskOf(id string) *tasks.Task {
	if t := r.task(id); t != nil {
		return t
	}
	return &tasks.Task{ID: id, Title: r.oursTitle(id)}
}

func (r *Run) title(id string) string {
	if t := r.task(id); t != nil {
		return t.Title
	}
	return r.oursTitle(id)
}

// elsewhere is a need that no task of the list is: what is held by something that only the graph knows.
const elsewhere = "(elsewhere)"

// listed is the list as the machine has it.
func (r *Run) listed() (list []scheduler.Listed) {
	g, c := r.job.Graph, r.ground.config
	took := r.durations()
	for _, id := range g.Leaves() {
		t, _ := g.Task(id)
		l := scheduler.Listed{ID: id, Needs: g.Deps(id), Rank: scheduler.PriorityOf(t.Priority), Earliest: g.Earliest(id),
			Hours: took[id].Hours(), Word: r.word(id), Asking: r.isAsked(id)} // who has a task's labels is a fleet's server's to know
		if c.RespectScope {
			l.Scope = t.Scope
		}
		for _, one := range c.Choices(t) {
			l.Accounts = append(l.Accounts, one.Backend)
		}
		l.Accounts = slices.Compact(l.Accounts)
		if c.Reviews() {
			for _, one := range c.Reviewers() {
				l.Review = append(l.Review, one.Backend)
			}
		}
		if root, held := g.Held(id); held && slices.ContainsFunc(root, func(by string) bool {
			return by == id || r.task(by) == nil || r.task(by).Container()
		}) {
			l.Needs = append(l.Needs, elsewhere)
		}
		list = append(list, l)
	}
	return list
}

// word is what a person says of a task in the list. What the run wrote there itself is none.
func (r *Run) word(id string) scheduler.Word {
	status := r.job.Graph.Status(id)
	ours := r.book.History.Task(id)
	switch state := r.job.Graph.State(id); {
	case state == scheduler.StateDone && (ours.Stand != journal.StandDone || slices.Contains(r.told.lost, id)):
		return scheduler.ByHand
	case state == scheduler.StateBlocked && ours.Stand != journal.StandBlocked && !ours.Open():
		if r.ground.config.Scud.RetryBlocked {
			return ""
		}
		return scheduler.Stuck
	case state == scheduler.StateOther, status.SetAside():
		return scheduler.PutAside
	}
	return ""
}

// durations are how long tasks took in this run and in the one before it.
func (r *Run) durations() map[string]time.Duration {
	took := map[string]time.Duration{}
	add := func(h *journal.State) {
		sum := map[string]time.Duration{}
		for _, a := range h.Attempts {
			if a.Task != "" && a.Ended.After(a.Started) {
				sum[a.Task] += a.Ended.Sub(a.Started)
			}
		}
		maps.Copy(took, sum)
	}
	last, err := r.ground.home.LastOf(r.book.State.Key())
	if err == nil && last != nil && last.State.ID != r.ID() {
		// the commands that show that loop report what is wrong with it
		if h, err := journal.Load(r.ground.home.Events(last.State.ID)); err == nil {
			add(h)
		}
	}
	add(r.book.History)
	return took
}

// readList takes in what others changed in the list.
func (r *Run) readList() error {
	l := r.list
	if l.read(); l.unread != nil {
		return r.refuseList(l.unread)
	}
	if !l.edited {
		l.refused = false
		return nil
	}
	next := r.machine.Waves.Committed + 1
	c, err := r.job.Reread(source.Run{Stands: r.stands, Wrote: l.theirs, Waves: r.waves(), Next: next,
		Proves: r.ground.config.NeedsLab(), Trusts: r.ground.config.Confined()})
	if err != nil {
		return r.refuseList(err)
	}
	maps.Copy(l.pending, c.Undone)
	for id, status := range c.Wishes { // what a person says of a task at work holds when that is over
		r.job.Graph.SetStatus(id, status)
	}
	l.theirs, l.edited, l.refused = nil, false, false
	r.book.State.TotalWaves = len(r.job.Graph.Waves())
	var lines []*journal.Event
	if c.Words != "" {
		lines = append(lines, &journal.Event{Type: journal.ListChanged,
			Unit: journal.Unit{Wave: next, Of: r.book.State.TotalWaves}, Message: c.Words, Tasks: c.Tasks})
	}
	var again []string
	for _, id := range c.Tasks {
		if t := r.machine.Task(id); t != nil && t.Stage == scheduler.Blocked && r.job.Graph.Status(id).Open() {
			again = append(again, id)
		}
	}
	if err := r.happened(scheduler.ListChanged{List: r.listed()}, lines...); err != nil {
		return err
	}
	for _, id := range again {
		if err := r.happened(scheduler.Requested{Request: scheduler.Retry, Task: id}); err != nil {
			return err
		}
	}
	return nil
}

// writeLast writes the run's statuses once more where another program, which had read the list before, has written older
// ones since the run's end.
func (r *Run) writeLast() error {
	l := r.list
	if l.read(); l.unread != nil || !l.edited || l.on() != "" {
		return nil
	}
	c, err := r.job.Reread(source.Run{Stands: r.stands, Wrote: l.theirs, Waves: r.waves(),
		Next: r.machine.Waves.Committed + 1, Proves: true, Trusts: true})
	if err != nil { // the next run says what is wrong with it
		return nil
	}
	maps.Copy(l.pending, c.Undone)
	return l.write()
}

// stands is where a task stands in this run.
func (r *Run) stands(id string) source.Standing {
	t, h := r.machine.Task(id), r.book.History.Task(id)
	if t == nil {
		return source.Standing{}
	}
	return source.Standing{Begun: h.Attempts > 0, Open: h.Open(), Merged: t.Stage == scheduler.Merged,
		AtWork: slices.Contains([]scheduler.Stage{scheduler.Running, scheduler.Made, scheduler.Checking,
			scheduler.Reviewing}, t.Stage)}
}

// waves are those of the tasks that began.
func (r *Run) waves() map[string]int {
	waves := r.book.History.Waves()
	for _, t := range r.machine.Tasks {
		if waves[t.ID] > 0 && t.Wave < scheduler.EndWave {
			waves[t.ID] = cmp.Or(t.Wave, waves[t.ID])
		}
	}
	return waves
}

// refuseList says once that a list cannot be used as it is now.
func (r *Run) refuseList(why error) error {
	if r.list.refused {
		return nil
	}
	r.list.refused = true
	return r.book.Write(&journal.Event{Type: journal.Warning,
		Message: fmt.Sprintf("the task list stays as last read: %v", why)})
}
