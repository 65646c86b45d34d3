package render

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"descartes/agent/stream"
	"descartes/internal/terminal"
)

var update = flag.Bool("update", false, "write the golden text anew")

// formatOf is the format of a recorded stream, by its name.
func formatOf(name string) string {
	client, _, _ := strings.Cut(name, "-")
	switch {
	case strings.Contains(name, "-acp-"):
		return stream.FormatACP
	case client == "qwen":
		return stream.FormatClaude
	}
	return client
}

// text is what a log looks like on a terminal of some columns.
func text(t *testing.T, format string, log io.Reader, width int) string {
	t.Helper()
	var b strings.Builder
	r := New(format, func(i Item) {
		for _, l := range i.Lines(width) {
			b.WriteString(l + "\n")
		}
	})
	r.Root = "/repo"
	if _, err := io.Copy(r, log); err != nil {
		t.Fatal(err)
	}
	r.Close()
	return b.String()
}

func TestStreams(t *testing.T) {
	time.Local = time.UTC // of resets
	files, err := filepath.Glob(filepath.Join("..", "testdata", "streams", "*.ndjson"))
	if err != nil || len(files) < 90 {
		t.Fatalf("%d recorded streams, %v", len(files), err)
	}
	var all strings.Builder
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".ndjson")
		got := text(t, formatOf(name), strings.NewReader(string(data)), 80)
		if small := text(t, formatOf(name), iotest.OneByteReader(strings.NewReader(string(data))), 80); small != got {
			t.Errorf("%s: byte by byte it is\n%s", name, small)
		}
		for l := range strings.Lines(got) {
			if l = strings.TrimSuffix(l, "\n"); terminal.Width(l) > 80 {
				t.Errorf("%s: %d columns: %s", name, terminal.Width(l), l)
			}
		}
		fmt.Fprintf(&all, "== %s\n%s\n", name, got)
	}
	golden := filepath.Join("testdata", "streams.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for n, l := range strings.Split(string(want), "\n") {
		if got := strings.Split(all.String(), "\n"); n >= len(got) || got[n] != l {
			t.Fatalf("%s:%d: got %q, want %q; -update writes it anew", golden, n+1, got[min(n, len(got)-1)], l)
		}
	}
}

func TestRenderer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ format, in, want string }{
		"text":      {stream.FormatText, "a\n\nb", "a\n\nb\n"},
		"no events": {stream.FormatClaude, "plain words\n\n  more\n", "plain words\n  more\n"},
		"verify, and what is on standard error": {stream.FormatClaude, `{"type":"assistant","message":{"content":[{"type":"text","text":"Done."}]}}

--- standard error of the agent ---
npm warn
$ make check
{"not":"an event"}
ok
`, "Done.\n– standard error of the agent\nnpm warn\n$ make check\n{\"not\":\"an event\"}\nok\n"},
		"paths, edits and reads": {stream.FormatClaude, `{"type":"system","subtype":"init","cwd":"/home/x/p","session_id":"s"}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"1","name":"Read","input":{"file_path":"/home/x/p/src/a.go"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"1","content":"1 package a"}]}}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"2","name":"Edit","input":{"file_path":"/home/x/p/src/a.go","old_string":"a","new_string":"b"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"2","content":"String to replace not found","is_error":true}]}}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"3","name":"Grep","input":{"pattern":"func.*X","path":"/home/x/p/src"}}]}}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"4","name":"TodoWrite","input":{"todos":[{"content":"Read","status":"completed"},{"content":"Write the parser","status":"in_progress"}]}}]}}
`, "• Read src/a.go\n• Edit src/a.go\n  String to replace not found\n• Grep func.*X in src\n• Plan 1 of 2 steps done, now: Write the parser\n"},
		"text before and after a call, and a subagent": {stream.FormatClaude, `{"type":"assistant","message":{"content":[{"type":"text","text":"First."},{"type":"tool_use","id":"1","name":"Task","input":{"description":"look around","prompt":"long"}},{"type":"text","text":"Last."}]},"parent_tool_use_id":null}
{"type":"assistant","message":{"content":[{"type":"text","text":"I am small."}]},"parent_tool_use_id":"1"}
`, "First.\n• Task look around\nLast.\n    I am small.\n"},
		"a long result": {stream.FormatCodex, `{"type":"item.completed","item":{"id":"1","type":"command_execution","command":"bash -lc 'make'","aggregated_output":"1\n2\n3\n4\n5\n6\n7\n8\n","exit_code":2,"status":"failed"}}
`, "• Bash make\n  Exit code 2 … 3 lines\n  4\n  5\n  6\n  7\n  8\n"},
		"calls by the protocol": {stream.FormatACP, `{"type":"tool","id":"1","kind":"execute","title":"Shell","status":"pending"}
{"type":"tool","id":"1","kind":"execute","title":"Shell","command":"make check","status":"in_progress"}
{"type":"tool","id":"1","kind":"execute","title":"Shell","command":"make check","status":"completed","text":"ok"}
{"type":"tool","id":"2","kind":"edit","title":"Write","paths":["a.txt"],"status":"pending"}
{"type":"tool","id":"3","kind":"edit","title":"Write b.txt","paths":["/p/b.txt"],"status":"pending"}
`, "• Bash make check\n  ok\n• Edit Write a.txt\n• Edit Write b.txt\n"},
		"escapes and progress": {stream.FormatText,
			"\x1b[31mred\x1b[0m \x1b]0;title\x07 10%\r50%\r100%\r\n\x1b7 \u202e", "100%\n7 \uFFFD\n"},
	} {
		if got := text(t, tc.format, strings.NewReader(tc.in), 0); got != tc.want {
			t.Errorf("%s: got\n%swant\n%s", name, got, tc.want)
		}
	}
}

