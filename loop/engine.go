package loop

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/lab"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/specbuild"
	"descartes/tasks"
)

// unit is one attempt at a ready piece of work: what it starts with, and its result.
//
// Where a task stands changes by events of the journal alone:
//
//	from         to           when
//	ready        running      a lane is free, and nothing runs at which its work clashed
//	ready        integrating  its own result merges cleanly by now, or a person accepted one: no agent is needed
//	running      integrating  verified
//	running      ready        failed with attempts left, or cut short (counts for nothing)
//	running      blocked      failed for the last time, or its agent gives up
//	ready        asleep       its account is out of quota
//	asleep       ready        the quota is back
//	integrating  integrated   merged, and the merged state passes
//	integrating  ready        it clashes (counts for nothing), or the merged state fails (an attempt)
//	integrating  blocked      the merged state fails for the last time
//	integrated   committed    its wave's commit is made
//	integrated   ready        a check of the wave fails by it, or somebody's commit conflicts with it
//	blocked      ready        answered, or to be tried again
//	committed    ready        rewound, or taken away from the branch
type unit struct {
	lane    *lane       // where it runs; nil while it waits for a provider
	task    *tasks.Task // nil: it is checks before any
	number  int         // attempt of the task within the loop
	of      int         // number of the task's last attempt, as things stand; 0: unknown
	base    gitops.Tree // before the first attempt at the same work
	before  gitops.Tree // before this attempt
	whole   bool        // see workspace.Start
	stand   workspace.Stand
	log     string
	with    Choice
	started time.Time
	since   time.Time             // start of the first attempt at the same work; zero: now
	begun   bool                  // its start is recorded
	again   bool                  // a killed run ordered it from a fleet
	moved   bool                  // its base is another one now: its slot is to be prepared again
	from    func(*unit) error     // slow steps before its slot is prepared; nil for none
	after   func(*unit) error     // slow steps after its attempt; nil for none
	round   *round                // the round it is a candidate of; nil: none
	ended   bool                  // of a candidate: its round has counted its end
	marked  []string              // files at which its task's work ever conflicted: no markers may be left in them
	merges  bool                  // its task's own work, which conflicted, merges by now
	made    func() attempt.Result // makes its result where no agent runs; nil: one does
	accepts bool                  // it is what a person accepted
	wave    int                   // the wave it reviews; 0: it is an attempt
	step    int                   // number of the step that is being recorded, of an attempt on another machine
	ctx     context.Context       // of its processes
	cancel  context.CancelFunc

	res    attempt.Result
	ref    string   // keeps its work
	stat   string   // of its changes, if it was not verified
	size   int      // of a verified candidate: changed lines
	denied []string // what the sandbox refused
	over   *Outcome // the run ends with it
	err    error
}

// job is something slow that the trunk does, beside the attempts and one after the other.
type job struct {
	begin func() (do func() error)                // do is nil if there is nothing left to do
	then  func(err error) (out *Outcome, _ error) // what follows; an outcome ends the run
}

// Run works until nothing is left to do, a limit is reached, or it is stopped: closing soft lets the running attempts
// finish, cancelling ctx interrupts the agents. Either way the state is saved. An error is an internal one, or one of
// the machine.
//
// Run's goroutine decides everything: it has the journal and what is folded from it, the units, the lanes, the limits.
// Workers, one for each attempt, and the trunk's slow steps have goroutines of their own; they hand over values, and
// what they mean is decided here.
func (l *Loop) Run(ctx context.Context, soft <-chan struct{}) (Outcome, error) {
	l.ctx = ctx
	l.running.Store(true)
	l.stop = &stopper{ctx: ctx, soft: soft, ask: func() (store.Request, bool) { return l.home.Asked(l.state.ID) },
		marked: l.saver.own.Marked}
	l.stop.now, l.stop.atOnce = context.WithCancel(ctx)
	l.stop.renew()
	l.soft, l.tick = soft, time.NewTicker(pollEvery)
	defer func() { l.tick.Stop(); l.stop.atOnce(); close(l.over) }()

	out, err := l.run()
	err = ends(&out, l.await(func() error { return l.work.endRun(&out, ends(&out, err)) }))
	if err != nil {
		out, err = l.stop.failed(err)
	}
	err = errors.Join(err, l.await(func() error { return l.closing.leave(context.WithoutCancel(ctx), &out) }))
	ferr := errors.Join(l.await(func() error { return l.closing.push(&out) }), l.closing.finish(&out))
	// otherwise a resume finds a killed loop
	if l.full = out.Ending == journal.DiskFull && DiskFull(ferr); err == nil && !l.full {
		err = ferr
	}
	return out, err
}

