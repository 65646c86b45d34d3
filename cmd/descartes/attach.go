package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
	"descartes/view/print"
)

// leaveKey leaves an attached loop running.
const leaveKey = `Ctrl-\`

// attachedLines is how many lines printed before are shown again.
const attachedLines = 20

func newAttachCmd() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "attach [loop]",
		Short: "Follow a loop that runs in another terminal or in the background",
		Long: `Follow a loop that runs in another terminal or in the background, until it ends; the exit code is the loop's.

The first Ctrl-C ends the loop after its running attempt, a second one interrupts the agent, as in the terminal that
started. ` + leaveKey + ` leaves it running, and so does closing this terminal.

` + exitTable,
		Args: takes(0, 1, "at most one loop"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := findRoot(dir)
			if err != nil {
				return err
			}
			s, err := attachable(root, args)
			if err != nil {
				return err
			}
			p := newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), asJSON, false)
			defer p.close()
			a := &attached{root: root, home: store.NewHome(root), saved: s, p: p, run: journal.NewState()}
			return a.follow(cmd.Context())
		},
	}
	registerDir(cmd, &dir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the events as JSON lines on stdout, people's text on stderr")
	return cmd
}

// attachable returns the loop to attach to: the one with that id, the only live one, or else the last.
func attachable(root string, args []string) (*store.Saved, error) {
	home := store.NewHome(root)
	if len(args) == 1 {
		return lookUp(root, ".", args[0], "")
	}
	if _, _, err := liveOne(home, ""); err != nil { // several
		return nil, err
	}
	return lookUp(root, ".", "", "")
}

// attached follows one loop.
type attached struct {
	root  string
	home  store.Home
	saved *store.Saved
	p     *printer
	began time.Time      // this run of it
	end   *journal.Event // of this run
	asked int            // Ctrl-C
	told  string         // the last request that was shown
	looks bool           // Ctrl-C leaves it, as whatever else ends this program
	ends  bool           // with the loop's exit code

	run *journal.State // what the journal has said so far
}

func (a *attached) follow(ctx context.Context) error {
	s, id := a.saved.State, a.saved.State.ID
	a.p.events.Waves, a.p.events.Usual = s.TotalWaves, s.Config.Backend.Type
	ch := make(chan os.Signal, 4)
	live, first := a.home.IsLive(*a.saved), true // asked first: a loop that ended has written its end
	for events, err := range journal.Watch(ctx, a.home.Events(id)) {
		switch {
		case err != nil:
			return err
		case first:
			first = false
			if a.catchUp(events); !live {
				return a.over(ctx)
			}
			signal.Notify(ch, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
			defer signal.Stop(ch)
			if !a.looks {
				a.p.say("attached to loop %s: Ctrl-C ends it after the running %s, a second one at once; %s leaves it running", id, view.Unit(s.Kind), leaveKey)
			}
			events = nil
		}
		for _, e := range events {
			a.see(e)
			a.p.observe(e)
		}
		if !live {
			return a.over(ctx)
		}
		a.tellRequest()
		select {
		case sig := <-ch:
			if left, err := a.heed(sig); left || err != nil {
				return err
			}
		default:
		}
		live = a.home.IsLive(*a.saved)
	}
	return nil
}

// see takes in an event.
func (a *attached) see(e journal.Event) {
	a.run.Apply(&e)
	switch {
	case e.Begins():
		a.began, a.end = e.TS, nil
	case e.Type == journal.LoopFinished || e.Type == journal.LoopPaused:
		a.end = &e
	}
}

// catchUp shows the last lines that this run of the loop printed.
func (a *attached) catchUp(events []journal.Event) {
	var lines []func()
	for _, e := range events {
		if a.see(e); e.Begins() {
			lines = nil
		}
		if line := a.p.events.Line(&e); line != "" {
			lines = append(lines, func() { a.p.happened(&e, line) })
		}
	}
	for _, show := range lines[max(0, len(lines)-attachedLines):] {
		show()
	}
}

// heed does what a signal asks for; left says that it stops following.
func (a *attached) heed(sig os.Signal) (left bool, err error) {
	switch {
	case sig == syscall.SIGPIPE: // a reader that goes away
		return false, nil
	case a.looks:
		a.p.say("%s", a.leaves())
		return true, nil
	case sig == syscall.SIGINT:
		a.asked++
		now := a.asked > 1
		a.told = view.Pending{Asked: store.RequestCancel, Now: now, Kind: a.saved.State.Kind, Underway: a.run.Underway()}.Text()
		a.p.say("%s", a.told)
		return false, a.home.Ask(atomicfile.OS(), a.saved.State.ID, store.RequestCancel, now)
	}
	a.p.say("loop %s keeps running: descartes watch --plain %s%s", a.saved.State.ID, a.saved.State.ID, fromHere(a.root))
	return true, nil
}

// tellRequest shows what another terminal asked for.
func (a *attached) tellRequest() {
	asked := view.Pending{Stopping: !a.run.Stopping.IsZero(), Kind: a.saved.State.Kind, Underway: a.run.Underway()}
	asked.Asked, asked.Now = a.home.Asked(a.saved.State.ID)
	if text := asked.Text(); text != "" && text != a.told {
		a.told = text
		a.p.say("%s", text)
	}
}

// over reports how the loop ended, and ends in the same way.
func (a *attached) over(ctx context.Context) error {
	id := a.saved.State.ID
	s, err := a.home.Find(id)
	if err != nil {
		return err
	}
	if s == nil {
		s = a.saved
	}
	if a.end == nil {
		return &failure{code: exitError, err: fmt.Errorf("loop %s was killed", id), hint: resumeOf(a.root, id, s.Path) + " resumes it"}
	}
	l, err := view.Of(a.root, *s)
	if err != nil {
		return err
	}
	out := loop.OutcomeOf(a.end)
	code := exitCode(out, out.Blocked)
	if d := a.end.Detail; d != nil {
		code = d.Code
	}
	if l.Board != nil || l.Prompt() {
		l.From(fromHere(a.root))
		l.Run.Outcome, l.Took, l.Kept = out, a.end.TS.Sub(a.began), a.kept(ctx, l.ID)
		a.p.tell(print.Summary(l, a.p.paint, a.p.box))
	}
	if code != exitDone && (!a.looks || a.ends) {
		return quiet(code)
	}
	return nil
}

// kept returns the loop's attempts in the repository; none if that cannot be read.
func (a *attached) kept(ctx context.Context, id string) []gitops.Ref {
	repo, err := openRepo(ctx, a.root, nil)
	if err != nil {
		return nil
	}
	defer repo.Close()
	refs, err := repo.Refs(ctx, "refs/descartes/"+id+"/")
	if err != nil {
		return nil
	}
	return slices.Clip(refs)
}
