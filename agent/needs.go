package agent

// needs is what is known of one client program besides how it is called: what it refuses, where it keeps its login,
// which of its versions are trouble.
type needs struct {
	program  string
	install  string  // the command that gets it
	root     refusal // of the superuser
	trust    refusal // of a folder that nobody has said to trust
	trusted  file    // the folders that somebody has
	vars     []string
	files    []file
	login    string // how a person gives it a login
	troubles []trouble
}

// refusal is what a client refuses unless it is told not to. With options, it refuses only where it is called with one
// of them; unless is an option and pardon a variable with the value that it needs, which let it pass.
type refusal struct {
	options       []string
	unless        string
	pardon, value string
	what, fix     string
	certain       bool // it was seen to end at once; else it may work all the same
}

// file is one that holds a login, or words of one: any of these has to stand in it. It lies in the folder that the
// variable names, else in folder, which lies below the home, or below the project where inProject is set.
type file struct {
	variable, folder, name string
	any                    []string
	inProject              bool
}

// trouble is known of versions from the first to before the second; "" is no bound.
type trouble struct{ from, before, what, fix string }

// known lists the clients. What they need was seen with the programs themselves where a version is named in
// testdata/streams, and comes from their documents otherwise.
func known() []needs {
	return []needs{
		{
			program: "claude", install: "npm install -g @anthropic-ai/claude-code",
			root: refusal{options: []string{"--dangerously-skip-permissions", "bypassPermissions", "--permission-mode=bypassPermissions"},
				pardon: "IS_SANDBOX", value: "1", certain: true,
				what: "as root it refuses to skip permissions", fix: "run as another user, or with IS_SANDBOX=1 inside a container"},
			vars: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"},
			files: []file{
				{variable: "CLAUDE_CONFIG_DIR", folder: ".claude", name: ".credentials.json"},
				{variable: "CLAUDE_CONFIG_DIR", name: ".claude.json", any: []string{`"oauthAccount"`, `"primaryApiKey"`}},
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
				what: "it does nothing in a folder that it was not told to trust", fix: "add --skip-trust to its arguments, or set GEMINI_CLI_TRUST_WORKSPACE=true"},
			trusted: file{folder: ".gemini", name: "trustedFolders.json"},
			vars: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA",
				"GOOGLE_APPLICATION_CREDENTIALS"},
			files: []file{
				{folder: ".gemini", name: "oauth_creds.json"},
				{folder: ".gemini", name: "settings.json", any: []string{`"selectedType"`, `"selectedAuthType"`}},
				{inProject: true, folder: ".gemini", name: "settings.json", any: []string{`"selectedType"`, `"selectedAuthType"`}},
			},
			login: "run gemini once and choose how to log in, or set GEMINI_API_KEY",
		},
		{
			program: "opencode", install: "npm install -g opencode-ai",
			vars: []string{"OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG", "OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY",
				"GOOGLE_GENERATIVE_AI_API_KEY", "OPENROUTER_API_KEY", "GROQ_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY", "MISTRAL_API_KEY", "GITHUB_TOKEN"},
			files: []file{
				{variable: "XDG_DATA_HOME", folder: ".local/share", name: "opencode/auth.json", any: []string{`"type"`}},
				{variable: "XDG_CONFIG_HOME", folder: ".config", name: "opencode/opencode.json", any: []string{`"provider"`}},
				{variable: "XDG_CONFIG_HOME", folder: ".config", name: "opencode/opencode.jsonc", any: []string{`"provider"`}},
				{inProject: true, name: "opencode.json", any: []string{`"provider"`}},
				{inProject: true, name: "opencode.jsonc", any: []string{`"provider"`}},
			},
			login: "opencode auth login, or set the key of a provider such as ANTHROPIC_API_KEY",
			troubles: []trouble{
				{from: "1.16", before: "1.17", what: "versions 1.16 may end with success after their first event, with nothing done", fix: "opencode upgrade"},
				{from: "2", what: "from version 2 on it tells its work in other events, which may be missed", fix: "npm install -g opencode-ai@1"},
			},
		},
		{
			program: "copilot", install: "npm install -g @github/copilot",
			vars: []string{"COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"},
			files: []file{
				{variable: "COPILOT_HOME", folder: ".copilot", name: "config.json", any: []string{`"logged_in_users"`, `"loggedInUsers"`, `"last_logged_in_user"`, `"lastLoggedInUser"`}},
				{variable: "GH_CONFIG_DIR", folder: ".config/gh", name: "hosts.yml", any: []string{"oauth_token", "user:"}},
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
	return []string{`"apiKeyHelper"`, `"ANTHROPIC_API_KEY"`, `"ANTHROPIC_AUTH_TOKEN"`, `"CLAUDE_CODE_OAUTH_TOKEN"`, `"CLAUDE_CODE_USE_BEDROCK"`, `"CLAUDE_CODE_USE_VERTEX"`}
}
