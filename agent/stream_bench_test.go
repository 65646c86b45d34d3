//go:build unix

package agent

import (
	"bufio"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"descartes/agent/process"
	"descartes/agent/stream"
)

// BenchmarkStream reads 16 MB of events in lines of 4 MB and compares the
// CPU time with that of `cat | cat` on the same file. The goal is 3 for what
// clients print most, tool results, of which no more than the type is read. The
// rest is read by encoding/json.
func BenchmarkStream(b *testing.B) {
	const size, line = 16 << 20, 4 << 20
	for _, bench := range []struct{ name, format, begin, again, end string }{
		{"usual-mix", stream.FormatClaude, ``, usualMix(), ``},
		{"tool-results", stream.FormatClaude, `{"type":"user","message":{"content":[{"type":"tool_result","content":"`,
			`func main() {\n\tfmt.Println(\"hello, world\")\n}\n`, `"}]}}`},
		{"codex-output", stream.FormatCodex,
			`{"type":"item.completed","item":{"type":"command_execution","aggregated_output":"`, `ok\n`, `"}}`},
		{"type-last-dense", stream.FormatCodex, `{"item":{"aggregated_output":"`,
			`ok  \tdescartes/agent\t1.885s\n--- FAIL: TestX (0.00s)\n    x_test.go:12: got \"a\", want \"b\"\n`,
			`"}}`},
		{"type-last", stream.FormatClaude, `{"message":{"content":[{"content":"`,
			`some text that a tool has printed, of usual length\n`, `"}]},"type":"user"}`},
		{"hostile-quotes", stream.FormatClaude, `{"x":"`, `\"`, `","type":"user"}`},
		{"hostile-answer", stream.FormatClaude, `{"message":{"content":[{"type":"text","text":"`, `a\n`,
			`"}]},"type":"assistant"}`},
		{"hostile-nesting", stream.FormatClaude, `{"x":[0`, `,[1,{}]`, `],"type":"user"}`},
		{"hostile-depth", stream.FormatClaude, `{"x":`, `[{"a":`, ``},
		{"hostile-strings", stream.FormatClaude, `{"x":[0`, `,"a","b"`, `],"type":"user"}`},
		{"hostile-members", stream.FormatClaude, `{"x":0`, `,"a":0`, `,"type":"user"}`},
		{"hostile-usage", stream.FormatClaude, `{"x":0`, `,"usage":{"input_tokens":1}`, `,"type":"user"}`},
		{"hostile-escapes", stream.FormatCodex, `{"item":{"text":"`, `\u00e9\n`,
			`","type":"agent_message"},"type":"item.completed"}`},
		{"hostile-blanks", stream.FormatClaude, `{"x":0`, `  	`, `}`},
		{"unterminated", stream.FormatClaude, `{"x":"`, `words words \\`, ``},
		{"invalid-utf8", stream.FormatClaude, `{"message":{"content":[{"text":"`, "\xff\xfe\xc3",
			`","type":"text"}]},"type":"assistant"}`},
		{"endless-text", stream.FormatClaude, ``, `words words `, ``},
		{"tiny-lines", stream.FormatClaude, ``, "\n", ``},
		{"tiny-text", stream.FormatClaude, ``, "x\n", ``},
		{"tiny-objects", stream.FormatClaude, ``, "{}\n", ``},
		{"tiny-events", stream.FormatClaude, ``, `{"type":"x"}` + "\n", ``},
		{"tiny-opencode", stream.FormatOpencode, ``, `{"type":"step_start"}` + "\n", ``},
		{"tiny-said", stream.FormatGemini, ``, `{"type":"message","role":"assistant","content":"a"}` + "\n", ``},
		{"tiny-messages", stream.FormatCodex, ``,
			`{"type":"item.completed","item":{"type":"agent_message","text":"a"}}` + "\n", ``},
		{"text-promises", stream.FormatText, ``, `promise>` + "\n", ``},
		{"text-colours", stream.FormatText, ``, "\x1b[31mTASK_COMPLETE\x1b[0m\n", ``},
		{"text-echo", stream.FormatText, ``, "do it\n", ``},
		{"text-blocked", stream.FormatText, ``, "TASK_BLOCKED: x\n", ``},
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
				exit, err := sh.Run(b.Context(), process.Command{Label: "cat",
					Argv: []string{"sh", "-c", "cat \"$0\" | cat >/dev/null", path}})
				if err != nil || exit.Code != 0 {
					b.Fatal(exit, err)
				}
				cats += exit.User + exit.System
				before := cpuTime(b)
				if _, err := readTranscript(bench.format, Request{Log: path, Prompt: strings.Repeat("do it\n", 100)},
					math.MaxInt64); err != nil {
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

// BenchmarkFollow runs an agent that prints 256 MB of events in lines of
// 10 MB, and reads it while it does. What is counted is our CPU time, not the
// agent's and not the shim's, beside that of `cat | cat`.
func BenchmarkFollow(b *testing.B) {
	const size, line = 256 << 20, 10 << 20
	s := newStage(b)
	path := filepath.Join(s.dir, "stream")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; n < size; n += line {
		if _, err := io.Copy(f, endless(`{"type":"user","message":{"content":[{"type":"tool_result","content":"`,
			`func main() {\n\tfmt.Println(\"hello, world\")\n}\n`, `"}]}}`+"\n", line)); err != nil {
			b.Fatal(err)
		}
	}
	io.WriteString(f, `{"type":"result","is_error":false,"result":"TASK_COMPLETE"}`+"\n")
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	claude := claudeScript("sleep 0.15; cat " + path)
	var cats, ours time.Duration
	for b.Loop() {
		exit, err := s.shim.Run(b.Context(), process.Command{Label: "cat",
			Argv: []string{"sh", "-c", "cat \"$0\" | cat >/dev/null", path}})
		if err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		cats += exit.User + exit.System
		q := s.request("follow")
		before := cpuTime(b)
		if res := s.run(claude, q); !res.Complete || res.Bytes < size {
			b.Fatalf("got %+v", res)
		}
		ours += cpuTime(b) - before
		if err := os.Remove(q.Log); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(ours.Milliseconds())/float64(b.N), "ours-cpu-ms")
	b.ReportMetric(float64(cats.Milliseconds())/float64(b.N), "cat-cpu-ms")
	b.ReportMetric(float64(ours)/float64(cats), "ratio")
}

// usualMix is what a client prints of ten calls of a tool and a word about them.
func usualMix() string {
	call := `{"type":"assistant","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t","name":"Edit","input":{"file_path":"/w/x.go","old_string":"` +
		strings.Repeat(`a := b\n`, 60) +
		`"}}],"usage":{"input_tokens":1,"output_tokens":2}},"parent_tool_use_id":null,"session_id":"s"}` + "\n"
	result := `{"type":"user","message":{"role":"user","content":[{"tool_use_id":"t","type":"tool_result","content":"` + strings.Repeat(`    1→package main\n`, 200) + `"}]},"parent_tool_use_id":null}` + "\n"
	text := `{"type":"assistant","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"I look at the tests now."}]},"parent_tool_use_id":null,"session_id":"s"}` + "\n"
	return strings.Repeat(call+result, 10) + text
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
