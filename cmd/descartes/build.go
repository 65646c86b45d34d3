package main

import (
	"github.com/spf13/cobra"

	"descartes/loop/mode"
)

func newBuildCmd() *cobra.Command {
	return newModeCmd(mode.Build, "build [max_iterations]", "Do the tasks of IMPLEMENTATION_PLAN.md, one in each iteration, tested and committed", `Do the tasks of IMPLEMENTATION_PLAN.md, one in each iteration: a fresh agent, the tests, a commit. An iteration
that fails, whose tests fail or that changes nothing is repeated up to three times.

The tests are --verify, else the command that the committed AGENTS.md gives, else found from the project. The prompt is
PROMPT_build.md or prompts/build.md where the project has one.`)
}
