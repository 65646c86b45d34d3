package loop

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"descartes/internal/config"
	"descartes/internal/oneline"
	"descartes/loop/journal"
)

// maxHandoffTasks limits each list of a handoff; the task file has all tasks.
const maxHandoffTasks = 20

// handoffText is what the next session over the tag needs.
func (w *tagWork) handoffText(out *Outcome) string {
	var b strings.Builder
	c := w.job.Graph.Counts()
	fmt.Fprintf(&b, "## Where the loop over %s stopped\n\n", oneline.Text(w.state.Tag))
	fmt.Fprintf(&b, "Loop %s stopped on %s: %s. %d of %d tasks are done", w.state.ID, w.tools.Now().Format(time.RFC1123Z), oneline.Text(cmp.Or(out.Message, out.Ending.Words())), c.Done, c.Total)
	if n := len(w.history.WaveCommits); n > 0 {
		fmt.Fprintf(&b, "; the last commit is %.12s", w.history.WaveCommits[n-1].Commit)
	}
	b.WriteString(".\n")
	w.handoffCurrent(&b)
	if len(w.history.Blocked()) > 0 {
		b.WriteString("\n### Blocked\n\nTheir attempts are kept under these refs.\n\n")
		for _, e := range w.history.Blocked()[:min(maxHandoffTasks, len(w.history.Blocked()))] {
			fmt.Fprintf(&b, "- %s %s: %s", oneline.Text(e.Task), oneline.Text(e.Title), oneline.Text(e.Reason))
			if e.Ref != "" {
				fmt.Fprintf(&b, " (%s)", e.Ref)
			}
			b.WriteString("\n")
			if words := lastWords(w.history.Task(e.Task).Failure.Result); words != "" {
				fmt.Fprintf(&b, "  Its agent's last words: %s\n", words)
			}
		}
	}
	w.handoffNext(&b)
	fmt.Fprintf(&b, "\n### Continue\n\n    descartes resume --name %s%s\n", w.state.ID, more(out, w.config, w.config.Scud.MaxTotalIterations))
	if len(w.history.Blocked()) > 0 {
		fmt.Fprintf(&b, "    descartes answer %s%s --edit     # tell a blocked task's agent something\n    descartes resume --name %s --retry-blocked\n",
			config.ShellWord(w.history.Blocked()[0].Task), config.ListFlags(w.state.Tag, w.config.Scud.TasksFile), w.state.ID)
	}
	return b.String()
}

// more returns the flags with which a loop can continue after it met a limit or asked a person.
func more(out *Outcome, c *Config, most int) string {
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
	id := w.history.Current
	if id == "" {
		return
	}
	fmt.Fprintf(b, "\n### Half done\n\n- %s %s", oneline.Text(id), oneline.Text(w.title(id)))
	if f := w.history.Task(id).Failure; f.Verdict != "" {
		fmt.Fprintf(b, ": attempt %d %s (%s)", f.Attempt, oneline.Text(string(f.Verdict)), oneline.Text(f.Reason))
		if words := lastWords(f.Result); words != "" {
			fmt.Fprintf(b, "\n  Its agent's last words: %s", words)
		}
	}
}

// handoffNext lists what could run next.
func (w *tagWork) handoffNext(b *strings.Builder) {
	var ready []string
	for _, id := range w.job.Graph.Leaves() {
		if id != w.history.Current && w.job.Graph.Ready(id) {
			ready = append(ready, id)
		}
	}
	if len(ready) == 0 {
		return
	}
	b.WriteString("\n### Next\n\n")
	for _, id := range ready[:min(maxHandoffTasks, len(ready))] {
		fmt.Fprintf(b, "- %s %s\n", oneline.Text(id), oneline.Text(w.title(id)))
	}
	if n := len(ready) - maxHandoffTasks; n > 0 {
		fmt.Fprintf(b, "- and %d more\n", n)
	}
}

// lastWords is the end of the agent's message, on one line.
func lastWords(d *journal.Detail) string {
	if d == nil {
		return ""
	}
	return strings.TrimSpace(tail(strings.Join(strings.Fields(d.Words), " "), 400))
}
