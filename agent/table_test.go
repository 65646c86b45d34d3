package agent

import (
	"slices"
	"strings"
	"testing"
)

func TestRows(t *testing.T) {
	t.Parallel()
	table, err := NewTable(map[string]Row{
		"claude":  {Args: []string{"-p"}, Env: map[string]string{"A": "1"}, ModelArgs: []string{}},
		"gemini":  {Command: []string{"npx", "gemini"}, ExitCodes: map[int]string{7: "fatal", 173: "fatal"}},
		"generic": {Prompt: "file"},
		"pi":      {Command: []string{"pi", "-p"}, Args: []string{"--mode", "json"}, Prompt: "stdin", Format: "text", StdinArgs: []string{"-"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(table.Names(), " "); got != "claude codex copilot gemini gemini-acp generic opencode opencode-acp pi qwen" {
		t.Errorf("names: %s", got)
	}
	claude, _ := table.Lookup("claude")
	argv, env, err := claude.command(Request{PromptFile: "/p", Model: "big"})
	if got, want := strings.Join(argv, " "), "claude -p"; err != nil || got != want || claude.Format != FormatClaude {
		t.Errorf("claude: got %q, want %q; %v", got, want, err)
	}
	if got, want := strings.Join(env, " "), "CLAUDECODE= CLAUDE_CODE_ENTRYPOINT= A=1 DESCARTES_PROMPT_FILE=/p"; got != want {
		t.Errorf("claude's environment: got %q, want %q", got, want)
	}
	gemini, _ := table.Lookup("gemini")
	if got := strings.Join(gemini.Command, " "); got != "npx gemini --output-format stream-json --yolo --skip-trust" ||
		gemini.ExitCodes[7] != Fatal || gemini.ExitCodes[173] != Fatal || gemini.ExitCodes[53] != Budget {
		t.Errorf("gemini: %+v", gemini)
	}
	pi, _ := table.Lookup("pi")
	if argv, _, err := pi.command(Request{PromptFile: "/p"}); err != nil || strings.Join(argv, " ") != "pi -p --mode json -" {
		t.Errorf("pi: %q %v", argv, err)
	}
	if again, _ := Lookup("gemini"); again.ExitCodes[7] != "" {
		t.Error("the built-in table was changed")
	}
}

func TestBadRows(t *testing.T) {
	t.Parallel()
	for want, rows := range map[string]map[string]Row{
		"backend x: no command": {"x": {Prompt: "arg", Format: "text"}},
		"backend x: a new backend needs command, prompt and parser":             {"x": {Command: []string{"x"}}},
		`backend x: prompt "tty" is none of stdin, arg, env, file`:              {"x": {Command: []string{"x"}, Prompt: "tty", Format: "text"}},
		`backend claude: parser "xml" is none of`:                               {"claude": {Format: "xml"}},
		`backend codex: exit code 3: "bad" is none of transient, budget, fatal`: {"codex": {ExitCodes: map[int]string{3: "bad"}}},
		"a backend without a name":                                              {" ": {}},
	} {
		if _, err := NewTable(rows); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestWith(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, command, want string }{
		{"claude", "claude", "claude -p --output-format stream-json --verbose --dangerously-skip-permissions"},
		{"claude", "claude --print --output-format=json", "claude --print --output-format=json --verbose --dangerously-skip-permissions"},
		{"claude", "claude -p --output-format text --model opus", "claude -p --output-format text --model opus --verbose --dangerously-skip-permissions"},
		{"codex", "codex exec --yolo", "codex exec --yolo --json --skip-git-repo-check --ephemeral -c analytics.enabled=false"},
		{"codex", "codex -c model_provider=x", "codex -c model_provider=x exec --json --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check --ephemeral -c analytics.enabled=false"},
		{"codex", "codex exec -c analytics.enabled=true", "codex exec -c analytics.enabled=true --json --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check --ephemeral"},
		{"gemini", "gemini -o text -y", "gemini -o text -y --skip-trust"},
		{"opencode", "opencode run -m a/b", "opencode run -m a/b --format json --auto --print-logs --log-level WARN"},
		{"generic", "sh agent.sh", "sh agent.sh"},
	} {
		b, _ := Lookup(tt.name)
		if got := strings.Join(b.With(strings.Fields(tt.command)).Command, " "); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.command, got, tt.want)
		}
	}
}

func TestBuiltinBackends(t *testing.T) {
	t.Parallel()
	for _, b := range builtin() {
		if !slices.Contains(Formats(), b.Format) || b.title() == "" {
			t.Errorf("%s: %+v", b.Name, b)
		}
		if b.Format != FormatText && (dialectOf(b.Format) == nil || b.Prompt != ByStdin) {
			t.Errorf("%s: no dialect, or a prompt that may not fit", b.Name)
		}
	}
	codex, _ := Lookup("codex")
	argv, _, err := codex.command(Request{PromptFile: "/p", Model: "m"})
	if err != nil || !strings.HasSuffix(strings.Join(argv, " "), "-c analytics.enabled=false -m m -") {
		t.Errorf("codex: %q %v", argv, err)
	}
}
