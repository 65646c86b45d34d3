package agent

import (
	"slices"
	"strings"
	"testing"

	"descartes/agent/stream"
)

func TestRows(t *testing.T) {
	t.Parallel()
	table, err := NewTable(map[string]Row{
		"claude":  {Args: []string{"-p"}, Env: map[string]string{"A": "1"}, ModelArgs: []string{}},
		"gemini":  {Command: []string{"npx", "gemini"}, ExitCodes: map[int]string{7: "fatal", 173: "fatal"}},
		"generic": {Prompt: "file"},
		"pi": {Command: []string{"pi", "-p"}, Args: []string{"--mode", "json"}, Prompt: "stdin", Format: "text",
			StdinArgs: []string{"-"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(table.Names(),
		" "); got != "claude codex copilot gemini gemini-acp generic opencode opencode-acp pi qwen" {
		t.Errorf("names: %s", got)
	}
	claude, _ := table.Lookup("claude")
	argv, env, err := claude.command(Request{PromptFile: "/p", Model: "big"})
	if got, want := strings.Join(argv, " "), "claude -p"; err != nil || got != want ||
		claude.Format != stream.FormatClaude {
		t.Errorf("claude: got %q, want %q; %v", got, want, err)
	}
	if got, want := strings.Join(env, " "),
		"CLAUDECODE= CLAUDE_CODE_ENTRYPOINT= A=1 DESCARTES_PROMPT_FILE=/p"; got != want {
		t.Errorf("claude's environment: got %q, want %q", got, want)
	}
	gemini, _ := table.Lookup("gemini")
	if got := strings.Join(gemini.Command, " "); got != "npx gemini --output-format stream-json --yolo --skip-trust" ||
		gemini.ExitCodes[7] != Fatal || gemini.ExitCodes[173] != Fatal || gemini.ExitCodes[53] != Budget {
		t.Errorf("gemini: %+v", gemini)
	}
	pi, _ := table.Lookup("pi")
	if argv, _, err := pi.command(Request{PromptFile: "/p"}); err != nil ||
		strings.Join(argv, " ") != "pi -p --mode json -" {
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
		"backend x: a new backend needs command, prompt and parser": {"x": {Command: []string{"x"}}},
		`backend x: prompt "tty" is not one of stdin, arg, env, file`: {
			"x": {Command: []string{"x"}, Prompt: "tty", Format: "text"}},
		`backend claude: parser "xml" is not one of`: {"claude": {Format: "xml"}},
		`backend codex: exit code 3: "bad" is not one of transient, budget, fatal`: {
			"codex": {ExitCodes: map[int]string{3: "bad"}}},
		"a backend without a name": {" ": {}},
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
		{"claude", "claude --print --output-format=json",
			"claude --print --output-format=json --verbose --dangerously-skip-permissions"},
		{"claude", "claude -p --output-format text --model opus",
			"claude -p --output-format text --model opus --verbose --dangerously-skip-permissions"},
		{"codex", "codex exec --yolo",
			"codex exec --yolo --json --skip-git-repo-check --ephemeral -c analytics.enabled=false"},
		{"codex", "codex -c model_provider=x",
			"codex -c model_provider=x exec --json --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check --ephemeral -c analytics.enabled=false"},
		{"codex", "codex exec -c analytics.enabled=true",
			"codex exec -c analytics.enabled=true --json --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check --ephemeral"},
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

// What the user's command says about permissions, the model or the conversation stands, however it is written: no
// option of ours overrides it, and none is added that the client would refuse beside it.
func TestWithKeepsWhatIsStated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, bypass, commands string }{
		{"codex", "--dangerously-bypass-approvals-and-sandbox",
			`-s read-only|-s=read-only|-sread-only|--sandbox workspace-write|--sandbox=read-only|-a on-request|--ask-for-approval=never` +
				`|--full-auto|--approve-for-me|--yolo|-c sandbox_mode="read-only"|-csandbox_mode="read-only"|--config sandbox_mode="read-only"|--config=approval_policy="untrusted"` +
				`|-c sandbox_workspace_write.network_access=false|-c model="m" -c sandbox_mode="read-only"|e -s read-only`},
		{"claude", "--dangerously-skip-permissions",
			`--permission-mode plan|--permission-mode=acceptEdits|--allowedTools Read,Edit|--allowed-tools=Read|--permission-prompt-tool mcp__ask|-p --permission-mode plan`},
		{"gemini", "--yolo", `--approval-mode yolo|--approval-mode=auto_edit|--approvalMode plan|-y|-dy|--yolo=false|--no-yolo|--allowed-tools run_shell_command|--approval-mode default`},
		{"qwen", "--yolo", `--approval-mode yolo|--approval-mode=plan|-y|--yolo|--no-yolo|--allowed-tools edit`},
		{"copilot", "--allow-all-tools",
			`--allow-all|--yolo|--allow-tool shell(git:*)|--allow-tool=write|--allow-all-tools|--plan|--mode plan|--mode=plan|--assisted-approval`},
		{"copilot", "--allow-all-paths",
			`--allow-all|--yolo|--add-dir ../lib|--add-dir=../lib|--disallow-temp-dir|--allow-all-paths`},
		{"copilot", "--allow-all-urls", `--allow-all|--yolo|--allow-url github.com|--deny-url=example.org`},
		{"opencode", "--auto", `run --auto|run --dangerously-skip-permissions|run --agent plan|run --agent=plan|run --no-auto`},
	} {
		b, _ := Lookup(tt.name)
		for options := range strings.SplitSeq(tt.commands, "|") {
			command := append([]string{tt.name}, strings.Fields(options)...)
			got := b.With(command).Command
			if slices.Contains(got[len(command):], tt.bypass) || !slices.Equal(got[:len(command)], command) {
				t.Errorf("%s: got %q", command, got)
			}
		}
	}
	for _, tt := range []struct{ name, command, bypass string }{ // what says nothing about it takes nothing away
		{"codex", `codex exec -c model="sandbox_mode" -m read-only --color never`,
			"--dangerously-bypass-approvals-and-sandbox"},
		{"claude", "claude -p --disallowedTools Bash --tools Read", "--dangerously-skip-permissions"},
		{"gemini", "gemini --sandbox --debug", "--yolo"},
		{"copilot", "copilot --add-dir ../lib --deny-tool shell(rm) --mode autopilot", "--allow-all-tools"},
		{"opencode", "opencode run --agent build", "--auto"},
	} {
		b, _ := Lookup(tt.name)
		if got := b.With(strings.Fields(tt.command)).Command; !slices.Contains(got, tt.bypass) {
			t.Errorf("%s: got %q", tt.command, got)
		}
	}
	for _, tt := range []struct{ name, command, model, session string }{
		{"codex", "codex exec -m a -", "", ""},
		{"codex", "codex exec --config model=a -", "", ""},
		{"gemini", "gemini --model=a", "", "--resume s"},
		{"claude", "claude -p --model a", "", "--resume s"},
		{"claude", "claude -p --continue", "--model b", ""},
		{"opencode", "opencode run -s x", "-m b", ""},
	} {
		b, _ := Lookup(tt.name)
		argv, _, err := b.With(strings.Fields(tt.command)).command(Request{PromptFile: "/p", Model: "b", Session: "s"})
		line := strings.Join(argv, " ")
		want := strings.TrimSpace(tt.model + " " + tt.session)
		if err != nil || !strings.HasSuffix(line, want) || strings.Contains(line, " b") != (tt.model != "") ||
			strings.Contains(line, "--resume s") != (tt.session != "") || strings.Count(line, " - ") > 1 ||
			strings.HasSuffix(line, " -") {
			t.Errorf("%s: got %s, want ... %s; %v", tt.command, line, want, err)
		}
	}
	table, err := NewTable(map[string]Row{"codex": {Command: []string{"codex", "exec", "-s", "read-only"}}})
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := table.Lookup("codex"); slices.Contains(b.Command, "--dangerously-bypass-approvals-and-sandbox") ||
		!slices.Contains(b.Command, "--json") {
		t.Errorf("a row's command: got %q", b.Command)
	}
}

func TestBuiltinBackends(t *testing.T) {
	t.Parallel()
	for _, b := range builtin() {
		if !slices.Contains(stream.Formats(), b.Format) || b.title() == "" {
			t.Errorf("%s: %+v", b.Name, b)
		}
		if b.Format != stream.FormatText && (!stream.HasEvents(b.Format) || b.Prompt != ByStdin) {
			t.Errorf("%s: no dialect, or a prompt that may not fit", b.Name)
		}
	}
	for want, q := range map[string]Request{
		"codex --ephemeral -c analytics.enabled=false -m m -":        {Model: "m"},
		"codex -c analytics.enabled=false -m m -":                    {Model: "m", Keep: true},
		"codex -c analytics.enabled=false -m m resume s -":           {Model: "m", Session: "s"},
		"gemini --skip-trust --resume s":                             {Session: "s", Keep: true},
		"qwen --yolo --resume s":                                     {Session: "s"},
		"copilot --no-ask-user --resume=s":                           {Session: "s"},
		"opencode --print-logs --log-level WARN -m m --session s":    {Model: "m", Session: "s"},
		"claude --dangerously-skip-permissions --model m --resume s": {Model: "m", Session: "s"},
	} {
		name, end, _ := strings.Cut(want, " ")
		b, _ := Lookup(name)
		q.PromptFile = "/p"
		if argv, _, err := b.command(q); err != nil || !strings.HasSuffix(strings.Join(argv, " "), end) ||
			strings.Contains(strings.Join(argv, " "), "--ephemeral") != strings.Contains(end, "--ephemeral") {
			t.Errorf("%s: %q %v", want, argv, err)
		}
	}
}
