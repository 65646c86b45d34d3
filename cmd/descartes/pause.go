package main

import (
	"github.com/spf13/cobra"

	"descartes/loop/store"
)

func newPauseCmd() *cobra.Command {
	return newRequestCmd(store.RequestPause, "paused", "Pause after the running attempt, to resume later")
}
