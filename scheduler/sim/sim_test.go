package sim

import (
	"errors"
	"flag"
	"maps"
	"slices"
	"testing"
	"time"
)

var (
	nights = flag.Int("nights", 3_000, "how many random nights")
	seed   = flag.Uint64("seed", 0, "seed of the first")
)

// TestNights plays random nights. make test-sim plays more of them; -v adds up what happened.
func TestNights(t *testing.T) {
	counts := map[string]int{}
	attempts, kills, start := 0, 0, time.Now()
	for s := *seed; s < *seed+uint64(*nights); s++ {
		n, err := Play(s)
		if err != nil {
			var law *LawError
			if errors.As(err, &law) {
				t.Log("\n" + law.Account)
			}
			t.Fatal(err)
		}
		attempts, kills = attempts+n.Attempts, kills+n.Kills
		for k, c := range n.Counts {
			counts[k] += c
		}
	}
	took := time.Since(start)
	t.Logf("%d nights from seed %d: %d attempts, %d kills, %.0f nights a second", *nights, *seed, attempts, kills,
		float64(*nights)/took.Seconds())
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("  %-40s %d", k, counts[k])
	}
}
