package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"descartes/agent"
	"descartes/loop/gate"
	"descartes/loop/journal"
)

// Gate is the rule that ends a prompt loop. It is one of package gate, a pointer: what it knows encodes
// to JSON, is kept in the journal with each iteration, and is given back to it when the loop is resumed.
type Gate interface {
	Judge(gate.Facts) gate.Decision
	Instructions() string
}

// Turn is one iteration as its prompt and its commit message are made for it.
type Turn struct {
	Iteration int // from 1
	Max       int
	Try       int    // from 1; more than 1 where the iteration is repeated
	Next      string // what the iteration before it, or the gate, has to tell the agent
	Failing   bool   // the verify command did not pass when it was run last
}

// Round is one iteration that has ended.
type Round struct {
	Turn
	Result  agent.Result
	Facts   gate.Facts
	Watched bool // Facts.Changed is known
}

// Mode is what makes a loop of one kind differ from another. Each function may be nil.
type Mode struct {
	Before  func(Turn) *Outcome        // looks whether the iteration may begin; an outcome says that the run ends
	About   func() string              // what the iteration is about, in one line; kept with its start
	Adopt   func(Turn, string)         // takes up an iteration that a dead loop had begun about that, instead of Before
	Compose func(Turn) (string, error) // the prompt; nil: the settings' prompt with its iteration context
	Checks  func(Turn) bool            // whether the verify command is run after it; nil: it is
	Facts   func(*Round) error         // completes what the gate is told
	Fails   func(Round) Failure        // whether the iteration is to be repeated; what failed is not committed
	Retries int                        // how often one iteration is repeated because it failed
	Apart   func() bool                // what it changes is committed without the earlier iterations' work that failed
	Subject func(Round) (line string)  // first line of the commit message; nil: the settings' template
}

// Failure is why an iteration is to be repeated, and how the run ends where that was done often enough.
type Failure struct {
	Reason string // "" for none
	Ending journal.Ending
}

// RepeatJob is a prompt made ready to be repeated.
type RepeatJob struct {
	Root   string // the project
	Dir    string // where the agent works
	Kind   string // prompt, plan, build
	Config Config
	Gate   Gate // nil: the first iteration that ends with exit status 0 ends the loop
	Mode   Mode
	Watch  bool // look at what each iteration changes, also where nothing is committed
	Yes    bool // a person's answer to what the gate waits with, or begins with
}

// Repeat is one loop that repeats a prompt. It is not safe for concurrent use.
type Repeat struct {
	job     *RepeatJob
	tools   Tools
	home    Home
	path    string
	own     *ownState // that file
	state   State
	history *journal.State
	guard   *guard
	journal *journal.Journal
	lock    *lock
	who     Holder
	resumed bool
	hand    string // text of the handoff file
	pacer   *pacer
	full    bool // the disk is, and the end could not be recorded
	fixed   fixedFiles

	missing  map[string]bool // withheld variables that were told of
	fileLock *lock           // of .loop/state.json, for a criteria gate
	notes    []string        // what a person should know, once the journal is open
}

// ID names the loop.
func (r *Repeat) ID() string { return r.state.ID }

// StatePath is the loop's state file.
func (r *Repeat) StatePath() string { return r.path }

// State is the loop as its state file has it.
func (r *Repeat) State() *State {
	s := r.state
	fill(&s, r.history, func(id string) TaskID { return TaskID{ID: id} })
	s.Seq = r.journal.Seq()
	if n := len(s.Summaries); n > 0 {
		s.LastIterationAt = &s.Summaries[n-1].CompletedAt
	}
	return &s
}

// Run repeats the prompt until the gate ends it, a limit is reached, or it is told to stop: soft, when
// it closes, lets the running iteration finish; the end of ctx interrupts the agent. The state is saved
// in either case. An error is one of our own or of the machine.
func (r *Repeat) Run(ctx context.Context, soft <-chan struct{}) (Outcome, error) {
	stop := &stopper{soft: soft, ask: func() (Request, bool) { return r.home.Asked(r.state.ID) }, marked: r.own.marked}
	out, err := r.work(ctx, stop)
	if err != nil {
		out, err = stop.failed(ctx, err)
	}
	ferr := r.finish(&out)
	if r.full = out.Ending == journal.DiskFull && full(ferr); err == nil && !r.full { // else resuming finds a killed loop
		err = ferr
	}
	return out, err
}

// work looks at the verify command where that is asked for, and repeats the prompt.
func (r *Repeat) work(ctx context.Context, stop *stopper) (Outcome, error) {
	if out, err := r.baseline(ctx, stop); out != nil || err != nil {
		return deref(out), err
	}
	return r.rounds(ctx, stop)
}

func (r *Repeat) rounds(ctx context.Context, stop *stopper) (Outcome, error) {
	if r.history.Prompt.Open != nil {
		if out, err := r.adopt(ctx, stop); out != nil || err != nil {
			return deref(out), err
		}
	}
	if out, err := r.beginGate(ctx, stop); out != nil || err != nil {
		return deref(out), err
	}
	for {
		if out := r.limits(ctx, stop); out != nil {
			return *out, nil
		}
		if ran, err := r.refine(ctx, stop); err != nil {
			return Outcome{}, err
		} else if ran {
			continue
		}
		if out, err := r.round(ctx, stop); out != nil || err != nil {
			return deref(out), err
		}
	}
}

