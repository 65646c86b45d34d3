package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

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

// Set by the linker for a release, see .goreleaser.yaml: version, commit and its date.
var release, commit, date string

// versionLine has the version, the commit with its date if known, and the build environment.
func versionLine() string {
	from, day := commit, date
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				from = cmp.Or(from, s.Value)
			case "vcs.time":
				day = cmp.Or(day, s.Value)
			}
		}
	}
	if from != "" {
		from = fmt.Sprintf(" (%s, %s)", from[:min(12, len(from))], day[:min(10, len(day))])
	}
	return fmt.Sprintf("%s%s %s %s/%s", version(), from, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is the release's, or the one that Go has stamped.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cmp.Or(release, info.Main.Version, "unknown")
	}
	return cmp.Or(release, "unknown")
}
