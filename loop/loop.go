// Package loop owns a run: the order of its steps, its attempts and limits, and its trunk.
package loop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"descartes/agent/quota"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/redact"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/loop/workspace"
	"descartes/tasks"
)

// Tools are what a run works with. Redact, Free, Observe, Accounts, Sleep, Withheld, Code and Ask are optional; Repo
// is nil for a prompt without git.
type Tools struct {
	Repo   *gitops.Repo
	Agent  attempt.Agent
	Verify attempt.Verifier
	FS     atomicfile.FS
	Now    func() time.Time                // gitops.Now: file times are compared with it
	Redact *redact.Redactor                // secrets never to print, record or commit; nil: none
	Free   func(dir string) (int64, error) // free bytes on a folder's disk; nil: not checked
	// called with each event after it is written, in order; the run waits for it
	Observe func(journal.Event)

	Looks   []attempt.Look  // further checks of work that passed the verify command
	Refused func() []string // hosts the sandbox refused since the last call; nil: unknown

	Accounts *quota.Accounts     // which accounts are out of quota; nil remembers nothing
	Sleep    func(time.Duration) // replaces waiting, for clocks other than the machine's

	Program  string            // this program and its version, for receipts
	Withheld attempt.Withheld  // variables of the caller's that commands do not get
	Code     func(Outcome) int // an outcome's exit status; nil: always 0

	Ask func(ctx context.Context, question string) (yes, answered bool) // asks a person; nil: nobody is there

	// Slot makes the agents and the verify command of a slot, and what ends their processes; dir is for their files.
	// Shown says that a sandbox mounts a slot at the project's own path.
	Slot  func(s *workspace.Slot, dir string) (attempt.Agent, attempt.Verifier, func() error, error)
	Shown bool
	// Layers reports whether folders in a folder can be layers of a check slot; nil: they cannot
	Layers func(dir string) bool
	Pool   string // the folder with the project's slots
	// files that specs name, from the repository's top on: attempts have them as they are in the user's tree
	Named []string

	Away Away // runs a tag's attempts on other machines; nil: they run here
}

// Away runs attempts on other machines. It is safe for concurrent use.
type Away interface {
	// Run runs an attempt and reports its steps in order; cancelling ctx interrupts it. For an order that a killed run
	// had given before, it returns the result of that one. An attempt that no machine could finish comes back as
	// cancelled.
	Run(ctx context.Context, o Order, observe func(*attempt.Step) error) (attempt.Result, error)
}

// Order is an attempt for another machine. It survives JSON.
type Order struct {
	Loop  string `json:"loop"`
	Tag   string `json:"tag"`
	Task  string `json:"task"`
	Title string `json:"title,omitempty"`
	Wave  int    `json:"wave"`
	Rank  string `json:"rank,omitempty"` // the task's priority
	Try   int    `json:"try"`            // number of the attempt within the loop
	// it has another attempt only when the journal has the end of this one
	Slot  int             `json:"-"`
	Again bool            `json:"-"` // an earlier run gave the same order
	Ref   string          `json:"-"` // of such an order: of the machine whose steps the journal has
	Steps int             `json:"-"` // and their number
	Told  bool            `json:"-"` // they tell how its agent ended
	At    gitops.Head     `json:"at"`
	Start workspace.Start `json:"start"`
	Input attempt.Input   `json:"input"`
}

// Outcome is how a run ended.
type Outcome struct {
	Ending   journal.Ending
	Message  string    // one line: what stopped it
	Crashed  bool      // every blocked task's agent crashed each time; for a prompt: every iteration crashed
	Blocked  int       // tasks that the loop gave up
	Next     string    // for a step: what the next step would do
	Question string    // what the agent waits to be answered
	Until    time.Time // with QuotaUsedUp: when the quota is back
	Unpushed string    // the command that does what --push could not, or ""
	Branch   string    // that received the commits, if it is not checked out
	Commits  int       // the branch's newest ones that have all of the loop's; 0: unknown
	Merging  string    // what to type to have its commits here, or the work that is in no commit

	Baseline *Baseline    // with BaselineFails
	Checks   *ChecksError // with ChecksFail
	Err      error        // with OwnError, if there is one
}

