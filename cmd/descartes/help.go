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
	if !cmd.HasParent() {
		everyDay(w, cmd)
		return
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
	helpFlags(w, cmd)
	if codes {
		fmt.Fprint(w, "\n"+exitTable)
	}
}

// everyDay is the rest of the first screen: a line for each command of every day, the others by name.
func everyDay(w io.Writer, root *cobra.Command) {
	for i, g := range groups() {
		var names []string
		for _, c := range inOrder(root.Commands()) {
			if c.GroupID != g[0] || !c.IsAvailableCommand() && c.Name() != "help" {
				continue
			}
			if names = append(names, c.Name()); i == 0 {
				helpLine(w, c.Name(), 12, c.Short)
			}
		}
		if i == 0 {
			fmt.Fprintln(w)
		} else {
			helpLine(w, g[0], 18, strings.Join(names, " "))
		}
	}
	fmt.Fprint(w, "\ndescartes COMMAND --help says more about a command, descartes exit-codes about how it ends.\n")
}

// inColumns fills the paragraphs of a text; examples, which are indented, stay as they are.
func inColumns(text string) string {
	parts := strings.Split(text, "\n\n")
	for i, part := range parts {
		if !strings.HasPrefix(part, " ") {
			parts[i] = strings.Join(terminal.Wrap(strings.ReplaceAll(part, "\n", " "), helpWidth), "\n")
		}
	}
	return strings.Join(parts, "\n\n")
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

// flagGroups are the parts of a long list of flags. What follows a bar in one of them is shown with --all only.
func flagGroups() [][]string {
	return [][]string{
		{"What to run:", "tag", "plan", "prompt", "prompt-file", "retry-blocked", "task", "|", "tasks-file", "spec-file", "max-spec-tokens"},
		{"Agent:", "backend", "command", "model", "fallback", "on-limit", "|", "timeout", "idle-timeout"},
		{"When a task is done:", "verify", "baseline", "review"},
		{"Limits:", "max-attempts", "max-cost", "deadline", "max-iterations", "|", "max-total-iterations", "breaker"},
		{"Several at a time:", "parallel", "candidates", "|", "in-place", "fleet"},
		{"Git:", "branch", "push", "no-commit", "|", "auto-commit"},
		{"Sandbox:", "sandbox", "env-pass", "|", "trust"},
		{"Reports:", "ci", "json", "notify", "plain", "|", "junit", "summary", "ok-exit"},
		{"Only where a prompt is repeated:", "|", "completion-promise", "gate", "criterion", "continue", "no-confirm", "yes", "replan"},
		{"The run:", "dry-run", "detach", "set", "clear", "working-dir", "help", "last", "step", "|", "name", "state-file", "config"},
	}
}

// fewFlags is up to how many flags make one list.
const fewFlags = 20

// helpFlags prints flags, in groups if they are many, and then only those that people often type unless all are wanted.
func helpFlags(w io.Writer, cmd *cobra.Command) {
	left := map[string]*pflag.Flag{}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			left[f.Name] = f
		}
	})
	if len(left) <= fewFlags {
		fmt.Fprint(w, "\nFlags:\n")
		for _, name := range slices.Sorted(maps.Keys(left)) {
			helpFlag(w, left[name])
		}
		return
	}
	all, _ := cmd.Flags().GetBool("all")
	for _, g := range flagGroups() {
		title := "\n" + g[0] + "\n"
		for _, name := range g[1:] {
			if name == "|" && !all {
				break
			}
			if f := left[name]; f != nil {
				fmt.Fprint(w, title)
				title = ""
				helpFlag(w, f)
			}
		}
	}
	if !all {
		fmt.Fprintf(w, "\n%s --help --all shows the rest. The keys of --set: descartes config show\n", cmd.CommandPath())
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
