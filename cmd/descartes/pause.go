package main

import (
	"github.com/spf13/cobra"

	"descartes/loop/store"
)

func newPauseCmd() *cobra.Command {
	return newAskCmd(store.RequestPause, "Pause after the running attempt, to resume later")
}
