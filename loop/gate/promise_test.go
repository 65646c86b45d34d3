package gate

import (
	"strings"
	"testing"
)

func TestPromised(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, final, word string
		want              bool
	}{
		{"tag on its own line", "All green.\n<promise>COMPLETE</promise>\n", "COMPLETE", true},
		{"tag on its own line, words after it", "<promise>COMPLETE</promise>\nThat was all.", "COMPLETE", true},
		{"tag as the last thing", "All green. <promise>COMPLETE</promise>", "COMPLETE", true},
		{"tag as the last thing, in emphasis", "All green. **<promise>COMPLETE</promise>**.", "COMPLETE", true},
		{"tag in the middle of a line", "Finished: <promise>COMPLETE</promise> and now I rest.", "COMPLETE", false},
		{"tag at the end of an earlier line", "All green. <promise>COMPLETE</promise>\nNext I look again.", "COMPLETE",
			false},
		{"refused in the middle", "I will not output <promise>COMPLETE</promise> yet.\nTests fail.", "COMPLETE",
			false},
		{"refused as the last words", "I will not output <promise>COMPLETE</promise>", "COMPLETE", false},
		{"quoted", "> <promise>COMPLETE</promise>", "COMPLETE", false},
		{"quoted, words after it", "You asked for\n> <promise>COMPLETE</promise>\nbut tests fail.", "COMPLETE", false},
		{"quoted, plain", "You asked for\n> COMPLETE\nbut tests fail.", "COMPLETE", false},
		{"quoted at the end", "Tests fail, so not yet:\n> End with <promise>COMPLETE</promise>", "COMPLETE", false},
		{"after a quote", "> End with <promise>COMPLETE</promise>\n\n<promise>COMPLETE</promise>", "COMPLETE", true},
		{"backquotes", "`<promise>COMPLETE</promise>`", "COMPLETE", false},
		{"fenced", "```\n<promise>COMPLETE</promise>\n```", "COMPLETE", false},
		{"fenced with a language, then words", "```text\n<promise>COMPLETE</promise>\n```\nis what I would say.",
			"COMPLETE", false},
		{"fence that is never closed", "```\n<promise>COMPLETE</promise>", "COMPLETE", false},
		{"after a fence", "```\nok\n```\n<promise>COMPLETE</promise>", "COMPLETE", true},
		{"three lines", "<promise>\nCOMPLETE\n</promise>", "COMPLETE", true},
		{"three lines with another word", "<promise>\nNOT DONE\n</promise>", "DONE", false},
		{"blanks in the tag", "<promise> COMPLETE </promise>", "COMPLETE", true},
		{"another word in the tag", "<promise>COMPLETED</promise>", "COMPLETE", false},
		{"case in the tag", "<promise>complete</promise>", "COMPLETE", false},
		{"plain", "work work\nCOMPLETE\n", "COMPLETE", true},
		{"plain in another case", "complete", "COMPLETE", true},
		{"plain with a full stop and emphasis", "**Complete.**", "COMPLETE", true},
		{"plain in a sentence", "this is not complete", "COMPLETE", false},
		{"plain as part of a word", "incomplete", "COMPLETE", false},
		{"plain as a list entry", "* Pending\n* Complete", "COMPLETE", false},
		{"plain in code", "```\nCOMPLETE\n```", "COMPLETE", false},
		{"pattern characters", "<promise>A.*(B)[c]+$</promise>", "A.*(B)[c]+$", true},
		{"pattern characters match nothing else", "<promise>AxxB</promise>", "A.*B", false},
		{"spaces", "<promise>ALL TASKS  DONE</promise>", "ALL TASKS DONE", true},
		{"spaces, plain", "all tasks done", "ALL TASKS DONE", true},
		{"another script", "<promise>完了しました</promise>", "完了しました", true},
		{"another script, plain, another case", "ГОТОВО", "готово", true},
		{"word with marks of its own", "__ALL_DONE__", "__ALL_DONE__", true},
		{"tagged word with a full stop of its own", "<promise>DONE.</promise>", "DONE.", true},
		{"plain word with a full stop of its own", "done.", "DONE.", true},
		{"word given with its tags", "<promise>DONE</promise>", "<promise>DONE</promise>", true},
		{"no word", "", "", false},
		{"no word, empty tag", "<promise></promise>", "", false},
		{"carriage returns", "ok\r\n<promise>COMPLETE</promise>\r\n", "COMPLETE", true},
		{"said again after a refusal", "I will not output <promise>X</promise> yet.\n...\n<promise>X</promise>", "X",
			true},
	} {
		if got := Promised(c.final, c.word); got != c.want {
			t.Errorf("%s: Promised(%q, %q) = %v, want %v", c.name, c.final, c.word, got, c.want)
		}
	}
}

func TestPromiseGate(t *testing.T) {
	t.Parallel()
	p := Promise{Word: "OK"}
	if d := p.Decide(Facts{Final: "<promise>OK</promise>"}); d.Kind != Done {
		t.Errorf("got %v, want done", d)
	}
	if d := p.Decide(Facts{Final: "<promise>OK</promise>", Err: "timed out"}); d.Kind != Continue ||
		!strings.Contains(d.Reason, "timed out") {
		t.Errorf("got %v, want the failure to outrank the promise", d)
	}
	if d := p.Decide(Facts{Final: "soon"}); d.Kind != Continue || d.Reason == "" {
		t.Errorf("got %v, want continue", d)
	}
	if Promised(p.Instructions(), "OK") != true {
		t.Errorf("instructions do not show the promise as it is understood: %q", p.Instructions())
	}
}

func FuzzPromised(f *testing.F) {
	f.Add("x <promise>A</promise>", "A")
	f.Add("```\n<promise>A</promise>", "A")
	f.Fuzz(func(t *testing.T, final, word string) {
		Promised(final, word)
		w := squeeze(word)
		if strings.Contains(w, "promise>") || strings.Contains(w, "```") || strings.Contains(w, "~~~") || w == "" {
			return
		}
		if !Promised("ok\n<promise>"+w+"</promise>", w) {
			t.Errorf("a plain promise of %q is not seen", w)
		}
		if Promised("I will not output <promise>"+w+"</promise> yet, as tests fail.", w) {
			t.Errorf("a sentence about the promise of %q is taken for it", w)
		}
	})
}
