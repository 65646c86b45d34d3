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

// help prints a command's text, how to call it, the commands below it, and its flags; with --all every flag, and the
// exit codes.
func help(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	text, codes := strings.CutSuffix(cmp.Or(cmd.Long, cmd.Short), exitTable)
	if text == "" { // of the topic
		fmt.Fprint(w, exitTable)
		return
	}
	if short(cmd) { // what it does, and examples
		n := 0
		text = strings.Join(slices.DeleteFunc(strings.Split(text, "\n\n"), func(part string) bool {
			plain := !strings.HasPrefix(part, " ")
			if plain {
				n++
			}
			return plain && n > 1
		}), "\n\n")
	}
	use := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		use = cmd.CommandPath() + " [command]"
	}
	fmt.Fprintf(w, "%s\n\nUsage: %s\n", inColumns(strings.TrimRight(text, "\n ")), use)
	if !cmd.HasParent() {
		fmt.Fprintln(w)
		everyDay(w, cmd)
		return
	}
	if list := offered(cmd); len(list) > 0 {
		fmt.Fprint(w, "\nCommands:\n")
		for _, c := range list {
			helpLine(w, c.Name(), 12, c.Short)
		}
	}
	helpFlags(w, cmd)
	if all, _ := cmd.Flags().GetBool("all"); codes && all {
		fmt.Fprint(w, "\n"+exitTable)
	}
}

// offered are the commands below one that help shows, in its order.
func offered(cmd *cobra.Command) (list []*cobra.Command) {
	known := map[string]*cobra.Command{}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			known[c.Name()] = c
			list = append(list, c)
		}
	}
	if cmd.HasParent() {
		return list
	}
	list = nil
	for _, g := range groups() {
		for _, name := range g[1:] {
			if c := known[name]; c != nil {
				list = append(list, c)
			}
		}
	}
	return list
}

// everyDay is the rest of the first screen: a line for each command of every day, the others by name.
func everyDay(w io.Writer, root *cobra.Command) {
	all := groups()
	for _, c := range offered(root)[:len(all[0])-1] {
		helpLine(w, c.Name(), 12, c.Short)
	}
	fmt.Fprintln(w)
	for _, g := range all[1:] {
		helpLine(w, g[0], 18, strings.Join(g[1:], " "))
	}
	fmt.Fprint(w, "\ndescartes COMMAND --help says more; descartes exit-codes, how a command ends.\n")
}

// inColumns fills the paragraphs of a text; examples, which are indented, stay as they are.
func inColumns(text string) string {
	parts := strings.Split(text, "\n\n")
	for i, part := range parts {
		if !strings.HasPrefix(part, " ") {
			parts[i] = strings.Join(terminal.Wrap(strings.ReplaceAll(part, "\n", " "), helpWidth), "\n")
		}
	}
	return strings.ReplaceAll(strings.Join(parts, "\n\n"), "\n\n\t", "\n\t") // of completion
}

// flagGroups are the parts of a long list of flags. What follows a bar in one of them is shown with --all only.
func flagGroups() [][]string {
	return [][]string{
		{"What to run:", "tag", "plan", "prompt-file", "retry-blocked", "task", "|", "prompt", "tasks-file",
			"spec-file", "max-spec-tokens"},
		{"Agent:", "backend", "command", "model", "fallback", "on-limit", "|", "timeout", "idle-timeout"},
		{"When a task is done:", "verify", "baseline", "|", "review"},
		{"Limits:", "max-attempts", "max-cost", "deadline", "|", "max-iterations", "max-total-iterations", "breaker"},
		{"Several at a time:", "parallel", "|", "fleet"},
		{"Git:", "branch", "push", "no-commit", "|", "auto-commit"},
		{"Sandbox:", "sandbox", "|", "env-pass", "trust"},
		{"Reports:", "ci", "json", "notify", "|", "plain", "junit", "summary", "ok-exit"},
		{"Only where a prompt is repeated:", "replan", "|", "completion-promise", "gate", "criterion", "continue",
			"no-confirm", "yes"},
		{"The run:", "dry-run", "detach", "set", "clear", "last", "step", "|", "keep-awake", "working-dir", "help", "name",
			"state-file", "config"},
	}
}

// fewFlags is up to how many flags make one list.
const fewFlags = 20

// flagsOf are the flags that help shows.
func flagsOf(cmd *cobra.Command) map[string]*pflag.Flag {
	list := map[string]*pflag.Flag{}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			list[f.Name] = f
		}
	})
	return list
}

// short reports whether the help of a command has more to say with --all.
func short(cmd *cobra.Command) bool {
	all := cmd.Flags().Lookup("all")
	return all != nil && all.Hidden && all.Value.String() == "false"
}

// helpFlags prints flags. A command with --all prints them in full, by group if they are many, only then; without,
// those that people often type, a line each, and those of run, if it takes many of them, by name.
func helpFlags(w io.Writer, cmd *cobra.Command) {
	left, short := flagsOf(cmd), short(cmd)
	print := func(title string, names []string) {
		for _, name := range names {
			if name == "|" && short {
				return
			}
			if f := left[name]; f != nil {
				fmt.Fprint(w, title)
				title = ""
				helpFlag(w, f, short)
			}
		}
	}
	groups := flagGroups()
	run, _, _ := cmd.Root().Find([]string{"run"})
	grouped := len(left) > fewFlags && (!short || cmd == run)
	own, named := ownFlags(left, flagsOf(run), groups, grouped, short)
	print("\nFlags:\n", own)
	for i, g := range groups {
		switch {
		case !grouped:
		case !short:
			print("\n"+g[0]+"\n", g[1:])
		case i == 0 && len(own) == 0:
			print("\nFlags:\n", g[1:])
		default:
			print("", g[1:])
		}
	}
	if short && !grouped && named != "" {
		fmt.Fprintf(w, "\n%s\n", inColumns("Flags of descartes run that it takes:"+named))
	}
	if short {
		fmt.Fprint(w, "\n--help --all says more; the keys of --set: descartes config show\n")
	}
}

// ownFlags returns the names of the flags that stand under no group, and in the short help of a command with many
// those that it shares with run, which are only named.
func ownFlags(left, run map[string]*pflag.Flag, groups [][]string, grouped, short bool) (own []string, named string) {
	grouping := map[string]bool{}
	for _, g := range groups {
		rare := false
		for _, name := range g[1:] {
			rare = rare || name == "|"
			f, same := left[name], run[name]
			shared := len(left) > fewFlags && f != nil && same != nil && f.Usage == same.Usage
			if shared && !rare {
				named += " --" + name
			}
			grouping[name] = grouped || short && (shared || rare)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if !grouping[name] {
			own = append(own, name)
		}
	}
	return own, named
}

// helpFlag prints a flag as pflag does, with its type and its default, or in one line.
func helpFlag(w io.Writer, f *pflag.Flag, short bool) {
	const column = 26
	one := pflag.NewFlagSet("", pflag.ContinueOnError)
	one.AddFlag(f)
	name, text, _ := strings.Cut(strings.TrimSpace(one.FlagUsages()), "   ")
	if f.Shorthand == "" {
		name = "    " + name
	}
	if text = strings.TrimSpace(text); short {
		if len(name)+2 > column {
			name, _, _ = strings.Cut(strings.TrimLeft(name, " "), " ")
			name = "    " + name
			if values, _ := pflag.UnquoteUsage(f); strings.Contains(values, "|") { // whole, whatever is cut
				text = values + ": " + text
			}
		}
		text = terminal.FitWords(text, helpWidth-2-column)
	}
	helpLine(w, name, column, text)
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
