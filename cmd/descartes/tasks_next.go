package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newTasksNextCmd() *cobra.Command {
	var look looking
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Show the task that a loop would start first",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			id := b.next()
			switch {
			case id == "" && look.json:
				return writeJSON(w, nil)
			case id == "":
				fmt.Fprintln(cmd.ErrOrStderr(), b.nothingReady())
				return nil
			}
			t, err := b.need(id)
			if err != nil {
				return err
			}
			d := b.detail(t)
			if look.json {
				return writeJSON(w, d)
			}
			_, err = fmt.Fprintf(w, "%s %s\n", clean(id), clean(t.Title))
			return err
		},
	}
	look.register(cmd, "print the task as JSON, null if there is none")
	look.registerGraph(cmd)
	return cmd
}

// next is the first task in wave order that is ready, or "".
func (b *board) next() string {
	for _, w := range b.graph.Waves() {
		for _, id := range w.Tasks {
			if b.graph.Ready(id) {
				return id
			}
		}
	}
	return ""
}

func (b *board) nothingReady() string {
	c := b.graph.Counts()
	if c.Done == c.Total {
		return "nothing left to do: " + count(c.Total, "task") + " done"
	}
	return fmt.Sprintf("no task is ready%s; descartes waves%s shows why", b.tally(), b.named())
}