// ends takes the outcome of an error that is one.
func ends(out *Outcome, err error) error {
	if e, ok := errors.AsType[*endError](err); ok {
		*out = e.out
		return nil
	}
	return err
}

// run drives the lanes until the run ends.
func (l *Loop) run() (Outcome, error) {
	var out *Outcome
	err := l.await(func() (err error) {
		out, err = l.lanes.open(l.ctx)
		return err
	})
	if out != nil || err != nil {
		return *cmp.Or(out, &Outcome{}), err
	}
	for {
		if l.out == nil && l.err == nil {
			l.fill()
		} else if l.err == nil {
			l.work.windUp()
		}
		if l.feed(); l.busy == 0 {
			break
		}
		l.serve()
	}
	return *cmp.Or(l.out, &Outcome{}), l.err
}

// fill has every free lane do what is to be done next.
func (l *Loop) fill() {
	for _, ln := range l.lanes.all {
		if ln.busy {
			continue
		}
		if l.out != nil || l.err != nil {
			return
		}
		if l.endWith(l.work.next(ln)); !ln.busy { // there is nothing for the others either
			return
		}
	}
}

// feed gives the trunk what it does next.
func (l *Loop) feed() {
	for !l.folding && len(l.jobs) > 0 {
		j := l.jobs[0]
		l.jobs = l.jobs[1:]
		do := j.begin()
		if do == nil {
			continue
		}
		var err error
		l.folding = true
		l.aside(func() {
			l.tools.Repo.AwaitGC(l.ctx)
			err = do()
		}, func() { l.folding = false; l.endWith(j.then(err)) })
	}
}

// serve takes in what happens next.
func (l *Loop) serve() {
	select {
	case did := <-l.inbox:
		did()
	case <-l.tick.C:
		switch r, now := l.stop.ask(); {
		case now: // which nobody takes back
			l.stop.atOnce()
			l.endWith(l.stop.asked(), nil)
		case r != "":
			l.stop.atLast()
		default:
			l.takenBack()
		}
		l.endWith(nil, l.saver.late())
	case <-l.soft:
		l.soft = nil
		if l.stop.atLast(); l.history.Underway() { // else it ends now; other terminals show it
			l.endWith(nil, l.record(&journal.Event{Type: journal.LoopStopping}))
		}
	}
}

// ending is over when the run is to end.
type ending struct {
	ctx   context.Context
	begin context.CancelFunc
}

// soon is over when the run is to end at all, by a request that may be taken back: then what was cut short begins
// again.
func (s *stopper) soon() context.Context { return s.ending.Load().ctx }

func (s *stopper) atLast() { s.ending.Load().begin() }

// takenBack lets the run go on if a request that it should end was taken back.
func (l *Loop) takenBack() {
	if l.stop.soon().Err() != nil && l.out == nil && l.err == nil && l.stop.asked() == nil {
		l.stop.renew()
	}
}

func (s *stopper) renew() {
	var e ending
	e.ctx, e.begin = context.WithCancel(s.now)
	s.ending.Store(&e)
}

// say has do run by the goroutine that decides, and waits for it. Workers and the trunk call it, to record and to
// read; it is quick. Once the run is over nobody listens any more.
func (l *Loop) say(do func()) {
	done := make(chan struct{})
	select {
	case l.inbox <- func() { defer close(done); do() }:
		<-done
	case <-l.over:
	}
}

