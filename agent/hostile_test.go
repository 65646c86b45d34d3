package agent

import (
	"bytes"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"descartes/agent/stream"
)

// readProgress is what a stream comes to.
func readProgress(tb testing.TB, format string, r io.Reader, size int) (s progress) {
	tb.Helper()
	s.message.limit = messageLimit
	if err := stream.Read(format, r, size, stream.Handler{Event: s.apply, Line: s.line}); err != nil {
		tb.Fatal(err)
	}
	return s
}

func FuzzDialects(f *testing.F) {
	for _, c := range cases(f) {
		f.Add(c.backend(f).Format, c.stream)
	}
	f.Add(stream.FormatGemini, []byte(`{"type":"init","session_id":"`+strings.Repeat("0123456789", 40)+`"}`))
	f.Add(stream.FormatCodex, []byte(`{"id":"0","msg":{"type":"agent_message","message":"TASK_COMPLETE"}}`))
	f.Add(stream.FormatGemini,
		[]byte("\n\x000\n{}\n{} \nx\n{\"type\":1}\n\n {\"type\":\"init\"}\nlonger than eight\nx"))
	f.Fuzz(func(t *testing.T, format string, text []byte) {
		if !stream.HasEvents(format) {
			return
		}
		whole := readProgress(t, format, bytes.NewReader(text), len(text)+1)
		pieces := readProgress(t, format, iotest.OneByteReader(bytes.NewReader(text)), 3)
		if !reflect.DeepEqual(whole, pieces) {
			t.Errorf("read at once: %+v\nin pieces: %+v", whole, pieces)
		}
		h := newTranscript(format, Request{Prompt: recordedPrompt})
		h.progress = whole
		if got := h.said(); got.complete && !bytes.Contains(whole.message.buf, []byte("promise")) &&
			!bytes.Contains(whole.message.buf, []byte(doneWord)) {
			t.Errorf("complete without a word: %q", whole.message.buf)
		}
	})
}

// endless is a line made of a beginning, many times the same, and an end.
func endless(begin, again, end string, size int) io.Reader {
	again = strings.Repeat(again, max(1, 64<<10/len(again)))
	size = size / len(again) * len(again)
	return io.MultiReader(strings.NewReader(begin), &repeat{text: again, left: size}, strings.NewReader(end))
}

type repeat struct {
	text     string
	at, left int
}

func (r *repeat) Read(p []byte) (n int, err error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	for n < len(p) && r.left > 0 {
		k := copy(p[n:min(len(p), n+r.left)], r.text[r.at:])
		n, r.left, r.at = n+k, r.left-k, (r.at+k)%len(r.text)
	}
	return n, nil
}

// Lines of a hundred megabytes that do their worst need no memory of that size,
// and what follows them is read. Not parallel: it looks at all memory.
func TestHostileLines(t *testing.T) {
	const large, size = 100 << 20, 10 << 20
	end := `{"type":"result","is_error":false,"result":"TASK_COMPLETE"}` + "\n"
	for name, r := range map[string]io.Reader{
		"tool result": endless(`{"type":"user","message":{"content":[{"type":"tool_result","content":"`,
			`a line\n`, `"}]}}`+"\n", large),
		"type comes last": endless(`{"message":{"content":[{"content":"`, `say \"x\" `, `"}]},"type":"user"}`+"\n",
			size),
		"answer": endless(`{"type":"assistant","message":{"content":[{"type":"text","text":"`, `words\n`,
			`"}]}}`+"\n", large),
		"key":         endless(`{"`, `key`, `":1,"type":"user"}`+"\n", size),
		"number":      endless(`{"total_cost_usd":`, `9`, `,"type":"system"}`+"\n", size),
		"depth":       endless(`{"x":`, `[`, "\n", size),
		"escapes":     endless(`{"x":"`, `\"`, "\n", size),
		"backslashes": endless(`{"x":"`, `\\`, `","type":"system"}`+"\n", size),
		"blocks":      endless(`{"type":"assistant","message":{"content":[{}`, `,{"type":"text"}`, "]}}\n", size),
		"blanks":      endless(``, ` `, "\n", size),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s := readProgress(t, stream.FormatClaude, io.MultiReader(r, strings.NewReader(end)), 256<<10)
		runtime.ReadMemStats(&after)
		// in all, most of it at different times
		if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 16*stream.MaxLine>>20 {
			t.Errorf("%s: %d MiB allocated", name, got)
		}
		if (s.tooLong > 0) != (name == "answer") {
			t.Errorf("%s: %d lines were too long", name, s.tooLong)
		}
		if !s.ended || string(s.message.buf) != "TASK_COMPLETE" {
			t.Errorf("%s: the end was not read: ended %v, message %.40q", name, s.ended, s.message.buf)
		}
	}
}
