package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
	"descartes/loop/store"
	"descartes/view"
)

func newListCmd() *cobra.Command {
	var dir string
	var asJSON, every bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the loops of the project",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := findRoot(dir)
			if err != nil {
				return err
			}
			return listLoops(cmd, root, asJSON, every)
		},
	}
	registerDir(cmd, &dir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print all loops as JSON")
	cmd.Flags().BoolVar(&every, "all", false, "every loop, even those that ended long ago")
	return cmd
}

// listLoops prints a line for each loop of the project.
func listLoops(cmd *cobra.Command, root string, asJSON, every bool) error {
	all, err := store.NewHome(root).List()
	if err != nil {
		return err
	}
	reports := []view.StatusJSON{}
	var bad []string
	for _, s := range all {
		if s.State == nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", terminal.Clean(s.Err.Error()))
			bad = append(bad, view.Relative(root, s.Path))
			continue
		}
		st, err := view.NewStatus(root, s)
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", terminal.Clean(err.Error()))
			bad = append(bad, s.State.ID)
			continue
		}
		reports = append(reports, st.Report(false))
	}
	return show(cmd.OutOrStdout(), asJSON, reports, view.LoopTable(reports, bad, every))
}