// tell records events from another goroutine.
func (l *Loop) tell(events ...*journal.Event) (err error) {
	l.say(func() { err = l.record(events...) })
	return err
}

// aside has do, which is slow, run in a goroutine of its own; then follows in the one that decides.
func (l *Loop) aside(do, then func()) {
	l.busy++
	go func() {
		do()
		l.inbox <- func() { l.busy--; then() }
	}()
}

// await is for what is slow before the first unit and after the last one: nothing else goes on but what do says.
func (l *Loop) await(do func() error) (err error) {
	over := false
	l.aside(func() { err = do() }, func() { over = true })
	for !over {
		l.serve()
	}
	return err
}

// endWith lets the run end with the first outcome or error: what is under way is finished, and nothing else begins.
func (l *Loop) endWith(out *Outcome, err error) {
	switch {
	case out == nil && err == nil || l.err != nil:
		return
	case l.out != nil && errors.Is(err, context.Canceled): // what ended the run cut that short
		if why, err := l.stop.failed(err); err == nil && why.Ending == l.out.Ending {
			l.out = &why
		}
		return
	case l.out != nil && (err == nil || errors.Is(err, lab.ErrSetupStopped)):
		return
	}
	if asked := l.stop.asked(); asked != nil && errors.Is(err, lab.ErrSetupStopped) {
		out, err = asked, nil
	}
	if e, ok := errors.AsType[*endError](err); ok {
		out, err = &e.out, nil
	}
	l.out, l.err = out, err
	l.stop.atLast()
}

// lone reports whether nothing else is under way.
func (l *queue) lone() bool { return l.run.busy == 0 && len(l.run.jobs) == 0 }

// start has a worker make a unit's attempt in a lane, once its provider allows that.
func (l *Loop) start(ln *lane, u *unit) (*Outcome, error) {
	u.lane, ln.busy = ln, true
	if u.made != nil || u.again {
		l.worker.putToWork(u)
		return nil, nil
	}
	m, err := l.backoff.pick(l.config.ChoicesOf(u.task, u.candidate()), l.worker.teller(u))
	if u.with = m.choice; err == nil && m.end == nil && m.until.IsZero() {
		if err = l.backoff.tellSwitch(m, l.worker.teller(u)); err == nil {
			l.worker.putToWork(u)
		}
		return nil, err
	}
	if err == nil && m.end == nil {
		m.end, err = l.backoff.wait(m, l.worker.teller(u))
	}
	if u.over, u.err = m.end, err; err != nil || m.end != nil {
		return l.work.conclude(u)
	}
	l.takenBack()
	stays := u.round != nil // nobody else wants its lane meanwhile
	if !stays {
		u.leave()
	}
	l.asleep++
	over := false
	l.aside(func() { over = l.sleepUntil(m) }, func() {
		l.asleep--
		if over {
			l.backoff.woke(m)
		}
		if stays {
			if u.over = l.limits(); u.over == nil && l.out == nil && l.err == nil {
				l.endWith(l.start(ln, u))
				return
			}
		}
		l.endWith(l.work.conclude(u))
	})
	return nil, nil
}

// worker makes the attempts of units, each in a goroutine of its own.
type worker struct {
	run     *Loop
	missing map[string]bool // withheld variables, and notes of looks, already reported
}

// putToWork has a worker make a unit's attempt.
func (l *worker) putToWork(u *unit) {
	u.ctx, u.cancel = context.WithCancel(l.run.stop.now)
	l.run.aside(func() { u.err = l.attempt(u) }, func() {
		u.cancel()
		l.run.endWith(l.run.work.conclude(u))
	})
}

// leave frees the unit's lane. A unit that waits for a provider, or to be merged beside others, has none: others work
// there by now.
func (u *unit) leave() {
	if u.lane != nil {
		u.lane.busy, u.lane = false, nil
	}
}

// idle reports whether a unit did not begin, or has no result.
func (u *unit) idle() bool { return u.err != nil || !u.begun }

