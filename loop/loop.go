package loop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/redact"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/tasks"
)

// Tools are what a run works with. All of them are needed but Mask, Free, Observe, Accounts, Sleep, Withheld, Code and Ask.
type Tools struct {
	Repo    *gitops.Repo
	Agent   attempt.Agent
	Verify  attempt.Verifier
	FS      atomicfile.FS
	Now     func() time.Time                // gitops.Now: the age of files is compared with it
	Mask    *redact.Redactor                // what is printed, recorded or committed nowhere; nil: nothing
	Free    func(dir string) (int64, error) // bytes that are free on a folder's disk; nil: nobody looks
	Observe func(journal.Event)             // hears of each event once it is written, in order, in the run's own goroutine

	Refused func() []string // hosts that the sandbox refused since it was asked last; nil: nobody knows

	Accounts *Accounts           // whose quota is used up; nil remembers nothing
	Sleep    func(time.Duration) // instead of waiting; for a clock that is not the machine's

	Withheld Withheld          // variables of the caller's that commands do not get
	Code     func(Outcome) int // the exit status that an outcome gets; nil: 0 for all

	Ask func(ctx context.Context, question string) (yes, answered bool) // a person; nil: nobody is there
}

// Scope narrows a run: one wave, or one task.
type Scope struct {
	Step bool
	Task string // implies Step
}

// Loop is one run over a tag. It is not safe for concurrent use.
type Loop struct {
	job      *Job
	tools    Tools
	home     Home
	scope    Scope
	state    State // what does not change while it runs; the rest comes from the journal
	history  *journal.State
	ws       *workspace.Tree
	runner   *attempt.Runner
	taught   int // of the account's work: what the workspace knows is verified
	commits  int // and of its commits
	journal  *journal.Journal
	saver    *saver
	locks    []*lock
	resumed  bool
	pacer    *pacer
	held     []*journal.Event // written with the next event
	spare    *spareLog
	full     bool              // the disk is, and the end could not be recorded
	entered  int               // the wave whose begin was recorded last
	told     map[string]string // held tasks that were told of, and why
	tuned    map[string]bool   // tasks whose next text a person chose, by file name
	branch   string            // made before the first attempt
	lastPass journal.Pass      // of the tag's last loop
	failing  streak
	missing  map[string]bool // withheld variables that were told of
}

// ID names the loop.
func (l *Loop) ID() string { return l.state.ID }

// StatePath is the loop's state file.
func (l *Loop) StatePath() string { return l.saver.own.path }

// State is the loop as its state file would show it now.
func (l *Loop) State() *State {
	l.saver.mu.Lock()
	defer l.saver.mu.Unlock()
	return l.snapshot()
}

// recordWithNext records an event together with the one that follows it: nothing is lost with it
// that is not found out again, and a write fewer is a write fewer.
func (l *Loop) recordWithNext(e *journal.Event) { l.held = append(l.held, e) }

// record writes events to the journal, takes them into account, and lets the observer hear of them.
func (l *Loop) record(events ...*journal.Event) error {
	if len(l.held) > 0 {
		events = slices.Concat(l.held, events)
		l.held = l.held[:0:0]
	}
	if err := l.commitEvents(events); err != nil {
		return err
	}
	if l.tools.Observe != nil {
		for _, e := range events {
			l.tools.Observe(*e)
		}
	}
	return nil
}

func (l *Loop) commitEvents(events []*journal.Event) error {
	for _, e := range events {
		maskEvent(l.tools.Mask, e)
	}
	l.saver.mu.Lock()
	defer l.saver.mu.Unlock()
	if err := l.journal.Append(events...); err != nil {
		return err
	}
	for _, e := range events {
		l.history.Apply(e)
		if e.Type == journal.AttemptFinished {
			l.state.addSummary(l.summary(e))
		}
	}
	changes := l.history.TakeChanges(0)
	for id, status := range changes {
		l.job.Graph.SetStatus(id, tasks.Status(status))
	}
	return l.saver.note(changes)
}

func (l *Loop) flush() error { return l.saver.flush() }

// summary is an attempt as the state file lists it.
func (l *Loop) summary(e *journal.Event) IterationSummary {
	s := IterationSummary{Iteration: max(0, l.history.Iteration-1), Task: e.Task, Attempt: e.Attempt, CompletedAt: e.TS, Verdict: string(e.Verdict)}
	if d := e.Detail; d != nil {
		s.ExitCode, s.PromiseSeen = exitCode(d, e.Verdict == journal.Cancelled), d.Claimed
		s.StartedAt = e.TS.Add(-time.Duration(d.Seconds * float64(time.Second)))
		s.OutputPreview = preview(d.Words)
	}
	return s
}

// exitCode is that of an attempt as state files have it: an interrupted one has none.
func exitCode(d *journal.Detail, cutShort bool) int {
	if cutShort && d.Code == 0 {
		return -1
	}
	return d.Code
}

func preview(s string) string {
	r := []rune(s)
	if len(r) > 200 {
		return string(r[:200]) + "..."
	}
	return s
}

// snapshot builds the state from the journal's account. The caller holds the saver's lock.
func (l *Loop) snapshot() *State {
	s, b, c := l.state, l.history, l.job.Graph.Counts()
	s.TasksCompleted, s.TasksTotal = c.Done, c.Total
	fill(&s, b, l.taskID)
	s.Seq = l.journal.Seq()
	if n := len(s.Summaries); n > 0 {
		s.LastIterationAt = &s.Summaries[n-1].CompletedAt
	}
	return &s
}

func (l *Loop) taskID(id string) TaskID {
	t, ok := l.job.Graph.Task(id)
	return TaskID{ID: id, Numeric: ok && t.Numeric}
}

// finish records the end and saves everything. A cancelled or paused loop is resumed from here.
func (l *Loop) finish(out *Outcome) error {
	e := out.end(string(out.Ending), l.tools.Code)
	if cur := l.history.Current; cur != "" && l.history.Open == nil && l.history.Tree == l.history.Bases[cur] {
		e.Tasks = []string{cur} // nothing of it lies in the tree: it goes back to the list
	}
	if err := l.record(e); err != nil {
		return err
	}
	if err := l.flush(); err != nil {
		return err
	}
	if err := l.ws.Close(l.history.Open != nil); err != nil { // with one open the next run puts the index back
		return err
	}
	if err := l.handOff(out); err != nil { // everything else is saved
		return err
	}
	return l.home.clearRequest(l.state.ID)
}

// Close releases the loop's files and locks. What was recorded is on the disk before it returns.
func (l *Loop) Close() error {
	var errs []error
	if l.saver != nil {
		l.saver.stop()
	}
	if l.spare != nil {
		l.spare.stop()
	}
	if l.journal != nil {
		if err := l.journal.Close(); !l.full || !full(err) {
			errs = append(errs, err)
		}
	}
	for _, k := range l.locks {
		errs = append(errs, k.release())
	}
	return errors.Join(errs...)
}

// relative shows a path the way a person in the project's folder would type it.
func (l *Loop) relative(path string) string {
	if rel, err := filepath.Rel(l.job.Root, path); err == nil {
		return rel
	}
	return path
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return ""
	}
	return h
}
