package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent"
	"descartes/agent/render"
	"descartes/config"
	"descartes/internal/plainfile"
	"descartes/internal/redact"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
)

func newLogsCmd() *cobra.Command {
	var v logs
	var name string
	var attempt int
	var all, follow bool
	cmd := &cobra.Command{
		Use:   "logs [task|iteration]",
		Short: "Show what agent and verification printed in a task's last attempt, or in an iteration",
		Long: `Show what agent and verification printed: the agent's words, the tools that it
called, how their output ended, and all of the verify command's output. Of the
last attempt, of every one that runs with --follow, of all with --all.`,
		Args: takes(0, 1, "at most one task or iteration"),
		RunE: v.does(func(args []string) error {
			list, err := v.of(name, oneArg(args, ""))
			last := len(list) - 1
			switch {
			case err != nil:
				return err
			case attempt > 0:
				at := slices.IndexFunc(list, func(a *journal.Attempt) bool {
					return a.Number == attempt && v.task != ""
				})
				if at < 0 {
					return badInput("the last one has number "+strconv.Itoa(list[last].Number),
						"there is no attempt %d of task %q", attempt, v.task)
				}
				if list = list[at:]; !follow {
					list = list[:1]
				}
			case all:
			case follow && v.task == "":
				runs := slices.DeleteFunc(slices.Clone(list),
					func(a *journal.Attempt) bool { return a.Over() || a.Phase == journal.PhaseOpen })
				if list = list[last:]; len(runs) > 0 {
					list = runs
				}
			default:
				list = list[last:]
			}
			if follow {
				return v.live(list)
			}
			for _, a := range list {
				if err := v.whole(a); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	v.flags(cmd, "")
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "`id` of the run (default: the live one, or the last)")
	f.IntVar(&attempt, "attempt", 0, "number of the attempt (default: the last)")
	f.BoolVar(&all, "all", false, "every attempt, from the first on")
	f.BoolVarP(&follow, "follow", "f", false, "keep printing until the run ends")
	f.BoolVar(&v.raw, "raw", false, "print the log as the agent wrote it")
	f.BoolVar(&v.held, "holdout", false, "what the held-out checks printed, which no agent sees")
	return cmd
}

// logs shows the logs of a loop's attempts, guided by its journal.
type logs struct {
	app
	raw, held bool // as it was written; what the held-out checks printed
	task      string
	saved     *store.Saved
	state     *journal.State
	reader    *logReader
	width     int
	open      []*openLog
}

// openLog is a log being shown.
type openLog struct {
	of   *journal.Attempt
	file *os.File
	*readLog
}

// of opens the loop of that name, and returns the attempts at the task or iteration, at least one.
func (v *logs) of(name, task string) (list []*journal.Attempt, err error) {
	if v.saved, err = v.loop(name); err != nil {
		return nil, err
	}
	id := v.saved.State.ID
	v.task, v.width, v.raw = task, terminal.Columns(v.out()), v.raw || v.held
	v.state = journal.NewState()
	if v.reader, err = newLogReader(v.root, v.saved.State); err != nil {
		return nil, err
	}
	events, err := journal.Follow(v.home.Events(id)).Next()
	if list = v.more(events); err == nil && len(list) == 0 {
		err = badInput("descartes status "+id+v.here(), "run %s has no attempt of %q", id, task)
	}
	return list, err
}

// more takes in what is new of the journal's events, and returns the attempts that they begin.
func (v *logs) more(events []journal.Event) (list []*journal.Attempt) {
	known := len(v.state.Attempts)
	for i := range events {
		if events[i].Seq > v.state.Seq {
			v.state.Apply(&events[i])
		}
	}
	for _, a := range v.state.Attempts[known:] {
		if v.task == "" || a.Task == v.task && a.Iteration == 0 || a.Iteration > 0 &&
			strconv.Itoa(a.Iteration) == v.task {
			list = append(list, a)
		}
	}
	return list
}

// logOf is the log of an attempt.
func logOf(home store.Home, id string, a *journal.Attempt) string {
	if a.Iteration > 0 {
		return home.IterationLog(id, a.Iteration, a.Number)
	}
	return home.Log(id, a.Task, a.Number)
}

// shown takes in a log and prints it, line by line for people, or as it is.
func (v *logs) shown(backend string, prefix func() string) *readLog {
	if v.raw {
		w := v.out()
		if terminal.IsTerminal(w) {
			w = &terminal.Writer{W: w}
		}
		return &readLog{Writer: v.reader.redact.Writer(w)}
	}
	return v.reader.read(backend, func(i render.Item) {
		before, width := prefix(), v.width
		if width > 0 {
			width = max(20, width-len(before))
		}
		for _, line := range i.Lines(width) {
			fmt.Fprintln(v.out(), strings.TrimRight(before+line, " "))
		}
	})
}

// begin opens the log of an attempt; the error is fs.ErrNotExist if there is none.
func (v *logs) begin(a *journal.Attempt) (*openLog, error) {
	path := logOf(v.home, v.saved.State.ID, a)
	if v.held {
		path = v.home.HeldOutLog(v.saved.State.ID, path)
	}
	f, err := plainfile.Open("", path)
	if err != nil {
		return nil, err
	}
	v.say(a, terminal.Bold, "started "+terminal.Clock(a.Started))
	o := &openLog{of: a, file: f, readLog: v.shown(a.Backend, func() string {
		if len(v.open) < 2 {
			return ""
		}
		return terminal.Clean(a.Task) + " | "
	})}
	v.open = append(v.open, o)
	return o, nil
}

// say writes a line about an attempt.
func (v *logs) say(a *journal.Attempt, colour, what string) {
	if v.raw {
		return
	}
	name := "iteration " + strconv.Itoa(a.Iteration)
	if a.Iteration == 0 {
		name = terminal.Clean(a.Task) + " " + terminal.FitWords(terminal.Clean(a.Title), 40)
	}
	if a.Iteration == 0 || a.Number > 1 {
		name += ", attempt " + strconv.Itoa(a.Number)
	}
	if place := a.Place(); place != "" {
		name += ", " + terminal.Clean(place)
	}
	line := "== " + name + ", " + what
	if v.width > 0 {
		line = terminal.FitWords(line, v.width)
	}
	fmt.Fprintln(v.out(), terminal.Colours(v.width > 0).In(colour, line))
}

// end closes a log, shows what the agents said that looks consulted, and reports the attempt's result.
func (v *logs) end(o *openLog) error {
	_, err := io.Copy(o, o.file)
	err = errors.Join(err, o.Close(), o.file.Close())
	v.open = slices.DeleteFunc(v.open, func(other *openLog) bool { return other == o })
	a, seen := o.of, map[string]bool{"": true}
	for _, d := range a.Asked {
		if !seen[d.Log] && !v.held {
			err = errors.Join(err, v.aside(a, d))
		}
		seen[d.Log] = true
	}
	took, how := " after "+terminal.Duration(time.Duration(a.Seconds()*float64(time.Second))), "cut short"
	switch {
	case a.Iteration > 0 && a.Over():
		how = "ended" + took
	case a.Over():
		how = view.VerdictWord(journal.Verdict(a.Outcome())) + took
		if a.Verdict != journal.Verified && a.Reason != "" {
			how += ": " + terminal.Clean(a.Reason)
		}
	case v.home.IsLive(*v.saved):
		how = "still running"
	}
	v.say(a, terminal.Faint, how)
	return err
}

// aside shows what an agent consulted by a look said.
func (v *logs) aside(a *journal.Attempt, d *journal.Detail) error {
	f, err := plainfile.Open("", filepath.Join(v.home.Run(v.saved.State.ID), "logs", filepath.Base(d.Log)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	v.say(a, terminal.Faint, terminal.Clean(d.Look)+" by "+terminal.Clean(d.Backend))
	read := v.shown(d.Backend, func() string { return "" })
	_, err = io.Copy(read, f)
	return errors.Join(err, read.Close())
}

// whole shows the log of one attempt.
func (v *logs) whole(a *journal.Attempt) error {
	o, err := v.begin(a)
	if errors.Is(err, fs.ErrNotExist) {
		return badInput("descartes status "+v.saved.State.ID+v.here(), "the log of attempt %d of %q is gone", a.Number,
			a.Task)
	}
	if err != nil {
		return err
	}
	return v.end(o)
}

// live shows growing logs, those in the list and those of later attempts, until the loop ends.
func (v *logs) live(list []*journal.Attempt) error {
	ctx, stop := signal.NotifyContext(v.ctx(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer func() {
		for _, o := range v.open {
			o.file.Close()
		}
	}()
	list, over := slices.Clone(list), !v.home.IsLive(*v.saved)
	for events, err := range journal.Watch(ctx, v.home.Events(v.saved.State.ID)) {
		if err != nil {
			return err
		}
		list = append(list, v.more(events)...)
		for _, o := range slices.Clone(v.open) {
			if _, err := io.Copy(o, o.file); err != nil {
				return err
			}
			if o.of.Phase == journal.PhaseOpen || over || o.of.Over() && !v.state.Runs(o.of) { // integrated too
				if err := v.end(o); err != nil {
					return err
				}
			}
		}
		var later []*journal.Attempt
		for _, a := range list {
			if _, err := v.begin(a); errors.Is(err, fs.ErrNotExist) && !a.Over() && !over {
				later = append(later, a) // its agent has not begun
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if list = later; over && len(v.open) == 0 {
			break
		}
		over = !v.home.IsLive(*v.saved)
	}
	return nil
}

// logReader knows how a loop's agents print, and its secrets: the log of a running attempt is not masked yet.
type logReader struct {
	redact  *redact.Redactor
	formats agent.Table
	usual   agent.Backend
	root    string
}

func newLogReader(root string, s *store.State) (*logReader, error) {
	cfg, m := shown(root, s)
	r := &logReader{redact: m, root: root}
	var err error
	if r.usual, _, err = config.ResolveBackend(cfg); err != nil {
		return nil, err
	}
	r.formats, err = agent.NewTable(cfg.Backends)
	return r, err
}

// read turns the log of an attempt with that backend into items.
func (r *logReader) read(backend string, show func(render.Item)) *readLog {
	format := r.usual.Format
	if b, ok := r.formats.Lookup(backend); ok && backend != r.usual.Name {
		format = b.Format
	}
	text := render.New(format, show)
	text.Root = r.root
	return &readLog{r.redact.Writer(text), text}
}

// readLog takes a log as written. Close flushes the rest.
type readLog struct {
	*redact.Writer
	text *render.Renderer // nil for one that is shown as it is
}

func (l *readLog) Close() error {
	err := l.Flush()
	if l.text != nil {
		l.text.Close()
	}
	return err
}

// readable shows on w what an agent with that format prints.
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