// attempt prepares a lane and makes a unit's attempt. It runs in a worker.
func (l *worker) attempt(u *unit) error {
	u.started = l.run.tools.Now()
	if u.from != nil {
		if err := u.from(u); err != nil || u.merges {
			u.begun = u.merges
			return err
		}
	}
	var in attempt.Input
	var start workspace.Start
	var err error
	for tries := 0; ; tries++ {
		start, u.moved = l.startOf(u), false
		if l.run.tools.Away != nil {
			u.stand, err = u.lane.slot.Aim(l.run.ctx, start)
		} else {
			u.lane.begins = true
			u.stand, err = l.run.lanes.prepare(l.run.ctx, u.lane, start)
			u.lane.begins = false
		}
		if err != nil || u.begun {
			break
		}
		l.run.say(func() { in, err = l.announce(u, tries < mostMoves) })
		if err != nil || !u.moved {
			break
		}
	}
	if err != nil || !u.begun {
		return err
	}
	if err = l.execute(u, start, in); err != nil {
		return err
	}
	if u.after == nil {
		return nil
	}
	return u.after(u)
}

// mostMoves is how often an attempt's slot is prepared anew because something was integrated meanwhile.
const mostMoves = 3

// announce records that a unit begins, and returns the input of its attempt. It has not begun if the run ends instead,
// or if it is to start from a newer state.
func (l *worker) announce(u *unit, moves bool) (in attempt.Input, err error) {
	if u.again {
		u.begun = true
		return l.input(u, ""), nil
	}
	if l.run.out != nil || l.run.err != nil {
		return in, nil
	}
	if u.over = cmp.Or(l.run.stop.asked(), UsedUp(l.run.config, l.run.tools.Now(),
		l.run.history.Cost)); u.over != nil {
		return in, nil
	}
	spec, events, out, err := l.run.work.begin(u, moves)
	if u.over = out; err != nil || len(events) == 0 {
		return in, err
	}
	if err := l.run.record(events...); err != nil {
		return in, err
	}
	u.begun = true
	return l.input(u, spec.Text), nil
}

// starts is the event of the start of a unit with that text.
func (l *worker) starts(what journal.Type, u *unit, spec *specbuild.Spec) *journal.Event {
	e := l.run.event(what, u)
	e.Detail = &journal.Detail{SpecTokens: spec.Tokens, Client: journal.Client{Log: l.run.relative(u.log),
		Backend: u.with.Backend, Model: u.with.Model}}
	e.Slot, e.Branch, e.Commit = u.lane.number(), u.stand.Head.Branch, u.stand.Head.Hash
	return e
}

// ends is the event of the end of a unit's attempt. What was taken back is not what the next one builds on.
func (l *worker) ends(u *unit) *journal.Event {
	res := &u.res
	e := l.run.event(journal.AttemptFinished, u)
	if e.Tree, e.Ref = string(res.Work.After), u.ref; res.Work.TookBack != "" {
		e.Tree = string(u.before)
	}
	e.Detail = &journal.Detail{Client: journal.Client{Backend: u.with.Backend, Model: u.with.Model,
		Log: l.run.relative(u.log)}, Files: journal.Files{Changed: len(res.Work.Changed), Left: res.Work.Left},
		Looks: Looked(res),
		Exit: journal.Exit{End: string(res.Agent.End), Cause: string(res.Agent.Cause), Code: res.Agent.Code,
			Signal: res.Agent.Signal, Seconds: max(0, l.run.tools.Now().Sub(u.started).Seconds())}}
	return e
}

