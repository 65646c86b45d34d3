package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// anything reads any value, as encoding/json would.
func anything(d *decoder) any {
	switch d.peek() {
	case '{':
		out := map[string]any{}
		d.object(func(key []byte) {
			k := valid(string(key))
			out[k] = anything(d)
		})
		return out
	case '[':
		out := []any{}
		d.array(func() { out = append(out, anything(d)) })
		return out
	case '"':
		return valid(d.text(1 << 20))
	case 't', 'f':
		return d.boolean()
	case 'n':
		d.skip()
		return nil
	default:
		n, _ := d.number()
		return n
	}
}

// valid is text with each run of what is no UTF-8 as one replacement character.
func valid(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for strings.Contains(s, "\uFFFD\uFFFD") {
		s = strings.ReplaceAll(s, "\uFFFD\uFFFD", "\uFFFD")
	}
	return s
}

// normal makes what encoding/json has read comparable.
func normal(v any) (out any, ok bool) {
	switch v := v.(type) {
	case json.Number:
		n, err := strconv.ParseFloat(string(v), 64)
		return n, err == nil && len(v) <= numLimit
	case string:
		return valid(v), true
	case []any:
		list := []any{}
		for _, e := range v {
			e, ok := normal(e)
			if !ok {
				return nil, false
			}
			list = append(list, e)
		}
		return list, true
	case map[string]any:
		m := map[string]any{}
		for k, e := range v {
			e, ok := normal(e)
			if !ok || len(k) > keyLimit/6 || m[valid(k)] != nil {
				return nil, false
			}
			m[valid(k)] = e
		}
		return m, true
	}
	return v, true
}

func checkDecoder(t *testing.T, line []byte, piece int) {
	t.Helper()
	d := decoder{lines: newLines(bytes.NewReader(line), piece)}
	if bytes.ContainsAny(line, "\n\x00") || !d.next() || !d.start() {
		return
	}
	got := anything(&d)
	whole := d.complete()
	if !json.Valid(line) {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return
	}
	if !whole {
		t.Errorf("not read whole: %q", line)
	}
	if want, ok := normal(v); ok && !reflect.DeepEqual(got, want) {
		t.Errorf("%q: got %#v, want %#v", line, got, want)
	}
	again := decoder{lines: newLines(bytes.NewReader(line), piece)}
	again.next()
	again.start()
	if again.skip(); !again.complete() {
		t.Errorf("not skipped whole: %q", line)
	}
}

func sampleLines() []string {
	return []string{
		`{}`, ` {"a" : [ ] , "b":{ } } `, `{"a":"x\"y\\","b":"\\\\\"","c":"\u00e9\ud83d\ude00\ud83d x\ude00"}`,
		`{"a":[1,-2.5e3,true,false,null,"s",[[{}]]]}`, `{"a":{"a":{"a":"\n\t\r\b\f\/"}}}`, "\xef\xbb\xbf{\"a\":1}\r",
		`{"a":"` + strings.Repeat(`\\`, 300) + `"}`, `{"a":"` + strings.Repeat(`\"`, 301) + `","b":2}`, `{"` + strings.Repeat("k", 200) + `":1}`,
	}
}

