package tagrun

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"descartes/gitops"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/book"
	"descartes/loop/journal"
	"descartes/loop/lab"
	"descartes/loop/requests"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/scheduler"
)

// Run is a run over the tasks of a tag. It is not safe for concurrent use.
type Run struct {
	ground  ground
	options loop.StartOptions
	locks   *store.Locks
	book    *book.Book
	asks    *requests.Requests

	machine  *scheduler.Run
	job      *source.Job
	list     *listFile
	imported bool // this start made the list from the plan
	now      standing
	lanes    []*lane
	trees    trees
	seats    []*seats         // all that were opened
	bench    *lab.Lab         // for looks that run commands on trees; nil: none does
	made     map[string]*made // by task: the work that its last agent left
	kept     []gitops.Ref     // attempts of this run and of others, as of its start

	told  told
	ends  endings
	first func(context.Context) error
	did   chan func() error // what an action came to
	said  chan report       // what it says meanwhile
	news  chan string       // what people should know of the fleet, from outside
	busy  int               // actions at work
}

// trees are where commits are checked.
type trees struct {
	tips []*tree // of attempts
	wave *tree   // of waves, and of the end
}

// told is what people know already, and need not hear again.
type told struct {
	waits   map[string]time.Time // until when accounts are waited for
	instead map[string]string    // by its first account, why another one took over
	once    map[string]bool      // withheld variables, notes of looks, warnings
	held    map[string]string    // tasks, and what holds them
	asked   []store.Asked        // what the last run of the tag in any clone left blocked
	wave    int                  // the last whose start was said
	others  bool                 // other checks decide than in the run before
	resumes bool                 // the run went on before
	lost    []string             // whose commits were gone when it ended: what the list says of them since is a person's word
	saved   bool                 // the trunk has its ref
	// by task: what its check said on what those before it would make; it is told when that counts
	waiting map[string][]*journal.Event
	said    slot.Look // what people answered
	listed  int64     // up to which event the list is complete
	// where tasks stood before the last event of a killed run: what became of them by it may not be in the journal
	before map[string]scheduler.Stage
}

// report is what an action says while it goes on. It is written before that.
type report struct {
	lines []*journal.Event
	do    func() error // what the deciding goroutine does instead
	done  chan error
}

// First has something slow done when the run begins, before all else: what it says by Warn is heard. Where it fails the
// run never begins, and its error is that of Run.
func (r *Run) First(do func(context.Context) error) { r.first = do }

// Run works until the run ends: closing soft lets what is under way finish, cancelling ctx interrupts it. Either way
// the state is saved. An error is an internal one, or one of the machine.
func (r *Run) Run(ctx context.Context, soft <-chan struct{}) (loop.Outcome, error) {
	r.asks = requests.New(ctx, soft, func() (store.Request, bool) { return r.ground.home.Asked(r.ID()) },
		r.book.Own.Marked)
	defer r.asks.Close()
	if r.first != nil {
		if err := r.await(func(ctx context.Context) func() error {
			err := r.first(ctx)
			return func() error { return err }
		}); err != nil {
			return r.fail(err)
		}
	}
	if err := r.await(r.resume); err != nil {
		return r.refused(err)
	}
	for {
		if err := r.takeNews(); err != nil {
			return r.fail(err)
		}
		todo := r.machine.Next(r.ground.tools.Now())
		if len(todo) == 1 {
			if end, ok := todo[0].(scheduler.End); ok {
				if lost, err := r.watchLast(end); err != nil {
					return r.fail(err)
				} else if lost {
					continue
				}
				return r.end(ctx, end)
			}
		}
		for _, a := range todo {
			if again, err := r.begin(a); err != nil {
				return r.fail(err)
			} else if again {
				break
			}
		}
		if len(todo) > 0 {
			continue // what was begun may let more begin
		}
		if err := r.tellWaits(); err != nil {
			return r.fail(err)
		}
		if err := r.serve(); err != nil {
			return r.fail(err)
		}
	}
}

// takeNews takes in what people, other programs and other runs did meanwhile.
func (r *Run) takeNews() error {
	if err := r.hear(); err != nil {
		return err
	}
	if r.machine.Settings.Step {
		return nil
	}
	if err := r.readList(); err != nil {
		return err
	}
	return r.takeAnswers()
}

func (s *report) take(r *Run) error {
	if s.do != nil {
		return s.do()
	}
	return r.book.Write(s.lines...)
}

// start begins an action beside the deciding goroutine: do is slow; what it returns follows here.
func (r *Run) start(do func() (then func() error)) {
	r.busy++
	go func() { r.did <- do() }()
}

// say has do run by the deciding goroutine, from that of an action, which waits for it.
func (r *Run) say(s report) error {
	s.done = make(chan error, 1)
	r.said <- s
	return <-s.done
}

// voice is how an action about a unit reports.
func (r *Run) voice(unit journal.Unit) voice {
	return voice{
		tell:  func(s *attempt.Step) error { return r.say(report{do: func() error { return r.stepped(unit, s) }}) },
		write: func(lines ...*journal.Event) error { return r.say(report{lines: lines}) },
	}
}

