package main

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
	"descartes/loop"
)

func newListCmd() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List every loop of the project",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := findRoot(dir)
			if err != nil {
				return err
			}
			all, err := loop.NewHome(root).List()
			if err != nil {
				return err
			}
			reports := []statusJSON{}
			var bad []string
			for _, s := range all {
				if s.State == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", terminal.Clean(s.Err.Error()))
					bad = append(bad, shown(root, s.Path))
					continue
				}
				st, err := newLoopStatus(root, s)
				if err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", terminal.Clean(err.Error()))
					bad = append(bad, s.State.ID)
					continue
				}
				reports = append(reports, st.report(false))
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), reports)
			}
			return write(cmd.OutOrStdout(), loopTable(reports, bad))
		},
	}
	registerDir(cmd, &dir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the loops as JSON")
	return cmd
}

// loopTable is the list for a person. bad are those of which nothing can be told: ids, or state files.
func loopTable(list []statusJSON, bad []string) string {
	if len(list)+len(bad) == 0 {
		return "no loop was started here\n"
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LOOP\tKIND\tTAG\tSTATE\tEXIT\tDONE\tLAST ACTIVITY")
	for _, l := range list {
		exit := l.ExitReason.Type
		if exit == "running" {
			exit = "-"
		}
		done := terminal.Count(l.Iteration, "attempt")
		if l.Kind != loop.KindTag {
			done = fmt.Sprintf("%d/%d iterations", l.Iteration, l.MaxIteration)
		}
		state := l.State
		if l.Requested != "" {
			state += ", " + l.Requested + " requested"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(l.ID, "-"), kindShown(l), cmp.Or(terminal.Clean(l.Tag), "-"), state, terminal.Clean(exit), done, l.LastActivity.UTC().Format(time.RFC3339))
	}
	for _, name := range bad {
		fmt.Fprintf(w, "%s\t-\t-\tunreadable\t-\t-\t-\n", terminal.Clean(name))
	}
	w.Flush() // into memory
	return s.String()
}

// kindShown is a loop's kind, with the gate that ends it where that is not the promise.
func kindShown(l statusJSON) string {
	if l.Gate == nil {
		return terminal.Clean(l.Kind)
	}
	return terminal.Clean(l.Kind) + " (" + l.Gate.Kind + ")"
}

// completeLoops lets a shell complete the first argument of a command, a loop.
func completeLoops(cmd *cobra.Command, dir *string) {
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		root, err := findRoot(*dir)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := loop.NewHome(root).List()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var out []string
		for _, s := range all {
			if s.State != nil && s.State.ID != "" && !s.Archived {
				out = append(out, cobra.CompletionWithDesc(s.State.ID, terminal.Clean(s.State.Kind+" "+readable(s.State.ExitReason.Type))))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
