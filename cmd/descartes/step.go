package main

import (
	"github.com/spf13/cobra"

	"descartes/loop"
)

func newStepCmd() *cobra.Command {
	s := &settings{}
	var task string
	cmd := &cobra.Command{
		Use:   "step",
		Short: "Run the next unfinished wave of a tag, or one task, and no more",
		Long: `Run the next unfinished wave of a tag, or one task, and no more.

` + exitTable,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return startRun(cmd, s, loop.Scope{Step: true, Task: task})
		},
	}
	s.register(cmd, ofRun)
	cmd.Flags().StringVar(&task, "task", "", "run exactly this `task`")
	known := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return taskIDs(cmd, s.Dir)
	}
	if err := cmd.RegisterFlagCompletionFunc("task", known); err != nil {
		panic(err) // it was registered above
	}
	return cmd
}
