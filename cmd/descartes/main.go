// Command descartes runs coding agents over a graph of tasks until the work is verified and committed.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"descartes/agent"
	"descartes/internal/acp"
	"descartes/internal/config"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/sandbox"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program but for the exit.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// The supervising process is started once per loop and never looks at flags.
	if len(args) == 1 && args[0] == proc.ShimCommand {
		return proc.Serve()
	}
	if len(args) > 1 && args[0] == sandbox.NetCommand {
		return sandbox.Netforward(args[1:], stderr)
	}
	// So is the one that talks with an agent, once per attempt.
	if len(args) > 0 && args[0] == agent.ACPCommand {
		return acp.Serve(args[1:])
	}
	root := newRootCmd()
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

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  takes(0, 0, ""),
		RunE:  printVersion,
	}
}

func printVersion(cmd *cobra.Command, _ []string) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "descartes %s\n", versionLine())
	return err
}

func versionLine() string {
	return fmt.Sprintf("%s %s %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is the module's, or the commit that a checkout was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	v, dirty := "devel", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			v = "devel-" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	return v + dirty
}
