package sim

import (
	"flag"
	"os/exec"
	"testing"

	"descartes/scheduler/plant"
)

var faults = flag.String("faults", "", "plant the faults whose names match, one after the other")

func TestFaultsApply(t *testing.T) { plant.Apply(t) }

func TestFaults(t *testing.T) {
	plant.Find(t, *faults, func(args ...string) ([]byte, error) { return exec.Command("go", args...).CombinedOutput() })
}