// flood is a log of one endless line, or of many lines.
type flood struct {
	line string
	left int64
	at   int
}

func (f *flood) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) {
		c := copy(p[n:], f.line[f.at:])
		n, f.at = n+c, (f.at+c)%len(f.line)
	}
	f.left -= int64(n)
	return n, nil
}

func TestMemory(t *testing.T) {
	for name, line := range map[string]string{
		"one line":      "x",
		"one event":     `{"type":"assistant"`,
		"calls":         `{"type":"tool_use","tool_name":"x","tool_id":"` + strings.Repeat("i", 100) + `"}` + "\n",
		"endless words": `{"type":"message","role":"assistant","content":"word word word word"}` + "\n",
	} {
		size := int64(0)
		r := New(stream.FormatGemini, func(i Item) { size = max(size, int64(len(i.Text))) })
		if _, err := io.CopyBuffer(struct{ io.Writer }{r}, &flood{line: line, left: 8 << 20},
			make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
		r.Close()
		if size > maxText+100 {
			t.Errorf("%s: an item of %d bytes", name, size)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		if m.HeapAlloc > 16<<20 {
			t.Errorf("%s: %d MB are kept", name, m.HeapAlloc>>20)
		}
		runtime.KeepAlive(r)
	}
}

func TestWrapped(t *testing.T) {
	t.Parallel()
	long := Item{Kind: Text, Text: "    indented words that do not fit " + strings.Repeat("x", 50) + " end"}
	got := long.Lines(20)
	want := []string{"    indented words", "    that do not fit", "    xxxxxxxxxxxxxxxx", "    xxxxxxxxxxxxxxxx",
		"    xxxxxxxxxxxxxxxx", "    xx end"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func FuzzRenderer(f *testing.F) {
	f.Add("claude", `{"type":"assistant","message":{"content":[{"type":"tool_use","input":[1]}]}}`)
	f.Add("opencode", `{"type":"tool_use","part":{"tool":"todowrite","state":{"input":{"todos":[1,{"content":2}]}}}}`)
	f.Fuzz(func(t *testing.T, format, log string) {
		r := New(format, func(i Item) {
			for _, l := range i.Lines(40) {
				if strings.ContainsAny(l, "\x1b\r\n\x07") {
					t.Errorf("%q is not safe", l)
				}
			}
		})
		_, _ = r.Write([]byte(log))
		r.Close()
	})
}
