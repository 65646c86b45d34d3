package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"descartes/internal/proc"
)

// newFleetCmd passes its arguments to the fleet's own program.
func newFleetCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "fleet",
		Short: "Make attempts on other machines (" + fleetProgram + ")",
		Long: `fleet runs ` + fleetProgram + `, a program of its own: descartes fleet worker is
` + fleetProgram + ` worker. With descartes run TAG --fleet the workers make the
attempts of a run.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			program, err := findFleet(".")
			if err != nil {
				return err
			}
			code, err := proc.Attend(context.WithoutCancel(cmd.Context()), append([]string{program}, args...), "", nil)
			if err == nil && code != 0 {
				err = quiet(code)
			}
			return err
		},
	}
}

// fleetProgram carries orders between this program and the workers.
const fleetProgram = "descartes-fleet"

// findFleet finds the fleet's program.
func findFleet(dir string) (string, error) {
	program, err := proc.LookBeside(fleetProgram, dir, os.Environ())
	if err != nil {
		return "", &failure{code: exitInput, err: err, hint: "go install ./cmd/" + fleetProgram + " in a checkout of descartes, or put it beside descartes"}
	}
	return program, nil
}
