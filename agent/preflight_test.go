package agent

import (
	"path/filepath"
	"slices"
	"testing"

	"descartes/agent/stream"
)

func TestLacks(t *testing.T) {
	t.Parallel()
	const (
		rootText  = "as root it refuses to skip permissions"
		loginText = "no login was found, neither in the environment nor in its files"
		trustText = "it does nothing in a folder that it does not trust"
	)
	for name, tt := range map[string]struct {
		backend string
		command []string
		root    bool
		env     map[string]string
		files   map[string]string
		want    []string
	}{
		"claude as root": {backend: "claude", root: true,
			env: map[string]string{"ANTHROPIC_API_KEY": "k"}, want: []string{rootText}},
		"claude as root in a container": {backend: "claude", root: true,
			env: map[string]string{"ANTHROPIC_API_KEY": "k", "IS_SANDBOX": "1"}},
		"claude as somebody": {backend: "claude", env: map[string]string{"CLAUDE_CODE_OAUTH_TOKEN": "k"}},
		"claude that asks": {backend: "claude", command: []string{"claude", "-p"}, root: true,
			env: map[string]string{"ANTHROPIC_API_KEY": "k"}},
		"claude by its path": {backend: "claude",
			command: []string{"/opt/claude", "--permission-mode", "bypassPermissions"}, root: true,
			want: []string{rootText, loginText}},
		"claude without a login": {backend: "claude",
			files: map[string]string{"/home/a/.claude.json": `{"theme":"dark"}`}, want: []string{loginText}},
		"claude logged in": {backend: "claude",
			files: map[string]string{"/home/a/.claude.json": `{"oauthAccount":{}}`}},
		"claude with credentials": {backend: "claude",
			files: map[string]string{"/home/a/.claude/.credentials.json": `{}`}},
		"claude with credentials moved": {backend: "claude", env: map[string]string{"CLAUDE_CONFIG_DIR": "/c"},
			files: map[string]string{"/home/a/.claude/.credentials.json": `{}`}, want: []string{loginText}},
		"claude with a helper": {backend: "claude",
			files: map[string]string{"/p/.claude/settings.json": `{"apiKeyHelper":"x"}`}},
		"another program under its name": {backend: "claude",
			command: []string{"my-agent", "--dangerously-skip-permissions"}, root: true},
		"codex": {backend: "codex", want: []string{loginText}},
		"codex with a provider": {backend: "codex", env: map[string]string{"CODEX_HOME": "/c"},
			files: map[string]string{"/c/config.toml": `model_provider = "x"`}},
		"gemini": {backend: "gemini", env: map[string]string{"GEMINI_API_KEY": "k"}},
		"gemini and trust": {backend: "gemini", command: []string{"gemini"},
			env: map[string]string{"GEMINI_API_KEY": "k"}, want: []string{trustText}},
		"gemini trusted by a variable": {backend: "gemini", command: []string{"gemini"},
			env: map[string]string{"GEMINI_API_KEY": "k", "GEMINI_CLI_TRUST_WORKSPACE": "true"}},
		"gemini in a trusted folder": {backend: "gemini", command: []string{"gemini"},
			env: map[string]string{"GEMINI_API_KEY": "k"}, files: map[string]string{
				"/home/a/.gemini/trustedFolders.json": `{"/p":"TRUST_FOLDER"}`}},
		"gemini beside a trusted folder": {backend: "gemini", command: []string{"gemini"},
			env: map[string]string{"GEMINI_API_KEY": "k"}, files: map[string]string{
				"/home/a/.gemini/trustedFolders.json": `{"/p/x":"TRUST_FOLDER"}`}, want: []string{trustText}},
		"gemini with a chosen login": {backend: "gemini", files: map[string]string{
			"/home/a/.gemini/settings.json": `{"security":{"auth":{"selectedType":"x"}}}`}},
		"opencode": {backend: "opencode", env: map[string]string{"OPENCODE_CONFIG_CONTENT": "{}"}},
		"opencode with an empty login": {backend: "opencode",
			files: map[string]string{"/home/a/.local/share/opencode/auth.json": `{}`}, want: []string{loginText}},
		"copilot":  {backend: "copilot", env: map[string]string{"GH_TOKEN": "k"}},
		"qwen":     {backend: "qwen", files: map[string]string{"/home/a/.qwen/oauth_creds.json": `{}`}},
		"anything": {backend: "generic", command: []string{"make", "it"}, root: true},
	} {
		b, _ := Lookup(tt.backend)
		if tt.command != nil {
			b.Command = tt.command
		}
		p := Host{Root: tt.root, Dir: "/p",
			Env: func(name string) string {
				if v, ok := tt.env[name]; ok || name != "HOME" {
					return v
				}
				return "/home/a"
			},
			Read: func(path string) []byte { return []byte(tt.files[filepath.Clean(path)]) }}
		var got []string
		for _, l := range b.Preflight(p) {
			got = append(got, l.What)
			if l.Fix == "" || l.Certain != (l.What == rootText) {
				t.Errorf("%s: %+v", name, l)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	gemini, _ := Lookup("gemini")
	codex, _ := Lookup("codex")
	for want, got := range map[string]string{
		"gemini --output-format stream-json --yolo --skip-trust -m big <prompt, with GEMINI_CLI_NO_RELAUNCH set":                                                 gemini.CommandLine("big"),
		"codex exec --json --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check --ephemeral -c analytics.enabled=false - <prompt, with RUST_LOG set": codex.CommandLine(""),
		"a acp, which gets its prompt by the Agent Client Protocol":                                                                                              Backend{Command: []string{"a", "acp"}, Prompt: ByStdin, Format: stream.FormatACP}.CommandLine(""),
		"a acp, which gets its prompt and the model big by the Agent Client Protocol":                                                                            Backend{Command: []string{"a", "acp"}, Prompt: ByStdin, Format: stream.FormatACP}.CommandLine("big"),
		"a --yes {prompt}": Backend{Command: []string{"a", "--yes"}, Prompt: ByArg}.CommandLine("big"),
		"a {prompt} --yes": Backend{Command: []string{"a", "{prompt}", "--yes"}, Prompt: ByArg}.CommandLine(""),
		"a {prompt_file}":  Backend{Command: []string{"a"}, Prompt: ByFile}.CommandLine(""),
		"a, the prompt in DESCARTES_PROMPT, with K set": Backend{Command: []string{"a"}, Prompt: ByEnv,
			Env: map[string]string{"K": "secret"}}.CommandLine(""),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A variable that the row takes away is none that the program could log in with.
func TestLacksUnset(t *testing.T) {
	t.Parallel()
	b, _ := Lookup("claude")
	place := Host{Dir: t.TempDir(), Read: func(string) []byte { return nil }, Env: func(name string) string {
		if name == "ANTHROPIC_API_KEY" {
			return "key"
		}
		return ""
	}}
	if got := b.Preflight(place); len(got) != 0 {
		t.Fatalf("with a key: %+v", got)
	}
	b.UnsetEnv = append(b.UnsetEnv, "ANTHROPIC_API_KEY")
	if got := b.Preflight(place); len(got) != 1 {
		t.Errorf("without it: %+v", got)
	}
}
