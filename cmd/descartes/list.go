package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"descartes/internal/report"
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
			reports := []report.StatusJSON{}
			var bad []string
			for _, s := range all {
				if s.State == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", terminal.Clean(s.Err.Error()))
					bad = append(bad, report.Relative(root, s.Path))
					continue
				}
				st, err := report.NewStatus(root, s)
				if err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", terminal.Clean(err.Error()))
					bad = append(bad, s.State.ID)
					continue
				}
				reports = append(reports, st.Report(false))
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), reports)
			}
			return write(cmd.OutOrStdout(), report.LoopTable(reports, bad))
		},
	}
	registerDir(cmd, &dir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the loops as JSON")
	return cmd
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
				out = append(out, cobra.CompletionWithDesc(s.State.ID, terminal.Clean(s.State.Kind+" "+report.Readable(s.State.ExitReason.Type))))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
