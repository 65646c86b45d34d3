package main

import (
	"cmp"
	"context"
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
	"descartes/agent/stream"
	"descartes/internal/config"
	"descartes/internal/plainfile"
	"descartes/internal/redact"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
)

func newLogsCmd() *cobra.Command {
	l := &logs{}
	cmd := &cobra.Command{
		Use:   "logs [task|iteration]",
		Short: "Show what agent and verification printed in a task's last attempt, or in an iteration",
		Long: `Show what agent and verification printed: the agent's words, the tools that it
called, how their output ended, and all of the verify command's output. Of the
last attempt, of every one that runs with --follow, of all with --all.`,
		Args: takes(0, 1, "at most one task or iteration"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return l.show(cmd.Context(), cmd.OutOrStdout(), strings.Join(args, ""))
		},
	}
	registerDir(cmd, &l.dir)
	f := cmd.Flags()
	f.StringVar(&l.name, "name", "", "`id` of the loop (default: the live one, or the last)")
	f.IntVar(&l.attempt, "attempt", 0, "number of the attempt (default: the last)")
	f.BoolVar(&l.all, "all", false, "every attempt, from the first on")
	f.BoolVarP(&l.follow, "follow", "f", false, "keep printing while the loop runs")
	f.BoolVar(&l.raw, "raw", false, "print the log as the agent wrote it")
	f.BoolVar(&l.held, "holdout", false, "what the held-out checks printed, which no agent sees")
	f.BoolVar(&l.paths, "paths", false, "print the names of all log files instead")
	return cmd
}

// logs are the flags of loop logs.
type logs struct {
	dir, name               string
	attempt                 int
	all, follow, raw, paths bool
	held                    bool
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
	home := store.NewHome(root)
	v := logView{home: home, saved: s, task: task, raw: l.raw || l.held, held: l.held, journal: journal.Follow(home.Events(s.State.ID)), state: journal.NewState(), out: w, width: terminal.Columns(w)}
	if err := v.follow(); err != nil {
		return err
	}
	list := v.attempts
	switch {
	case len(list) == 0:
		return badInput("descartes loop status "+s.State.ID+fromHere(root), "loop %s has no %s", s.State.ID, wordOf(s.State.Kind, task))
	case l.attempt > 0 && task == "":
		return badInput("", "--attempt needs a task")
	case l.attempt > 0:
		at := slices.IndexFunc(list, func(a *journal.Attempt) bool { return a.Number == l.attempt })
		if at < 0 {
			return badInput("--attempt "+strconv.Itoa(list[len(list)-1].Number)+" is the last one", "%s has no attempt %d: it has %s", nameOf(s.State.Kind, task), l.attempt, numbersOf(list))
		}
		list = list[at:]
		if !l.follow {
			list = list[:1]
		}
	case l.paths || l.all:
	case l.follow && task == "":
		list = v.underway()
	default:
		list = list[len(list)-1:]
	}
	if l.paths {
		for _, a := range list {
			fmt.Fprintln(w, view.Relative(root, v.path(a)))
			for _, d := range v.asked(a) {
				fmt.Fprintln(w, view.Relative(root, v.asideOf(d)))
			}
		}
		return nil
	}
	if v.logReader, err = newLogReader(root, s.State); err != nil {
		return err
	}
	if l.follow {
		return v.live(ctx, list)
	}
	for _, a := range list {
		if err := v.whole(a); err != nil {
			return err
		}
	}
	return nil
}

// logView shows the logs of a loop's attempts, guided by its journal.
type logView struct {
	home     store.Home
	saved    *store.Saved
	task     string // or iteration, that is asked for; "" for every one
	raw      bool
	held     bool // what the held-out checks printed
	journal  *journal.Follower
	state    *journal.State
	attempts []*journal.Attempt // that are asked for

	*logReader
	out   io.Writer
	width int
	open  []*openLog
}

// openLog is a log being shown.
type openLog struct {
	of     *journal.Attempt
	file   *os.File
	masked *redact.Writer
	text   *render.Renderer // nil for one that is shown raw
}

