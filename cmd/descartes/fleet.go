package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"descartes/config"
	"descartes/fleet"
	"descartes/gitops"
	"descartes/internal/proc"
	"descartes/launch"
	"descartes/loop/slot"
)

// fleetProgram is this program with Temporal's SDK in it: the same code, built with the tag fleet. Called by that name
// its commands are those of descartes fleet, and those of descartes behind the word descartes.
const fleetProgram = "descartes-fleet"

// fleetArgs are a command line of descartes that does what one of descartes-fleet says.
func fleetArgs(args []string) []string {
	if len(args) > 0 && args[0] == "descartes" {
		return args[1:]
	}
	return append([]string{"fleet"}, args...)
}

func newFleetCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Make attempts on other machines (" + fleetProgram + ")",
		Long: `fleet runs ` + fleetProgram + `, a program of its own: descartes fleet worker is
` + fleetProgram + ` worker. With descartes run TAG --fleet the workers make the
attempts of a run.`,
	}
	if dial != nil {
		cmd.Args, cmd.RunE = cobra.ArbitraryArgs, groupRun
		addFleetCmds(cmd)
		return cmd
	}
	cmd.DisableFlagParsing = true
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		program, err := findFleet(".")
		if err != nil {
			return err
		}
		return proc.Become(program, args)
	}
	return cmd
}

// findFleet finds the fleet's program.
func findFleet(dir string) (string, error) {
	program, err := proc.LookBeside(fleetProgram, dir, os.Environ())
	if err != nil {
		return "", &failure{code: exitInput, err: err, hint: "make " + fleetProgram +
			" in a checkout of descartes, and put it beside descartes"}
	}
	return program, nil
}

// handOver has the fleet's program do a run whose attempts workers make. One that is missing is a problem of the
// run's, named with the others.
func (s *settings) handOver(address string) error {
	if address == "" || dial != nil || s.DryRun || s.Detach && os.Getenv(detachedVar) == "" {
		return nil
	}
	program, err := findFleet(".")
	if err != nil {
		return nil
	}
	return proc.Become(program, append([]string{"descartes"}, os.Args[1:]...))
}

// fleetRun has a fleet make the attempts of a run.
type fleetRun struct{ fleet.Client }

// longestURL is how long the URL of a remote may be.
const longestURL = 1000

// Check says what keeps the workers of a fleet from making the attempts.
func (*fleetRun) Check(ctx context.Context, r *launch.Run) (wrong []error, notes []string) {
	no := func(hint, format string, args ...any) { wrong = append(wrong, config.Wrong(hint, format, args...)) }
	c := r.Config
	if _, err := findFleet(r.Root); err != nil && dial == nil {
		wrong = append(wrong, err)
	}
	if c.Holdout.Run != "" {
		no("leave holdout out, or run here", "the held-out checks are on this machine alone, and no worker has them")
	}
	for _, id := range r.Tag.Graph.Leaves() {
		if _, err := fleet.Labels(r.Tag.Needs(id)); err != nil {
			no("needs must be worker labels: descartes-fleet worker --labels",
				"task %s needs labels that no worker can have: %w", id, err)
		}
	}
	if real, err := filepath.EvalSymlinks(r.Root); err == nil && real != r.Repo.Root() && r.Root != r.Repo.Root() {
		no("start in "+r.Repo.Root(), "a fleet works on whole repositories, and the project is a folder of one")
	}
	if _, login := gitops.WithoutLogin(c.FleetRemote); login {
		no("take it out; git's credential helpers keep it", "the URL of fleet_remote has a login in it")
		return wrong, nil
	}
	remote, err := remoteOf(ctx, r)
	if err != nil {
		return append(wrong, err), nil
	}
	switch url, login, err := r.Repo.RemoteURL(ctx, remote); {
	case err != nil:
		wrong = append(wrong, err)
	case len(url) > longestURL:
		no("git remote set-url "+remote+" URL", "the URL of the remote %s has %d characters; at most %d travel",
			remote, len(url), longestURL)
	case login:
		notes = append(notes, "the login in the URL of "+remote+" stays here: each worker needs its own")
	}
	return wrong, notes
}

// remoteOf is the remote over which a fleet's machines reach each other.
func remoteOf(ctx context.Context, r *launch.Run) (string, error) {
	if r.Config.FleetRemote != "" {
		return r.Config.FleetRemote, nil
	}
	head, err := r.Repo.Head(ctx)
	if err != nil {
		return "", err
	}
	return r.Repo.Remote(cmp.Or(r.Options.Branch, r.Config.Git.Branch, head.Branch))
}

// Join makes the run the only one of its tag, at the server.
func (f *fleetRun) Join(ctx context.Context, r *launch.Run, l launch.Joins, cfg config.Config) error {
	remote, err := remoteOf(ctx, r)
	if err != nil {
		return badInput(hintOf(err), "--fleet: %w", err)
	}
	address := cfg.Fleet
	if address == config.DefaultAddress {
		address = ""
	}
	var wait func(string)
	if r.Options.Resume != "" { // its attempts go on meanwhile
		wait = l.Warn
	}
	carrier, err := dial(ctx, address, wait)
	if err == nil {
		err = f.Start(ctx, fleet.Options{Repo: r.Repo, Remote: remote, Config: cfg, Carrier: carrier,
			Note: l.Warn,
			Hello: fleet.Hello{Tag: cfg.Scud.Tag, Loop: fleet.NameLoop(l.ID,
				r.Root+"\n"+l.StartedAt.UTC().Format(time.RFC3339Nano)), Host: fleet.Host()}})
	}
	if _, git := errors.AsType[*slot.GitError](err); git {
		return &failure{code: exitGit, err: fmt.Errorf("--fleet: %w", err),
			hint: "orders and results travel as refs below refs/descartes: let the remote take them"}
	}
	if err != nil {
		err = fmt.Errorf("--fleet: %w", err)
	}
	return err
}
