package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
)

// Markdown is a run as a page for a job's summary.
func Markdown(s *Summary, h *journal.State) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", mdText(s.headline()))
	unit := fmt.Sprintf("Attempts: %d", s.Run.State.Iteration)
	if n := s.Run.History.Interrupted(); n > 0 {
		unit += fmt.Sprintf(", and %d interrupted", n)
	}
	if s.Board == nil {
		unit = fmt.Sprintf("Iterations: %d of %d", s.Run.State.Iteration, s.Run.State.Config.MaxIterations)
	}
	switch {
	case s.Run.ID == "":
		b.WriteString("No loop ran: ")
	case s.Live, s.killed():
		fmt.Fprintf(&b, "Loop `%s` ", s.Run.ID)
	default:
		fmt.Fprintf(&b, "Loop `%s` ended: ", s.Run.ID)
	}
	fmt.Fprintf(&b, "%s. %s. Cost: %s. Sandbox: %s.\n", mdText(s.ending()), unit, mdText(s.Run.State.Cost.Text()), mdText(Sandbox(s.Run.State.Config)))
	if text := s.Run.History.Chains().String(); text != "" {
		fmt.Fprintf(&b, "Chains: %s.\n", mdText(text))
	}
	if used := agentsText(s.Run.State.Agents); used != "" {
		fmt.Fprintf(&b, "Agents: %s.\n", mdText(used))
	}
	if s.Board == nil {
		if g := reportGate(s.Run.State); g != nil {
			b.WriteString("\n")
			g.lines(func(name, format string, args ...any) {
				fmt.Fprintf(&b, "- %s: %s\n", name, mdText(fmt.Sprintf(format, args...)))
			})
		}
		b.WriteString(s.iterationTable(h))
	} else {
		if text := strings.TrimSpace(h.BaselineOutput); s.Run.Outcome.Ending == journal.BaselineFails && text != "" {
			b.WriteString(folded("What verify printed before any task", text))
		}
		s.waveTables(&b, stories(h))
		b.WriteString(s.checksTable())
		if text := s.uncommitted(); text != "" {
			fmt.Fprintf(&b, "\nNot committed: %s.\n", mdText(text))
		}
	}
	if list := noticed(s.Run.State); len(list) > 0 {
		b.WriteString("\nLook at:\n\n")
		for _, text := range list {
			fmt.Fprintf(&b, "- %s\n", mdText(text))
		}
	}
	if command := s.Run.Outcome.Unpushed; command != "" {
		fmt.Fprintf(&b, "\nNot pushed: the work is only where the loop ran; there: `%s`\n", strings.ReplaceAll(terminal.Clean(command), "`", ""))
	}
	fmt.Fprintf(&b, "\nNext: %s\n", s.Next().OneLine("`"))
	return []byte(b.String())
}

// checksTable is what the runs of named checks came to, and what done does not say by itself.
func (s *Summary) checksTable() string {
	var b strings.Builder
	if list := s.Run.State.Checks; len(list) > 0 {
		b.WriteString("\n## Checks\n\n| Check | Runs | Failed | Flaky | Time |\n|---|---|---|---|---|\n")
		for _, t := range list {
			name := mdText(t.Check)
			if t.Fails != "" {
				name += ", fails on the work as a whole: " + mdText(t.Fails)
			}
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %s |\n", name, t.Runs, t.Failed, t.Flaky, terminal.Duration(time.Duration(t.Seconds*float64(time.Second))))
		}
	}
	lines := s.graded()
	for _, line := range flaky(s.Run.State.Flaky) {
		lines = append(lines, "flaky: "+line)
	}
	if names := s.unrun(); len(names) > 0 {
		lines = append(lines, "not run: "+strings.Join(names, ", "))
	}
	if len(lines) > 0 {
		b.WriteString("\n")
	}
	for _, line := range lines {
		fmt.Fprintf(&b, "- %s\n", mdText(line))
	}
	return b.String()
}

// waveTables are the graph of a tag, and its tasks wave by wave.
func (s *Summary) waveTables(b *strings.Builder, told map[string]*story) {
	if s.Graph.Counts().Total <= drawn {
		b.WriteString("\n```mermaid\n" + s.Mermaid() + s.colours() + "```\n")
	}
	commits := s.committed()
	for _, w := range s.Waves() {
		fmt.Fprintf(b, "\n## Wave %d", w.Number)
		if hash := commits[w.Number]; hash != "" {
			fmt.Fprintf(b, " (%s)", Short(hash))
		}
		priced := s.Run.History.WaveOf(w.Number).Cost.USD != nil
		b.WriteString("\n\n| Task | Title | State | Attempts | Time |")
		b.WriteString(column(priced, " Cost |") + "\n|---|---|---|---|---|" + column(priced, "---|") + "\n")
		for _, t := range w.Tasks {
			st := told[t.ID.ID]
			took := "– | –"
			if st != nil && st.attempts > 0 {
				took = fmt.Sprintf("%d | %s", st.attempts, terminal.Duration(time.Duration(st.seconds*float64(time.Second))))
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s |%s\n", mdText(t.ID.ID), mdText(t.Title), mdText(st.state(t, s.Live)), took,
				column(priced, " "+s.Run.History.Task(t.ID.ID).Cost.Dollars()+" |"))
		}
		for _, t := range w.Tasks {
			b.WriteString(told[t.ID.ID].tail(t))
		}
	}
}

// drawn is the number of tasks up to which a page has their graph: those that show it draw no larger ones.
const drawn = 150

// colours are those of the states that the graph shows.
func (b *Board) colours() string {
	seen := map[string]bool{}
	for _, w := range b.standing() {
		for _, t := range w.Tasks {
			seen[t.State] = true
		}
	}
	out := ""
	for _, c := range [][2]string{{"done", "fill:#d5f0d5,stroke:#2a7d2a"}, {"blocked", "fill:#f8d0d0,stroke:#a02020"}, {"held", "fill:#f6e6c0,stroke:#8a6d1a"}, {"running", "fill:#d3e4f8,stroke:#1f5fa8"}} {
		if seen[c[0]] {
			out += "  classDef " + c[0] + " " + c[1] + ",color:#000\n"
		}
	}
	return out
}

// tailLines is how much of what a failed attempt's verification printed a page shows.
const tailLines = 15

// tail is the end of what the last failed attempt at a task that is not done came to, folded; "" where there is none.
func (st *story) tail(t Task) string {
	if st == nil || st.failure == nil || st.failure.Result == nil || t.State == "done" {
		return ""
	}
	text := cmp.Or(strings.TrimSpace(st.failure.Result.Output), strings.TrimSpace(st.failure.Result.Words))
	if text == "" {
		return ""
	}
	return folded(fmt.Sprintf("%s %s, attempt %d: %s", t.ID.ID, t.Title, st.failure.Number, st.failure.Reason), text)
}

// folded is the end of a text that opens when somebody asks for it.
func folded(heading, text string) string {
	lines := strings.Split(terminal.CleanLines(text), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fmt.Sprintf("\n<details><summary>%s</summary>\n\n%s\n%s\n%s\n\n</details>\n", mdText(heading), fence, strings.Join(lines, "\n"), fence)
}

// mdText makes foreign text harmless in a table of Markdown.
func mdText(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'").Replace(terminal.Clean(s))
}

// column is the part of a line that only a table with that column has.
func column(there bool, text string) string {
	if there {
		return text
	}
	return ""
}
