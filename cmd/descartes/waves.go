package main

import (
	"github.com/spf13/cobra"

	"descartes/internal/terminal"
)

func newWavesCmd() *cobra.Command {
	var look tagFlags
	var dot, mermaid, explain bool
	cmd := &cobra.Command{
		Use:   "waves",
		Short: "Show the waves of a tag: what is ready, what is held and why",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err == nil {
				err = markStale(cmd.Context(), b)
			}
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if explain && (look.json || dot || mermaid) {
				return badInput("", "choose one of --explain, --json, --dot and --mermaid")
			}
			switch {
			case explain:
				return write(w, b.Explain())
			case look.json && !dot && !mermaid:
				return writeJSON(w, b.Report())
			case dot && !look.json && !mermaid:
				return write(w, b.Dot())
			case mermaid && !look.json && !dot:
				return write(w, b.Mermaid())
			case look.json || dot || mermaid:
				return badInput("", "choose one of --json, --dot and --mermaid")
			}
			return write(w, b.Text(terminal.Colours(terminal.IsTerminal(w)), terminal.Columns(w)))
		},
	}
	look.register(cmd, "print waves and problems as JSON")
	look.registerGraph(cmd)
	cmd.Flags().BoolVar(&explain, "explain", false, "say what would start next, and what every other task waits for")
	cmd.Flags().BoolVar(&dot, "dot", false, "print the graph for Graphviz")
	cmd.Flags().BoolVar(&mermaid, "mermaid", false, "print the graph for Mermaid")
	return cmd
}
