package agent

import (
	"bytes"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"descartes/agent/stream"
)

// Host is what Preflight knows about the place where a client would run.
type Host struct {
	Root bool                     // we are root
	Env  func(name string) string // of the client
	Read func(path string) []byte // the beginning of a file; nil if unreadable
	Dir  string                   // the project
}

// Problem is something that would keep a client from working.
type Problem struct {
	What, Fix string
	Certain   bool // else it may still work
}

// Known reports whether Preflight knows the backend's program by name. Only such a program is sure to understand
// --version.
func (b Backend) Known() bool {
	_, ok := b.needs()
	return ok
}

// Install is the command that installs the backend's program, "" if unknown.
func (b Backend) Install() string {
	n, _ := b.needs()
	return n.install
}

func (b Backend) needs() (needs, bool) {
	if len(b.Command) == 0 {
		return needs{}, false
	}
	program := path.Base(filepath.ToSlash(b.Command[0]))
	for _, n := range known() {
		if n.program == program {
			return n, true
		}
	}
	return needs{}, false
}

// Preflight finds what would keep the program from working when it is called like this, and how to fix it. It only
// looks at variables and files; it finds nothing for an unknown program.
func (b Backend) Preflight(p Host) (found []Problem) {
	n, ok := b.needs()
	if !ok {
		return nil
	}
	env := func(name string) string { // as the program will find it
		if v := b.Env[name]; v != "" || slices.Contains(b.UnsetEnv, name) {
			return v
		}
		return p.Env(name)
	}
	if p.Root && n.root.applies(b.Command, env) {
		found = append(found, Problem{What: n.root.what, Fix: n.root.fix, Certain: n.root.certain})
	}
	if n.trust.applies(b.Command, env) && !n.trusted.names(p, env) {
		found = append(found, Problem{What: n.trust.what, Fix: n.trust.fix, Certain: n.trust.certain})
	}
	given := func(name string) bool { return env(name) != "" }
	holds := func(f file) bool { return f.holds(p, env) }
	if !slices.ContainsFunc(n.vars, given) && !slices.ContainsFunc(n.files, holds) {
		found = append(found, Problem{What: "no login was found, neither in the environment nor in its files",
			Fix: n.login})
	}
	return found
}

// applies reports whether a client called so would refuse.
func (r refusal) applies(command []string, env func(string) string) bool {
	if r.what == "" || r.pardon != "" && env(r.pardon) == r.value || r.unless != "" &&
		slices.Contains(command, r.unless) {
		return false
	}
	return len(r.options) == 0 || slices.ContainsFunc(r.options,
		func(o string) bool { return slices.Contains(command, o) })
}

// read is the file's text.
func (f file) read(p Host, env func(string) string) []byte {
	dir := filepath.Join(env("HOME"), f.folder)
	switch {
	case f.inProject:
		dir = filepath.Join(p.Dir, f.folder)
	case f.variable != "" && env(f.variable) != "":
		dir = env(f.variable)
	case env("HOME") == "":
		return nil
	}
	return p.Read(filepath.Join(dir, f.name))
}

// holds reports whether the file is there and has one of its words.
func (f file) holds(p Host, env func(string) string) bool {
	text := f.read(p, env)
	return len(text) > 0 && (len(f.any) == 0 || slices.ContainsFunc(f.any,
		func(word string) bool { return bytes.Contains(text, []byte(word)) }))
}

