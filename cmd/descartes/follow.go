package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
	"descartes/view/print"
)

// shownAgain is how many lines printed before are shown again.
const shownAgain = 20

// follower follows one loop in lines.
type follower struct {
	root  string
	home  store.Home
	saved *store.Saved
	p     *printer
	ends  bool           // with the loop's exit code
	began time.Time      // this run of it
	end   *journal.Event // of this run
	asked requestTeller
	run   *journal.State // what the journal has said so far
}

// follow prints what happens until the loop ends, or until a signal; the loop keeps running then.
func (a *follower) follow(ctx context.Context) error {
	s, id := a.saved.State, a.saved.State.ID
	a.p.events.Waves, a.p.events.Usual = s.TotalWaves, s.Config.Backend.Type
	a.asked = requestTeller{home: a.home, id: id, kind: s.Kind, say: a.p.say}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	live := a.home.IsLive(*a.saved) // asked first: a loop that ended has written its end
	for events, err := range journal.Watch(ctx, a.home.Events(id)) {
		switch {
		case err != nil:
			return err
		case a.run.Seq == 0:
			a.catchUp(events)
		default:
			for _, e := range events {
				a.see(e)
				a.p.observe(e)
			}
		}
		if !live {
			break
		}
		if ctx.Err() != nil {
			a.p.say("%s", a.leaves())
			return nil
		}
		a.asked.tell(view.Pending{Stopping: !a.run.Stopping.IsZero(), Underway: a.run.Underway()})
		live = a.home.IsLive(*a.saved)
	}
	return a.over(context.WithoutCancel(ctx))
}

// see takes in an event.
func (a *follower) see(e journal.Event) {
	a.run.Apply(&e)
	switch {
	case e.Begins():
		a.began, a.end = e.TS, nil
	case e.Type == journal.LoopFinished || e.Type == journal.LoopPaused:
		a.end = &e
	}
}

// catchUp shows the last lines that this run of the loop printed.
func (a *follower) catchUp(events []journal.Event) {
	var lines []func()
	for _, e := range events {
		if a.see(e); e.Begins() {
			lines = nil
		}
		if line := a.p.events.Line(&e); line != "" {
			lines = append(lines, func() { a.p.happened(&e, line) })
		}
	}
	for _, show := range lines[max(0, len(lines)-shownAgain):] {
		show()
	}
}

// over reports how the loop ended, and ends in the same way.
func (a *follower) over(ctx context.Context) error {
	id := a.saved.State.ID
	s, err := a.home.Find(id)
	if err != nil {
		return err
	}
	if s == nil {
		s = a.saved
	}
	if a.end == nil {
		return &failure{code: exitError, err: fmt.Errorf("run %s was killed", id),
			hint: resumeOf(a.root, id, s.Path) + " resumes it"}
	}
	l, err := accountOf(a.root, *s)
	if err != nil {
		return err
	}
	out := loop.OutcomeOf(a.end)
	code := exitCode(out, out.Blocked)
	if d := a.end.Detail; d != nil {
		code = d.Code
	}
	if l.Board != nil || l.Prompt() {
		l.Run.Outcome, l.Took = out, a.end.TS.Sub(a.began)
		lookAround(ctx, l)
		l.Kept, _ = refsOf(ctx, a.root, l.ID+"/") // without them it says less
		a.p.tell(print.Summary(l, a.p.paint, a.p.box))
	}
	if code != exitDone && a.ends {
		return quiet(code)
	}
	return nil
}

// leaves says that a loop that was watched keeps running.
func (a *follower) leaves() string {
	how := ""
	if l, err := view.Of(a.root, *a.saved); err == nil && l.Board != nil {
		how = fmt.Sprintf(" (%d/%d done)", l.Tasks.Done, l.Tasks.Total)
	}
	id := a.saved.State.ID
	return fmt.Sprintf("run %s keeps running%s: descartes watch %s%s", id, how, id, fromHere(a.root))
}
