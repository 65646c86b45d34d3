package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"descartes/internal/terminal"
	"descartes/loop"
)

// turnsText is the status of a loop that repeats a prompt: the seed's text, and the last iterations.
func (st *loopStatus) turnsText() string {
	s := &st.view.State
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %s: %s\n", name, terminal.Clean(fmt.Sprintf(format, args...)))
	}
	b.WriteString("Loop Status\n===========\n")
	row("State file", "%s", shown(st.root, st.view.Path))
	row("Iteration", "%d", s.Iteration)
	row("Started", "%s", s.StartedAt.UTC().Format(time.RFC3339))
	row("Completed", "%s", yesNo(s.Completed))
	row("Exit reason", "%s", st.reason())
	if s.ID != "" {
		row("Loop", "%s", s.ID)
	}
	row("Last activity", "%s", st.lastActivity().UTC().Format(time.RFC3339))
	if s.Cost != nil {
		row("Cost", "%s", costText(s.Cost))
	}
	b.WriteString("  Progress: " + progress(s.Iteration, s.Config.MaxIterations) + "\n")
	if s.Config.SandboxInForce != "" {
		row("Sandbox", "%s", s.Config.SandboxInForce)
	}
	if g := reportGate(s); g != nil {
		b.WriteString("\nGate:\n")
		g.lines(row)
	}
	b.WriteString("\nConfig:\n")
	row("Command", "%s", s.Config.Command)
	row("Max iterations", "%d", s.Config.MaxIterations)
	if s.Config.Promised() {
		row("Completion promise", "%q", s.Config.CompletionPromise)
	}
	if len(s.Config.Args) > 0 {
		row("Arguments", "%s", wholeCommand(loop.Config{Command: s.Config.Args[0], Args: s.Config.Args[1:]}))
	}
	if c := s.Config.VerificationCommand; c != "" {
		row("Verify", "%s", c)
	}
	if s.Config.Git.AutoCommit {
		subject := cmp.Or(s.Config.Git.CommitTemplate, loop.DefaultCommitTemplate)
		if s.Kind != loop.KindPrompt {
			subject = s.Kind + ": iteration {iteration} - <task>"
		}
		row("Commits", "%s", subject)
	}
	b.WriteString(history(s.Summaries))
	return b.String()
}

// progress is a bar of the iterations that a loop may have.
func progress(done, most int) string {
	share := float64(min(done, most)) / float64(max(1, most))
	full := int(share*barWidth + 0.5)
	return fmt.Sprintf("%s%s %d%% (%d/%d iterations)", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), int(share*100+0.5), done, most)
}

// historyShown is how many iterations a status lists.
const historyShown = 10

// history lists the last iterations, the latest first.
func history(list []loop.IterationSummary) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nIteration History:\n  #    Duration   Exit  Preview\n")
	for n := len(list) - 1; n >= max(0, len(list)-historyShown); n-- {
		s := list[n]
		fmt.Fprintf(&b, "  %-4d %-10s %-5d %s\n", s.Iteration+1, terminal.Duration(s.CompletedAt.Sub(s.StartedAt)), s.ExitCode, terminal.Fit(terminal.Clean(s.OutputPreview), 60))
	}
	return b.String()
}
