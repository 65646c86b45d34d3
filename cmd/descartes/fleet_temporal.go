//go:build fleet

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/config"
	"descartes/fleet"
	"descartes/fleet/temporal"
	"descartes/internal/proc"
	"descartes/launch"
)

// keyVar names the file with the key that encrypts what the server stores.
const keyVar = "DESCARTES_FLEET_KEY_FILE"

// dial reaches the server of a fleet, and where wait is set waits for one that does not answer.
var dial = func(ctx context.Context, address string, wait func(string)) (fleet.Carrier, error) {
	return temporal.Server{Address: address, KeyFile: os.Getenv(keyVar), Wait: wait}.Dial(ctx)
}

// addFleetCmds adds the commands that need that server.
func addFleetCmds(cmd *cobra.Command) {
	var at temporal.Server
	cmd.Long = `descartes-fleet makes the attempts of descartes' runs on other machines.

  descartes-fleet dev                                    a server to try it
  descartes-fleet worker --repo 'https://host/team/*'    on each machine
  descartes run TAG --fleet -j 16                        where you are

The server is a Temporal server: --address, or TEMPORAL_ADDRESS and the other
variables of Temporal's own tools (TEMPORAL_NAMESPACE, TEMPORAL_API_KEY,
TEMPORAL_TLS_CLIENT_CERT_PATH, ...), else 127.0.0.1:7233.`
	f := cmd.PersistentFlags()
	f.StringVar(&at.Address, "address", "", "`host:port` of the Temporal server (default: $TEMPORAL_ADDRESS)")
	f.StringVar(&at.Namespace, "namespace", "", "Temporal `namespace` (default: $TEMPORAL_NAMESPACE)")
	f.StringVar(&at.KeyFile, "key-file", os.Getenv(keyVar),
		"`file` with the key that encrypts what the server stores (default: $"+keyVar+")")
	cmd.AddCommand(newWorkerCmd(&at), newFleetStatusCmd(&at), newDevCmd())
}

func newWorkerCmd(at *temporal.Server) *cobra.Command {
	w := temporal.Worker{Log: os.Stdout}
	unconfined, least := false, "1G"
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Make attempts on this machine until it is stopped",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if len(w.Repos) == 0 {
				return badInput("--repo URL, or --repo 'https://host/team/*'; may be repeated",
					"a worker works only for repositories that are named")
			}
			if w.Slots < 1 {
				return badInput("", "--slots is at least 1")
			}
			if w.Labels, err = fleet.Labels(w.Labels); err != nil {
				return badInput("", "--labels: %w", err)
			}
			if w.Least, err = config.ParseSize(least); err != nil {
				return badInput("", "--min-free-disk: %w", err)
			}
			for _, path := range slices.Concat(w.Grants.Write, w.Grants.Read) {
				if !filepath.IsAbs(path) {
					return badInput("--sandbox-write and --sandbox-read name places of this machine, from its root",
						"%q is no absolute path", path)
				}
			}
			if w.Cache, err = filepath.Abs(w.Cache); err != nil {
				return err
			}
			if err := os.MkdirAll(w.Cache, 0o700); err != nil {
				return fmt.Errorf("make the folder of the repositories: %w", err)
			}
			w.Confine = !unconfined
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			server, err := at.Dial(ctx)
			if err != nil {
				return err
			}
			defer server.Close()
			return w.Serve(ctx, server)
		},
	}
	f := cmd.Flags()
	f.StringVar(&w.Cache, "repo-cache", fleetDir(""), "`directory` of the worker's copies of repositories")
	f.IntVar(&w.Slots, "slots", max(1, runtime.NumCPU()/2), "attempts at the same time")
	f.StringArrayVar(&w.Repos, "repo", nil,
		"`URL` of a repository that it works for; * stands for any text; may be repeated")
	f.StringSliceVar(&w.Labels, "labels", nil,
		"`labels` of what it has, such as gpu,go: tasks that need them go to workers that have them")
	f.StringVar(&least, "min-free-disk", least, "`size` of the free disk space below which it begins no attempt")
	f.BoolVar(&unconfined, "no-sandbox", false, "run agents even where there is no sandbox")
	f.StringArrayVar(&w.Grants.Write, "sandbox-write", nil,
		"`path` that a run's sandbox_write may name, or what lies below; may be repeated")
	f.StringArrayVar(&w.Grants.Read, "sandbox-read", nil,
		"`path` that a run's sandbox_read may name, or what lies below; may be repeated")
	f.StringSliceVar(&w.Grants.Pass, "env-pass", nil, "`variables` that a run's env_pass may name: NAME or PREFIX_*")
	return cmd
}

// fleetDir is where a worker, or the server of dev, keeps its files: the sandbox hides it from agents.
func fleetDir(below string) string {
	return filepath.Join(filepath.Dir(launch.StateDir()), fleetProgram, below)
}

func newFleetStatusCmd(at *temporal.Server) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List workers, and the runs and attempts under way",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := at.Dial(cmd.Context())
			if err != nil {
				return err
			}
			defer server.Close()
			s, err := server.Status(cmd.Context())
			switch {
			case err != nil:
				return err
			case asJSON:
				return writeJSON(cmd.OutOrStdout(), s)
			}
			s.Print(cmd.OutOrStdout(), time.Now())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// temporalVersion is the version of Temporal's own program that is known to be installed by one command and to work;
// later ones have a replace directive, which go install refuses.
const temporalVersion = "v1.5.1"

// serverSettings are what a fleet needs of the server: few workers find the tasks of one partition sooner, and small
// runs do not wait for large ones.
func serverSettings() []string {
	return []string{"matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1",
		"matching.useNewMatcher=true", "matching.enableFairness=true"}
}

func newDevCmd() *cobra.Command {
	port, dir := 7233, ""
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Start a Temporal server on this machine, to try it",
		Long: `dev starts the development server of the temporal program, on 127.0.0.1, for
trying things: it has no authentication. What it stores stays in --dir.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := proc.LookBeside("temporal", ".", os.Environ())
			if err != nil {
				return badInput("go install github.com/temporalio/cli/cmd/temporal@"+temporalVersion+
					"   (takes some minutes)", "the temporal program is not on the PATH")
			}
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return fmt.Errorf("make the server's folder: %w", err)
			}
			at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			fmt.Fprintf(cmd.OutOrStdout(),
				"server: %s, its own page: http://127.0.0.1:%d\nnext: descartes-fleet worker --address %s --repo URL\n      descartes run TAG --fleet=%s\nCtrl-C ends it\n", at, port+1000, at, at)
			args := []string{"server", "start-dev", "--ip", "127.0.0.1", "--port", strconv.Itoa(port), "--ui-port",
				strconv.Itoa(port + 1000),
				"--db-filename", filepath.Join(dir, "temporal.db"), "--log-level", "error"}
			for _, setting := range serverSettings() {
				args = append(args, "--dynamic-config-value", setting)
			}
			for _, one := range temporal.SearchAttributes {
				args = append(args, "--search-attribute", one)
			}
			return proc.Become(program, args)
		},
	}
	cmd.Flags().IntVar(&port, "port", port, "port of the server; its page is 1000 above")
	cmd.Flags().StringVar(&dir, "dir", fleetDir("dev"), "`directory` of what it stores")
	return cmd
}
