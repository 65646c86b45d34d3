package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/tasks"
)

func newStatusCmd() *cobra.Command {
	var dir, name, stateFile string
	var asJSON, watch bool
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
			show := func(w io.Writer) (bool, error) { return showStatus(w, root, dir, name, stateFile, asJSON) }
			if watch {
				return watchStatus(cmd.Context(), cmd.OutOrStdout(), show)
			}
			_, err = show(cmd.OutOrStdout())
			return err
		},
	}
	registerDir(cmd, &dir)
	completeLoops(cmd, &dir)
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "`id` of the loop")
	f.StringVar(&stateFile, "state-file", "", "state `file` of the loop")
	f.BoolVar(&asJSON, "json", false, "print the status as JSON")
	f.BoolVar(&watch, "watch", false, "show it again every two seconds until the loop ends")
	return cmd
}

// showStatus prints one look at a loop and reports whether it is live.
func showStatus(w io.Writer, root, dir, name, stateFile string, asJSON bool) (bool, error) {
	s, err := lookUp(root, dir, name, stateFile)
	if err != nil {
		return false, err
	}
	st, err := newLoopStatus(root, *s)
	if err != nil {
		return false, err
	}
	if asJSON {
		return st.view.Live, writeJSON(w, st.report(true))
	}
	return st.view.Live, write(w, st.text(terminal.Colours(terminal.IsTerminal(w)), terminal.HasRoom(w)))
}

// lookUp is the loop that a looking command means.
func lookUp(root, dir, name, stateFile string) (*loop.Saved, error) {
	home := loop.NewHome(root)
	if stateFile != "" {
		path := absolute(dir, stateFile)
		st, err := loop.LoadState(path)
		if err != nil {
			return nil, err
		}
		return &loop.Saved{Path: path, State: st}, nil
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
		err = badInput("descartes loop start --help", "no loop was started in %s", root)
	}
	return s, err
}

func watchStatus(ctx context.Context, w io.Writer, show func(io.Writer) (bool, error)) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		if terminal.IsTerminal(w) {
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

// loopStatus is a loop and the tag that it runs over, as they stand now.
type loopStatus struct {
	root  string
	view  loop.View
	board *board // nil if the task list cannot be read any more
}

// listOf is the task list and graph that a loop runs over.
func listOf(s *loop.State) loop.ScudConfig {
	c := s.Config.Scud
	return loop.ScudConfig{Tag: s.Tag, TasksFile: c.TasksFile, PlanPath: c.PlanPath, OpenInDone: c.OpenInDone}
}

func newLoopStatus(root string, s loop.Saved) (*loopStatus, error) {
	st := &loopStatus{root: root}
	var file *tasks.File
	if s.State.Kind != loop.KindTag {
		v, err := loop.NewHome(root).View(s, nil)
		st.view = v
		return st, err
	}
	if job, _ := loop.Load(root, loop.Config{Scud: listOf(s.State)}); job != nil {
		b, err := newBoard(job)
		if err != nil {
			return nil, err
		}
		st.board, file = b, job.File
	}
	v, err := loop.NewHome(root).View(s, file)
	st.view = v
	if st.board != nil { // the commits shown are this loop's
		st.board.commits = v.State.WaveCommits
		if file.Holds(tasks.Blocked) { // answered, or set by hand since
			st.view.State.BlockedTasks = slices.DeleteFunc(slices.Clone(v.State.BlockedTasks), func(b loop.Blocked) bool { return st.board.graph.Status(b.Task.ID) == tasks.Pending })
		}
	}
	return st, err
}

// state is the loop's state in one word.
func (st *loopStatus) state() string {
	e := journal.Ending(st.view.State.ExitReason.Type)
	switch {
	case st.view.Live:
		if _, waits := st.view.History.WaitsUntil(); waits {
			return "waiting"
		}
		return "running"
	case e == "running" || e == "":
		return "dead"
	case e == journal.Paused:
		return "paused"
	case e == journal.UserCancelled || e == journal.Interrupted:
		return "interrupted"
	}
	return "finished"
}

// text is the seed's status, and the wave bars.
func (st *loopStatus) text(p terminal.Paint, boxed bool) string {
	s := &st.view.State
	if s.Kind != loop.KindTag {
		return st.turnsText()
	}
	var b strings.Builder
	b.WriteString("Loop Status\n===========\n")
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %s: %s\n", name, terminal.Clean(fmt.Sprintf(format, args...)))
	}
	row("State file", "%s", shown(st.root, st.view.Path))
	row("Iteration", "%d", s.Iteration)
	row("Started", "%s", s.StartedAt.UTC().Format(time.RFC3339))
	row("Completed", "%s", st.completed())
	row("Exit reason", "%s", st.reason())
	row("Loop", "%s", s.ID)
	row("Last activity", "%s", st.lastActivity().UTC().Format(time.RFC3339))
	row("Cost", "%s", costText(s.Cost))
	row("Sandbox", "%s", inForce(s.Config))
	b.WriteString("\nConfig:\n")
	row("Command", "%s", wholeCommand(s.Config))
	row("Max iterations", "%d", s.Config.Scud.MaxTotalIterations)
	row("Completion promise", "%q", s.Config.CompletionPromise)
	row("Verify", "%s", s.Config.Scud.VerificationCommand)
	row("Max attempts per task", "%d", s.Config.Scud.MaxIterationsPerTask)
	if st.board != nil {
		b.WriteString("\n" + st.waveView(p, boxed))
		if lines := questionLines(openQuestions(st.board, s), st.board.named()); lines != "" {
			b.WriteString("\n" + lines)
		}
	}
	return b.String()
}

