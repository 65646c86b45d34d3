// Package run executes a prompt loop. What happens next is decided by scheduler/prompt alone; this package does it, and
// writes down what happened:
//
//	run.go       Run: one loop that applies events, asks what is next, starts it, waits
//	start.go     ids, locks, the journal folded; recover.go: what git says of a run that was killed (Resumed)
//	whole.go     the untouched tree, and what is done, are checked
//	iterate.go   an agent works                 check.go     its work is merged onto the tip and checked
//	review.go    another agent judges it        ask.go       a person, a pre-check
//	deliver.go   a commit, or the user's tree   end.go       how the run ends, in words
//	requests.go  what people and signals ask    act.go       which of them does an action
//	lines.go     the machine's events as lines of the journal; say.go: what people want to know beside them
//	try.go       a try and what it left; text.go: what its agent is told
//	place.go     the slot, its refs, the branch; gate.go: the gate
//
// Package book has the journal and the state file, package requests what is asked.
//
// The deciding goroutine, Run.Run, owns the machine, the book and the gate. An action has a goroutine of its own: it gets
// the place, the try at hand and values, and comes back with values; what it reports meanwhile (a check begins) is
// written by the one that decides. So nothing needs a lock, and one action at a time has the place.
//
// Each line of the journal may carry one event of the machine (its "run" member). Apply takes it, the line is on disk,
// then people hear of it, then the next action begins:
//
//	iteration_started  Started      before the agent
//	(a ref)                         the commit of what an agent left, with what it said: before its end is written
//	agent_finished     AgentEnded
//	step               CheckStarted, CheckEnded, DeliverStarted, AskStarted ..., Asked
//	integrated                      the branch has the commit, whose ref was set before the branch moved
//	iteration_finished the event by which the gate heard of the try: AgentEnded, CheckEnded, Delivered
//	loop_finished      Ended
//
// There is no other state: a resume folds the lines, looks at the refs, and goes on.
package run

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"descartes/gitops"
	"descartes/internal/redact"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/book"
	"descartes/loop/journal"
	"descartes/loop/requests"
	"descartes/loop/store"
	"descartes/scheduler/prompt"
)

// Run is a run of a prompt loop. It is not safe for concurrent use.
type Run struct {
	root    string
	job     *loop.PromptJob
	tools   loop.Tools
	home    store.Home
	options loop.StartOptions
	locks   *store.Locks

	machine *prompt.Run
	voice   *voice
	book    *book.Book
	place   *place
	at      *try // the try at hand; nil before the first
	next    *try // for which the place is prepared; nil for none

	ends endings
	told told
	asks *requests.Requests
	busy bool
	did  chan func() error // what an action came to
	said chan report       // what it says meanwhile
}

// told is what people know already, and need not hear again.
type told struct {
	waits   time.Time       // until when the run waits
	instead string          // why another account took over
	missing map[string]bool // withheld variables, notes of looks, warnings
	large   bool            // the prompt is
	gate    json.RawMessage // the gate's state in the journal
}

// report is what an action says while it goes on: a step of an attempt, or lines. It is written before that.
type report struct {
	step  *attempt.Step
	lines []*journal.Event
	done  chan error
}

// aids are what an action has besides the place and the try: values as they are when it begins, and how it reports.
type aids struct {
	job    *loop.PromptJob
	home   store.Home
	redact *redact.Redactor
	usd    *float64 // what the run cost so far; nil: unknown
	tell   func(*attempt.Step) error
	write  func(...*journal.Event) error
}

func (r *Run) aids() *aids {
	return &aids{job: r.job, home: r.home, redact: r.tools.Redact, usd: r.book.History.Cost.USD, tell: r.tell,
		write: func(lines ...*journal.Event) error { return r.reports(report{lines: lines}) }}
}

// note tells people something.
func (a *aids) note(lines ...string) error {
	if len(lines) == 0 {
		return nil
	}
	return a.tell(&attempt.Step{Moment: attempt.Noted, Lines: lines})
}

