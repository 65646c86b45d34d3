//go:build !crashpoints

package crash

import "testing"

func TestPointDoesNothing(t *testing.T) {
	t.Setenv("DESCARTES_CRASH_AT", "1")
	list := t.TempDir() + "/points"
	t.Setenv("DESCARTES_CRASH_COUNT_FILE", list)
	Point("anything")
	if n := testing.AllocsPerRun(100, func() { Point("anything") }); n != 0 {
		t.Errorf("Point allocates %v times, want 0", n)
	}
}
