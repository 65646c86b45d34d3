package main

import (
	"github.com/spf13/cobra"

	"descartes/loop/store"
)

func newPauseCmd() *cobra.Command {
	return newAskCmd(store.RequestPause, "Pause a loop at its next boundary, to resume it later")
}