// execute runs a unit's attempt, here or on another machine.
func (l *worker) execute(u *unit, start workspace.Start, in attempt.Input) (err error) {
	if u.made != nil {
		u.res = u.made()
		return nil
	}
	if away := l.run.tools.Away; away != nil {
		o := Order{Loop: l.run.state.ID, Tag: l.run.state.Tag, Task: u.task.ID, Title: u.task.Title,
			Rank: u.task.Priority, Try: u.number, Slot: u.lane.number(), Again: u.again, At: u.stand.Head,
			Start: start, Input: in}
		l.run.say(func() {
			if o.Wave = l.run.waveOf(u.task.ID); o.Start.Before == "" {
				o.Start.Before = u.stand.Tree
			}
			if a := l.run.history.RunningOf(journal.Key{Task: u.task.ID, Number: u.number}); a != nil {
				o.Ref, o.Steps, o.Told = a.Reports, a.Steps, a.Agent != nil
			}
		})
		u.res, err = away.Run(u.ctx, o, l.observe(u))
		return err
	}
	u.lane.runner.Choose = l.chooser(u)
	u.res, err = u.lane.runner.Run(u.ctx, u.lane.ws, in, l.observe(u))
	return err
}

// startOf is what the workspace needs to know about a unit.
func (l *worker) startOf(u *unit) workspace.Start {
	s := workspace.Start{Before: u.before, Base: u.base, Whole: u.whole, Since: u.since,
		Aside: strings.TrimSuffix(u.log, ".log")}
	if l.run.trunk != nil {
		l.run.say(func() {
			if l.run.trunk.Tip != "" {
				s.At = l.run.trunk.At(u.base).Head
			}
		})
	}
	if l.run.tools.Away == nil && (u.lane == nil || u.lane != l.run.lanes.checker) {
		s.Named = l.run.tools.Named
	}
	return s
}

// teller records what the backoff says about a unit.
func (l *worker) teller(u *unit) teller {
	return func(e *journal.Event) error {
		if e.Type == journal.LimitWaiting {
			e.Wave, e.Task, e.Title, e.Attempt = l.run.waveOf(u.task.ID), u.task.ID, u.task.Title,
				l.run.history.Task(u.task.ID).Attempts
		}
		return l.run.record(e)
	}
}

// chooser decides which backend an agent of a look may run with. If that ends the run, the attempt ends with it.
func (l *worker) chooser(u *unit) func(context.Context, []attempt.With) (attempt.With, error) {
	return func(actx context.Context, among []attempt.With) (with attempt.With, err error) {
		var choices []Choice
		for _, w := range among {
			choices = append(choices, Choice(w))
		}
		for {
			var m move
			l.run.say(func() {
				if m, err = l.run.backoff.pick(choices, l.teller(u)); err == nil && m.end == nil && !m.until.IsZero() {
					m.end, err = l.run.backoff.wait(m, l.teller(u))
					l.run.takenBack()
				} else if err == nil && m.end == nil {
					err = l.run.backoff.tellSwitch(m, l.teller(u))
					m.end = UsedUp(l.run.config, l.run.tools.Now(), l.run.history.Cost)
				}
			})
			switch {
			case err != nil:
				return with, err
			case m.end != nil:
				u.over = m.end
				return with, attempt.ErrRunEnds
			case m.until.IsZero():
				return attempt.With(m.choice), actx.Err()
			}
			over := l.run.sleepUntil(m)
			l.run.say(func() {
				if over {
					l.run.backoff.woke(m)
				} else {
					u.over = cmp.Or(l.run.stop.asked(), l.run.out)
				}
			})
			if u.over != nil {
				return with, attempt.ErrRunEnds
			}
		}
	}
}

// limits returns the limit or the request that forbids another attempt, or nil.
func (l *Loop) limits() *Outcome {
	if out := l.stop.asked(); out != nil {
		return out
	}
	if why := l.lanes.noRoom(); why != "" {
		return &Outcome{Ending: journal.DiskFull, Message: why}
	}
	if out := l.work.limit(); out != nil {
		return out
	}
	return UsedUp(l.config, l.tools.Now(), l.history.Cost)
}

// of is the lane with a slot.
func (l *lanes) of(slot *workspace.Slot) *lane {
	if l.checker != nil && l.checker.slot == slot {
		return l.checker
	}
	if i := slices.IndexFunc(l.all, func(ln *lane) bool { return ln.slot == slot }); i >= 0 {
		return l.all[i]
	}
	return nil
}
