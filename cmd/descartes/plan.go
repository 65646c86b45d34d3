package main

import (
	"github.com/spf13/cobra"

	"descartes/loop/mode"
)

func newPlanCmd() *cobra.Command {
	return newModeCmd(mode.Plan, "plan [max_iterations]", "Compare specs and code, and write IMPLEMENTATION_PLAN.md, iteration by iteration", `Compare specs and code, and write IMPLEMENTATION_PLAN.md, iteration by iteration, each in a fresh agent and
committed. It ends when the agent has nothing to add and says so, or after max_iterations (10).

The prompt is PROMPT_plan.md or prompts/plan.md where the project has one.`)
}