// Run works until the run ends: closing soft lets what is under way finish, cancelling ctx interrupts it. Either way
// the state is saved. An error is an internal one, or one of the machine.
func (r *Run) Run(ctx context.Context, soft <-chan struct{}) (loop.Outcome, error) {
	r.asks = requests.New(ctx, soft, func() (store.Request, bool) { return r.home.Asked(r.ID()) }, r.book.Own.Marked)
	defer r.asks.Close()
	r.start(func() func() error { return r.resumes(r.asks.Now) })
	for {
		if !r.busy {
			if err := r.hears(); err != nil {
				return r.fails(ctx, err)
			}
			if a, ok := r.machine.Next(r.tools.Now()); ok && a.Do == prompt.End {
				return r.end(ctx, a)
			} else if ok {
				if err := r.begin(a); err != nil {
					return r.fails(ctx, err)
				}
			} else if err := r.waitsFor(r.machine.Wakes(r.tools.Now())); err != nil {
				return r.fails(ctx, err)
			}
		}
		if err := r.serve(); err != nil {
			return r.fails(ctx, err)
		}
	}
}

// serve takes in what happens next.
func (r *Run) serve() error {
	select {
	case then := <-r.did:
		r.busy = false
		return then()
	case s := <-r.said:
		if s.step == nil {
			s.done <- r.book.Write(s.lines...)
		} else {
			s.done <- r.reported(s.step)
		}
		return nil
	case <-r.asks.Wake:
	case <-r.asks.Over:
	case <-r.asks.Tick.C:
	}
	return r.hears()
}

// start begins an action beside the deciding goroutine: do is slow; what it returns follows here.
func (r *Run) start(do func() (then func() error)) {
	r.busy = true
	go func() { r.did <- do() }()
}

// tell reports a step from an action's goroutine.
func (r *Run) tell(s *attempt.Step) error { return r.reports(report{step: s}) }

func (r *Run) reports(s report) error {
	s.done = make(chan error, 1)
	r.said <- s
	return <-s.done
}

// happened applies an event, writes it with what people want to know beside it, and announces it. Where the gate heard
// of the try the event is carried by the line of the try's end, else by the last of the given lines.
func (r *Run) happened(e prompt.Event, lines ...*journal.Event) error {
	return r.happenedOn(len(lines)-1, e, lines...)
}

// happenedOn is happened where the line at a place carries the event.
func (r *Run) happenedOn(at int, e prompt.Event, lines ...*journal.Event) error {
	now := r.tools.Now()
	for _, line := range lines {
		line.TS = now
	}
	was := r.machine.Stage
	r.machine.Apply(prompt.Entry{When: now, Event: e})
	spoke, says := r.voice.take()
	more, err := r.tidings(was, e, spoke)
	if err != nil {
		return err
	}
	for _, line := range more {
		line.TS = now
	}
	for i, line := range more {
		if _, begins := e.(prompt.Resumed); line.Type == journal.IterationFinished && !begins {
			if at >= 0 && lines[at].Type == journal.Step { // which had nothing but the event to carry
				lines = slices.Delete(lines, at, at+1)
			}
			at = len(lines) + i
		}
	}
	if lines = append(lines, more...); at < 0 {
		at, lines = 0, append([]*journal.Event{{Type: journal.Step, Unit: r.unit(), TS: now}}, lines...)
	}
	if err := carry(lines[at], e, says); err != nil {
		return err
	}
	return r.book.Write(lines...)
}

// unit is what lines are about that belong to the try at hand.
func (r *Run) unit() journal.Unit {
	if r.at == nil {
		return journal.Unit{Iteration: r.book.History.Iteration}
	}
	return r.at.unit()
}

// ID is the loop's id.
func (r *Run) ID() string { return r.book.State.ID }

// StatePath is the loop's state file.
func (r *Run) StatePath() string { return r.book.Own.Path }

// History is what the loop's journal says, once its run is over.
func (r *Run) History() *journal.State { return r.book.History }

// State is the loop as its state file would show it now.
func (r *Run) State() *store.State { return r.book.Snapshot() }

// Uncommitted is nil: what a prompt loop has in no commit its end names.
func (r *Run) Uncommitted() []string { return nil }

// first is the tree that the run began with; "" before its first iteration, or without git.
func (r *Run) first() gitops.Tree {
	if list := r.book.History.Attempts; len(list) > 0 {
		return gitops.Tree(list[0].Before)
	}
	return ""
}
