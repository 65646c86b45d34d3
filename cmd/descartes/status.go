package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
	"descartes/loop/store"
	"descartes/view"
)

func newStatusCmd() *cobra.Command {
	var dir, name, stateFile string
	var asJSON, watch, verbose, all bool
	cmd := &cobra.Command{
		Use:   "status [loop]",
		Short: "Show the loop that is running, or the last one",
		Args:  takes(0, 1, "at most one loop"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				name = args[0]
			}
			root, err := findRoot(dir)
			if err != nil {
				return err
			}
			if all {
				return listLoops(cmd, root, asJSON, true)
			}
			show := func(w io.Writer) (bool, error) { return showStatus(w, root, dir, name, stateFile, asJSON, verbose) }
			if watch {
				return watchStatus(cmd.Context(), cmd.OutOrStdout(), show)
			}
			_, err = show(cmd.OutOrStdout())
			return err
		},
	}
	registerDir(cmd, &dir)
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "`id` of the loop")
	f.StringVar(&stateFile, "state-file", "", "state `file` of the loop")
	f.BoolVar(&all, "all", false, "every loop of the project, a line each")
	f.BoolVar(&asJSON, "json", false, "print the status as JSON")
	f.BoolVar(&watch, "watch", false, "refresh it every two seconds until the loop ends")
	f.BoolVarP(&verbose, "verbose", "v", false, "show the settings too")
	return cmd
}

// showStatus prints one look at a loop and reports whether it is live.
func showStatus(w io.Writer, root, dir, name, stateFile string, asJSON, verbose bool) (bool, error) {
	s, err := lookUp(root, dir, name, stateFile)
	if err != nil {
		return false, err
	}
	st, err := view.NewStatus(root, *s)
	if err != nil {
		return false, err
	}
	st.Action = viewed{root, func() (*store.Saved, error) { return s, nil }}.action
	if asJSON {
		return st.View.Live, writeJSON(w, st.Report(true))
	}
	text := st.Text(terminal.Colours(terminal.IsTerminal(w)), terminal.HasRoom(w), verbose)
	for _, who := range store.NewHome(root).Live() {
		if name == "" && stateFile == "" && who.Loop != "" && who.Loop != st.View.State.ID {
			text += "  Also running: descartes loop status " + who.Loop + "\n"
		}
	}
	return st.View.Live, write(w, strings.Join(terminal.Hang(text, terminal.Columns(w), 2), "\n"))
}

// lookUp is the loop that a command which looks at one means.
func lookUp(root, dir, name, stateFile string) (*store.Saved, error) {
	home := store.NewHome(root)
	if stateFile != "" {
		path := absolute(dir, stateFile)
		st, err := store.LoadState(path)
		if err != nil {
			return nil, err
		}
		return &store.Saved{Path: path, State: st}, nil
	}
	if name != "" {
		s, err := home.Find(name)
		if err == nil && s == nil {
			err = badInput("descartes loop list", "no loop %q", name)
		}
		return s, err
	}
	s, err := home.Last()
	if err == nil && s == nil {
		err = badInput("descartes run --help", "no loop was started in %s", root)
	}
	return s, err
}

func watchStatus(ctx context.Context, w io.Writer, show func(io.Writer) (bool, error)) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	apart := terminal.IsTerminal(w)
	if apart { // a screen of its own, so that what was printed before stays where it is
		fmt.Fprint(w, "\x1b[?1049h")
		defer func() {
			fmt.Fprint(w, "\x1b[?1049l")
			_, last := show(w)
			err = errors.Join(err, last)
		}()
	}
	for {
		if apart {
			fmt.Fprint(w, "\x1b[H\x1b[2J")
		}
		live, err := show(w)
		if err != nil || !live {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
