package stream

import (
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// Every line is reported once, whatever its length and the size of the pieces in which it comes.
func TestRead(t *testing.T) {
	t.Parallel()
	long := `{"type":"assistant","message":{"content":[{"type":"text","text":"` + strings.Repeat("a", MaxLine) +
		`"}]}}`
	text := strings.Join([]string{`{"type":"user","message":"` + strings.Repeat("b", 3<<20) + `"}`, "", "words", long,
		`{"type":"unheard of"}`, `{"type":"result","result":"end"}`, `{"type":"res`}, "\n")
	want := []LineKind{Known, Blank, Noise, TooLong, Unknown, Known, Noise}
	for _, size := range []int{16, 4096, len(text) + 1} {
		var got []LineKind
		said, last := "", true
		r := strings.NewReader(text)
		err := Read(FormatClaude, iotest.HalfReader(r), size, Handler{
			Event: func(e Event) { said += e.Text },
			Line:  func(k LineKind, _ []byte, whole bool) { got, last = append(got, k), whole },
		})
		if size > len(long) { // all of it is here: no room has to be made for it
			want[3], said = Known, strings.TrimPrefix(said, strings.Repeat("a", MaxLine))
		}
		if err != nil || !slices.Equal(got, want) || said != "end" || last {
			t.Errorf("in pieces of %d: got %v, want %v; %.20q, %v, %v", size, got, want, said, last, err)
		}
	}
}

// What is skimmed comes to the same as what is read.
func TestSkimmed(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"type":"assistant","message":{"model":"m","content":[{"type":"tool_use","input":{"command":"echo \"type\":\"text\""}}]},"parent_tool_use_id":null}`,
		`{"type":"assistant","message":{"model":"m","content":[{"type":"tool_use","input":{}}]},"parent_tool_use_id":"t"}`,
		`{"type":"assistant","message":{"model":"m","content":[{"type":"thinking","thinking":"x"}]},"parent_tool_use_id":null}`,
		`{"type":"assistant","message":{"model":"m","content":[{"type":"tool_use","input":{}},{"type":"text","text":"t"}]},"parent_tool_use_id":null}`,
		`{"type":"assistant","message":{"model":"<synthetic>","content":[{"type":"tool_use"}]},"parent_tool_use_id":null}`,
	} {
		kinds := func(line string) (list []Kind) {
			if err := Read(FormatClaude, strings.NewReader(line+"\n"), 1<<16,
				Handler{Event: func(e Event) { list = append(list, e.Kind) },
					Line: func(LineKind, []byte, bool) {}}); err != nil {
				t.Error(err)
			}
			return list
		}
		skimmed, read := kinds(line), kinds(strings.Replace(line, `"type":"assistant"`, `"type": "assistant"`, 1))
		if len(skimmed) != len(read) || len(read) > 0 && skimmed[0] != read[0] {
			t.Errorf("%s: skimmed %v, read %v", line, skimmed, read)
		}
	}
}
