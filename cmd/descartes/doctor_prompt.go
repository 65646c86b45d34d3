package main

import (
	"errors"

	"github.com/spf13/cobra"

	"descartes/loop"
)

// checkPrompt looks at what a loop over a prompt needs.
func (d *doctor) checkPrompt(cmd *cobra.Command, s *settings, wants wanted) {
	ctx := cmd.Context()
	d.git(ctx, d.root)
	_, err := wants.prompt(s)
	if err == nil {
		err = s.completePrompt(cmd, d.root)
	}
	if err != nil {
		d.bad("run", err.Error(), hintOf(err))
		return
	}
	d.backend(ctx, s.Config)
	if s.VerificationCommand != "" {
		s.Scud.VerificationCommand = s.VerificationCommand
		d.verify(ctx, s)
	}
	d.safety(ctx, s.Config)
	r, err := prepareRepeat(ctx, d.root, loop.KindPrompt, s.Config, loop.StartOptions{Command: "loop"})
	var found problems
	switch {
	case errors.As(err, &found):
		for _, p := range found {
			d.bad("run", p.Message, orWord(p.Hint, hintOf(p.Err)))
		}
		return
	case err != nil:
		d.bad("run", err.Error(), hintOf(err))
		return
	}
	defer r.close()
	if !d.ill {
		d.good("run", "the prompt can be repeated, "+count(s.MaxIterations, "iteration")+" at most")
	}
	for _, n := range r.notes {
		d.lacking("", n, "")
	}
}
