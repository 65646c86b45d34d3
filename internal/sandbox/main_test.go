//go:build linux

package sandbox

import (
	"os"
	"testing"

	"descartes/internal/proc"
)

// The test binary is its own shim, its own way to the proxy, and the program that tries to break out.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case proc.ShimCommand:
			os.Exit(proc.Serve())
		case NetCommand:
			os.Exit(Netforward(os.Args[2:], os.Stderr))
		case "__attack":
			os.Exit(attack(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}
