package main

import (
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
	"descartes/loop/store"
	"descartes/view/print"
)

func newStatusCmd() *cobra.Command {
	var a app
	var name, stateFile string
	var verbose, all bool
	cmd := &cobra.Command{
		Use:   "status [loop]",
		Short: "Show the loop that is running, or the last one",
		Args:  takes(0, 1, "at most one loop"),
		RunE: a.does(func(args []string) error {
			if all {
				return a.loops(true)
			}
			return a.status(oneArg(args, name), stateFile, verbose)
		}),
	}
	a.flags(cmd, "print the status as JSON")
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "`id` of the loop")
	f.StringVar(&stateFile, "state-file", "", "state `file` of the loop")
	f.BoolVar(&all, "all", false, "every loop of the project, a line each")
	f.BoolVarP(&verbose, "verbose", "v", false, "show the settings too")
	return cmd
}

// status prints how a loop stands.
func (a *app) status(name, stateFile string, verbose bool) error {
	s, err := lookUp(a.root, a.Dir, name, stateFile)
	if err != nil {
		return err
	}
	l, err := accountOf(a.root, *s)
	if err != nil {
		return err
	}
	l.Act(viewed{a.root, func() (*store.Saved, error) { return s, nil }}.action)
	w := a.out()
	text := print.Status(l, terminal.Colours(terminal.IsTerminal(w)), terminal.HasRoom(w), verbose)
	for _, who := range a.home.Live() {
		if name == "" && stateFile == "" && who.Loop != "" && who.Loop != l.ID {
			text += "  Also running: descartes status " + who.Loop + a.here() + "\n"
		}
	}
	return a.show(l, strings.Join(terminal.Hang(text, terminal.Columns(w), 2), "\n"))
}