// OutcomeOf returns the outcome recorded in a loop_finished or loop_paused event.
func OutcomeOf(e *journal.Event) Outcome {
	out := Outcome{Ending: journal.Ending(e.Reason), Message: e.Message}
	if d := e.Detail; d != nil {
		out.Ending = journal.Ending(d.End)
		out.Branch, out.Commits, out.Merging, out.Unpushed = e.Branch, d.Commits, d.Merging, d.Unpushed
		if d.Until != nil {
			out.Until = *d.Until
		}
	}
	return out
}

// end returns the event that ends a run.
func (l *closing) end(out *Outcome, word string, totals journal.Totals) *journal.Event {
	totals.Cost = l.run.history.Cost
	e := &journal.Event{Type: journal.LoopFinished, Reason: word, Message: out.Message,
		Detail: &journal.Detail{Exit: journal.Exit{End: string(out.Ending)},
			Closing: journal.Closing{Totals: &totals, Unpushed: out.Unpushed, Merging: out.Merging,
				Commits: out.Commits}},
		Branch: out.Branch}
	if out.Ending == journal.Paused {
		e.Type = journal.LoopPaused
	}
	if !out.Until.IsZero() {
		e.Detail.Until = &out.Until
	}
	if l.run.tools.Code != nil {
		e.Detail.Code = l.run.tools.Code(*out)
	}
	return e
}

// Loop is one run over a tag. It is not safe for concurrent use.
type Loop struct {
	work    *tagWork
	job     *source.Job
	list    gitops.Named
	root    string   // of the project
	dir     string   // where commands run in it
	fixed   []string // what attempts may not change
	config  *Config
	tools   Tools
	home    store.Home
	who     store.Holder
	state   *store.State // what does not change during the run; the rest comes from the journal
	history *journal.State
	journal *journal.Journal
	saver   *saver
	backoff *backoff
	branch  string           // made before the first attempt, or ""
	held    []*journal.Event // written with the next event
	resumed bool
	unmade  func() // removes what a run made that was rejected; nil for nothing
	full    bool   // the disk is full, and the end could not be recorded

	locks   *locks
	lanes   *lanes
	worker  *worker
	checks  *checks
	closing *closing
	trunk   *mainline // nil without git

	stop    *stopper
	ctx     context.Context // of the run
	soft    <-chan struct{} // nil once it is closed
	tick    *time.Ticker    // for requests of other terminals
	inbox   chan func()     // what other goroutines have to say
	running atomic.Bool     // Run has begun
	over    chan struct{}   // closed when it has ended
	busy    int             // goroutines whose end is awaited
	asleep  int             // units that wait for their providers
	jobs    []job           // what the trunk has to do
	folding bool            // it is at one
	out     *Outcome        // the run ends with it, or with err
	err     error
}

// ID is the loop's id.
func (l *Loop) ID() string { return l.state.ID }

// StatePath is the loop's state file.
func (l *Loop) StatePath() string { return l.saver.own.Path }

// History is what the loop's journal says, once its run is over.
func (l *Loop) History() *journal.State { return l.history }

// Uncommitted lists the tasks whose verified work is in the trunk and in no commit of the branch.
func (l *Loop) Uncommitted() []string {
	if l.trunk == nil {
		return nil
	}
	return slices.Clone(l.trunk.Units)
}

// State is the loop as its state file would show it now.
func (l *Loop) State() *store.State {
	s := *l.state
	fill(&s, l.job)
	store.Fill(&s, l.history, l.job.TaskID)
	s.Seq = l.journal.Seq()
	return &s
}

