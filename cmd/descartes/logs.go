package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/loop"
)

func newLogsCmd() *cobra.Command {
	var dir, name string
	var attempt int
	var follow, paths bool
	cmd := &cobra.Command{
		Use:   "logs [task]",
		Short: "Print what agent and verification printed in a task's last attempt",
		Args:  takes(0, 1, "at most one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := findRoot(dir)
			if err != nil {
				return err
			}
			s, err := lookUp(root, dir, name, "")
			if err != nil {
				return err
			}
			home := loop.NewHome(root)
			task := ""
			if len(args) == 1 {
				task = args[0]
			}
			logs, err := home.LogsOf(s.State.ID, task)
			if err != nil {
				return err
			}
			if len(logs) == 0 {
				return badInput("descartes loop status", "loop %s has no attempt%s", s.State.ID, ofTask(task))
			}
			if paths {
				for _, l := range logs {
					fmt.Fprintln(cmd.OutOrStdout(), shown(root, l))
				}
				return nil
			}
			path := logs[len(logs)-1]
			if attempt > 0 {
				if task == "" {
					return badInput("", "--attempt needs a task")
				}
				path = home.Log(s.State.ID, task, attempt)
			}
			return printLog(cmd.Context(), cmd.OutOrStdout(), path, func() bool { return follow && home.IsLive(*s) })
		},
	}
	registerDir(cmd, &dir)
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "`id` of the loop (default: the live one, or the last)")
	f.IntVar(&attempt, "attempt", 0, "number of the attempt (default: the last)")
	f.BoolVarP(&follow, "follow", "f", false, "go on printing while the loop runs")
	f.BoolVar(&paths, "paths", false, "print the names of all log files instead")
	return cmd
}

func ofTask(id string) string {
	if id == "" {
		return ""
	}
	return fmt.Sprintf(" of task %q", id)
}

// printLog copies a log, and what is added to it while more says that more may come.
func printLog(ctx context.Context, w io.Writer, path string, more func() bool) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return badInput("", "there is no log %s", path)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		last := !more()
		if _, err := io.Copy(w, f); err != nil {
			return err
		}
		if last {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
