package print

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"descartes/internal/config"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/verify"
	"descartes/view"
)

// text grows line by line.
type text struct{ strings.Builder }

func (t *text) say(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// row is a line of a status.
func (t *text) row(name, format string, args ...any) {
	t.say("  %s: %s", name, terminal.Clean(fmt.Sprintf(format, args...)))
}

// some is a row that only a value has.
func (t *text) some(name, value string) {
	if value != "" {
		t.row(name, "%s", value)
	}
}

// Status says how a loop stands: what runs, how far it is and when it may end, then the wave bars of a tag, or the last iterations. The settings of a
// tag's loop are for who asks for them.
func Status(l *view.Loop, p terminal.Paint, boxed, verbose bool) string {
	s, now, t := l.Run.State, time.Now(), &text{}
	t.say("Loop Status\n===========")
	t.row("State file", "%s", l.StateFile)
	t.row("Iteration", "%d", l.Iteration)
	t.row("Started", "%s", l.StartedAt.UTC().Format(time.RFC3339))
	t.row("Completed", "%s", l.Completed())
	t.row("Exit reason", "%s", l.Why)
	if l.Unpushed != "" {
		t.row("Not pushed", "when it ended; to push its work: %s", l.Unpushed)
	}
	t.some("Loop", l.ID)
	t.row("Last activity", "%s", l.LastActivity.UTC().Format(time.RFC3339))
	tag := l.Kind == store.KindTag
	if !tag && s.Cost != nil {
		t.row("Cost", "%s", s.Cost.Text())
	}
	if tag || s.Config.SandboxInForce != "" {
		t.row("Sandbox", "%s", l.Sandbox)
	}
	if tag {
		t.row("State", "%s; %s", l.Why, when(l, now))
	}
	if asked := l.Run.Asked; asked.Stopping {
		t.row("Requested", "to end (Ctrl-C), %s", asked.When())
		if !asked.Now {
			t.row("At once", "descartes cancel %s --now%s", l.ID, l.Run.Here)
		}
	} else if asked.Asked != "" {
		t.row("Requested", "%s, %s", asked.Asked, asked.When())
		t.row("Take back", "descartes %s %s --undo%s", asked.Asked, l.ID, l.Run.Here)
	}
	if !tag {
		t.row("Progress", "%s", progress(l))
		t.underway(l, now)
		if l.Gate != nil {
			t.say("\nGate:")
			l.Gate.Rows(t.row)
		}
		t.config(s)
		t.history(s.Summaries)
		return t.String()
	}
	var words []string
	for _, n := range l.Numbers() {
		words = append(words, n.Text)
	}
	t.row("Tasks", "%s", strings.Join(append(words, l.Times(now)...), ", "))
	t.row("Cost", "%s", s.Cost.Text())
	if l.Board != nil {
		for _, line := range l.Board.Graded() {
			t.row("Done", "%s", line)
		}
	}
	for _, line := range l.Unsteady() {
		t.row("Flaky", "%s", line)
	}
	if text := Questions(l.Questions); text != "" {
		t.say("\n%s", strings.TrimSuffix(text, "\n"))
	}
	t.underway(l, now)
	if l.Board != nil {
		t.say("\n%s", strings.TrimSuffix(bars(l, p, boxed, true), "\n"))
	}
	if verbose {
		t.say("\nConfig:")
		t.row("Command", "%s", command(s.Config))
		t.row("Max iterations", "%d", l.MaxIteration)
		t.row("Completion promise", "%q", s.Config.CompletionPromise)
		t.row("Verify", "%s", cmp.Or(s.Config.Scud.VerificationCommand, checks(s.Config.ChecksOf(true))))
		t.row("Max attempts per task", "%d", s.Config.Scud.MaxIterationsPerTask)
	}
	return t.String()
}

// when says since when a loop runs, or when it ended.
func when(l *view.Loop, now time.Time) string {
	if l.Run.Live {
		return "started " + ago(now, l.StartedAt)
	}
	return ago(now, l.LastActivity) + ", after " + terminal.Spell(l.LastActivity.Sub(l.StartedAt))
}

// ago says how long something is ago.
func ago(now, at time.Time) string {
	if now.Sub(at) < time.Second {
		return "just now"
	}
	return terminal.Spell(now.Sub(at)) + " ago"
}

// underway lists what is worked on, what each does and since when, and what waits for a provider.
func (t *text) underway(l *view.Loop, now time.Time) {
	begin := t.Len()
	title := func() {
		if t.Len() == begin {
			t.say("\nRunning:")
		}
	}
	for i, a := range l.Working() {
		title()
		name := a.Subject()
		if a.Task != "" {
			name = strings.TrimRight(name+" "+terminal.FitWords(terminal.Clean(a.Title), 60), " ")
		}
		t.say("  %s\n    %s", terminal.Clean(name), a.Now("for "+terminal.Spell(now.Sub(a.Since)), true))
		if action := l.Running[i].Action; action != "" {
			t.say("    %s", terminal.FitWords(terminal.Clean(action), 74))
		}
	}
	for _, w := range l.Limits {
		if len(w.Tasks) > 0 {
			title()
			t.say("  %s\n    %s", terminal.Clean(terminal.Few(w.Tasks, 12)), terminal.Clean(view.Until("waiting", &journal.Wait{Until: w.Until, Reason: w.Reason})))
		}
	}
}

// config shows what a loop that repeats a prompt was given.
func (t *text) config(s *store.State) {
	c := s.Config
	t.say("\nConfig:")
	t.row("Command", "%s", c.Command)
	t.row("Max iterations", "%d", c.MaxIterations)
	if c.Promised() {
		t.row("Completion promise", "%q", c.CompletionPromise)
	}
	if len(c.Args) > 0 {
		t.row("Arguments", "%s", command(loop.Config{Command: c.Args[0], Args: c.Args[1:]}))
	}
	t.some("Verify", cmp.Or(c.VerificationCommand, checks(c.ChecksOf(false))))
	if c.Git.AutoCommit {
		subject := cmp.Or(c.Git.CommitTemplate, config.DefaultCommitTemplate)
		if s.Kind != store.KindPrompt {
			subject = s.Kind + ": iteration {iteration} - <task>"
		}
		t.row("Commits", "%s", subject)
	}
}

// command is what a state file says is run.
func command(cfg loop.Config) string {
	words := []string{cmp.Or(cfg.Command, cfg.Backend.Type)}
	for _, a := range cfg.Args {
		words = append(words, terminal.Quote(a))
	}
	return strings.Join(words, " ")
}

// checks are named ones in one line.
func checks(list []verify.Check) string {
	var out []string
	for _, c := range list {
		out = append(out, c.Name+" `"+c.Run+"`")
	}
	return strings.Join(out, ", ")
}

const barWidth = 16

func blocks(n, of int) string {
	full := barWidth
	if of > 0 {
		full = barWidth * n / of
	}
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

// progress is a bar of the iterations that a loop may have.
func progress(l *view.Loop) string {
	done, most := l.Iteration, max(1, l.MaxIteration)
	share := float64(min(done, most)) / float64(most)
	if l.Run.State.Completed { // nothing is left, whatever the limit was
		share = 1
	}
	return fmt.Sprintf("%s %d%% (%d/%d iterations)", blocks(int(share*barWidth+0.5), barWidth), int(share*100+0.5), done, l.MaxIteration)
}

// history lists the last iterations, the latest first.
func (t *text) history(list []store.IterationSummary) {
	const most = 10
	for i, s := range slices.Backward(list) {
		if i == len(list)-1 {
			t.say("\nIteration History:\n  #    Duration   Exit  Preview")
		}
		if i >= len(list)-most {
			t.say("  %-4d %-10s %-5d %s", s.Iteration+1, terminal.Duration(s.CompletedAt.Sub(s.StartedAt)), s.ExitCode, terminal.Fit(terminal.Clean(s.OutputPreview), 60))
		}
	}
}

// Loops are the loops of a project, the last one last. Of those that are over only the last are listed, unless all are asked for.
func Loops(list []view.Listed, all bool) string {
	if len(list) == 0 {
		return "no loop was started here\n"
	}
	const listed = 10
	now, over, hidden := time.Now(), 0, 0
	ended := func(l view.Listed) bool { return l.Err == nil && l.State == "finished" }
	for _, l := range list {
		if ended(l) {
			over++
		}
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LOOP\tKIND\tTAG\tSTATE\tDONE\tLAST ACTIVITY")
	for _, l := range list {
		if ended(l) {
			if over--; over >= listed && !all {
				hidden++
				continue
			}
		}
		if l.Err != nil {
			fmt.Fprintf(w, "%s\t-\t-\tunreadable\t-\t-\n", terminal.Clean(l.Called))
			continue
		}
		kind := terminal.Clean(l.Kind)
		if l.Gate != nil {
			kind += " (" + l.Gate.Kind + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(l.ID, "-"), kind, cmp.Or(terminal.Clean(l.Tag), "-"), terminal.Clean(l.Word), l.Did(), ago(now, l.LastActivity))
	}
	w.Flush() // into memory
	if hidden > 0 {
		fmt.Fprintf(&s, "and %s that ended before: descartes status --all\n", terminal.Count(hidden, "loop"))
	}
	return s.String()
}

// Questions shows questions with what to type; "" if there are none.
func Questions(list []view.Question) string {
	t := &text{}
	for _, q := range list {
		who := cmp.Or(terminal.Clean(q.Task.ID), "loop "+q.Loop)
		t.say("asks: %s %s\n%s  %s", who, terminal.Fit(terminal.Clean(q.Title), 60), terminal.Indent(q.Question), q.Command)
	}
	return t.String()
}
