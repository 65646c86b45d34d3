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
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent/render"
	"descartes/internal/plainfile"
	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop"
)

func newLogsCmd() *cobra.Command {
	l := &logs{}
	cmd := &cobra.Command{
		Use:   "logs [task|iteration]",
		Short: "Print what agent and verification printed in a task's last attempt, or in an iteration",
		Args:  takes(0, 1, "at most one task or iteration"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return l.show(cmd.Context(), cmd.OutOrStdout(), strings.Join(args, ""))
		},
	}
	registerDir(cmd, &l.dir)
	f := cmd.Flags()
	f.StringVar(&l.name, "name", "", "`id` of the loop (default: the live one, or the last)")
	f.IntVar(&l.attempt, "attempt", 0, "number of the attempt (default: the last)")
	f.BoolVarP(&l.follow, "follow", "f", false, "go on printing while the loop runs")
	f.BoolVar(&l.paths, "paths", false, "print the names of all log files instead")
	return cmd
}

// logs are the flags of loop logs.
type logs struct {
	dir, name     string
	attempt       int
	follow, paths bool
}

func (l *logs) show(ctx context.Context, w io.Writer, task string) error {
	root, err := findRoot(l.dir)
	if err != nil {
		return err
	}
	s, err := lookUp(root, l.dir, l.name, "")
	if err != nil {
		return err
	}
	home := loop.NewHome(root)
	files, err := home.LogsOf(s.State.ID, task)
	switch {
	case err != nil:
		return err
	case len(files) == 0:
		return badInput("descartes loop status", "loop %s has no %s", s.State.ID, wordOf(s.State.Kind, task))
	case l.attempt > 0 && task == "":
		return badInput("", "--attempt needs a task")
	}
	if l.paths {
		for _, file := range files {
			fmt.Fprintln(w, report.Relative(root, file))
		}
		return nil
	}
	file := files[len(files)-1]
	if l.attempt > 0 {
		file = home.LogOf(s.State, task, l.attempt)
	}
	cfg, err := unhidden(root, s.State)
	if err != nil {
		cfg = s.State.Config // what it hides is not known here either
	}
	masked := redact.Of(cfg.Secrets(os.Environ())).Writer(&terminal.Writer{W: w}) // that of a running attempt is not masked yet
	if l.follow {
		err = followLogs(ctx, masked, home, *s, task, file)
	} else {
		err = printLog(masked, file)
	}
	return errors.Join(err, masked.Flush())
}

// readable shows on w what an agent of a format prints.
func readable(w io.Writer, format, root string) *render.Renderer {
	width := terminal.Columns(w)
	r := render.New(format, func(i render.Item) {
		for _, line := range i.Lines(width) {
			fmt.Fprintln(w, line)
		}
	})
	r.Root = root
	return r
}

// wordOf is what a log is of: an attempt at a task, or an iteration.
func wordOf(kind, id string) string {
	switch {
	case kind == loop.KindTag:
		return "attempt" + ofTask(id)
	case id == "":
		return "iteration"
	}
	return fmt.Sprintf("iteration %q", id)
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
	f, err := plainfile.Open("", path)
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
		files, err := home.LogsOf(s.State.ID, task)
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, f); err != nil { // before another is opened: this one is complete then
			return err
		}
		if at := slices.Index(files, path); at >= 0 && at+1 < len(files) {
			next, err := plainfile.Open("", files[at+1])
			if err == nil { // else its agent has not begun
				f.Close()
				f, path = next, files[at+1]
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