func (st *loopStatus) waveView(p terminal.Paint, boxed bool) string {
	s := &st.view.State
	var blocked []blockedLine
	for _, t := range s.BlockedTasks {
		blocked = append(blocked, blockedLine{t.Task.ID, t.Title, t.Reason})
	}
	lines := st.board.bars(p, s.CurrentWave, s.CurrentTask, blocked)
	title := "SCUD Loop: " + terminal.Clean(s.Tag)
	if boxed {
		return terminal.Box(title, lines)
	}
	var b strings.Builder
	b.WriteString(title + "\n")
	for _, l := range lines {
		b.WriteString(strings.TrimRight("  "+l, " ") + "\n")
	}
	return b.String()
}

func (st *loopStatus) reason() string {
	s := &st.view.State
	switch word := st.state(); word {
	case "running":
		text := "Running"
		if since := st.view.History.Verifying(); !since.IsZero() {
			text += ", verifying for " + terminal.Duration(time.Since(since).Round(time.Second))
		}
		return text + st.requested()
	case "waiting":
		w, _ := st.view.History.WaitsUntil()
		return waiting("Waiting", w) + st.requested()
	case "dead":
		if w, waited := st.view.History.WaitsUntil(); waited {
			return waiting("Killed while it waited", w) + "; descartes loop resume goes on"
		}
		return "Killed; descartes loop resume goes on"
	default:
		text := strings.ReplaceAll(s.ExitReason.Type, "_", " ")
		text = strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
		if s.ExitReason.Message != "" {
			text += " (" + s.ExitReason.Message + ")"
		}
		return text
	}
}

// requested is what another terminal asked of a live loop, as the end of a sentence.
func (st *loopStatus) requested() string {
	if text := requestText(st.view.Asked, st.view.Now, st.view.State.Kind, st.view.History.Underway()); text != "" {
		return "; " + text
	}
	return ""
}

// waiting says until when a loop waits for its provider, and why.
func waiting(what string, w journal.Wait) string {
	if !w.Until.IsZero() {
		until := w.Until.Round(0)
		what += " until " + terminal.Moment(until)
		if left := time.Until(until); left > 0 {
			what += " (" + terminal.Spell(left) + ")"
		}
	}
	if w.Reason != "" {
		what += ": " + w.Reason
	}
	return what
}

// completed says whether everything is done: a loop that has nothing left to run may have blocked tasks.
func (st *loopStatus) completed() string {
	s := &st.view.State
	if s.Completed && journal.Ending(s.ExitReason.Type) == journal.TasksBlocked {
		return "No, nothing is left that can run"
	}
	return yesNo(s.Completed)
}

func yesNo(b bool) string {
	if b {
		return "Yes"
	}
	return "No"
}
