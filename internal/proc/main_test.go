//go:build linux

package proc

import (
	"os"
	"testing"
)

// The test binary is its own shim, and its own orchestrator to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case ShimCommand:
			os.Exit(Serve())
		case "__unlinked":
			os.Exit(unlinked())
		case "__stuck":
			os.Exit(besideStuck())
		case "__orchestrate":
			os.Exit(orchestrate(os.Args[2:]))
		}
	}
	// Under the race detector every process sleeps a second before it exits.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}
