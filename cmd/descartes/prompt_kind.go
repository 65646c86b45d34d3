package main

import (
	"slices"

	"github.com/spf13/pflag"
)

// wanted is what was typed for a start, which decides between a loop over a tag and one over a prompt. It counts
// before what the environment and descartes.yaml say.
type wanted struct{ flags []string }

func typed(f *pflag.FlagSet) (a wanted) {
	f.Visit(func(fl *pflag.Flag) { a.flags = append(a.flags, fl.Name) })
	return a
}

// any is the first of these flags that was typed, or "".
func (a wanted) any(flags ...string) string {
	for _, name := range a.flags {
		if slices.Contains(flags, name) {
			return name
		}
	}
	return ""
}

// prompt completes the decision with the settings, and refuses flags that the loop has no use for.
func (a wanted) prompt(s *settings) (bool, error) {
	tag, prompt := a.any("scud-tag") != "", a.any("prompt", "prompt-file") != ""
	switch {
	case tag && prompt:
		return false, badInput("put what every task's agent should read into a --spec-file", "--prompt is for a loop over a prompt, not over the tasks of a tag")
	case !prompt && (tag || s.Scud.Tag != ""):
		if name := a.any("continue", "isolated", "iteration-context"); name != "" {
			return false, badInput("each attempt at a task is a fresh agent", "--%s is for a loop over a prompt, not over the tasks of a tag", name)
		}
		return false, nil
	case !prompt && s.Prompt == "":
		if err := s.frontProblem(); err != nil {
			return false, err
		}
		return false, badInput("descartes tasks list shows the tags that there are",
			"what is to be run? --scud-tag runs the tasks of a tag, --prompt or --prompt-file repeats a prompt")
	}
	if name := a.any("tasks-file", "open-in-done", "plan", "spec-file", "spec-template", "max-spec-tokens", "spec-budget", "max-attempts",
		"max-total-iterations", "retry-blocked", "max-cost-per-task", "cost-trailer"); name != "" {
		return false, badInput("descartes loop start --help", "--%s is for a loop over the tasks of a tag, not over a prompt", name)
	}
	return true, nil
}
