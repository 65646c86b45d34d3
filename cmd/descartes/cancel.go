package main

import (
	"context"
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
	cmd := newAskCmd(store.RequestCancel, "Stop after the running attempt")
	cmd.Aliases = []string{"stop"}
	return cmd
}

// newAskCmd is a command that sends a request to a live loop.
func newAskCmd(r store.Request, short string) *cobra.Command {
	var dir, name string
	var now, undo bool
	cmd := &cobra.Command{
		Use:   string(r) + " [loop]",
		Short: short,
		Args:  takes(0, 1, "at most one loop"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := findRoot(dir)
			if err != nil {
				return err
			}
			home := store.NewHome(root)
			if name != "" {
				args = []string{name}
			}
			text := ""
			id, live, err := liveOne(home, args)
			switch {
			case err != nil:
			case undo && now:
				err = badInput("", "--now and --undo do not go together")
			case undo && live == "":
				err = nothingAsked(home, args)
			case undo:
				text, err = takeBack(home, id, r)
			case live != "":
				text, err = askLive(home, id, live, r, now)
			default:
				text, err = markDormant(cmd.Context(), home, args, r)
			}
			if err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), text)
		},
	}
	registerDir(cmd, &dir)
	cmd.Flags().StringVar(&name, "name", "", "`id` of the loop")
	cmd.Flags().BoolVar(&now, "now", false, "interrupt the running agent")
	cmd.Flags().BoolVar(&undo, "undo", false, "take the request back, as long as the loop has not stopped")
	return cmd
}

// takeBack withdraws a request to a live loop.
func takeBack(home store.Home, id string, r store.Request) (string, error) {
	if asked, _ := home.Asked(id); asked != r {
		hint := "nothing is asked of it, so it keeps running"
		switch {
		case stopping(home, id):
			hint = "it was interrupted by Ctrl-C, which cannot be taken back; descartes loop resume --name " + id + " resumes it when it has ended"
		case asked != "":
			hint = fmt.Sprintf("it was asked to %s; descartes loop %s %s --undo takes that back", asked, asked, id)
		}
		return "", badInput(hint, "loop %s was not asked to %s", id, r)
	}
	if err := home.ClearRequest(id); err != nil {
		return "", err
	}
	return fmt.Sprintf("loop %s keeps running: the request to %s is taken back\n", id, r), nil
}

// stopping reports whether a live loop is ending because of Ctrl-C in its terminal.
func stopping(home store.Home, id string) bool {
	h, err := journal.Load(home.Events(id))
	return err == nil && !h.Stopping.IsZero()
}

// nothingAsked says why there is nothing to take back without a running loop.
func nothingAsked(home store.Home, args []string) error {
	s, err := dormant(home, args)
	if err != nil {
		return err
	}
	if s.State.Completed {
		return badInput("descartes loop list", "loop %s is not running: it has ended", s.State.ID)
	}
	return badInput("descartes loop resume --name "+s.State.ID+" resumes it", "loop %s is not running: there is nothing to take back", s.State.ID)
}

func askLive(home store.Home, id, kind string, r store.Request, now bool) (string, error) {
	if err := home.Ask(atomicfile.OS(), id, r, now); err != nil {
		return "", err
	}
	when := "once its running " + view.Unit(kind) + " is finished"
	s, err := home.Find(id)
	if err != nil {
		return "", err
	}
	underway := false // a loop without a state file is only starting
	if s != nil {
		v, err := home.View(*s, nil)
		if err != nil {
			return "", err
		}
		underway = v.History.Underway()
	}
	switch {
	case !underway:
		when = "now: no " + view.Unit(kind) + " of it is running"
	case now:
		when = "now: its agent is interrupted"
	}
	done := map[store.Request]string{store.RequestPause: "paused", store.RequestCancel: "cancelled"}[r]
	return fmt.Sprintf("loop %s will be %s %s\n", id, done, when), nil
}

// markDormant cancels a loop without a process.
func markDormant(ctx context.Context, home store.Home, args []string, r store.Request) (string, error) {
	s, err := dormant(home, args)
	if err != nil {
		return "", err
	}
	id := s.State.ID
	who := "loop " + id
	if id == "" {
		who = "the loop of " + filepath.Base(s.Path)
	}
	if s.State.Completed {
		return "", badInput("", "loop %s has ended (%s)", id, journal.Ending(s.State.ExitReason.Type).Words())
	}
	if r == store.RequestPause {
		return "", badInput("descartes loop resume --name "+id, "loop %s is not running", id)
	}
	if err := loop.CancelDead(ctx, atomicfile.OS(), home, *s, time.Now); err != nil {
		return "", err
	}
	return who + " was not running; it is marked as cancelled\n", nil
}

// liveOne returns the live loop with that id, or the only one, and its kind. The kind is "" if there is none.
func liveOne(home store.Home, args []string) (id, kind string, err error) {
	var names []string
	for _, who := range home.Live() {
		if who.Loop == "" || len(args) == 1 && who.Loop != args[0] {
			continue
		}
		if id, kind = who.Loop, store.KindPrompt; who.Tag != "" {
			kind = store.KindTag
		}
		names = append(names, id)
	}
	if len(names) > 1 {
		return "", "", badInput("name one of them", "%d loops are running here: %s", len(names), strings.Join(names, ", "))
	}
	return id, kind, nil
}

// dormant returns the loop with that id, or the last one that has not ended.
func dormant(home store.Home, args []string) (*store.Saved, error) {
	if len(args) == 1 {
		s, err := home.Find(args[0])
		if err == nil && s == nil {
			err = badInput("descartes loop list", "no loop %q", args[0])
		}
		return s, err
	}
	s, err := lastOpen(home)
	if err != nil {
		return nil, badInput("descartes loop list", "no loop is running here")
	}
	return s, nil
}
