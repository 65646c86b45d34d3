package main

import (
	"github.com/spf13/cobra"

	"descartes/loop/store"
)

func newStepCmd() *cobra.Command {
	s := &settings{}
	var task string
	cmd := &cobra.Command{
		Use:   "step [tag | file]",
		Short: "Run the next unfinished wave of a tag, or one task, and no more",
		Long: `Run the next unfinished wave of a tag, or one task, and no more.

` + exitTable,
		Args: takes(0, 1, "one tag or file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.source(cmd, args); err != nil {
				return err
			}
			return startRun(cmd, s, store.Scope{Step: true, Task: task})
		},
	}
	s.register(cmd, ofRun)
	cmd.Flags().StringVar(&task, "task", "", "run exactly this `task`")
	return cmd
}
