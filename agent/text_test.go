package agent

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"descartes/agent/stream"
	"descartes/internal/oneline"
)

// scanned is what a text comes to, read in pieces of the given size.
type scanned struct {
	complete bool
	blocked  string
	final    string
}

func scanText(text, prompt, word string, piece int) scanned {
	h := newTranscript(stream.FormatText, Request{Prompt: prompt, Promise: word})
	for b := []byte(text); len(b) > 0; {
		n := min(piece, len(b))
		h.words.Write(bytes.Clone(b[:n]))
		b = b[n:]
	}
	return h.come()
}

// come is what a transcript came to.
func (h *transcript) come() scanned {
	s := h.said()
	return scanned{s.complete, s.blocked, s.final}
}

const samplePrompt = `# Task 3: add a parser

Do it well.

## How to report

When all is done, print <promise>COMPLETE</promise> on a line of its own:

<promise>COMPLETE</promise>

TASK_COMPLETE
TASK_BLOCKED: why you cannot go on

End of the task.
`

func quoted(prefix, text string) string {
	return prefix + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+prefix) + "\n"
}

func TestCompletionWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 24<<10)
	for _, tt := range []struct {
		name, text string
		complete   bool
		blocked    string
	}{
		{"nothing", "", false, ""},
		{"chatter", "I have looked around.\n", false, ""},
		{"alone", "<promise>COMPLETE</promise>\n", true, ""},
		{"no newline", "<promise>COMPLETE</promise>", true, ""},
		{"blanks inside", "<promise> COMPLETE </promise>", true, ""},
		{"blanks around", "  <promise>COMPLETE</promise>  \r\n", true, ""},
		{"emphasis", "**<promise>COMPLETE</promise>**\n", true, ""},
		{"code", "`<promise>COMPLETE</promise>`\n", false, ""},
		{"quoted", "> <promise>COMPLETE</promise>\n", false, ""},
		{"list", "- <promise>COMPLETE</promise>\n", false, ""},
		{"full stop", "<promise>COMPLETE</promise>.\n", true, ""},
		{"fence", "```\n<promise>COMPLETE</promise>\n```\n", false, ""},
		{"three lines", "Done.\n<promise>\nCOMPLETE\n</promise>\n", true, ""},
		{"three lines, indented", "<promise>\r\n\r\n  COMPLETE\r\n</promise>\r\n", true, ""},
		{"three lines, cut", "<promise>\nCOMPLETE\n", false, ""},
		{"three lines, other", "<promise>\nMAYBE\n</promise>\n", false, ""},
		{"three lines, then one", "<promise>\n<promise>COMPLETE</promise>\n", true, ""},
		{"coloured", "\x1b[1;32m<promise>COMPLETE</promise>\x1b[0m\n", true, ""},
		{"after a sentence", "All tests pass. <promise>COMPLETE</promise>\n", true, ""},
		{"after words", "All done <promise>COMPLETE</promise>\n", true, ""},
		{"after another sentence with not", "It did not work at first. Now it does. <promise>COMPLETE</promise>\n",
			true, ""},
		{"then words", "I will not output <promise>COMPLETE</promise> yet\n", false, ""},
		{"negated", "I will not output <promise>COMPLETE</promise>\n", false, ""},
		{"negated, short", "I can't say <promise>COMPLETE</promise>.\n", false, ""},
		{"announced", "Once the tests pass I'll print <promise>COMPLETE</promise>\n", false, ""},
		{"announced, code", "When done, output `<promise>COMPLETE</promise>`\n", false, ""},
		{"in quotes", "echo \"<promise>COMPLETE</promise>\"\n", false, ""},
		{"other word", "<promise>INCOMPLETE</promise>\n", false, ""},
		{"other case", "<promise>complete</promise>\n", false, ""},
		{"open only", "<promise>COMPLETE\n", false, ""},
		{"close only", "COMPLETE</promise>\n", false, ""},
		{"nested", "<promise><promise>COMPLETE</promise>\n", false, ""},
		{"NUL before", "\x00\x00\n<promise>COMPLETE</promise>\n\x00", true, ""},
		{"invalid UTF-8", "\xff\xfe\n<promise>COMPLETE</promise>\n\xc3", true, ""},
		{"end of a long line", long + " <promise>COMPLETE</promise>\n", true, ""},
		{"middle of a long line", "<promise>COMPLETE</promise>" + long, false, ""},

		{"end of an earlier line", "All done. <promise>COMPLETE</promise>\nI look again.\n", false, ""},
		{"bare", "Work.\nComplete.\n", true, ""},
		{"added in a diff", "+<promise>COMPLETE</promise>\n", false, ""},
		{"found by a search", "plan.md:3:<promise>COMPLETE</promise>\n", false, ""},

		{"word", "TASK_COMPLETE\n", true, ""},
		{"word, quoted", "> TASK_COMPLETE\n", false, ""},
		{"word, listed", "- TASK_COMPLETE\n", false, ""},
		{"word in a fence", "```\nTASK_COMPLETE\n```\n", false, ""},
		{"word in a diff", "+TASK_COMPLETE\n", false, ""},
		{"word, no newline", "done\nTASK_COMPLETE", true, ""},
		{"word, emphasis", "**TASK_COMPLETE**\r\n", true, ""},
		{"word in a sentence", "I print TASK_COMPLETE\n", false, ""},
		{"word and more", "TASK_COMPLETED\nTASK_COMPLETE: no\n", false, ""},

		{"blocked", "TASK_BLOCKED: no network\n", false, "no network"},
		{"blocked, no newline", "TASK_BLOCKED: no network", false, "no network"},
		{"blocked, CRLF", "TASK_BLOCKED: no network\r\n", false, "no network"},
		{"blocked, emphasis", "**TASK_BLOCKED: no network**\n", false, "no network"},
		{"blocked, emphasis inside", "**TASK_BLOCKED:** no *real* network\n", false, "no *real* network"},
		{"blocked, no reason", "TASK_BLOCKED:\n", false, "no reason given"},
		{"blocked, bare", "TASK_BLOCKED\n", false, "no reason given"},
		{"blocked, quoted", "> TASK_BLOCKED: no network\n", false, ""},
		{"blocked, last wins", "TASK_BLOCKED: a\nTASK_BLOCKED: b\n", false, "b"},
		{"blocked, placeholder", "TASK_BLOCKED: <one line reason>\n", false, ""},
		{"blocked, mentioned", "I would print TASK_BLOCKED: x\nTASK_BLOCKED is not needed\n", false, ""},
		{"blocked, invalid", "TASK_BLOCKED: a\xff\x00b\n", false, "a\uFFFDb"},
		{"blocked, long line", "TASK_BLOCKED: " + long, false, strings.Repeat("x", reasonLimit) + "…"},
		{"blocked, long reason", "TASK_BLOCKED: " + long[:600] + "\n", false, strings.Repeat("x", reasonLimit) + "…"},

		{"asks", "I changed a.go.\nTASK_QUESTION: tabs or spaces\n", false, "it asks: tabs or spaces"},
		{"asks, then does it", "TASK_QUESTION: tabs?\nTASK_COMPLETE\n", true, ""},

		{"retracted", "<promise>COMPLETE</promise>\nTASK_BLOCKED: no, wait\n", false, "no, wait"},
		{"taken back", "TASK_BLOCKED: no, wait\nTASK_COMPLETE\n", true, ""},

		{"our instructions, not as an echo",
			"- Finished: end your last message with the line <promise>COMPLETE</promise>, or with TASK_COMPLETE on a line of its own.\n" +
				"- Stuck on something: write `TASK_BLOCKED: reason` on a line of its own, without the backticks.\n",
			false, ""},
		{"echo", samplePrompt, false, ""},
		{"echo, CRLF", strings.ReplaceAll(samplePrompt, "\n", "\r\n"), false, ""},
		{"echo, quoted", quoted("> ", samplePrompt), false, ""},
		{"echo, indented", quoted("    ", samplePrompt), false, ""},
		{"echo, no newline", strings.TrimSuffix(samplePrompt, "\n"), false, ""},
		{"echo twice", samplePrompt + "\n" + samplePrompt, false, ""},
		{"echo after words", "Prompt: " + samplePrompt + "thinking\n", false, ""},
		{"echo and claim", samplePrompt + "TASK_COMPLETE\n", true, ""},
		{"echo, claim on its last line", strings.TrimSuffix(samplePrompt, "\n") + "<promise>COMPLETE</promise>\n",
			true, ""},
		{"claim and echo", "TASK_COMPLETE\n" + samplePrompt, true, ""},
		{"echo begun again", samplePrompt[:60] + "\n" + samplePrompt, false, ""},
		{"a line of the prompt", "Do it well.\n<promise>COMPLETE</promise>\n", true, ""},
	} {
		for _, piece := range []int{1, 7, 4096, 1 << 20} {
			got := scanText(tt.text, samplePrompt, "", piece)
			if got.complete != tt.complete || got.blocked != tt.blocked {
				t.Errorf("%s, pieces of %d: got %v %q, want %v %q", tt.name, piece, got.complete,
					oneline.Clip(got.blocked, 80), tt.complete, oneline.Clip(tt.blocked, 80))
			}
		}
	}
}

