package main

import (
	"github.com/spf13/cobra"

	"descartes/internal/terminal"
	"descartes/view/print"
)

func newWavesCmd() *cobra.Command {
	var a app
	var dot, mermaid bool
	cmd := &cobra.Command{
		Use:   "waves",
		Short: "Show the waves of a tag: what is ready, what is held and why",
		Args:  takes(0, 0, ""),
		RunE: a.does(func([]string) error {
			b, err := a.proven()
			if err != nil {
				return err
			}
			text := ""
			switch w := a.out(); {
			case dot:
				text = print.Dot(b)
			case mermaid:
				text = print.Mermaid(b)
			default:
				text = print.Waves(b, terminal.Colours(terminal.IsTerminal(w)), terminal.Columns(w))
			}
			return a.show(b.Report(), text)
		}),
	}
	a.register(cmd, "print waves and problems as JSON")
	a.registerGraph(cmd)
	cmd.Flags().BoolVar(&dot, "dot", false, "print the graph for Graphviz")
	cmd.Flags().BoolVar(&mermaid, "mermaid", false, "print the graph for Mermaid")
	oneOf(cmd, "json", "dot", "mermaid")
	return cmd
}
