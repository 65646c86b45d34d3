package loop

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"descartes/config"
	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/loop/source"
)

// What a run that stopped early leaves for the next session.

// maxHandoffTasks limits each list of a handoff; the task file has all tasks.
const maxHandoffTasks = 20

// TagHandoff is what the next session over a tag needs that a run's history tells.
func TagHandoff(id string, j *source.Job, h *journal.State, now time.Time, out *Outcome) string {
	tag := j.File.Tag()
	var b strings.Builder
	c := j.Graph.Counts()
	fmt.Fprintf(&b, "## Where the run over %s stopped\n\n", oneline.Text(tag))
	fmt.Fprintf(&b, "Run %s stopped on %s: %s. %d of %d tasks are done", id,
		now.Format(time.RFC1123Z), oneline.Text(cmp.Or(out.Message, out.Ending.Words())), c.Done,
		c.Total)
	if n := len(h.WaveCommits); n > 0 {
		fmt.Fprintf(&b, "; the last commit is %.12s", h.WaveCommits[n-1].Commit)
	}
	b.WriteString(".\n")
	handoffCurrent(&b, j, h)
	if len(h.Blocked()) > 0 {
		b.WriteString("\n### Blocked\n\nTheir attempts are kept under these refs.\n\n")
		for _, e := range h.Blocked()[:min(maxHandoffTasks, len(h.Blocked()))] {
			fmt.Fprintf(&b, "- %s %s: %s", oneline.Text(e.Task), oneline.Text(e.Title), oneline.Text(e.Reason))
			if e.Ref != "" {
				fmt.Fprintf(&b, " (%s)", e.Ref)
			}
			b.WriteString("\n")
			if words := LastWords(h.Task(e.Task).Failure.Result); words != "" {
				fmt.Fprintf(&b, "  Its agent's last words: %s\n", words)
			}
		}
	}
	handoffNext(&b, j, h)
	fmt.Fprintf(&b, "\n### Continue\n\n    descartes resume --name %s%s\n", id,
		More(out, &j.Config, j.Config.Scud.MaxTotalIterations))
	if len(h.Blocked()) > 0 {
		fmt.Fprintf(&b, "    descartes answer %s%s --edit     # tell a blocked task's agent something\n    descartes resume --name %s --retry-blocked\n",
			config.ShellWord(h.Blocked()[0].Task),
			config.ListFlags(tag, j.Config.Scud.TasksFile), id)
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
func handoffCurrent(b *strings.Builder, j *source.Job, h *journal.State) {
	id := h.Current
	if id == "" {
		return
	}
	fmt.Fprintf(b, "\n### Half done\n\n- %s %s", oneline.Text(id), oneline.Text(j.Title(id)))
	if f := h.Task(id).Failure; f.Verdict != "" {
		fmt.Fprintf(b, ": attempt %d %s (%s)", f.Attempt, oneline.Text(string(f.Verdict)), oneline.Text(f.Reason))
		if words := LastWords(f.Result); words != "" {
			fmt.Fprintf(b, "\n  Its agent's last words: %s", words)
		}
	}
}

// handoffNext lists what could run next.
func handoffNext(b *strings.Builder, j *source.Job, h *journal.State) {
	var ready []string
	for _, id := range j.Graph.Leaves() {
		if id != h.Current && j.Graph.Ready(id) {
			ready = append(ready, id)
		}
	}
	if len(ready) == 0 {
		return
	}
	b.WriteString("\n### Next\n\n")
	for _, id := range ready[:min(maxHandoffTasks, len(ready))] {
		fmt.Fprintf(b, "- %s %s\n", oneline.Text(id), oneline.Text(j.Title(id)))
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