func TestPromiseWord(t *testing.T) {
	t.Parallel()
	if got := scanText("<promise>ALL GREEN</promise>\n", "", " ALL GREEN ", 99); !got.complete {
		t.Error("a word of the user's is not recognised")
	}
	if got := scanText("<promise>COMPLETE</promise>\n", "", "DONE", 99); got.complete {
		t.Error("another word is")
	}
}

func TestFinalWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"blank", " \n\n", ""},
		{"plain", "a\nb\n", "a\nb"},
		{"CRLF", "a\r\nb\r\n", "a\nb"},
		{"NUL, colour, title", "a\x00\x1b[31mb\x1b[0m\x1b]0;title\ac\x1b]8;;x\x1b\\d\x1b", "abcd"},
		{"invalid", "a\xff\xfeb", "a\uFFFDb"},
		{"echo", samplePrompt, ""},
		{"echo and words", samplePrompt + "done\n", "done"},
		{"words around", "before\n" + samplePrompt + "after\n", "before\nafter"},
		{"words on its first line", "Prompt: " + samplePrompt + "after\n", "Prompt: \nafter"},
		{"half an echo", "# Task 3: add a parser\n\nnothing else\n", "# Task 3: add a parser\n\nnothing else"},
		{"half an echo at the end", "x\n# Task 3: add a parser\n\nDo it well.\n",
			"x\n# Task 3: add a parser\n\nDo it well."},
	} {
		for _, piece := range []int{1, 5, 1 << 20} {
			if got := scanText(tt.text, samplePrompt, "", piece).final; got != tt.want {
				t.Errorf("%s, pieces of %d: got %q, want %q", tt.name, piece, got, tt.want)
			}
		}
	}
	for _, text := range []string{strings.Repeat("é", finalLimit), strings.Repeat("\xffé", finalLimit),
		strings.Repeat("line\n", finalLimit)} {
		got := scanText(text, "", "", 1000).final
		if len(got) > finalLimit || len(got) < finalLimit/2 || !utf8.ValidString(got) {
			t.Errorf("end of %q...: %d bytes, valid %v", text[:4], len(got), utf8.ValidString(got))
		}
	}
}