// logReader knows how a loop's agents print, and its secrets: the log of a running attempt is not masked yet.
type logReader struct {
	redact  *redact.Redactor
	formats agent.Table
	usual   agent.Backend
	root    string
}

func newLogReader(root string, s *store.State) (*logReader, error) {
	cfg, err := unhidden(root, s, true)
	if err != nil {
		cfg = s.Config // what it hides is not known here either
	}
	r := &logReader{redact: redact.Of(cfg.Secrets(os.Environ())), root: root}
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
	text *render.Renderer
}

func (l *readLog) Close() error {
	err := l.Flush()
	l.text.Close()
	return err
}

// follow takes in the journal's new events.
func (v *logView) follow() error {
	events, err := v.journal.Next()
	if err != nil {
		return err
	}
	known := len(v.state.Attempts)
	for i := range events {
		v.state.Apply(&events[i])
	}
	for _, a := range v.state.Attempts[known:] {
		if v.task == "" || a.Task == v.task && a.Iteration == 0 || a.Iteration > 0 && strconv.Itoa(a.Iteration) == v.task {
			v.attempts = append(v.attempts, a)
		}
	}
	return nil
}

// underway returns the running attempts, or without any the last one.
func (v *logView) underway() (list []*journal.Attempt) {
	for _, a := range v.attempts {
		if !a.Over() && a.Phase != journal.PhaseOpen {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		list = v.attempts[len(v.attempts)-1:]
	}
	return list
}

func (v *logView) path(a *journal.Attempt) string {
	path := v.home.Log(v.saved.State.ID, a.Task, a.Number)
	if a.Iteration > 0 {
		path = v.home.IterationLog(v.saved.State.ID, a.Iteration, a.Number)
	}
	if v.held {
		return v.home.HeldOutLog(v.saved.State.ID, path)
	}
	return path
}

// asked returns the agents that looks at an attempt consulted, one for each log.
func (v *logView) asked(a *journal.Attempt) (list []*journal.Detail) {
	if v.held {
		return nil
	}
	for _, d := range a.Asked {
		if d.Log != "" && !slices.ContainsFunc(list, func(o *journal.Detail) bool { return o.Log == d.Log }) {
			list = append(list, d)
		}
	}
	return list
}

// asideOf is the log of such an agent, beside that of the attempt.
func (v *logView) asideOf(d *journal.Detail) string {
	return filepath.Join(v.home.Run(v.saved.State.ID), "logs", filepath.Base(d.Log))
}

// aside shows what an agent consulted by a look said.
func (v *logView) aside(a *journal.Attempt, d *journal.Detail) error {
	f, err := plainfile.Open("", v.asideOf(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var read *readLog
	if v.raw {
		var to io.Writer = v.out
		if terminal.IsTerminal(v.out) {
			to = &terminal.Writer{W: v.out}
		}
		read = &readLog{Writer: v.redact.Writer(to), text: render.New(stream.FormatText, func(render.Item) {})}
	} else {
		v.say(a, terminal.Faint, terminal.Clean(d.Look)+" by "+terminal.Clean(d.Backend))
		read = v.read(d.Backend, func(i render.Item) {
			for _, line := range i.Lines(v.width) {
				fmt.Fprintln(v.out, strings.TrimRight(line, " "))
			}
		})
	}
	_, err = io.Copy(read, f)
	return errors.Join(err, read.Close())
}

// begin opens the log of an attempt; the error is fs.ErrNotExist if there is none.
func (v *logView) begin(a *journal.Attempt) (*openLog, error) {
	f, err := plainfile.Open("", v.path(a))
	if err != nil {
		return nil, err
	}
	o := &openLog{of: a, file: f}
	v.open = append(v.open, o)
	if v.raw {
		var to io.Writer = v.out
		if terminal.IsTerminal(v.out) {
			to = &terminal.Writer{W: v.out}
		}
		o.masked = v.redact.Writer(to)
		return o, nil
	}
	v.say(a, terminal.Bold, "started "+terminal.Clock(a.Started))
	read := v.read(a.Backend, func(i render.Item) {
		prefix := v.prefix(a)
		width := v.width
		if width > 0 {
			width = max(20, width-len(prefix))
		}
		for _, line := range i.Lines(width) {
			fmt.Fprintln(v.out, strings.TrimRight(prefix+line, " "))
		}
	})
	o.masked, o.text = read.Writer, read.text
	return o, nil
}

// prefix names a line's attempt, if several are shown at the same time.
func (v *logView) prefix(a *journal.Attempt) string {
	if len(v.open) < 2 {
		return ""
	}
	return terminal.Clean(a.Task) + " | "
}

// say writes a line about an attempt.
func (v *logView) say(a *journal.Attempt, colour, what string) {
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
	fmt.Fprintln(v.out, terminal.Colours(v.width > 0).In(colour, line))
}

// end closes a log, and reports the attempt's result.
func (v *logView) end(o *openLog) error {
	_, err := io.Copy(o.masked, o.file)
	err = errors.Join(err, o.masked.Flush(), o.file.Close())
	v.open = slices.DeleteFunc(v.open, func(other *openLog) bool { return other == o })
	a := o.of
	if o.text != nil {
		o.text.Close()
	}
	for _, d := range v.asked(a) {
		err = errors.Join(err, v.aside(a, d))
	}
	if o.text == nil {
		return err
	}
	switch took := terminal.Duration(time.Duration(a.Seconds() * float64(time.Second))); {
	case a.Decision != "":
		v.say(a, terminal.Faint, "ended after "+took)
	case a.Unfit:
		v.say(a, terminal.Faint, "verified after "+took+", "+terminal.Clean(a.Reason))
	case a.Over():
		v.say(a, terminal.Faint, view.VerdictWord(journal.Verdict(a.Outcome()))+" after "+took+because(a))
	case v.home.IsLive(*v.saved):
		v.say(a, terminal.Faint, "still running")
	default:
		v.say(a, terminal.Faint, "cut short")
	}
	return err
}

// because says why an attempt had no result, as the end of a sentence.
func because(a *journal.Attempt) string {
	if a.Verdict == journal.Verified || a.Reason == "" {
		return ""
	}
	return ": " + terminal.Clean(a.Reason)
}

// whole shows the log of one attempt.
func (v *logView) whole(a *journal.Attempt) error {
	o, err := v.begin(a)
	if errors.Is(err, fs.ErrNotExist) {
		return badInput("descartes loop logs --paths --name "+v.saved.State.ID+" names those that are kept", "the log of %s, attempt %d, is gone", nameOf(v.saved.State.Kind, cmp.Or(a.Task, strconv.Itoa(a.Iteration))), a.Number)
	}
	if err != nil {
		return err
	}
	return v.end(o)
}

// live shows growing logs, those in the list and those of later attempts, until the loop ends.
func (v *logView) live(ctx context.Context, list []*journal.Attempt) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	defer func() {
		for _, o := range v.open {
			o.file.Close()
		}
	}()
	for list = slices.Clone(list); ; {
		over := !v.home.IsLive(*v.saved)
		known := len(v.attempts)
		if err := v.follow(); err != nil {
			return err
		}
		list = append(list, v.attempts[known:]...)
		for _, o := range slices.Clone(v.open) {
			if _, err := io.Copy(o.masked, o.file); err != nil {
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
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
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

// nameOf names a task, or an iteration, in a sentence.
func nameOf(kind, id string) string {
	if kind == store.KindTag {
		return "task " + terminal.Clean(id)
	}
	return "iteration " + terminal.Clean(id)
}

// numbersOf lists attempts: attempt 1, attempts 1 and 2, attempts 1 to 7.
func numbersOf(list []*journal.Attempt) string {
	first, last := list[0].Number, list[len(list)-1].Number
	switch last - first {
	case 0:
		return fmt.Sprintf("attempt %d", first)
	case 1:
		return fmt.Sprintf("attempts %d and %d", first, last)
	}
	return fmt.Sprintf("attempts %d to %d", first, last)
}

// wordOf says what a log belongs to: an attempt at a task, or an iteration.
func wordOf(kind, id string) string {
	switch {
	case kind == store.KindTag:
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