// limits names the limit or the request that forbids another iteration, or nil.
func (r *Repeat) limits(ctx context.Context, stop *stopper) *Outcome {
	c, b := r.job.Config, r.history
	if out := stop.asked(ctx); out != nil {
		return out
	}
	if why := roomFor(&c, r.tools.Free, r.job.Root); why != "" {
		return &Outcome{Ending: journal.DiskFull, Message: why}
	}
	switch n := c.MaxIterations; {
	case b.Iteration >= n && !b.Prompt.Again:
		out := &Outcome{Ending: journal.LimitReached, Message: "the limit of " + iterations(n) + " is reached"}
		out.Crashed = b.Prompt.Crashes >= n
		return out
	case c.Breaker >= 0 && b.Prompt.Crashes >= cmp.Or(c.Breaker, mostCrashes):
		return &Outcome{Ending: journal.AgentUnusable, Message: fmt.Sprintf("the agent failed %d times in a row: %s", b.Prompt.Crashes, b.Prompt.Last.Reason)}
	}
	return usedUp(&c, r.tools.Now(), b.Cost)
}

// mostCrashes is how many iterations in a row may end by the agent's crash where the breaker's setting says nothing.
const mostCrashes = 5

func iterations(n int) string {
	if n == 1 {
		return "1 iteration"
	}
	return fmt.Sprintf("%d iterations", n)
}

// record writes events to the journal, takes them into account, and lets the observer hear of them.
func (r *Repeat) record(events ...*journal.Event) error {
	for _, e := range events {
		maskEvent(r.tools.Mask, e)
	}
	if err := r.journal.Append(events...); err != nil {
		return err
	}
	for _, e := range events {
		r.history.Apply(e)
		if e.Type == journal.IterationFinished {
			r.state.addSummary(turnSummary(e))
		}
	}
	if r.tools.Observe != nil {
		for _, e := range events {
			r.tools.Observe(*e)
		}
	}
	return nil
}

func (r *Repeat) save() error { return r.own.save(r.State()) }

// finish records the end and saves the state.
func (r *Repeat) finish(out *Outcome) error {
	e := out.end(seedsWord(out.Ending), r.tools.Code)
	e.Iteration = r.history.Iteration
	if err := r.endLoopFile(out); err != nil {
		return err
	}
	if err := r.record(e); err != nil {
		return err
	}
	if err := r.save(); err != nil {
		return err
	}
	if err := r.dropGuard(); err != nil {
		return err
	}
	if err := r.handOff(out); err != nil { // everything else is saved
		return err
	}
	return r.home.clearRequest(r.state.ID)
}

// dropGuard removes what was kept for a run after one that is cut off in an iteration, unless another loop is at work
// in the tree, whose it may be.
func (r *Repeat) dropGuard() error {
	if r.tools.Repo == nil {
		return nil
	}
	if r.history.Prompt.Open != nil {
		return r.guard.leave(r.home, r.state.ID)
	}
	if err := r.guard.forget(r.home, r.state.ID); err != nil {
		return err
	}
	if _, held := live(treeLock(r.tools.Repo.Dir())); held {
		return nil
	}
	if err := r.tools.Repo.DropGuard(); err != nil {
		return gitErr("clean up", err)
	}
	return nil
}

// seedsWord is an ending of a prompt loop in the words of its state file, which knows one for all errors.
func seedsWord(e journal.Ending) string {
	switch e {
	case journal.AgentUnusable, journal.GitRefused:
		return string(journal.OwnError)
	}
	return string(e)
}

// Close releases the loop's files and its lock.
func (r *Repeat) Close() error {
	var errs []error
	if r.journal != nil {
		if err := r.journal.Close(); !r.full || !full(err) {
			errs = append(errs, err)
		}
	}
	for _, l := range []*lock{r.fileLock, r.lock} {
		if l != nil {
			errs = append(errs, l.release())
		}
	}
	return errors.Join(errs...)
}

func (r *Repeat) warn(message string) error {
	return r.record(&journal.Event{Type: journal.Warning, Iteration: r.history.Iteration, Message: message})
}

// warnUndone says what was undone of the iteration.
func (r *Repeat) warnUndone(message string) error {
	e := &journal.Event{Type: journal.Warning, Iteration: r.history.Iteration, Attempt: max(1, r.history.Prompt.Try), Reason: journal.ReasonUndone, Message: message}
	return r.record(e)
}

// relative shows a path the way a person in the project's folder would type it.
func (r *Repeat) relative(path string) string {
	if rel, err := filepath.Rel(r.job.Root, path); err == nil {
		return rel
	}
	return path
}

// gateState is what the gate knows, for the journal.
func (r *Repeat) gateState() (json.RawMessage, error) {
	if r.job.Gate == nil {
		return nil, nil
	}
	b, err := json.Marshal(r.job.Gate)
	if err != nil {
		return nil, fmt.Errorf("save the gate: %w", err)
	}
	return b, nil
}

// turnSummary is an iteration as the state file lists it, from 0.
func turnSummary(e *journal.Event) IterationSummary {
	s := IterationSummary{Iteration: e.Iteration - 1, CompletedAt: e.TS, Verdict: string(e.Decision), PromiseSeen: e.Decision == journal.Continue || e.Decision == journal.Done, Commit: e.Commit}
	if e.Attempt > 1 {
		s.Attempt = e.Attempt
	}
	if d := e.Detail; d != nil {
		s.ExitCode, s.StartedAt = exitCode(d, e.Decision == journal.CutShort), e.TS.Add(-time.Duration(d.Seconds*float64(time.Second)))
		s.OutputPreview = preview(d.Words)
	}
	return s
}
