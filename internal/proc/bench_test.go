//go:build linux

package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"descartes/agent/process"
)

// BenchmarkRun runs the same no-op by bare os/exec (shared /dev/null, prepared
// environment) and under the shim, in turn, and reports the ratio.
func BenchmarkRun(b *testing.B) {
	dir := b.TempDir()
	s := startShim(b, ShimConfig{})
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	env := os.Environ()
	log := filepath.Join(dir, "log")
	cmd := process.Command{Label: "noop", Argv: []string{"/bin/sh", "-c", "true"}, Stdout: log, Stderr: log}
	var bare, ours []time.Duration
	for b.Loop() {
		t0 := time.Now()
		c := exec.Command("/bin/sh", "-c", "true")
		c.Stdin, c.Stdout, c.Stderr, c.Env = null, null, null, env
		if err := c.Run(); err != nil {
			b.Fatal(err)
		}
		t1 := time.Now()
		if e, err := s.Run(b.Context(), cmd); err != nil || e.Why != process.Exited || e.Code != 0 {
			b.Fatal(e, err)
		}
		bare, ours = append(bare, t1.Sub(t0)), append(ours, time.Since(t1))
	}
	slices.Sort(bare)
	slices.Sort(ours)
	for _, q := range []struct {
		name string
		at   int
	}{{"p10", len(bare) / 10}, {"p50", len(bare) / 2}} {
		b.ReportMetric(float64(bare[q.at].Microseconds()), "bare-"+q.name+"-us")
		b.ReportMetric(float64(ours[q.at].Microseconds()), "shim-"+q.name+"-us")
		b.ReportMetric(float64(ours[q.at])/float64(bare[q.at]), "ratio-"+q.name)
	}
}
