// Command descartes runs coding agents over a graph of tasks until the work is verified and committed.
package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"descartes/agent"
	"descartes/agent/acp"
	"descartes/config"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/sandbox"
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // the heap is a few megabytes: more collections cost a third of a run's time
	}
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program except os.Exit.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// The supervising processes, one for each lane and one for each command in a sandbox, never read flags.
	if len(args) > 0 && args[0] == proc.ShimCommand {
		return proc.Serve()
	}
	if len(args) > 1 && args[0] == sandbox.NetCommand {
		return sandbox.Netforward(args[1:], stderr)
	}
	proc.Anchor()
	// So is the one that talks to an agent, once per attempt.
	if len(args) > 0 && args[0] == agent.ACPCommand {
		return acp.Serve(args[1:])
	}
	if filepath.Base(os.Args[0]) == fleetProgram {
		args = fleetArgs(args)
	}
	root := newRootCmd()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		offerWords(root)
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	w := redact.Of(new(config.Config).Secrets(os.Environ())).Writer(stderr)
	defer w.Flush()
	return printError(w, err)
}
