package main

import (
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
	"descartes/loop/store"
	"descartes/view"
	"descartes/view/print"
)

func newStatusCmd() *cobra.Command {
	var a app
	var name, stateFile string
	var verbose, all bool
	cmd := &cobra.Command{
		Use: "status [run]", Aliases: []string{"list"},
		Short: "Show the run under way, or the last one",
		Args:  takes(0, 1, "at most one run"),
		RunE: a.does(func(args []string) error {
			if all || a.cmd.CalledAs() == "list" {
				return a.loops(all)
			}
			return a.status(oneArg(args, name), stateFile, verbose)
		}),
	}
	a.flags(cmd, "print the status as JSON")
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "`id` of the run")
	f.StringVar(&stateFile, "state-file", "", "state `file` of the run")
	f.BoolVar(&all, "all", false, "every run of the project, a line each")
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
	lookAround(a.ctx(), l)
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
