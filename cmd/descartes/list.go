package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

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
			for _, s := range all {
				if s.State == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", clean(s.Err.Error()))
					continue
				}
				st, err := newLoopStatus(root, s)
				if err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", clean(err.Error()))
					continue
				}
				reports = append(reports, st.report(false))
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), reports)
			}
			return write(cmd.OutOrStdout(), loopTable(reports))
		},
	}
	registerDir(cmd, &dir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the loops as JSON")
	return cmd
}

func loopTable(list []statusJSON) string {
	if len(list) == 0 {
		return "no loop was started here\n"
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LOOP\tTAG\tSTATE\tEXIT\tATTEMPTS\tLAST ACTIVITY")
	for _, l := range list {
		exit := l.ExitReason.Type
		if exit == "running" {
			exit = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", l.ID, clean(l.Tag), l.State, clean(exit), l.Iteration, l.LastActivity.UTC().Format(time.RFC3339))
	}
	w.Flush() // into memory
	return s.String()
}
