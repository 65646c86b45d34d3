package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// families are the places below a home in which the clients of one kind keep what
// they know: login, settings, sessions.
func families() map[string][]string {
	return map[string][]string{
		"claude":   {".claude", ".claude.json", ".config/claude", ".local/share/claude", ".local/state/claude", "Library/Keychains"}, // it keeps its login in the keychain of macOS,
		"codex":    {".codex"},
		"gemini":   {".gemini"},
		"opencode": {".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode", ".opencode"},
		"qwen":     {".qwen"},
		"copilot":  {".copilot", ".config/github-copilot"},
		"cline":    {".cline", ".config/cline"},
		"amp":      {".config/amp", ".local/share/amp"},
		"cursor":   {".cursor", ".config/cursor"},
		"goose":    {".config/goose", ".local/share/goose", ".local/state/goose"},
		"aider":    {".aider", ".aider.conf.yml"},
		"crush":    {".config/crush", ".local/share/crush"},
		"kiro":     {".kiro", ".local/share/kiro-cli"},
		"pi":       {".pi"},
	}
}

// made are those of its places that are made where they are missing: a program that
// never ran before must be able to.
func made(agent string) []string {
	switch agent {
	case "claude", "codex", "gemini", "qwen", "copilot":
		return []string{"." + agent}
	case "opencode":
		return []string{".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"}
	}
	return nil
}

// ownVars name such places by a variable.
func ownVars() map[string]string {
	return map[string]string{"CLAUDE_CONFIG_DIR": "claude", "CODEX_HOME": "codex", "GEMINI_CLI_HOME": "gemini", "QWEN_HOME": "qwen",
		"OPENCODE_CONFIG_DIR": "opencode", "COPILOT_HOME": "copilot", "CLINE_DIR": "cline"}
}

// elsewhere is where a place of the home is for programs that find it by a variable.
func (b *Box) elsewhere(name string) (list []string) {
	for _, v := range [][2]string{
		{"XDG_CONFIG_HOME", ".config/"}, {"XDG_DATA_HOME", ".local/share/"}, {"XDG_STATE_HOME", ".local/state/"}, {"XDG_CACHE_HOME", ".cache/"}, {"npm_config_cache", ".npm/"}, {"NPM_CONFIG_CACHE", ".npm/"},
		{"CARGO_HOME", ".cargo/"}, {"GRADLE_USER_HOME", ".gradle/"}, {"HF_HOME", ".cache/huggingface/"}, {"COMPOSER_HOME", ".composer/"},
		{"HEX_HOME", ".hex/"}, {"PUB_CACHE", ".pub-cache/"}, {"GEMINI_CLI_HOME", ""},
	} {
		rest, ok := strings.CutPrefix(name, v[1])
		if !ok || v[1] == "" && name != ".gemini" {
			continue
		}
		if dir := b.env(v[0]); dir != "" {
			list = append(list, filepath.Join(dir, rest))
		}
	}
	return list
}

// conceal hides a place, unless the tree or the home would go with it. A folder
// .env is no file of settings but programs.
func (b *Box) conceal(path string) {
	if _, err := os.Lstat(path); err != nil { // most do not exist, and this is quick
		return
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil || real == b.c.Top || b.home != "" && within(b.home, real) {
		return
	}
	if info, err := os.Stat(real); err == nil && info.IsDir() && filepath.Base(path) == ".env" {
		return
	}
	b.add(real, emptied)
}

// places are where the clients of one kind keep what they know: below the home, where variables move that, and in the
// folder that a variable of their own names.
func (b *Box) places(family string) (list []string) {
	for _, name := range families()[family] {
		if b.home != "" {
			list = append(list, filepath.Join(b.home, name))
		}
		list = append(list, b.elsewhere(name)...)
	}
	for name, whose := range ownVars() {
		if path := b.env(name); path != "" && whose == family && family != "gemini" { // whose variable names a home
			list = append(list, path)
		}
	}
	return list
}

// login lets an agent have what it keeps and hides what others do, but where a link makes
// it the same place. One that nobody knows may be any. The verify command, which anybody's tests are part of, sees none of it.
func (b *Box) login() {
	var hidden, shown []string
	_, known := families()[b.c.Agent]
	if b.c.Role == Agent && b.c.Make && b.home != "" {
		for _, name := range made(b.c.Agent) {
			for _, dir := range append(b.elsewhere(name), filepath.Join(b.home, name)) {
				_ = os.MkdirAll(dir, 0o700)
			}
		}
	}
	for family := range families() {
		mine := b.c.Role == Agent && (family == b.c.Agent || !known)
		for _, path := range b.places(family) {
			real, err := filepath.EvalSymlinks(path)
			switch {
			case err != nil:
			case mine:
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