// bringNamed brings what an attempt changed in the user's files that its spec names into his tree, as uncommitted
// changes. Where they are in the way a ref keeps it.
func (l *worker) bringNamed(ctx context.Context, u *unit) error {
	gctx, done := attempt.Linger(ctx)
	defer done()
	note, err := trunk.BringNamed(ctx, l.run.tools.Repo, l.run.state.ID, &u.res.Work.Named,
		func(_ context.Context, do func() error) error { return l.run.locks.inTree(gctx, do) })
	if err != nil || note == "" {
		return err
	}
	return l.run.tellWarn(u, note)
}

// input is the input of a unit's attempt.
func (l *worker) input(u *unit, prompt string) attempt.Input {
	c := l.run.config
	in := attempt.Input{All: c.AllChecks, Backend: u.with.Backend, Model: u.with.Model, Promise: c.CompletionPromise,
		Prompt: prompt, Log: u.log,
		Agent: attempt.Clocks{Timeout: seconds(c.TimeoutSecs), Idle: seconds(c.IdleTimeoutSecs),
			Start: seconds(c.StartTimeoutSecs), Exit: seconds(c.ExitGraceSecs),
			Spin: c.SpinLimit},
		Clocks: attempt.Clocks{Timeout: seconds(c.VerifyTimeoutSecs), Idle: seconds(c.VerifyIdleSecs)}, Base: u.base}
	in.Env = []string{"DESCARTES_LOOP_ID=" + l.run.state.ID, "DESCARTES_ATTEMPT=" + strconv.Itoa(u.number)}
	in.Guard = &attempt.Guard{Levels: c.Guard, Protect: c.Protect}
	if h := c.Holdout; h.Run != "" {
		in.Holdout = &attempt.Holdout{Run: h.Run, Dir: h.Folder(l.run.root),
			Log:     l.run.home.HeldOutLog(l.run.state.ID, u.log),
			Timeout: seconds(cmp.Or(h.Timeout, c.VerifyTimeoutSecs))}
	}
	in.Prove = c.ProveOf(u.task)
	l.run.work.input(u, &in)
	in.Env = append(in.Env, u.lane.env()...)
	return in
}

// observe records the steps that an attempt reports.
func (l *worker) observe(u *unit) func(*attempt.Step) error {
	return func(s *attempt.Step) (err error) {
		l.run.say(func() { err = l.step(u, s) })
		return err
	}
}

