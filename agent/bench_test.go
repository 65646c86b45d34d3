package agent

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"descartes/internal/proc"
)

// BenchmarkRun runs the same mute program under the shim and as an agent with
// a prompt of 8 KiB, in turn, each with two new output files.
func BenchmarkRun(b *testing.B) {
	s := newStage(b)
	q := s.request("bench")
	q.Prompt = strings.Repeat("a line of a prompt, which has many of them\n", 8<<10/43)
	backend := Backend{Name: "generic", Command: []string{"/bin/sh", "-c", "true"}, Prompt: ByStdin, Format: FormatText}
	bare := proc.Command{Label: "bare", Argv: backend.Command}
	var under, ours time.Duration
	for n := 0; b.Loop(); n++ {
		name := filepath.Join(s.dir, strconv.Itoa(n))
		q.PromptFile, q.Log, q.ErrLog = name+".md", name+".log", name+".err"
		bare.Stdout, bare.Stderr = name+".out", name+".out.err"
		t0 := time.Now()
		if _, err := s.shim.Run(b.Context(), bare); err != nil {
			b.Fatal(err)
		}
		t1 := time.Now()
		s.run(backend, q)
		under, ours = under+t1.Sub(t0), ours+time.Since(t1)
	}
	b.ReportMetric(float64(under.Microseconds())/float64(b.N), "shim-us")
	b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "agent-us")
	b.ReportMetric(float64(ours)/float64(under), "ratio")
}
