package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/atomicfile"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
)

func newCancelCmd() *cobra.Command {
	cmd := newRequestCmd(store.RequestCancel, "cancelled", "Stop after the running attempt")
	cmd.Aliases = []string{"stop"}
	return cmd
}

// newRequestCmd is a command that sends a request to a live loop.
func newRequestCmd(r store.Request, done, short string) *cobra.Command {
	var a app
	var name string
	var now, undo bool
	cmd := &cobra.Command{
		Use:   string(r) + " [run]",
		Short: short,
		Args:  takes(0, 1, "at most one run"),
		RunE: a.does(func(args []string) error {
			name := oneArg(args, name)
			id, kind, err := liveOne(a.home, name)
			switch {
			case err != nil:
				return err
			case kind == "":
				return a.cancelDead(name, undo || r != store.RequestCancel)
			case undo:
				return a.takeBack(id, r)
			}
			if err := a.home.Ask(atomicfile.OS(), id, r, now); err != nil {
				return err
			}
			when := "once its running " + view.Unit(kind) + " is finished"
			switch underway, err := a.underway(id); {
			case err != nil:
				return err
			case !underway:
				when = "now: no " + view.Unit(kind) + " of it is running"
			case now:
				when = "now: its agent is interrupted"
			}
			return a.print(fmt.Sprintf("run %s will be %s %s\n", id, done, when))
		}),
	}
	a.flags(cmd, "")
	cmd.Flags().StringVar(&name, "name", "", "`id` of the run")
	cmd.Flags().BoolVar(&now, "now", false, "interrupt the running agent")
	cmd.Flags().BoolVar(&undo, "undo", false, "take the request back, as long as the run has not stopped")
	oneOf(cmd, "now", "undo")
	return cmd
}

// underway reports whether an attempt of a live loop runs. A loop without a state file is only starting.
func (a *app) underway(id string) (bool, error) {
	s, err := a.home.Find(id)
	if err != nil || s == nil {
		return false, err
	}
	v, err := a.home.View(*s, nil)
	return err == nil && v.History.Underway(), err
}

// takeBack withdraws a request to a live loop.
func (a *app) takeBack(id string, r store.Request) error {
	asked, now := a.home.Asked(id)
	switch {
	case now:
		return badInput(fmt.Sprintf("descartes resume --name %s resumes it when it has ended", id),
			"run %s is ending: what was asked with --now cannot be taken back", id)
	case asked == "":
		return badInput("", "run %s was not asked to %s", id, r)
	case asked != r:
		return badInput(fmt.Sprintf("descartes %s %s --undo", asked, id), "run %s was not asked to %s, but to %s", id,
			r, asked)
	}
	if err := a.home.ClearRequest(id); err != nil {
		return err
	}
	return a.print(fmt.Sprintf("run %s keeps running: the request to %s is taken back\n", id, r))
}

// cancelDead marks a loop without a process as cancelled; live says that only one with a process can do what is asked.
func (a *app) cancelDead(name string, live bool) error {
	s, err := a.dormant(name)
	if err != nil {
		return err
	}
	who := "run " + s.State.ID
	switch {
	case s.State.Completed:
		return badInput("", "%s has ended (%s)", who, journal.Ending(s.State.ExitReason.Type).Words())
	case live:
		return badInput("descartes resume --name "+s.State.ID, "%s is not running", who)
	case s.State.ID == "":
		who = "the run of " + filepath.Base(s.Path)
	}
	if err := loop.CancelDead(a.ctx(), atomicfile.OS(), a.home, *s, time.Now); err != nil {
		return err
	}
	return a.print(who + " was not running; it is marked as cancelled\n")
}

// liveOne returns the live loop with that id, or the only one, and its kind. The kind is "" if there is none.
func liveOne(home store.Home, name string) (id, kind string, err error) {
	var names []string
	for _, who := range home.Live() {
		if who.Loop == "" || name != "" && who.Loop != name {
			continue
		}
		if id, kind = who.Loop, store.KindPrompt; who.Tag != "" {
			kind = store.KindTag
		}
		names = append(names, id)
	}
	if len(names) > 1 {
		return "", "", badInput("name one of them", "%d runs are running here: %s", len(names),
			strings.Join(names, ", "))
	}
	return id, kind, nil
}

// dormant returns the loop with that id, or the last one that has not ended.
func (a *app) dormant(name string) (*store.Saved, error) {
	if name != "" {
		return a.loop(name)
	}
	s, err := lastOpen(a.home)
	if err != nil {
		return nil, badInput("descartes status --all", "no run is under way here")
	}
	return s, nil
}
