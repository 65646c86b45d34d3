package loop

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"descartes/config"
	"descartes/internal/oneline"
	"descartes/loop/journal"
)

// What a run that stopped early leaves for the next session.

// maxHandoffTasks limits each list of a handoff; the task file has all tasks.
const maxHandoffTasks = 20

// handoffText is what the next session over the tag needs.
func (w *tagWork) handoffText(out *Outcome) string {
	var b strings.Builder
	c := w.run.job.Graph.Counts()
	fmt.Fprintf(&b, "## Where the run over %s stopped\n\n", oneline.Text(w.run.state.Tag))
	fmt.Fprintf(&b, "Run %s stopped on %s: %s. %d of %d tasks are done", w.run.state.ID,
		w.run.tools.Now().Format(time.RFC1123Z), oneline.Text(cmp.Or(out.Message, out.Ending.Words())), c.Done,
		c.Total)
	if n := len(w.run.history.WaveCommits); n > 0 {
		fmt.Fprintf(&b, "; the last commit is %.12s", w.run.history.WaveCommits[n-1].Commit)
	}
	b.WriteString(".\n")
	w.handoffCurrent(&b)
	if len(w.run.history.Blocked()) > 0 {
		b.WriteString("\n### Blocked\n\nTheir attempts are kept under these refs.\n\n")
		for _, e := range w.run.history.Blocked()[:min(maxHandoffTasks, len(w.run.history.Blocked()))] {
			fmt.Fprintf(&b, "- %s %s: %s", oneline.Text(e.Task), oneline.Text(e.Title), oneline.Text(e.Reason))
			if e.Ref != "" {
				fmt.Fprintf(&b, " (%s)", e.Ref)
			}
			b.WriteString("\n")
			if words := LastWords(w.run.history.Task(e.Task).Failure.Result); words != "" {
				fmt.Fprintf(&b, "  Its agent's last words: %s\n", words)
			}
		}
	}
	w.handoffNext(&b)
	fmt.Fprintf(&b, "\n### Continue\n\n    descartes resume --name %s%s\n", w.run.state.ID,
		More(out, w.run.config, w.run.config.Scud.MaxTotalIterations))
	if len(w.run.history.Blocked()) > 0 {
		fmt.Fprintf(&b, "    descartes answer %s%s --edit     # tell a blocked task's agent something\n    descartes resume --name %s --retry-blocked\n",
			config.ShellWord(w.run.history.Blocked()[0].Task),
			config.ListFlags(w.run.state.Tag, w.run.config.Scud.TasksFile), w.run.state.ID)
	}
	return b.String()
}

// More returns the flags with which a loop can continue after it met a limit or asked a person.
func More(out *Outcome, c *Config, most int) string {
	switch out.Ending {
	case journal.LimitReached:
		return fmt.Sprintf(" --max-iterations %d", 2*max(1, most))
	case journal.DeadlinePast:
		return " --deadline 8h"
	case journal.CostReached:
		return fmt.Sprintf(" --max-cost %g", 2*c.MaxCostUSD)
	case journal.GateAsks, journal.BreakerOpen:
		return " --yes"
	}
	return ""
}

// handoffCurrent describes the task that is half done.
func (w *tagWork) handoffCurrent(b *strings.Builder) {
	id := w.run.history.Current
	if id == "" {
		return
	}
	fmt.Fprintf(b, "\n### Half done\n\n- %s %s", oneline.Text(id), oneline.Text(w.run.job.Title(id)))
	if f := w.run.history.Task(id).Failure; f.Verdict != "" {
		fmt.Fprintf(b, ": attempt %d %s (%s)", f.Attempt, oneline.Text(string(f.Verdict)), oneline.Text(f.Reason))
		if words := LastWords(f.Result); words != "" {
			fmt.Fprintf(b, "\n  Its agent's last words: %s", words)
		}
	}
}

// handoffNext lists what could run next.
func (w *tagWork) handoffNext(b *strings.Builder) {
	var ready []string
	for _, id := range w.run.job.Graph.Leaves() {
		if id != w.run.history.Current && w.run.job.Graph.Ready(id) {
			ready = append(ready, id)
		}
	}
	if len(ready) == 0 {
		return
	}
	b.WriteString("\n### Next\n\n")
	for _, id := range ready[:min(maxHandoffTasks, len(ready))] {
		fmt.Fprintf(b, "- %s %s\n", oneline.Text(id), oneline.Text(w.run.job.Title(id)))
	}
	if n := len(ready) - maxHandoffTasks; n > 0 {
		fmt.Fprintf(b, "- and %d more\n", n)
	}
}

// LastWords is the end of the agent's message, on one line.
func LastWords(d *journal.Detail) string {
	if d == nil {
		return ""
	}
	return strings.TrimSpace(Tail(strings.Join(strings.Fields(d.Words), " "), 400))
}
