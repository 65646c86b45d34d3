package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// client is what is known of the clients of one kind.
type client struct {
	places []string // below a home, where they keep what they know: login, settings, sessions
	// how many of those are made where they are missing: a program that never ran before must be able to
	made  int
	moved string   // variable that names such a place
	vars  []string // of their model's provider, and their settings
	hosts []string // of their model's provider
}

func clients() map[string]client {
	return map[string]client{
		// it keeps its login in the keychain of macOS
		"claude": {[]string{".claude", ".claude.json", ".config/claude", ".local/share/claude", ".local/state/claude",
			"Library/Keychains"}, 1, "CLAUDE_CONFIG_DIR",
			[]string{"ANTHROPIC_*", "CLAUDE_*", "IS_SANDBOX", "DISABLE_*", "BASH_DEFAULT_TIMEOUT_MS", "BASH_MAX_*",
				"MAX_THINKING_TOKENS",
				"MAX_MCP_OUTPUT_TOKENS", "MCP_TIMEOUT", "MCP_TOOL_TIMEOUT", "ENABLE_TOOL_SEARCH", "API_TIMEOUT_MS",
				"USE_BUILTIN_RIPGREP"},
			[]string{"api.anthropic.com", "console.anthropic.com", "platform.claude.com", "claude.ai"}},
		"codex": {[]string{".codex"}, 1, "CODEX_HOME", []string{"OPENAI_*", "CODEX_*", "AZURE_OPENAI_*"},
			[]string{"api.openai.com", "auth.openai.com", "chatgpt.com", "*.openai.azure.com"}},
		"gemini": {[]string{".gemini"}, 1, "", append([]string{"GEMINI_*"}, google...),
			[]string{"generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com",
				"*.aiplatform.googleapis.com", "aiplatform.googleapis.com", "accounts.google.com"}},
		"opencode": {[]string{".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode",
			".opencode"}, 4, "OPENCODE_CONFIG_DIR", nil,
			[]string{"opencode.ai", "models.dev", "openrouter.ai", "api.mistral.ai", "api.groq.com",
				"api.deepseek.com", "api.x.ai"}},
		"qwen": {[]string{".qwen"}, 1, "QWEN_HOME", []string{"OPENAI_*", "QWEN_*", "DASHSCOPE_*", "BAILIAN_*",
			"MODELSCOPE_*"},
			[]string{"dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "chat.qwen.ai", "portal.qwen.ai"}},
		"copilot": {[]string{".copilot", ".config/github-copilot"}, 1, "COPILOT_HOME",
			[]string{"COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST"},
			[]string{"api.github.com", "github.com", "*.githubcopilot.com"}},
		"cline":  {places: []string{".cline", ".config/cline"}, moved: "CLINE_DIR"},
		"amp":    {places: []string{".config/amp", ".local/share/amp"}},
		"cursor": {places: []string{".cursor", ".config/cursor"}},
		"goose":  {places: []string{".config/goose", ".local/share/goose", ".local/state/goose"}},
		"aider":  {places: []string{".aider", ".aider.conf.yml"}},
		"crush":  {places: []string{".config/crush", ".local/share/crush"}},
		"kiro":   {places: []string{".kiro", ".local/share/kiro-cli"}},
		"pi":     {places: []string{".pi"}},
	}
}

// kept are the places of all clients.
func kept() (places []string) {
	for _, c := range clients() {
		places = append(places, c.places...)
	}
	return places
}

var google = []string{"GOOGLE_*", "CLOUD_ML_REGION", "VERTEX_*", "VERTEXAI_*"}

// Hosts are those of an agent's model provider. A word that begins with *. is every host below a domain.
func Hosts(agent string) (all []string) {
	known := clients()
	if list := known[agent].hosts; list != nil && agent != "opencode" { // which talks to any
		return list
	}
	for _, c := range known {
		all = append(all, c.hosts...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// providers are the variables of a backend's model provider, and its settings; set are those that are switched on.
func providers(backend string, set map[string]bool) []string {
	list := clients()[backend].vars
	if list == nil {
		list = append(strings.Fields(`
IS_SANDBOX ANTHROPIC_* CLAUDE_* OPENAI_* CODEX_* AZURE_OPENAI_* GEMINI_* OPENCODE_* QWEN_* DASHSCOPE_* COPILOT_* MISTRAL_* GROQ_* DEEPSEEK_*
OPENROUTER_* XAI_* TOGETHER_* FIREWORKS_* CEREBRAS_* COHERE_* PERPLEXITY_* MOONSHOT_* KIMI_* ZAI_* ZHIPU_* MINIMAX_* OLLAMA_* LMSTUDIO_* LITELLM_*
HF_* HUGGINGFACE_* AIDER_* GOOSE_* AMP_* CURSOR_* CLINE_* CRUSH_* KIRO_* VERCEL_AI_*
`), google...)
	}
	if backend == "claude" && set["CLAUDE_CODE_USE_BEDROCK"] {
		list = append(list, "AWS_*")
	}
	if backend == "claude" && set["CLAUDE_CODE_USE_VERTEX"] {
		list = append(list, google...)
	}
	return list
}

// moved has the variables by which programs find a place of the home elsewhere, and where below.
var moved = [][2]string{
	{"XDG_CONFIG_HOME", ".config/"}, {"XDG_DATA_HOME", ".local/share/"}, {"XDG_STATE_HOME", ".local/state/"},
	{"XDG_CACHE_HOME", ".cache/"},
	{"npm_config_cache", ".npm/"}, {"NPM_CONFIG_CACHE", ".npm/"}, {"CARGO_HOME", ".cargo/"},
	{"GRADLE_USER_HOME", ".gradle/"}, {"GOPATH", "go/"},
	{"HF_HOME", ".cache/huggingface/"}, {"COMPOSER_HOME", ".composer/"}, {"HEX_HOME", ".hex/"},
	{"PUB_CACHE", ".pub-cache/"},
	{"GEMINI_CLI_HOME/.gemini", ".gemini"},
}

// at are the paths of places of the home: there, and where variables move them.
func (b *Box) at(names ...string) (list []string) {
	if b.home != "" {
		list = below(b.home, names)
	}
	for _, v := range moved {
		variable, under, _ := strings.Cut(v[0], "/")
		for _, name := range names {
			if rest, ok := strings.CutPrefix(name, v[1]); ok && b.env[variable] != "" {
				list = append(list, filepath.Join(b.env[variable], under, rest))
			}
		}
	}
	return list
}

// conceal hides a place, unless the tree or the home would go with it. A folder
// .env is no file of settings but programs.
func (b *Box) conceal(path string) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || real == b.c.Top || within(b.home, real) {
		return
	}
	if info, err := os.Stat(real); err == nil && info.IsDir() && filepath.Base(path) == ".env" {
		return
	}
	b.add(real, hidden)
}

// login lets an agent have what it keeps and hides what others do, but where a link makes
// it the same place. One that nobody knows may be any. The verify command, which anybody's tests are part of, sees
// none of it.
func (b *Box) login() {
	var hidden, shown []string
	known := clients()
	own, found := known[b.c.Agent]
	if b.c.Role == Agent && b.c.Cache != "" {
		for _, dir := range b.at(own.places[:own.made]...) {
			_ = os.MkdirAll(dir, 0o700)
		}
	}
	for kind, c := range known {
		for _, path := range append(b.at(c.places...), b.env[c.moved]) {
			real, ok := b.resolve(path)
			switch {
			case !ok:
			case b.c.Role == Agent && (kind == b.c.Agent || !found):
				b.add(real, writable)
				shown = append(shown, real)
			case b.c.Role == Verify && b.c.ShowLogin:
				b.add(real, readable)
			default:
				hidden = append(hidden, real)
			}
		}
	}
	for _, path := range hidden {
		if !slices.ContainsFunc(shown, func(s string) bool { return within(s, path) }) {
			b.conceal(path)
		}
	}
}
