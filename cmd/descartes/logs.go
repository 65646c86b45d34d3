package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
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
			if !follow {
				return printLog(cmd.OutOrStdout(), path)
			}
			return followLogs(cmd.Context(), cmd.OutOrStdout(), home, *s, task, path)
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

func printLog(w io.Writer, path string) error {
	f, err := openLog(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

func openLog(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, badInput("", "there is no log %s", path)
	}
	return f, err
}

// followLogs copies a log while it grows, then those of the attempts that follow, until the loop ends.
func followLogs(ctx context.Context, w io.Writer, home loop.Home, s loop.Saved, task, path string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	f, err := openLog(path)
	if err != nil {
		return err
	}
	defer func() { f.Close() }()
	for {
		over := !home.IsLive(s)
		logs, err := home.LogsOf(s.State.ID, task)
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, f); err != nil { // before another is opened: this one is complete then
			return err
		}
		if at := slices.Index(logs, path); at >= 0 && at+1 < len(logs) {
			next, err := os.Open(logs[at+1])
			if err == nil { // else its agent has not begun
				f.Close()
				f, path = next, logs[at+1]
				continue
			}
		} else if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
