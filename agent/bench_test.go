package agent

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"descartes/agent/process"
	"descartes/agent/stream"
)

// BenchmarkRun runs the same mute program under the shim and as an agent with
// a prompt of 8 KiB, in turn, each with a new output file.
func BenchmarkRun(b *testing.B) {
	s := newStage(b)
	q := s.request("bench")
	q.Prompt = strings.Repeat("a line of a prompt, which has many of them\n", 8<<10/43)
	backend := Backend{Name: "generic", Command: []string{"/bin/sh", "-c", "true"}, Prompt: ByStdin,
		Format: stream.FormatText}
	bare := process.Command{Label: "bare", Argv: backend.Command}
	var under, ours []time.Duration
	for n := 0; b.Loop(); n++ {
		name := filepath.Join(s.dir, strconv.Itoa(n))
		q.Log = name + ".log"
		bare.Stdout, bare.Stderr = name+".out", q.ErrLog
		t0 := time.Now()
		if _, err := s.shim.Run(b.Context(), bare); err != nil {
			b.Fatal(err)
		}
		t1 := time.Now()
		s.run(backend, q)
		under, ours = append(under, t1.Sub(t0)), append(ours, time.Since(t1))
	}
	slices.Sort(under)
	slices.Sort(ours)
	b.ReportMetric(float64(under[len(under)/2].Microseconds()), "shim-p50-us")
	b.ReportMetric(float64(ours[len(ours)/2].Microseconds()), "agent-p50-us")
	b.ReportMetric(float64(ours[len(ours)/2])/float64(under[len(under)/2]), "ratio-p50")
}
