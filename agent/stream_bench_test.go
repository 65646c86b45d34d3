package agent

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"descartes/internal/proc"
)

// BenchmarkStream reads 256 MB of events in lines of 10 MB and compares the
// CPU time with that of `cat | cat` on the same file. The goal is 2.5, and for
// lines that do their worst 7.5.
func BenchmarkStream(b *testing.B) {
	const size, line = 256 << 20, 10 << 20
	for _, bench := range []struct{ name, format, begin, again, end string }{
		{"tool-results", FormatClaude, `{"type":"user","message":{"content":[{"type":"tool_result","content":"`, `func main() {\n\tfmt.Println(\"hello, world\")\n}\n`, `"}]}}`},
		{"codex-output", FormatCodex, `{"type":"item.completed","item":{"type":"command_execution","aggregated_output":"`, `ok\n`, `"}}`},
		{"type-last-dense", FormatCodex, `{"item":{"aggregated_output":"`,
			`ok  \tdescartes/agent\t1.885s\n--- FAIL: TestX (0.00s)\n    x_test.go:12: got \"a\", want \"b\"\n`, `"}}`},
		{"type-last", FormatClaude, `{"message":{"content":[{"content":"`, `some text that a tool has printed, of usual length\n`, `"}]},"type":"user"}`},
		{"hostile-quotes", FormatClaude, `{"x":"`, `\"`, `","type":"user"}`},
		{"hostile-answer", FormatClaude, `{"message":{"content":[{"type":"text","text":"`, `a\n`, `"}]},"type":"assistant"}`},
		{"hostile-nesting", FormatClaude, `{"x":[0`, `,[1,{}]`, `],"type":"user"}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "stream")
			f, err := os.Create(path)
			if err != nil {
				b.Fatal(err)
			}
			w := bufio.NewWriterSize(f, 1<<20)
			for n := 0; n < size; n += line {
				if _, err := io.Copy(w, endless(bench.begin, bench.again, bench.end+"\n", line)); err != nil {
					b.Fatal(err)
				}
			}
			io.WriteString(w, `{"type":"turn.completed"}`+"\n")
			if err := w.Flush(); err != nil {
				b.Fatal(err)
			}
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
			sh := newStage(b).shim
			var cats, ours time.Duration
			for b.Loop() {
				exit, err := sh.Run(b.Context(), proc.Command{Label: "cat", Argv: []string{"sh", "-c", "cat \"$0\" | cat >/dev/null", path}})
				if err != nil || exit.Code != 0 {
					b.Fatal(exit, err)
				}
				cats += exit.User + exit.System
				before := cpuTime(b)
				if _, err := listen(bench.format, Request{Log: path, Prompt: strings.Repeat("do it\n", 100)}); err != nil {
					b.Fatal(err)
				}
				ours += cpuTime(b) - before
			}
			b.ReportMetric(float64(ours.Milliseconds())/float64(b.N), "ours-cpu-ms")
			b.ReportMetric(float64(cats.Milliseconds())/float64(b.N), "cat-cpu-ms")
			b.ReportMetric(float64(ours)/float64(cats), "ratio")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
