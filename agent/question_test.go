package agent

import (
	"strings"
	"testing"
)

func TestQuestion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ message, want string }{
		{"", ""},
		{"I wrote the parser and all tests pass.", ""},
		{"Which database should I use?", "Which database should I use?"},
		{"I looked around.\n\nShould I use SQLite or Postgres? Both would do.",
			"Should I use SQLite or Postgres? Both would do."},
		{"I looked.\n\n**Which one do you want?**\n\n1. SQLite\n2. Postgres\n\n- or none\n",
			"**Which one do you want?**\n\n1. SQLite\n2. Postgres\n\n- or none"},
		{"Before I go on I need a decision.\n\nMay the old API be removed?\n\nI changed nothing.",
			"May the old API be removed?\n\nI changed nothing."},
		{"What does this do?\n\nIt parses dates.\n\nI changed nothing, it was right already.\n\nAll good.", ""},
		{"Why did it fail? The port was taken.\n\nI fixed the port.\n\nThe tests pass.", ""},
		{"Done.\n\nLet me know if you have any questions!", ""},
		{"Done. Is there anything else you need?", ""},
		{"The test says:\n\n```\nDo you want to go on?\n```\n", ""},
		{"Soll ich die Datei löschen?", "Soll ich die Datei löschen?"},
	} {
		if got := question(tt.message); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.message, got, tt.want)
		}
	}
	if got := question(strings.Repeat("x ", 2000) + "?"); len(got) > questionLimit+3 {
		t.Errorf("%d bytes", len(got))
	}
}

// What an agent says to its reader without a question mark at the end of a line.
func TestToReader(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		"Should the flag be --json or --format json? I need to know before I change the public interface.",
		"I need a decision on the output format.\n\nPlease tell me which of the two formats you prefer.",
		"The plan names two formats. I need your decision:\n\n1. json\n2. yaml",
		"I could not run the tests: please allow me to use Bash.",
		"Your plan contradicts itself in section 2, so I stopped.",
		"It is unclear which table the task means.",
		"I'll wait until you have decided.",
		"Let me know which one to take.",
	} {
		if ToReader(message) == "" {
			t.Errorf("%q says nothing to its reader", message)
		}
	}
	for _, message := range []string{
		"", "ok", "compiled 3 files",
		"I'll start by reading the files.",
		"Now let me implement the parser for you.",
		"The parser is already implemented, and your tests pass.",
		"Done.\n\nLet me know if you have any questions!",
		"No changes are needed. Please review.",
		"I looked at the files as you asked.",
		"```\nplease\n```",
	} {
		if got := ToReader(message); got != "" {
			t.Errorf("%q says to its reader: %q", message, got)
		}
	}
}

func TestUnfenced(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\nb":                          "a\nb",
		"a\n```\nb\n```\nc":             "a\n\nc",
		"```\nb\n```":                   "",
		"~~~go\nb\n~~~\nc\n```\nd\n```": "\nc\n",
		"a ```b``` c":                   "a ```b``` c",
	} {
		if got := unfenced(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
