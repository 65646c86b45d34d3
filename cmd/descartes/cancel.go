package main

import (
	"context"
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
			home := loop.NewHome(root)
			text := ""
			if id, live := liveOne(home, args); live {
				text, err = askLive(home, id, r, done, now)
			} else {
				text, err = markDormant(cmd.Context(), home, args, r)
			}
			if err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), text)
		},
	}
	registerDir(cmd, &dir)
	cmd.Flags().BoolVar(&now, "now", false, "interrupt the running agent")
	return cmd
}

func askLive(home loop.Home, id string, r loop.Request, done string, now bool) (string, error) {
	if err := home.Ask(atomicfile.OS(), id, r, now); err != nil {
		return "", err
	}
	when := "once its running attempt is finished"
	if now {
		when = "now: its agent is interrupted"
	}
	return fmt.Sprintf("loop %s will be %s %s\n", id, done, when), nil
}

// markDormant cancels a loop that no process runs.
func markDormant(ctx context.Context, home loop.Home, args []string, r loop.Request) (string, error) {
	s, err := dormant(home, args)
	if err != nil {
		return "", err
	}
	id := s.State.ID
	if s.State.Completed {
		return "", badInput("", "loop %s has ended (%s)", id, s.State.ExitReason.Type)
	}
	if r == loop.RequestPause {
		return "", badInput("descartes loop resume --name "+id, "loop %s is not running", id)
	}
	if err := loop.CancelDead(ctx, atomicfile.OS(), home, *s, time.Now); err != nil {
		return "", err
	}
	return fmt.Sprintf("loop %s was not running; it is marked as cancelled\n", id), nil
}

// liveOne is the loop that runs in the working tree, if that is the one meant.
func liveOne(home loop.Home, args []string) (id string, ok bool) {
	who, busy := home.Live()
	return who.Loop, busy && who.Loop != "" && (len(args) == 0 || args[0] == who.Loop)
}

// dormant is the loop of that id, or the last that has not ended.
func dormant(home loop.Home, args []string) (*loop.Saved, error) {
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
