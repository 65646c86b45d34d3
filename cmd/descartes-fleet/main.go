// Command descartes-fleet has the attempts of descartes' runs made by workers on other machines, over a Temporal server.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/fleet"
	"descartes/internal/config"
	"descartes/internal/proc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	proc.Anchor()
	err := newRootCmd().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "error: %v\n", err)
	if usage, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(os.Stderr, "hint: %s\n", usage.hint)
		os.Exit(2)
	}
	os.Exit(1)
}

// usageError is a mistake in what was typed: exit 2.
type usageError struct{ message, hint string }

func (e *usageError) Error() string { return e.message }

func newRootCmd() *cobra.Command {
	var at fleet.Server
	root := &cobra.Command{
		Use:   "descartes-fleet",
		Short: "Make the attempts of descartes' runs on other machines",
		Long: `descartes-fleet makes the attempts of descartes' runs on other machines.

  descartes-fleet dev                                    a server to try it
  descartes-fleet worker --repo 'https://host/team/*'    on each machine
  descartes run TAG --fleet -j 16                        where you are

The server is a Temporal server: --address, or TEMPORAL_ADDRESS and the other
variables of Temporal's own tools (TEMPORAL_NAMESPACE, TEMPORAL_API_KEY,
TEMPORAL_TLS_CLIENT_CERT_PATH, ...), else 127.0.0.1:7233.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{err.Error(), cmd.CommandPath() + " --help"}
	})
	f := root.PersistentFlags()
	f.StringVar(&at.Address, "address", "", "`host:port` of the Temporal server (default: $TEMPORAL_ADDRESS)")
	f.StringVar(&at.Namespace, "namespace", "", "Temporal `namespace` (default: $TEMPORAL_NAMESPACE)")
	f.StringVar(&at.KeyFile, "key-file", os.Getenv("DESCARTES_FLEET_KEY_FILE"), "`file` with the key that encrypts what the server stores (default: $DESCARTES_FLEET_KEY_FILE)")
	root.AddCommand(newWorkerCmd(&at), newDevCmd(), newSetupCmd(&at), newDispatchCmd(&at), newStatusCmd(&at), newLimitsCmd(&at))
	return root
}

func newWorkerCmd(at *fleet.Server) *cobra.Command {
	w := fleet.Worker{Confine: true, Log: os.Stdout}
	unconfined, least := false, "1G"
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Make attempts on this machine until it is stopped",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if len(w.Repos) == 0 {
				return &usageError{"a worker works only for repositories that are named", "--repo URL, or --repo 'https://host/team/*'; may be repeated"}
			}
			if w.Slots < 1 {
				return &usageError{"--slots is at least 1", "descartes-fleet worker --help"}
			}
			if err := w.Check(); err != nil {
				return &usageError{err.Error(), "descartes-fleet worker --help"}
			}
			if w.Least, err = config.ParseSize(least); err != nil {
				return &usageError{"--min-free-disk: " + err.Error(), "descartes-fleet worker --help"}
			}
			if w.Cache, err = filepath.Abs(w.Cache); err != nil {
				return err
			}
			if err := os.MkdirAll(w.Cache, 0o700); err != nil {
				return fmt.Errorf("make the folder of the repositories: %w", err)
			}
			if w.Program, err = proc.LookBeside("descartes", w.Cache, os.Environ()); err != nil {
				return fmt.Errorf("%w; a worker needs descartes beside descartes-fleet, or on the PATH", err)
			}
			for _, path := range slices.Concat(w.Grants.Write, w.Grants.Read) {
				if !filepath.IsAbs(path) {
					return &usageError{fmt.Sprintf("%q is no absolute path", path), "--sandbox-write and --sandbox-read name places of this machine, from its root"}
				}
			}
			w.Confine = !unconfined
			return w.Serve(cmd.Context(), *at)
		},
	}
	f := cmd.Flags()
	f.StringVar(&w.Cache, "repo-cache", stateDir(), "`directory` of the worker's copies of repositories")
	f.IntVar(&w.Slots, "slots", max(1, runtime.NumCPU()/2), "attempts at the same time")
	f.StringArrayVar(&w.Repos, "repo", nil, "`URL` of a repository that it works for; * stands for any text; may be repeated")
	f.StringSliceVar(&w.Labels, "labels", nil, "`labels` of what it has, such as gpu,go: tasks that need them go to workers that have them")
	f.StringVar(&w.Account, "account", defaultAccount(), "`name` of the account that its agents are logged in with")
	f.StringVar(&least, "min-free-disk", least, "`size` of the free disk space below which it begins no attempt")
	f.BoolVar(&unconfined, "no-sandbox", false, "run agents even where there is no sandbox")
	f.StringArrayVar(&w.Grants.Write, "sandbox-write", nil, "`path` that a run's sandbox_write may name, or what lies below; may be repeated")
	f.StringArrayVar(&w.Grants.Read, "sandbox-read", nil, "`path` that a run's sandbox_read may name, or what lies below; may be repeated")
	f.StringSliceVar(&w.Grants.Pass, "env-pass", nil, "`variables` that a run's env_pass may name: NAME or PREFIX_*")
	return cmd
}

// stateDir is where the fleet's programs keep what they work with. Agents in the sandbox may write caches, and what git reads in a repository
// decides what runs; this folder is hidden from them.
func stateDir() string {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			home = "/" // nobody may write there
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "descartes-fleet")
}

// defaultAccount is the host's name: its login is nobody else's.
func defaultAccount() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "default"
	}
	return host
}

// silentVar is the variable that says how long a worker may be silent, such as 2m, before another one begins its attempts anew.
const silentVar = "DESCARTES_FLEET_SILENT"

func silent() (d time.Duration, err error) {
	text := os.Getenv(silentVar)
	if text == "" {
		return 0, nil
	}
	if d, err = time.ParseDuration(text); err != nil || d < 3*time.Second {
		return 0, &usageError{silentVar + " is no time of at least 3s: " + text, "leave it out for the usual 60s"}
	}
	return d, nil
}

func newDispatchCmd(at *fleet.Server) *cobra.Command {
	return &cobra.Command{
		Use:    "dispatch",
		Short:  "Carry the orders of one run; descartes calls it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) // the run ends it, by the end of its input
			d, err := fleet.NewDispatcher(cmd.Context(), *at, os.Stdout)
			if err != nil {
				return err
			}
			defer d.Client.Close()
			if d.Silent, err = silent(); err != nil {
				return err
			}
			return d.Serve(context.WithoutCancel(cmd.Context()), os.Stdin)
		},
	}
}

func newSetupCmd(at *fleet.Server) *cobra.Command {
	return &cobra.Command{
		Use:   "setup",
		Short: "Prepare a server: search attributes for tag, task, wave and loop",
		Long: `setup adds to the server's namespace the search attributes DescartesTag,
DescartesTask, DescartesWave and DescartesLoop, by which Temporal's own page finds
the attempts of a tag. Once is enough, twice does no harm, and a fleet works
without them, too. dev adds them by itself.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			added, err := at.Setup(cmd.Context())
			if err != nil {
				return err
			}
			text := "the server has all search attributes already"
			if len(added) > 0 {
				text = "added: " + strings.Join(added, ", ")
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
}

func newStatusCmd(at *fleet.Server) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List workers, and the attempts under way",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := fleet.NewDispatcher(cmd.Context(), *at, io.Discard)
			if err != nil {
				return err
			}
			defer d.Client.Close()
			s, err := d.Status(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(s)
			}
			s.Print(cmd.OutOrStdout(), time.Now())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newLimitsCmd(at *fleet.Server) *cobra.Command {
	return &cobra.Command{
		Use:   "limits clear ACCOUNT",
		Short: "Forget that an account has no quota left",
		Long: `limits clear forgets that the quota of an account is used up, where there is more
of it earlier than its agent said: its workers begin attempts again within half a
minute. descartes-fleet status lists such accounts.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] != "clear" {
				return &usageError{"name the account to clear", cmd.CommandPath() + " clear ACCOUNT; descartes-fleet status lists the accounts without quota"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := fleet.NewDispatcher(cmd.Context(), *at, io.Discard)
			if err != nil {
				return err
			}
			defer d.Client.Close()
			backends, err := d.Clear(cmd.Context(), args[1])
			if err == nil && len(backends) == 0 {
				err = &usageError{fmt.Sprintf("no account %q is out of quota", args[1]), "descartes-fleet status lists those that are"}
			}
			for _, b := range backends {
				fmt.Fprintf(cmd.OutOrStdout(), "forgotten: account %s has no quota for %s\n", args[1], b)
			}
			return err
		},
	}
}

// temporalVersion is the version of Temporal's own program that is known to be installed by one command and to work; later ones have a
// replace directive, which go install refuses.
const temporalVersion = "v1.5.1"

// serverSettings are what a fleet needs of the server: few workers find the tasks of one partition sooner, and small runs do not wait for large
// ones.
func serverSettings() []string {
	return []string{"matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1", "matching.useNewMatcher=true", "matching.enableFairness=true"}
}

func newDevCmd() *cobra.Command {
	port, dir := 7233, ""
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Start a Temporal server on this machine, to try it",
		Long: `dev starts the development server of the temporal program, on 127.0.0.1, for
trying things: it has no authentication. What it stores stays in --dir.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := proc.LookBeside("temporal", ".", os.Environ())
			if err != nil {
				return &usageError{"the temporal program is not on the PATH", "go install github.com/temporalio/cli/cmd/temporal@" + temporalVersion + "   (takes some minutes)"}
			}
			if dir == "" {
				dir = filepath.Join(stateDir(), "dev")
			}
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return fmt.Errorf("make the server's folder: %w", err)
			}
			at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			if c, err := net.DialTimeout("tcp", at, time.Second); err == nil {
				_ = c.Close()
				return fmt.Errorf("something listens on %s already; --port chooses another one", at)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "server: %s, its own page: http://127.0.0.1:%d\nnext: descartes-fleet worker --address %s --repo URL\n      descartes run TAG --fleet=%s\nCtrl-C ends it\n", at, port+1000, at, at)
			argv := []string{program, "server", "start-dev", "--ip", "127.0.0.1", "--port", strconv.Itoa(port), "--ui-port", strconv.Itoa(port + 1000),
				"--db-filename", filepath.Join(dir, "temporal.db"), "--log-level", "error"}
			for _, setting := range serverSettings() {
				argv = append(argv, "--dynamic-config-value", setting)
			}
			for _, one := range fleet.SearchAttributes() {
				argv = append(argv, "--search-attribute", one)
			}
			code, err := proc.Attend(context.WithoutCancel(cmd.Context()), argv, ".", nil)
			if err == nil && code != 0 && cmd.Context().Err() == nil {
				err = fmt.Errorf("the server ended with exit status %d", code)
			}
			return err
		},
	}
	cmd.Flags().IntVar(&port, "port", port, "port of the server; its page is 1000 above")
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` of what it stores")
	return cmd
}
