package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/internal/terminal"
)

// helpWidth is the width of help in columns.
const helpWidth = 80

// help prints a command's text, how to call it, the commands below it by group, its flags, and last the exit codes.
func help(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	text, codes := strings.CutSuffix(cmp.Or(cmd.Long, cmd.Short), exitTable)
	if text == "" { // of the topic
		fmt.Fprint(w, exitTable)
		return
	}
	fmt.Fprintf(w, "%s\n\nUsage:\n", inColumns(strings.TrimRight(text, "\n ")))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s [command]\n", cmd.CommandPath())
	} else {
		fmt.Fprintf(w, "  %s\n", cmd.UseLine())
	}
	for _, g := range append(cmd.Groups(), &cobra.Group{Title: "Commands:"}) {
		title := "\n" + g.Title + "\n"
		for _, c := range inOrder(cmd.Commands()) {
			if !c.Hidden && c.GroupID == g.ID && !c.IsAdditionalHelpTopicCommand() {
				fmt.Fprint(w, title)
				helpLine(w, c.Name(), 12, c.Short)
				title = ""
			}
		}
	}
	helpFlags(w, cmd.LocalFlags())
	if codes {
		fmt.Fprint(w, "\n"+exitTable)
	}
	if !cmd.HasParent() {
		fmt.Fprint(w, "\ndescartes COMMAND --help says more about a command.\n")
	}
}

// inColumns fills the paragraphs of a text. An example, which is indented, gets its explanation on the next line if it is too long.
func inColumns(text string) string {
	var out []string
	for part := range strings.SplitSeq(text, "\n\n") {
		if !strings.HasPrefix(part, " ") {
			out = append(out, strings.Join(terminal.Wrap(strings.ReplaceAll(part, "\n", " "), helpWidth), "\n"))
			continue
		}
		lines := strings.Split(part, "\n")
		for i, line := range lines {
			if at := strings.LastIndex(line, "   "); at > 0 && terminal.Width(line) > helpWidth {
				lines[i] = strings.TrimRight(line[:at], " ") + "\n" + strings.Join(terminal.Wrap("      "+line[at+3:], helpWidth), "\n")
			}
		}
		out = append(out, strings.Join(lines, "\n"))
	}
	return strings.Join(out, "\n\n")
}

// inOrder sorts commands as in their group, and others by name.
func inOrder(list []*cobra.Command) []*cobra.Command {
	place := map[string]int{}
	for _, g := range groups() {
		for i, name := range g {
			place[name] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(list), func(a, b *cobra.Command) int { return place[a.Name()] - place[b.Name()] })
}

// flagGroups are the parts of a long list of flags.
func flagGroups() [][]string {
	return [][]string{
		{"Task list:", "scud-tag", "tasks-file", "plan", "task", "open-in-done", "retry-blocked"},
		{"What the agent is given:", "spec-file", "spec-template", "spec-budget", "max-spec-tokens", "handoff", "chain"},
		{"Agent:", "backend", "command", "model", "prompt-mode", "fallback", "on-limit", "max-wait"},
		{"When a task is done:", "verify", "verify-timeout", "verify-idle-timeout", "all-checks", "baseline", "require", "protect-mode", "prove", "mutants", "review"},
		{"Limits:", "max-attempts", "max-total-iterations", "max-cost", "max-cost-per-task", "deadline", "breaker", "timeout", "idle-timeout", "start-timeout", "exit-grace", "spin-limit", "max-memory", "max-procs", "min-free-disk"},
		{"Several at a time:", "parallel", "fleet", "fleet-remote", "isolate", "in-place", "barrier", "respect-scope", "candidates", "pick"},
		{"Git:", "branch", "create-branch", "branch-template", "auto-commit", "no-commit", "commit-template", "cost-trailer", "allow-dirty", "hooks", "hook-timeout", "push"},
		{"Sandbox:", "sandbox", "env", "env-pass", "trust"},
		{"Reports:", "json", "junit", "summary", "notify", "notify-on", "ci", "ok-exit", "plain", "times"},
		{"Only where a prompt is repeated:", "prompt", "prompt-file", "completion-promise", "max-iterations", "gate", "criterion", "shape", "shape-file", "reversibility", "precheck", "no-confirm", "cooldown", "max-file-edits", "loop-state", "isolated", "continue", "iteration-context", "replan"},
		{"The run:", "name", "last", "step", "state-file", "config", "working-dir", "detach", "dry-run", "yes", "help"},
	}
}

// fewFlags is up to how many flags make one list.
const fewFlags = 20

// helpFlags prints flags, in groups if they are many.
func helpFlags(w io.Writer, flags *pflag.FlagSet) {
	left := map[string]*pflag.Flag{}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			left[f.Name] = f
		}
	})
	if len(left) > fewFlags {
		for _, g := range flagGroups() {
			title := "\n" + g[0] + "\n"
			for _, name := range g[1:] {
				if f := left[name]; f != nil {
					fmt.Fprint(w, title)
					title = ""
					helpFlag(w, f)
					delete(left, name)
				}
			}
		}
	}
	if len(left) > 0 {
		fmt.Fprint(w, "\nFlags:\n")
		for _, name := range slices.Sorted(maps.Keys(left)) {
			helpFlag(w, left[name])
		}
	}
}

// helpFlag prints a flag as pflag does, with its type and its default.
func helpFlag(w io.Writer, f *pflag.Flag) {
	one := pflag.NewFlagSet("", pflag.ContinueOnError)
	one.AddFlag(f)
	if name, text, ok := strings.Cut(strings.TrimSpace(one.FlagUsages()), "   "); ok {
		if f.Shorthand == "" {
			name = "    " + name
		}
		helpLine(w, name, 26, strings.TrimSpace(text))
	}
}

// helpLine prints a name and its explanation, which begins in that column, or on the next line if the name is longer.
func helpLine(w io.Writer, name string, column int, text string) {
	for i, line := range terminal.Wrap(text, helpWidth-2-column) {
		switch {
		case i > 0:
			name = ""
		case len(name)+2 > column:
			fmt.Fprintf(w, "  %s\n", name)
			name = ""
		}
		fmt.Fprintf(w, "  %-*s%s\n", column, name, line)
	}
}
