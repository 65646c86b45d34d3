package tagrun

import (
	"context"
	"errors"
	"os"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/plainfile"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/book"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/scheduler"
	"descartes/tasks"
)

// ground is what every action stands on: values and handles that hold for the whole run.
type ground struct {
	root   string // of the project
	id     string // of the run
	tag    string
	list   gitops.Named   // which names refs of the list
	config *config.Config // nobody changes it while an action is at work
	repo   *gitops.Repo
	home   store.Home
	tools  *loop.Tools
	pool   *slot.Pool
	seat   func(*slot.Slot) (*seats, error)                          // starts what works in a slot
	inTree func(ctx context.Context, v voice, do func() error) error // do, while nobody else writes in the user's tree
}

// standing is the trunk, and the branch that gets its commits, as they are: a value. An action that changes them gets
// one and returns the next; the deciding goroutine puts that in force with the event.
type standing struct {
	chain  trunk.Chain
	branch string // ref that receives the commits
	away   bool   // it was said that the branch is not checked out
	of     string // the branch that the run began at
	aside  string // ref for commits that the run's branch cannot get
	other  string // takes its place where others' commits are there
}

// seats are a slot and what works in it.
type seats struct {
	slot   *slot.Slot
	runner *attempt.Runner
	end    func() error
}

// openSeats starts what works in a slot, or releases that.
func openSeats(g *ground, lab attempt.Lab, below string, slot *slot.Slot) (*seats, error) {
	dir := g.home.SlotFiles(g.tools.Pool, g.id, slot.Number)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, errors.Join(err, slot.Close())
	}
	a, v, end, err := g.tools.Slot(slot, dir)
	if err != nil {
		return nil, errors.Join(err, slot.Close())
	}
	w := &attempt.Runner{Agent: a, Verify: v, Redact: g.tools.Redact, Dir: dir, Looks: g.tools.Looks, Repo: g.repo,
		Lab: lab, Below: below}
	return &seats{slot: slot, runner: w,
		end: func() error { return errors.Join(end(), plainfile.RemoveAll(dir), slot.Close()) }}, nil
}

// tree is where commits are checked, one after the other: a check slot, which is taken when it is first needed. Where
// that would lead back into the user's tree an ordinary slot has to do. One action at a time has it.
type tree struct {
	*seats
	ordinary bool
	busy     bool // set and read by the goroutine that decides
}

// prepare checks a tree out in its slot, which is taken where it has none yet.
func (t *tree) prepare(ctx context.Context, g *ground, v voice, start slot.Start) error {
	if t.seats == nil && !t.ordinary {
		taken, err := g.pool.TakeCheck(ctx)
		if err != nil {
			return err
		}
		s, err := g.seat(taken)
		if err != nil {
			return err
		}
		_, err = s.slot.Prepare(ctx, start)
		why := slot.LeadsBack(err)
		if why == "" {
			t.seats = s
			return errors.Join(err, v.noteRun(g.pool.Notes()...))
		}
		t.ordinary = true
		if err := errors.Join(s.end(), v.note("no check slot, so commits are checked in a slot with your ignored files: "+
			why)); err != nil {
			return err
		}
	}
	if t.seats == nil {
		slot, err := g.pool.Take(ctx, 0)
		if err != nil {
			return err
		}
		if t.seats, err = g.seat(slot); err != nil {
			return err
		}
	}
	_, err := t.slot.Prepare(ctx, start)
	return errors.Join(err, v.noteRun(g.pool.Notes()...))
}

// made is an attempt whose agent has ended: what is checked, merged, reviewed.
type made struct {
	task   *tasks.Task
	unit   journal.Unit
	in     attempt.Input  // with the checks that decide, and their bars
	res    attempt.Result // after attempt.Runner.Make: the agent's words, and Work with the tree it left
	from   string         // commit of the chain that its agent started from
	base   gitops.Tree    // tree that its work is compared with
	ref    string         // refs/descartes/<run>/tasks/<id>/<n>
	commit string         // that it names: its first parent is from, its tree res.Work.After

	began    time.Time     // when its agent started
	hosts    []string      // that the sandbox refused it
	accepts  *store.Accept // a person's decision, which its checks cannot refuse; nil for none
	accepted string        // that in words
	takes    string        // the branch's commit that it takes in, a parent of its own; "" for none
}

// voice is how an action reports while it is at work, from its own goroutine: tell turns a step of an attempt into
// lines about a unit, write writes lines as they are. Each returns once that is on disk.
type voice struct {
	tell  func(*attempt.Step) error
	write func(...*journal.Event) error
}

// note tells people something.
func (v voice) note(lines ...string) error {
	if len(lines) == 0 {
		return nil
	}
	return v.tell(&attempt.Step{Moment: attempt.Noted, Lines: lines})
}

// tellMade is tell for an agent that works: its end is said when what it left is kept.
func (v voice) tellMade(s *attempt.Step) error {
	if s.Moment == attempt.Answered {
		return nil
	}
	return v.tell(s)
}

// noteRun tells people something that is about no task.
func (v voice) noteRun(lines ...string) error {
	for _, line := range lines {
		if err := v.write(book.Warning(journal.Unit{}, line)); err != nil {
			return err
		}
	}
	return nil
}

// result is what came of an action. The lines are written together, the event on the last of them (on a line of its own
// where there is none), then it is applied.
type result struct {
	event scheduler.Event
	lines []*journal.Event
	now   *standing       // the trunk as it is by now; nil: as before
	res   *attempt.Result // of a check of an attempt: with its verdict
	out   *loop.Outcome   // of a baseline: why the run cannot start
	why   string          // for people, where the run may end by it: what git refused, what clashes
}
