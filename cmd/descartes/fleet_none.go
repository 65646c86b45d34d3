//go:build !fleet

package main

import (
	"context"

	"github.com/spf13/cobra"

	"descartes/fleet"
)

// dial reaches the server of a fleet; nil: another program does, see fleetProgram.
var dial func(ctx context.Context, address string, wait func(string)) (fleet.Carrier, error)

// addFleetCmds adds the commands that need that server.
func addFleetCmds(*cobra.Command) {}