func TestDecoder(t *testing.T) {
	t.Parallel()
	for _, line := range sampleLines() {
		for _, piece := range []int{1, 2, 3, 7, 64, 4096} {
			checkDecoder(t, []byte(line), piece)
		}
	}
	for _, line := range []string{`{`, `{"a"`, `{"a":`, `{"a":"`, `{"a":"\`, `{"a":"\u00`, `{"a":1`, `{"a":1,`, `{"a":[1`, `{"a":{`, `{"a":1}}`, `{"a":1} x`, `{a:1}`,
		`{"a" 1}`, `{"a":}`, `{"a":1{,"b":2}`, `{"a":[{"b":1[,"c":2}]}`, `{"a":t"x","b":2}`, `{"a":1 2}`, `{,}`} {
		for _, piece := range []int{1, 64} {
			d := decoder{lines: newLines(strings.NewReader(line), piece)}
			if d.next(); d.start() {
				if anything(&d); d.complete() {
					t.Errorf("taken for whole: %s", line)
				}
			}
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	const text = "one\n\n\ntwo\r\nlonger than a piece\nlast"
	for _, piece := range []int{1, 4, 100} {
		l := newLines(strings.NewReader(text), piece)
		var got []string
		for l.next() {
			line := string(l.seg)
			for l.fill() {
				line += string(l.seg)
			}
			got = append(got, line)
		}
		if want := strings.Split(text, "\n"); !reflect.DeepEqual(got, want) || l.whole {
			t.Errorf("in pieces of %d: got %q, want %q; whole %v", piece, got, want, l.whole)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	for _, line := range sampleLines() {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, piece := range []int{1, 5, 4096} {
			checkDecoder(t, line, piece)
		}
	})
}

func FuzzDialects(f *testing.F) {
	for _, c := range cases(f) {
		f.Add(c.backend(f).Format, c.stream)
	}
	f.Add(FormatGemini, []byte(`{"type":"init","session_id":"`+strings.Repeat("0123456789", 40)+`"}`))
	f.Add(FormatCodex, []byte(`{"id":"0","msg":{"type":"agent_message","message":"TASK_COMPLETE"}}`))
	f.Add(FormatGemini, []byte("\n\x000\n{}\n{} \nx\n{\"type\":1}\n\n {\"type\":\"init\"}\nlonger than eight\nx"))
	f.Fuzz(func(t *testing.T, format string, stream []byte) {
		line := dialectOf(format)
		if line == nil {
			return
		}
		var whole, pieces story
		if err := whole.read(newLines(bytes.NewReader(stream), len(stream)+1), line); err != nil {
			t.Fatal(err)
		}
		if err := pieces.read(newLines(bytes.NewReader(stream), 3), line); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(whole, pieces) {
			t.Errorf("read at once: %+v\nin pieces: %+v", whole, pieces)
		}
		h := heard{story: &whole}
		h.judgeMessage(Request{Prompt: recordedPrompt})
		if h.complete && !bytes.Contains(whole.message, []byte("promise")) && !bytes.Contains(whole.message, []byte(doneWord)) {
			t.Errorf("complete without a word: %q", whole.message)
		}
	})
}

// endless is a line made of a beginning, many times the same, and an end.
func endless(begin, again, end string, size int) io.Reader {
	again = strings.Repeat(again, 4096)
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
		"tool result":     endless(`{"type":"user","message":{"content":[{"type":"tool_result","content":"`, `a line\n`, `"}]}}`+"\n", large),
		"type comes last": endless(`{"message":{"content":[{"content":"`, `say \"x\" `, `"}]},"type":"user"}`+"\n", size),
		"answer":          endless(`{"type":"assistant","message":{"content":[{"type":"text","text":"`, `words\n`, `"}]}}`+"\n", large),
		"key":             endless(`{"`, `key`, `":1,"type":"user"}`+"\n", size),
		"number":          endless(`{"total_cost_usd":`, `9`, `,"type":"system"}`+"\n", size),
		"depth":           endless(`{"x":`, `[`, "\n", size),
		"escapes":         endless(`{"x":"`, `\"`, "\n", size),
		"backslashes":     endless(`{"x":"`, `\\`, `","type":"system"}`+"\n", size),
		"blocks":          endless(`{"type":"assistant","message":{"content":[{}`, `,{"type":"text"}`, "]}}\n", size),
		"blanks":          endless(``, ` `, "\n", size),
	} {
		var s story
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := s.read(newLines(io.MultiReader(r, strings.NewReader(end)), 256<<10), claudeLine); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 32 { // in all, most of it at different times
			t.Errorf("%s: %d MiB allocated", name, got)
		}
		if !s.ended || string(s.message) != "TASK_COMPLETE" {
			t.Errorf("%s: the end was not read: ended %v, message %.40q", name, s.ended, s.message)
		}
	}
}
