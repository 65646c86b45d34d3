//go:build unix

package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"descartes/agent/acp"
	"descartes/internal/proc"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == proc.ShimCommand {
		os.Exit(proc.Serve())
	}
	if len(os.Args) > 2 && os.Args[1] == ACPCommand {
		os.Exit(acp.Serve(os.Args[2:]))
	}
	if len(os.Args) > 3 && os.Args[1] == fakeCommand {
		fakeAgent(os.Args[2], os.Args[3])
		os.Exit(0)
	}
	if len(os.Args) > 3 && os.Args[1] == measureCommand {
		m, err := measure(os.Args[2], os.Args[3])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		json.NewEncoder(os.Stdout).Encode(m)
		os.Exit(0)
	}
	// Under the race detector every process sleeps a second before it exits.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}
