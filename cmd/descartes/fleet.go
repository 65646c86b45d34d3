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

	"descartes/fleet/wire"
	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/proc"
	"descartes/launch"
	"descartes/loop"
	"descartes/loop/workspace"
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

// fleetRun has a fleet make the attempts of a run.
type fleetRun struct{ wire.Client }

// longestURL is how long the URL of a remote may be.
const longestURL = 1000

// Check says what keeps the workers of a fleet from making the attempts.
func (*fleetRun) Check(ctx context.Context, r *launch.Run) (wrong []error, notes []string) {
	no := func(hint, format string, args ...any) { wrong = append(wrong, config.Wrong(hint, format, args...)) }
	c := r.Config
	if _, err := findFleet(r.Root); err != nil {
		wrong = append(wrong, err)
	}
	if c.Holdout.Run != "" {
		no("leave holdout out, or run here", "the held-out checks are on this machine alone, and no worker has them")
	}
	if c.Scud.Chain {
		no("leave it out, or run here", "scud.chain needs every attempt on one machine")
	}
	for _, id := range r.Tag.Graph.Leaves() {
		if _, err := wire.Labels(r.Tag.Needs(id)); err != nil {
			no("a need of a task is a label that workers have: descartes-fleet worker --labels", "task %s needs labels that no worker can have: %w", id, err)
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
		no("git remote set-url "+remote+" URL", "the URL of the remote %s has %d characters; at most %d travel", remote, len(url), longestURL)
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

// Join starts the program that carries a run's orders to the workers.
func (f *fleetRun) Join(ctx context.Context, r *launch.Run, l *loop.Loop, cfg loop.Config) error {
	program, err := findFleet(r.Root)
	if err != nil {
		return err
	}
	remote, err := remoteOf(ctx, r)
	if err != nil {
		return badInput(hintOf(err), "--fleet: %w", err)
	}
	argv := []string{program, "dispatch"}
	if cfg.Fleet != config.DefaultAddress {
		argv = append(argv, "--address", cfg.Fleet)
	}
	host, _ := os.Hostname()
	err = f.Start(ctx, wire.ClientOptions{Repo: r.Repo, Remote: remote, Apart: cfg.FleetRemote != "", Config: cfg, Program: argv, Env: os.Environ(), Stderr: os.Stderr, Note: func(text string) { _ = l.Warn(text) },
		Hello: wire.Hello{Tag: cfg.Scud.Tag, Loop: wire.NameLoop(l.ID(), r.Root+"\n"+l.State().StartedAt.UTC().Format(time.RFC3339Nano)), Host: host}})
	if _, taken := errors.AsType[*wire.InputError](err); taken {
		return badInput("descartes-fleet status lists what is under way", "--fleet: %w", err)
	}
	if _, git := errors.AsType[*workspace.GitError](err); git {
		return &failure{code: exitGit, err: fmt.Errorf("--fleet: %w", err), hint: "orders and results travel as refs below refs/descartes: let the remote take them"}
	}
	if err != nil {
		return &failure{code: exitError, err: fmt.Errorf("--fleet: %w", err), hint: "descartes-fleet status says what there is; descartes-fleet dev starts a server to try it"}
	}
	return nil
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
