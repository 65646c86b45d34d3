package main

import (
	"github.com/spf13/cobra"

	"descartes/internal/report"
	"descartes/loop"
)

// resumePrompt goes on with a loop that repeats a prompt. Its settings are the saved ones, with the limits that
// were given now over them.
func resumePrompt(cmd *cobra.Command, root string, s *settings, saved *loop.Saved) error {
	if err := s.noReports(); err != nil {
		return err
	}
	if err := checkPrompt("the prompt in "+report.Relative(root, saved.Path), s.Prompt); err != nil {
		return err
	}
	if err := live(root, saved); err != nil {
		return err
	}
	if saved.State.Kind == loop.KindPlan || saved.State.Kind == loop.KindBuild {
		s.promptFrom = "its prompt"
	}
	return repeat(cmd, root, saved.State.Kind, s, loop.StartOptions{Resume: saved.Path})
}

// live refuses to go on with a loop that runs.
func live(root string, saved *loop.Saved) error {
	if !loop.NewHome(root).IsLive(*saved) {
		return nil
	}
	return badInput("descartes loop status --name "+saved.State.ID+"; descartes loop cancel "+saved.State.ID, "loop %s is running already", saved.State.ID)
}