func TestEchoOfRepeatingPrompt(t *testing.T) {
	t.Parallel()
	prompt := "a\na\nTASK_COMPLETE\na\na\nb\n"
	for _, tt := range []struct {
		text, want string
	}{
		{prompt, ""},
		{"a\n" + prompt, "a"},
		{"a\na\nTASK_COMPLETE\n" + prompt + "c\n", "a\na\nTASK_COMPLETE\nc"},
		{"a\na\nTASK_COMPLETE\na\na\nTASK_COMPLETE\na\na\nb\n", "a\na\nTASK_COMPLETE"},
	} {
		if got := scanText(tt.text, prompt, "", 3); got.final != tt.want ||
			got.complete != strings.Contains(tt.want, doneWord) {
			t.Errorf("%q: got %q %v, want %q", tt.text, got.final, got.complete, tt.want)
		}
	}
}

// A hundred megabytes in one line, and two hundred of everything that looks
// like something, cost bounded memory and a bounded time per byte.
func TestHugeOutput(t *testing.T) {
	t.Parallel()
	repeat := func(s string, total int) io.Reader {
		block := []byte(strings.Repeat(s, max(1, 64<<10/len(s))))
		return io.LimitReader(readerFunc(func(p []byte) (int, error) { return copy(p, block), nil }), int64(total))
	}
	for _, tt := range []struct {
		name string
		r    io.Reader
	}{
		{"one line", repeat("x", 100<<20)},
		{"lines", repeat("some line of a build's log, as they are\n", 200<<20)},
		{"tags in one line", repeat("<promise>", 50<<20)},
		{"closing tags in lines", repeat("</promise>\n", 10<<20)},
		{"first line of the prompt", repeat("# Task 3: add a parser\n", 10<<20)},
	} {
		h := newTranscript(stream.FormatText, Request{Prompt: samplePrompt})
		if err := h.take(io.MultiReader(tt.r, strings.NewReader("\nTASK_COMPLETE\n")), 256<<10); err != nil {
			t.Fatal(err)
		}
		if !h.come().complete {
			t.Errorf("%s: the claim after it is lost", tt.name)
		}
		if held := cap(h.words.buf); held > 256<<10 {
			t.Errorf("%s: %d bytes held", tt.name, held)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func FuzzText(f *testing.F) {
	f.Add("x\n<promise>COMPLETE</promise>\n", samplePrompt, uint64(1))
	f.Add(samplePrompt+"TASK_BLOCKED: \xff\n", samplePrompt, uint64(2))
	f.Add("<promise>\nCOMPLETE\n</promise>", "a\n\na\nb", uint64(3))
	f.Add(strings.Repeat("y", 8195)+"<promise>COMPLETE</promise>\n", "y", uint64(4))
	f.Add("> a\r\n> b\r\n\x1b[0mTASK_COMPLETE", "a\nb", uint64(5))
	f.Fuzz(func(t *testing.T, text, prompt string, seed uint64) {
		want := scanText(text, prompt, "", len(text)+1)
		if want.complete && want.blocked != "" {
			t.Error("complete and blocked")
		}
		if len(want.final) > finalLimit || !utf8.ValidString(want.final) || !utf8.ValidString(want.blocked) {
			t.Errorf("final words %q, blocked %q", want.final, want.blocked)
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		h := newTranscript(stream.FormatText, Request{Prompt: prompt})
		for rest := text; len(rest) > 0; {
			n := 1 + rnd.IntN(min(len(rest), 1+rnd.IntN(9000)))
			fmt.Fprint(h.words, rest[:n])
			rest = rest[n:]
		}
		if got := h.come(); got != want {
			t.Errorf("in pieces %+v, whole %+v", got, want)
		}
		if got := scanText(text, prompt, "", 1); got != want {
			t.Errorf("by bytes %+v, whole %+v", got, want)
		}
		// Whatever the prompt is, repeating it says nothing.
		if echo := scanText(prompt, prompt, "", 64); echo.complete || echo.blocked != "" {
			t.Errorf("echo of %q: %+v", prompt, echo)
		}
	})
}

func BenchmarkText(b *testing.B) {
	block := []byte(strings.Repeat("some line of a build's log, as they are\n", 256<<10/40))
	t := tail{limit: ownLimit}
	b.SetBytes(int64(len(block)))
	for b.Loop() {
		t.Write(block)
	}
}

// An end of the prompt at the beginning of what was kept of a long output is no claim.
func TestEchoCutShort(t *testing.T) {
	t.Parallel()
	for at := range len(samplePrompt) {
		text := tail{limit: ownLimit, buf: []byte("x\n" + quoted("> ", samplePrompt[at:]) + "y\n"), cut: true}
		if complete, blocked, _ := claims(withoutEcho(text.text(), samplePrompt, true),
			""); samplePrompt[at] == '\n' && (complete || blocked != "") {
			t.Errorf("cut at %d: complete %v, blocked %q", at, complete, blocked)
		}
	}
}
