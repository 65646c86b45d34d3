package main

import (
	"github.com/spf13/cobra"

	"descartes/view"
)

func newListCmd() *cobra.Command {
	var a app
	var every bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the loops of the project",
		Args:  takes(0, 0, ""),
		RunE:  a.does(func([]string) error { return a.loops(every) }),
	}
	a.flags(cmd, "print all loops as JSON")
	cmd.Flags().BoolVar(&every, "all", false, "every loop, even those that ended long ago")
	return cmd
}

// loops prints a line for each loop of the project.
func (a *app) loops(every bool) error {
	all, err := a.home.List()
	if err != nil {
		return err
	}
	reports := []view.StatusJSON{}
	var bad []string
	for _, s := range all {
		if s.State == nil {
			a.warn(s.Err.Error())
			bad = append(bad, view.Relative(a.root, s.Path))
			continue
		}
		st, err := view.NewStatus(a.root, s)
		if err != nil {
			a.warn(err.Error())
			bad = append(bad, s.State.ID)
			continue
		}
		reports = append(reports, st.Report(false))
	}
	return a.show(reports, view.LoopTable(reports, bad, every))
}
