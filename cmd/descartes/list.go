package main

import (
	"github.com/spf13/cobra"

	"descartes/view"
	"descartes/view/print"
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
	reports, list := []*view.Status{}, view.All(a.root, all)
	for _, l := range list {
		if l.Err != nil {
			a.warn(l.Err.Error())
			continue
		}
		l.Waves, l.TaskCosts = nil, nil
		reports = append(reports, &l.Status)
	}
	return a.show(reports, print.Loops(list, every))
}
