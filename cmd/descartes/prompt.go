package main

import (
	"github.com/spf13/cobra"

	"descartes/loop/mode"
)

func newPromptCmd() *cobra.Command {
	return newModeCmd(mode.Prompt, "prompt <file>", "Run one prompt once, and commit what it changes", `Run one prompt from a file once, in a fresh agent, and commit what it changes. Nothing is tested, and it does not matter
what the agent says.`)
}
