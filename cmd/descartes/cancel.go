package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/atomicfile"
	"descartes/loop"
)

func newCancelCmd() *cobra.Command {
	return newAskCmd(loop.RequestCancel, "Stop a loop at its next boundary", "cancelled")
}

func newPauseCmd() *cobra.Command {
	return newAskCmd(loop.RequestPause, "Pause a loop at its next boundary, to resume it later", "paused")
}

// newAskCmd is a command that asks a live loop for something.
func newAskCmd(r loop.Request, short, done string) *cobra.Command {
	var dir string
	var now bool
	cmd := &cobra.Command{
		Use:   string(r) + " [loop]",
		Short: short,
		Args:  takes(0, 1, "at most one loop"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := findRoot(dir)
			if err != nil {
				return err
			}
			s, live, err := askable(loop.NewHome(root), args)
			if err != nil {
				return err
			}
			id := s.State.ID
			if live {
				if err := loop.NewHome(root).Ask(atomicfile.OS(), id, r, now); err != nil {
					return err
				}
				when := "once its running attempt is finished"
				if now {
					when = "now: its agent is interrupted"
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "loop %s will be %s %s\n", id, done, when)
				return err
			}
			if s.State.Completed {
				return badInput("", "loop %s has ended (%s)", id, s.State.ExitReason.Type)
			}
			if r == loop.RequestPause {
				return badInput("descartes loop resume --name "+id, "loop %s is not running", id)
			}
			if err := loop.CancelDead(cmd.Context(), atomicfile.OS(), loop.NewHome(root), *s, time.Now); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "loop %s was not running; it is marked as cancelled\n", id)
			return err
		},
	}
	registerDir(cmd, &dir)
	cmd.Flags().BoolVar(&now, "now", false, "interrupt the running agent")
	return cmd
}

// askable is the loop of that id, or the live one, or the last that has not ended.
func askable(home loop.Home, args []string) (*loop.Saved, bool, error) {
	if len(args) == 1 {
		s, err := home.Find(args[0])
		if err == nil && s == nil {
			err = badInput("descartes loop list", "no loop %q", args[0])
		}
		if err != nil {
			return nil, false, err
		}
		return s, home.IsLive(*s), nil
	}
	s, err := home.Last()
	switch {
	case err != nil:
		return nil, false, err
	case s == nil:
		return nil, false, badInput("", "no loop was started here")
	case home.IsLive(*s):
		return s, true, nil
	}
	s, err = lastOpen(home)
	if err != nil {
		return nil, false, badInput("descartes loop list", "no loop is running here")
	}
	return s, false, nil
}