func (l *worker) step(u *unit, s *attempt.Step) error {
	u.step = s.Number
	defer func() { u.step = 0 }()
	switch s.Moment {
	case attempt.Placed:
		e := l.run.event(journal.AttemptPlaced, u)
		e.Host, e.Ref = s.Who, s.Ref
		return l.run.record(e)
	case attempt.Waits:
		e := l.run.event(journal.AttemptWaiting, u)
		e.Reason = s.Who
		if !s.Until.IsZero() {
			e.Detail = &journal.Detail{Exit: journal.Exit{Until: &s.Until}}
		}
		return l.run.record(e)
	case attempt.Ended:
		return l.heal(u, s.Who)
	case attempt.Answered:
		e := AgentEnd(l.run.event(journal.AgentFinished, u), s.Result.Agent, u.with, MaxWords)
		e.Detail.Changed = s.Result.Changed
		return l.run.record(WithNotes(e)...)
	case attempt.Started:
		e := l.run.event(journal.VerifyStarted, u)
		NameCheck(e, s.Command)
		return l.run.record(e)
	case attempt.Checked:
		e := l.run.event(journal.VerifyFinished, u)
		e.Detail = VerifyDetail(s.Verify)
		e.Detail.Check = ""
		if NameCheck(e, s.Command); e.Detail.Check != "" && !s.Verify.Passed {
			e.Detail.Why, e.Detail.Output = s.Verify.Reason(), Tail(s.Verify.Tail, MaxWords)
		}
		e.Detail.Command = s.Command.Run
		l.run.recordWithNext(e)
	case attempt.Looking:
		e := l.run.event(journal.LookStarted, u)
		e.Detail = &journal.Detail{Look: s.Who}
		return l.run.record(e)
	case attempt.Consulted:
		return l.consulted(u, s)
	case attempt.Noted:
		for _, line := range s.Lines {
			if s.Who != "" && l.missing[line] { // what a look says about every attempt is reported once
				continue
			}
			l.missing[line] = s.Who != ""
			if err := l.run.warn(u, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// consulted records the answer of an agent that a look asked. The event has all that a resumed loop needs: the answer
// was paid for.
func (l *worker) consulted(u *unit, s *attempt.Step) error {
	with := Choice(s.With)
	e := AgentEnd(l.run.event(journal.LookAnswered, u), *s.Agent, with, MaxFinal)
	e.Type, e.Detail.Look, e.Detail.Tree, e.Detail.Log = journal.LookAnswered, s.Who, string(s.Tree),
		l.run.relative(s.Log)
	var err error
	if e.Detail.Until, err = l.run.backoff.after(with, *s.Agent, s.Agent.Reason, l.teller(u)); err != nil {
		return err
	}
	return l.run.record(WithNotes(e)...)
}

// NameCheck sets which command an event is about.
func NameCheck(e *journal.Event, c attempt.Command) {
	switch {
	case c.Criterion:
		e.Title = c.Name
	case c.Name != "":
		if e.Detail == nil {
			e.Detail = &journal.Detail{}
		}
		e.Detail.Check = c.Name
	}
}

// event starts an event about a unit.
func (l *Loop) event(t journal.Type, u *unit) *journal.Event {
	e := &journal.Event{Type: t}
	if u.task != nil { // else it is the verification before any task
		e.Unit = journal.Unit{Wave: cmp.Or(u.wave, l.waveOf(u.task.ID)), Task: u.task.ID, Title: u.task.Title,
			Attempt: u.number, Of: u.of, Step: u.step}
		if u.round != nil {
			e.Round = u.round.first
		}
	}
	return e
}

// waveOf is the wave of a task; of one that a changed list puts into none, the one in which it began.
func (l *Loop) waveOf(id string) int {
	last := len(l.job.Graph.Waves())
	return max(1, min(last, cmp.Or(l.job.Graph.Wave(id), l.history.Task(id).Wave, last)))
}

// tellWarn is warn for other goroutines.
func (l *Loop) tellWarn(u *unit, messages ...string) (err error) {
	l.say(func() { err = l.warn(u, messages...) })
	return err
}

func (l *Loop) warn(u *unit, messages ...string) error {
	for _, m := range messages {
		e := l.event(journal.Warning, u)
		e.Message = m
		if err := l.record(e); err != nil {
			return err
		}
	}
	return nil
}

// Warn records what a person should know of the whole run. Before Run its caller calls it, from then on anybody may.
func (l *Loop) Warn(text string) error {
	e := &journal.Event{Type: journal.Warning, Message: text}
	if !l.running.Load() {
		return l.record(e)
	}
	return l.tell(e)
}

// heal restores what is ours and the attempt changed: the journal, the locks. who names the part that
// did it.
func (l *worker) heal(u *unit, who string) error {
	healed, err := l.run.journal.Heal()
	locks, lost := store.Retake(l.run.locks.all)
	l.run.locks.all = locks
	if err = errors.Join(err, lost); err != nil || !healed {
		return err
	}
	if err := l.run.home.Make(l.run.tools.FS); err != nil {
		return err
	}
	return l.run.warn(u, "somebody changed "+l.run.relative(l.run.journal.Path())+" during the "+who+
		", which was put back")
}

// recordWithNext records an event together with the one that follows it. It saves a write, and a crash loses nothing
// that the next run would not find out again.
func (l *Loop) recordWithNext(e *journal.Event) { l.held = append(l.held, e) }

// record writes events to the journal, updates the history, and calls the observer.
func (l *Loop) record(events ...*journal.Event) error {
	if len(l.held) > 0 {
		events = slices.Concat(l.held, events)
		l.held = l.held[:0:0]
	}
	if len(events) == 0 {
		return nil
	}
	for _, e := range events {
		RedactEvent(l.tools.Redact, e)
	}
	if err := l.journal.Append(events...); err != nil {
		return err
	}
	for _, e := range events {
		l.history.Apply(e)
	}
	changes := l.history.TakeChanges(0)
	for id, status := range changes {
		l.job.Graph.SetStatus(id, tasks.Status(status))
	}
	if err := l.saver.note(changes); err != nil || l.tools.Observe == nil {
		return err
	}
	for _, e := range events {
		l.tools.Observe(*e)
	}
	return nil
}

// flush rewrites the task file and the state file now.
func (l *Loop) flush() error { return l.saver.write() }

// saveFiles is flush for other goroutines.
func (l *Loop) saveFiles() (err error) {
	l.say(func() { err = l.flush() })
	return err
}

// finish records the end and saves everything. A cancelled or paused loop can be resumed from here.
func (l *closing) finish(out *Outcome) error {
	e, path, text, err := l.run.work.finished(out)
	if err != nil {
		return err
	}
	if err := l.run.record(e); err != nil {
		return err
	}
	if err := l.run.flush(); err != nil {
		return err
	}
	if path != "" { // everything else is saved
		if err := store.WriteHandoff(l.run.tools.FS, l.run.root, path, l.run.tools.Redact.Text(text)); err != nil {
			return err
		}
	}
	// an agent may have changed it
	return errors.Join(l.run.home.Give(l.run.tools.FS, l.run.state), l.run.home.ClearRequest(l.run.state.ID))
}

// Close releases the loop's files and locks. What was recorded is on disk before it returns.
func (l *Loop) Close() error {
	errs := []error{l.lanes.close()}
	if l.journal != nil {
		if err := l.journal.Close(); !l.full || !DiskFull(err) {
			errs = append(errs, err)
		}
	}
	for _, k := range l.locks.all {
		errs = append(errs, k.Release())
	}
	if l.unmade != nil {
		l.unmade()
	}
	return errors.Join(errs...)
}

// relative shows a path as a person in the project's folder would type it.
func (l *Loop) relative(path string) string {
	if rel, err := filepath.Rel(l.root, path); err == nil {
		return rel
	}
	return path
}

// RedactEvent masks secrets in the words of others within an event.
func RedactEvent(m *redact.Redactor, e *journal.Event) {
	if m == nil {
		return
	}
	if gate := m.Bytes(bytes.Clone(e.Gate)); json.Valid(gate) {
		e.Gate = gate
	}
	for _, t := range e.Texts() {
		*t = m.Text(*t)
	}
}

// Denied lists what the sandbox refused the attempt with that log.
func (t *Tools) Denied(c *Config, root string, list *tasks.File, log string) []string {
	if !c.Confined() {
		return nil
	}
	var hosts []string
	if t.Refused != nil {
		hosts = t.Refused()
	}
	fixed, others := source.Protected(c, root, list)
	return attempt.Denied(root, append(fixed, others...), log, hosts)
}

// Config is what a loop was asked to do; config has each setting with its flag, key and default.
type (
	Config        = config.Config
	RepeatConfig  = config.RepeatConfig
	GateConfig    = config.GateConfig
	SafetyConfig  = config.SafetyConfig
	BackendConfig = config.BackendConfig
	GitConfig     = config.GitConfig
	ScudConfig    = config.ScudConfig
	SpecConfig    = config.SpecConfig
	AgentType     = config.AgentType
	Models        = config.Models
	Choice        = config.Choice
)

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
