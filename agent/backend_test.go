package agent

import (
	"fmt"
	"strings"
	"testing"

	"descartes/internal/proc"
)

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	b := Backend{Name: "generic", Command: []string{"tool", "--text={prompt}", "--file", "{prompt_file}"},
		Prompt:    ByArg,
		ModelArgs: []string{"-m", "x/{model}"}, Env: map[string]string{"B": "2", "A": "1"}}
	argv, env, err := b.command(Request{Prompt: "do {model}", PromptFile: "/p", Model: "big", Env: []string{"A=3"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(argv, "|"), "tool|--text=do {model}|--file|/p|-m|x/big"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := strings.Join(env, "|"), "A=1|B=2|A=3|DESCARTES_PROMPT_FILE=/p"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	claude, _ := Lookup("claude")
	argv, _, err = claude.command(Request{Prompt: "x", PromptFile: "/p", Model: "opus"})
	if got, want := strings.Join(argv, " "),
		"claude -p --output-format stream-json --verbose --dangerously-skip-permissions --model opus"; err != nil ||
		got != want {
		t.Errorf("got %s, want %s; %v", got, want, err)
	}
}

func TestBackends(t *testing.T) {
	t.Parallel()
	if got := strings.Join(Names(),
		" "); got != "claude codex copilot gemini gemini-acp generic opencode opencode-acp qwen" {
		t.Errorf("names: %s", got)
	}
	if _, ok := Lookup("none"); ok {
		t.Error("an unknown backend was found")
	}
	claude, _ := Lookup("claude")
	got := strings.Join(claude.With([]string{"wrap", "claude", "-p"}).Command, " ")
	if want := "wrap claude -p --output-format stream-json --verbose --dangerously-skip-permissions"; got != want {
		t.Errorf("with the user's command: got %s, want %s", got, want)
	}
	if again, _ := Lookup("claude"); again.Command[0] != "claude" {
		t.Error("the table was changed")
	}
	for _, word := range []string{"stdin", "arg", "env", "file"} {
		if m, ok := ParsePromptMode(word); !ok || string(m) != word {
			t.Errorf("prompt mode %s: %v %v", word, m, ok)
		}
	}
	if _, ok := ParsePromptMode("tty"); ok {
		t.Error("prompt mode tty")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	found := func(string) (string, error) { return "/bin/x", nil }
	missing := func(p string) (string, error) { return "", fmt.Errorf("%s: %w", p, proc.ErrNoProgram) }
	const most = 128<<10 - 1
	for _, tt := range []struct {
		name string
		b    Backend
		look func(string) (string, error)
		len  int
		ok   bool
	}{
		{"fits", Backend{Command: []string{"x"}, Prompt: ByArg}, found, most, true},
		{"one too many", Backend{Command: []string{"x"}, Prompt: ByArg}, found, most + 1, false},
		{"in a longer argument", Backend{Command: []string{"x", "--p={prompt}"}, Prompt: ByArg}, found, most - 4,
			true},
		{"in a longer argument, too long", Backend{Command: []string{"x", "--p={prompt}"}, Prompt: ByArg}, found,
			most - 3, false},
		{"variable", Backend{Command: []string{"x"}, Prompt: ByEnv}, found, most - len("DESCARTES_PROMPT="), true},
		{"variable, too long", Backend{Command: []string{"x"}, Prompt: ByEnv}, found, most, false},
		{"stdin", Backend{Command: []string{"x"}, Prompt: ByStdin}, found, 10 << 20, true},
		{"file", Backend{Command: []string{"x"}, Prompt: ByFile}, found, 10 << 20, true},
		{"missing", Backend{Command: []string{"x"}, Prompt: ByFile}, missing, 1, false},
		{"no command", Backend{Prompt: ByArg}, found, 1, false},
		{"no mode", Backend{Command: []string{"x"}}, found, 1, false},
	} {
		if err := tt.b.Check(tt.look, tt.len); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
