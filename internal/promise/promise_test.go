package promise

import (
	"strings"
	"testing"
)

// Whatever kind of loop asks, a promise counts in the same places.
func TestMade(t *testing.T) {
	t.Parallel()
	const tag = Open + "DONE" + Close
	for _, c := range []struct {
		name, text string
		want       bool
	}{
		{"alone", tag, true},
		{"alone, words after it", tag + "\nThat was all.", true},
		{"three lines", "Fine.\n" + Open + "\n DONE\n" + Close, true},
		{"at the very end", "All green. " + tag + "\n\n", true},
		{"at the very end, in emphasis", "All green: **" + tag + "**.", true},
		{"at the very end, no blanks in this script", "完了しました。" + tag, true},
		{"blanks inside", "Finished: " + Open + " DONE " + Close, true},
		{"the word", "ok\nDone.\n", true},
		{"after another sentence", "I won't say it. It is done. " + tag, true},
		{"after a quotation", "> " + tag + "\n\n" + tag, true},
		{"after a fence", "```\nok\n```\n" + tag, true},
		{"indented a little", "  " + tag, true},

		{"at the end of an earlier line", "All green. " + tag + "\nNext I look again.", false},
		{"spoken of", "I will not output " + tag, false},
		{"once it passes", "once it passes " + tag, false},
		{"words after it", tag + " soon", false},
		{"another case", Open + "done" + Close, false},
		{"no tag", "DONE" + Close, false},
		{"quotation", "> " + tag, false},
		{"quotation of the word", "> DONE", false},
		{"last words before a quotation", "See: " + tag + "\n> what you said", false},
		{"list item", "- " + tag, false},
		{"list item, star", "* " + tag, false},
		{"list item, plus", "+ DONE", false},
		{"list item, number", "3. " + tag, false},
		{"table", "| step | " + tag + " |", false},
		{"table without borders", "step | " + tag, false},
		{"fence", "```\n" + tag + "\n```", false},
		{"fence in a fence", "```markdown\n```text\n" + tag + "\n```\n" + tag + "\n```", false},
		{"fence that is never closed", "~~~\n" + tag, false},
		{"indented code", "like this:\n\n    " + tag, false},
		{"indented by a tab", "\t" + tag, false},
		{"inline code", "`" + tag + "`", false},
		{"inline code at the end", "The tag is `" + tag + "`.", false},
		{"inline code of the word", "`DONE`", false},
		{"added in a diff", "+" + tag, false},
		{"taken away in a diff", "-" + tag, false},
		{"found by a search", "docs/a.md:3:" + tag, false},
		{"found by a search, later in the line", "docs/a.md:3: end with " + tag, false},
		{"context of a search", "a.md:3-DONE", false},
		{"in quotation marks", "echo \"" + tag + "\"", false},
		{"struck out", "~~" + tag + "~~", false},
		{"no word", "", false},
	} {
		for _, text := range []string{c.text, strings.ReplaceAll(c.text, "\n", "\r\n")} {
			if got := Made(Lines(text), "DONE") >= 0; got != c.want {
				t.Errorf("%s: %q: got %v, want %v", c.name, text, got, c.want)
			}
		}
	}
	if Made(Lines("x"), " ") >= 0 || Made(Lines(tag), tag) != 0 {
		t.Error("the word's own forms")
	}
}