// names reports whether the file mentions the project or a folder above it.
func (f file) names(p Host, env func(string) string) bool {
	if f.name == "" {
		return false
	}
	text := f.read(p, env)
	for dir := p.Dir; len(text) > 0; dir = filepath.Dir(dir) {
		if bytes.Contains(text, []byte(strconv.Quote(dir))) {
			return true
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return false
}

// CommandLine shows people how the program is called for a model: its prompt is named, not quoted, and variables that
// the backend adds are shown without values, because some hold keys.
func (b Backend) CommandLine(model string) string {
	line := strings.Join(b.argv(Request{Prompt: "{prompt}", PromptFile: "{prompt_file}", Model: model}), " ")
	switch {
	case b.Format == stream.FormatACP:
		told := "its prompt"
		if model != "" {
			told += " and the model " + model
		}
		line += ", which gets " + told + " by the Agent Client Protocol"
	case b.Prompt == ByStdin:
		line += " <prompt"
	case b.Prompt == ByEnv:
		line += ", the prompt in " + PromptVar
	}
	if len(b.Env) > 0 {
		line += ", with " + strings.Join(slices.Sorted(maps.Keys(b.Env)), ", ") + " set"
	}
	return line
}

// WithEnv returns the backend with a user's variables added.
func (b Backend) WithEnv(env map[string]string) Backend {
	b.Env = overlaid(b.Env, env)
	return b
}

// needs is what is known about a client besides how to call it: what it refuses, and where it keeps its login.
type needs struct {
	program string
	install string  // the command that installs it
	root    refusal // of the superuser
	trust   refusal // of a folder that nobody has trusted
	trusted file    // the trusted folders
	vars    []string
	files   []file
	login   string // how a person gives it a login
}

// refusal is what a client refuses by default. With options, it refuses only if one of them is given; unless is an
// option, and pardon a variable with its value, that lets it pass.
type refusal struct {
	options       []string
	unless        string
	pardon, value string
	what, fix     string
	certain       bool // it was seen to end at once; else it may still work
}

// file is a file that contains a login, or words of one. It is in the folder that the variable names, else in folder,
// below the home or, with inProject, below the project.
type file struct {
	variable, folder, name string
	any                    []string
	inProject              bool
}

// known lists the clients. Their needs were seen with the programs themselves if testdata/streams names a version, and
// otherwise come from their documents.
func known() []needs {
	return []needs{
		{
			program: "claude", install: "npm install -g @anthropic-ai/claude-code",
			root: refusal{options: []string{"--dangerously-skip-permissions", "bypassPermissions",
				"--permission-mode=bypassPermissions"},
				pardon: "IS_SANDBOX", value: "1", certain: true,
				what: "as root it refuses to skip permissions",
				fix:  "run as another user, or with IS_SANDBOX=1 inside a container"},
			vars: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
				"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"},
			files: []file{
				{variable: "CLAUDE_CONFIG_DIR", folder: ".claude", name: ".credentials.json"},
				{variable: "CLAUDE_CONFIG_DIR", name: ".claude.json",
					any: []string{`"oauthAccount"`, `"primaryApiKey"`}},
				{variable: "CLAUDE_CONFIG_DIR", folder: ".claude", name: "settings.json", any: claudeSettings()},
				{inProject: true, folder: ".claude", name: "settings.json", any: claudeSettings()},
				{inProject: true, folder: ".claude", name: "settings.local.json", any: claudeSettings()},
			},
			login: "run claude once and log in, or set ANTHROPIC_API_KEY",
		},
		{
			program: "codex", install: "npm install -g @openai/codex",
			vars: []string{"CODEX_API_KEY", "OPENAI_API_KEY"},
			files: []file{
				{variable: "CODEX_HOME", folder: ".codex", name: "auth.json"},
				{variable: "CODEX_HOME", folder: ".codex", name: "config.toml", any: []string{"model_provider"}},
			},
			login: "codex login, or set CODEX_API_KEY",
		},
		{
			program: "gemini", install: "npm install -g @google/gemini-cli",
			trust: refusal{unless: "--skip-trust", pardon: "GEMINI_CLI_TRUST_WORKSPACE", value: "true",
				what: "it does nothing in a folder that it does not trust",
				fix:  "add --skip-trust to its arguments, or set GEMINI_CLI_TRUST_WORKSPACE=true"},
			trusted: file{folder: ".gemini", name: "trustedFolders.json"},
			vars: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA",
				"GOOGLE_APPLICATION_CREDENTIALS"},
			files: []file{
				{folder: ".gemini", name: "oauth_creds.json"},
				{folder: ".gemini", name: "settings.json", any: []string{`"selectedType"`, `"selectedAuthType"`}},
				{inProject: true, folder: ".gemini", name: "settings.json",
					any: []string{`"selectedType"`, `"selectedAuthType"`}},
			},
			login: "run gemini once and choose how to log in, or set GEMINI_API_KEY",
		},
		{
			program: "opencode", install: "npm install -g opencode-ai",
			vars: []string{"OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG", "OPENCODE_API_KEY", "ANTHROPIC_API_KEY",
				"OPENAI_API_KEY", "GEMINI_API_KEY",
				"GOOGLE_GENERATIVE_AI_API_KEY", "OPENROUTER_API_KEY", "GROQ_API_KEY", "DEEPSEEK_API_KEY",
				"XAI_API_KEY", "MISTRAL_API_KEY", "GITHUB_TOKEN"},
			files: []file{
				{variable: "XDG_DATA_HOME", folder: ".local/share", name: "opencode/auth.json",
					any: []string{`"type"`}},
				{variable: "XDG_CONFIG_HOME", folder: ".config", name: "opencode/opencode.json",
					any: []string{`"provider"`}},
				{variable: "XDG_CONFIG_HOME", folder: ".config", name: "opencode/opencode.jsonc",
					any: []string{`"provider"`}},
				{inProject: true, name: "opencode.json", any: []string{`"provider"`}},
				{inProject: true, name: "opencode.jsonc", any: []string{`"provider"`}},
			},
			login: "opencode auth login, or set the key of a provider such as ANTHROPIC_API_KEY",
		},
		{
			program: "copilot", install: "npm install -g @github/copilot",
			vars: []string{"COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"},
			files: []file{
				{variable: "COPILOT_HOME", folder: ".copilot", name: "config.json",
					any: []string{`"logged_in_users"`, `"loggedInUsers"`, `"last_logged_in_user"`,
						`"lastLoggedInUser"`}},
				{variable: "GH_CONFIG_DIR", folder: ".config/gh", name: "hosts.yml",
					any: []string{"oauth_token", "user:"}},
			},
			login: "run copilot once and give it /login, or set COPILOT_GITHUB_TOKEN",
		},
		{
			program: "qwen", install: "npm install -g @qwen-code/qwen-code",
			vars: []string{"OPENAI_API_KEY", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY"},
			files: []file{
				{folder: ".qwen", name: "oauth_creds.json"},
				{folder: ".qwen", name: "settings.json", any: []string{`"selectedType"`}},
				{folder: ".qwen", name: ".env", any: []string{"_API_KEY"}},
				{inProject: true, folder: ".qwen", name: "settings.json", any: []string{`"selectedType"`}},
			},
			login: "run qwen once and log in, or set OPENAI_API_KEY",
		},
	}
}

// claudeSettings are words of its settings that stand for a login.
func claudeSettings() []string {
	return []string{`"apiKeyHelper"`, `"ANTHROPIC_API_KEY"`, `"ANTHROPIC_AUTH_TOKEN"`, `"CLAUDE_CODE_OAUTH_TOKEN"`,
		`"CLAUDE_CODE_USE_BEDROCK"`, `"CLAUDE_CODE_USE_VERTEX"`}
}