// happened applies an event, writes it with what people want to know beside it, and announces it. The last of the given
// lines carries it, else a line of its own.
func (r *Run) happened(e scheduler.Event, lines ...*journal.Event) error {
	return r.happenedOn(len(lines)-1, e, lines...)
}

// happenedOn is happened where the line at a place carries the event.
func (r *Run) happenedOn(at int, e scheduler.Event, lines ...*journal.Event) error {
	stages := r.stages()
	open := r.machine.Breaker.IsOpen()
	r.machine.Apply(e)
	if len(lines) == 0 {
		at, lines = 0, append(lines, &journal.Event{Type: journal.Step, Unit: r.unitOf(e)})
	}
	if err := book.Carry(lines[at], e, nil); err != nil {
		return err
	}
	if err := r.book.Write(append(lines, r.counted()...)...); err != nil {
		return err
	}
	if !open && r.machine.Breaker.IsOpen() {
		if err := r.tellBreaker(); err != nil {
			return err
		}
	}
	return r.tellMoves(stages)
}

// counted are the lines of checks that waited, and count now. Of one that is repeated nothing is told.
func (r *Run) counted() (lines []*journal.Event) {
	for _, id := range slices.Sorted(maps.Keys(r.told.waiting)) {
		t := r.machine.Task(id)
		switch {
		case r.machine.CountsLater(id):
			continue
		case t.Stage != scheduler.Made && t.Stage != scheduler.Checking:
			lines = append(lines, r.told.waiting[id]...)
		}
		delete(r.told.waiting, id)
	}
	return lines
}

// unitOf is what a line is about that has nothing but an event to carry.
func (r *Run) unitOf(e scheduler.Event) journal.Unit {
	switch e := e.(type) {
	case scheduler.AttemptStarted:
		return r.unit(e.Task)
	case scheduler.AttemptEnded:
		return r.unit(e.Task)
	case scheduler.CheckStarted:
		return r.unit(e.Task)
	case scheduler.CheckEnded:
		return r.unit(e.Task)
	case scheduler.Requested:
		return r.unit(e.Task)
	}
	return journal.Unit{}
}

// unit is a task's, at the attempt that it had last.
func (r *Run) unit(id string) journal.Unit {
	t := r.machine.Task(id)
	if t == nil {
		return journal.Unit{}
	}
	u := journal.Unit{Wave: t.Wave, Task: id, Title: r.title(id), Attempt: t.Number}
	if u.Wave >= scheduler.EndWave {
		u.Wave = len(r.job.Graph.Waves())
	}
	if r.task(id) != nil {
		u.Of = r.ground.config.LastAttempt(max(0, t.Number-1), t.Spent)
	}
	return u
}

// begin begins an action. again says that something came between, and the machine is to be asked once more.
func (r *Run) begin(a scheduler.Action) (again bool, err error) {
	if c, ok := a.(scheduler.Check); !r.told.saved && !(ok && c.Purpose == scheduler.Baseline) {
		if r.told.saved, err = r.saveTrunk(); !r.told.saved || err != nil {
			return true, err
		}
	}
	switch a := a.(type) {
	case scheduler.Attempt:
		if moved, err := r.watch(a); moved || err != nil {
			return true, err
		}
		return r.attempt(a)
	case scheduler.Check:
		return false, r.check(a)
	case scheduler.TakeIn:
		return false, r.takeIn(a)
	case scheduler.WaveCheck:
		return false, r.checkWave(a)
	case scheduler.Commit:
		if moved, err := r.watch(a); moved || err != nil {
			return true, err
		}
		return false, r.commit(a)
	case scheduler.CutTrunk:
		return false, r.cut(a)
	}
	return false, fmt.Errorf("nothing does %T", a)
}

// stages is where each task stands, as far as people know.
func (r *Run) stages() map[string]scheduler.Stage {
	m := make(map[string]scheduler.Stage, len(r.machine.Tasks))
	for _, t := range r.machine.Tasks {
		m[t.ID] = t.Stage
	}
	maps.Copy(m, r.told.before)
	r.told.before = nil
	return m
}

// Warn has people hear something while the run lasts. It is safe for concurrent use, and waits for nobody.
func (r *Run) Warn(text string) {
	select {
	case r.news <- text:
	default: // there is more of it than anybody reads
	}
}

// ID is the loop's id.
func (r *Run) ID() string { return r.book.State.ID }

// StatePath is the loop's state file.
func (r *Run) StatePath() string { return r.book.Own.Path }

// History is what the loop's journal says, once its run is over.
func (r *Run) History() *journal.State { return r.book.History }

// State is the loop as its state file would show it now.
func (r *Run) State() *store.State { return r.snapshot() }

// Uncommitted lists the tasks whose verified work is in the trunk and in no commit of the branch.
func (r *Run) Uncommitted() []string { return slices.Clone(r.now.chain.Units) }
